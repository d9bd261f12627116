//! `aibom-qual completions SHELL`.

use clap::{Args, CommandFactory as _};
use clap_complete::Shell;

use super::exit::{Exit, Failure};
use super::{Cli, output};

/// Arguments of `completions`.
#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// The shell.
    #[arg(value_enum)]
    shell: Shell,
}

pub(crate) fn run(args: &CompletionsArgs) -> Result<Exit, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "aibom-qual", &mut script);
    output::data(&String::from_utf8_lossy(&script))?;
    Ok(Exit::Pass)
}
