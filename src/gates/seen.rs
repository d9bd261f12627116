//! What a check comes to, before the rules make a verdict of it.

use std::fmt::Display;

use crate::record::grouped;

/// What a check saw.
#[derive(Debug)]
pub(super) struct Seen {
    /// How many objects or numbers it looked at; 0 makes it INVALID.
    pub(super) evaluated: u64,
    /// What is wrong, one line each; it holds when there is none.
    pub(super) faults: Vec<String>,
    /// The measured value in a line.
    pub(super) summary: String,
}

/// Why a check cannot look at what it needs, or must not trust it.
#[derive(Debug)]
pub(super) struct Blind(pub(super) String);

/// What a check comes to.
pub(super) type Judged = Result<Seen, Blind>;

impl Seen {
    pub(super) fn new(evaluated: u64, faults: Vec<String>, summary: impl Into<String>) -> Self {
        Self {
            evaluated,
            faults,
            summary: summary.into(),
        }
    }

    /// An object that a running release has is missing in a sound snapshot. That is at fault, and
    /// another thing than a snapshot that is missing.
    pub(super) fn missing(what: &str) -> Judged {
        let fault = format!("there is no {what}");
        Ok(Self::new(1, vec![fault.clone()], fault))
    }
}

impl Blind {
    pub(super) fn new(why: impl Into<String>) -> Self {
        Self(why.into())
    }
}

/// How many there are.
pub(super) fn count<T>(items: &[T]) -> u64 {
    items.len() as u64
}

/// `1,001 of 1,002 SUFFIX`.
pub(super) fn of(good: u64, all: u64, suffix: &str) -> String {
    format!("{} of {} {suffix}", grouped(good), grouped(all))
}

/// One line for each, `NAME: WHAT`.
pub(super) fn each<T: Display>(names: &[T], what: &str) -> Vec<String> {
    names.iter().map(|name| format!("{name}: {what}")).collect()
}

/// A list of faults that conditions add to.
#[derive(Debug, Default)]
pub(super) struct Faults(pub(super) Vec<String>);

impl Faults {
    /// Adds the fault unless this holds.
    pub(super) fn unless(&mut self, holds: bool, fault: impl FnOnce() -> String) {
        if !holds {
            self.0.push(fault());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_grouped() {
        let grouped = [0, 12, 999, 1_002, 1_234_567].map(grouped);
        assert_eq!(grouped, ["0", "12", "999", "1,002", "1,234,567"]);
        assert_eq!(of(1_001, 1_002, "equal"), "1,001 of 1,002 equal");
    }
}
