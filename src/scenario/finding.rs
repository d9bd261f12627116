//! What is wrong with a scenario: in the text, with line and column ([`Finding`]), or in a plan, by the
//! path of the value ([`Complaint`]).

use std::fmt;

use serde::Serialize;

use super::rule::{Rule, Severity};

/// A place in a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Position {
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
}

impl Position {
    /// The first character.
    pub(super) const START: Self = Self { line: 1, column: 1 };
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// One step into a value.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Segment {
    Key(String),
    /// Counted from 0.
    Item(usize),
}

/// The path of a value in a scenario. It is shown as `spec.steps[3].upgrade.chart`, where items count
/// from 1 as steps do everywhere.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Place(Vec<Segment>);

impl Place {
    /// The path of these keys.
    pub(super) fn of(keys: &[&str]) -> Self {
        Self(
            keys.iter()
                .map(|key| Segment::Key((*key).to_owned()))
                .collect(),
        )
    }

    /// What this key holds.
    #[must_use]
    pub(super) fn key(&self, key: &str) -> Self {
        self.with(Segment::Key(key.to_owned()))
    }

    /// An item, counted from 0.
    #[must_use]
    pub(super) fn item(&self, index: usize) -> Self {
        self.with(Segment::Item(index))
    }

    fn with(&self, segment: Segment) -> Self {
        let mut segments = self.0.clone();
        segments.push(segment);
        Self(segments)
    }

    /// As it is called in a message.
    pub(super) fn quoted(&self) -> String {
        if self.0.is_empty() {
            "the scenario".to_owned()
        } else {
            format!("`{self}`")
        }
    }

    pub(super) fn segments(&self) -> &[Segment] {
        &self.0
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, segment) in self.0.iter().enumerate() {
            match segment {
                Segment::Key(key) if index == 0 => f.write_str(key)?,
                Segment::Key(key) => write!(f, ".{key}")?,
                Segment::Item(item) => write!(f, "[{}]", item + 1)?,
            }
        }
        Ok(())
    }
}

/// What is wrong with a plan, wherever it came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Complaint {
    /// The rule.
    pub rule: Rule,
    /// Where.
    pub place: Place,
    /// What is wrong.
    pub message: String,
    /// What to do.
    pub hint: Option<String>,
}

impl fmt::Display for Complaint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let severity = self.rule.severity();
        write!(
            f,
            "{severity}[{}]: {}: {}",
            self.rule, self.place, self.message
        )
    }
}

/// What is wrong with a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The rule.
    pub rule: Rule,
    /// Where.
    pub at: Position,
    /// What is wrong.
    pub message: String,
    /// What to do.
    pub hint: Option<String>,
}

/// All findings of a text, in its order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Findings {
    /// The text's name, for people: a path, or the name of a shipped scenario.
    pub name: String,
    /// The findings, by position.
    pub list: Vec<Finding>,
}

impl Findings {
    pub(super) fn new(name: &str, mut list: Vec<Finding>) -> Self {
        list.sort_by_key(|finding| (finding.at, finding.rule));
        list.dedup();
        Self {
            name: name.to_owned(),
            list,
        }
    }

    /// How many findings have this severity.
    #[must_use]
    pub fn count(&self, severity: Severity) -> usize {
        let of = |finding: &&Finding| finding.rule.severity() == severity;
        self.list.iter().filter(of).count()
    }
}

impl std::error::Error for Findings {}

/// `FILE:LINE:COLUMN: error[S003]: …`, and what to do on a line of its own.
impl fmt::Display for Findings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, finding) in self.list.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            let Finding {
                rule, at, message, ..
            } = finding;
            let severity = rule.severity();
            write!(f, "{}:{at}: {severity}[{rule}]: {message}", self.name)?;
            if let Some(hint) = &finding.hint {
                write!(f, "\n  help: {hint}")?;
            }
        }
        Ok(())
    }
}
