//! Standard output carries data, standard error everything else.

use std::io::{self, IsTerminal as _, Write as _};

use clap::ValueEnum;
use serde::Serialize;
use tabled::builder::Builder;
use tabled::settings::object::Rows;
use tabled::settings::{Alignment, Padding, Style};

use super::exit::{Exit, Failure};

/// The form of the data on standard output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people.
    #[default]
    Human,
    /// For programs: one JSON document.
    Json,
}

/// When to use colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Color {
    /// On a terminal, unless `NO_COLOR` is set.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

impl Color {
    /// Whether to colour what goes to standard error.
    #[must_use]
    pub(crate) fn on_stderr(self) -> bool {
        self.on(io::stderr().is_terminal())
    }

    /// Whether to colour what goes to standard output.
    #[must_use]
    pub(crate) fn on_stdout(self) -> bool {
        self.on(io::stdout().is_terminal())
    }

    fn on(self, terminal: bool) -> bool {
        match self {
            Self::Always => true,
            Self::Never => false,
            Self::Auto => {
                let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
                !refused && terminal
            }
        }
    }
}

/// How many columns there are for what goes to standard output; 80 where that is no terminal, so that
/// what is written to a file does not depend on who looks on.
#[must_use]
pub(crate) fn width() -> usize {
    /// Where a line is too long to be read.
    const WIDEST: usize = 160;
    // Fails where it is no terminal.
    let columns = rustix::termios::tcgetwinsize(io::stdout()).map_or(80, |size| size.ws_col);
    usize::from(columns).clamp(80, WIDEST)
}

/// Writes text to standard output. A reader that went away (`| head`) is no error.
///
/// # Errors
///
/// When standard output cannot be written, for example because a disk is full.
pub(crate) fn data(text: &str) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    match stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush())
    {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        Err(error) => Err(Failure {
            exit: Exit::CouldNotRun,
            message: format!("cannot write to standard output: {error}"),
            hint: None,
        }),
    }
}

/// Writes one JSON document to standard output.
///
/// # Errors
///
/// See [`data`].
pub(crate) fn json(value: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(value).map_err(|error| Failure {
        exit: Exit::CouldNotRun,
        message: format!("cannot write JSON: {error}"),
        hint: None,
    })?;
    data(&format!("{text}\n"))
}

/// Writes a line to standard error; there is no better place to report that this failed.
pub(crate) fn note(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// A table without borders, as `kubectl get` prints it.
#[must_use]
pub(crate) fn table(header: &[&str], rows: Vec<Vec<String>>) -> String {
    let mut builder = Builder::default();
    builder.push_record(header.iter().copied());
    for row in rows {
        builder.push_record(row);
    }
    let mut table = builder.build();
    table
        .with(Style::empty())
        .with(Padding::new(0, 3, 0, 0))
        .modify(Rows::new(..), Alignment::left());
    let mut text = String::new();
    for line in table.to_string().lines() {
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_no_borders_and_no_trailing_blanks() {
        let text = table(
            &["A", "LONGER"],
            vec![vec!["value".to_owned(), "x".to_owned()]],
        );
        assert_eq!(text, "A       LONGER\nvalue   x\n");
    }
}
