//! The `aibom-qual` command: everything happens in the library.

#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    // First, before any thread exists: children start through this same executable.
    aibom_qual::host::launch::intercept().unwrap_or_else(aibom_qual::cli::main)
}
