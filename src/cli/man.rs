//! `aibom-qual man`.

use clap::CommandFactory as _;

use super::exit::{Exit, Failure};
use super::{Cli, output};

pub(crate) fn run() -> Result<Exit, Failure> {
    let mut page = Vec::new();
    clap_mangen::Man::new(Cli::command())
        .render(&mut page)
        .map_err(|error| Failure {
            exit: Exit::CouldNotRun,
            message: format!("cannot write the manual page: {error}"),
            hint: None,
        })?;
    output::data(&String::from_utf8_lossy(&page))?;
    Ok(Exit::Pass)
}
