//! Argument types without behaviour, one file per verb, and the exit codes.

use std::process::ExitCode;

/// Runs the command line of this process.
#[must_use]
pub fn main() -> ExitCode {
    ExitCode::SUCCESS
}
