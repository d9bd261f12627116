//! `aibom-qual schema`.

use super::exit::{Exit, Failure};
use super::output;

pub(crate) fn run() -> Result<Exit, Failure> {
    output::json(&crate::scenario::schema())?;
    Ok(Exit::Pass)
}
