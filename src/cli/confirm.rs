//! Asking before a cluster is changed that this program did not start.

use std::io::{self, IsTerminal as _, Write as _};

use super::exit::{Exit, Failure};

/// Asks, unless `yes` was said already. Without a terminal there is nobody to ask, so that it is
/// refused.
///
/// # Errors
///
/// [`Failure`] when the answer is not yes, or cannot be given.
pub(crate) fn confirm(yes: bool, what: &str) -> Result<(), Failure> {
    if yes {
        return Ok(());
    }
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return Err(Failure::input(
            format!("{what}, and there is no terminal to confirm it"),
            "say so with --yes",
        ));
    }
    let mut stderr = io::stderr();
    let asked = write!(stderr, "{what}. Continue? [y/N] ").and_then(|()| stderr.flush());
    let mut answer = String::new();
    let heard = asked.and_then(|()| io::stdin().read_line(&mut answer));
    match (heard, answer.trim().to_ascii_lowercase().as_str()) {
        (Ok(_), "y" | "yes") => Ok(()),
        _ => Err(Failure {
            exit: Exit::Interrupted,
            message: "nothing was changed".to_owned(),
            hint: None,
        }),
    }
}
