//! What a person, or another program, sees of a run.
//!
//! [`timeline()`] turns what a run left behind into typed rows; [`terminal()`], [`markdown()`], [`summary`]
//! and [`junit()`] write them down. Nothing here judges: verdicts come with the run, and what differs
//! between snapshots is [`compare`](crate::compare)'s business. [`progress`] shows a run while it is
//! under way, from the same entries that its log consists of.

mod clauses;
mod cost;
mod definitions;
mod headline;
mod junit;
mod markdown;
mod page;
pub mod progress;
mod rollback;
mod steps;
mod terminal;
mod timeline;
mod verdicts;
mod words;

#[cfg(test)]
mod fixture;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

pub use self::cost::{CounterDelta, RestartRow, WindowRow};
pub use self::definitions::{DefinitionRow, Level};
pub use self::headline::Fact;
pub use self::junit::junit;
pub use self::rollback::{Kept, RollbackRow, RoundTripRow};
pub use self::steps::{Difference, StepRow};
pub use self::timeline::{Timeline, timeline};
pub use self::verdicts::{GroupRow, Standing, Verdicts};
use crate::record::{CheckResult, Entry, LoadedRun, RunFile, Snapshot, StepRecord};

/// What a run left behind, and what it came to.
#[derive(Clone, Copy, Debug)]
pub struct RunView<'a> {
    /// `run.json`.
    pub run: &'a RunFile,
    /// The steps that have an end, in order.
    pub steps: &'a [StepRecord],
    /// Snapshots, by step.
    pub snapshots: &'a BTreeMap<u32, Snapshot>,
    /// The verdicts.
    pub checks: &'a [CheckResult],
    /// The log.
    pub events: &'a [Entry],
    /// What could not be read.
    pub problems: &'a [String],
}

impl<'a> RunView<'a> {
    /// A run as it was read, with the verdicts that it came to; none when it was ended before.
    #[must_use]
    pub fn of(loaded: &'a LoadedRun) -> Self {
        let outcome = loaded.run.outcome.as_ref();
        Self {
            run: &loaded.run,
            steps: &loaded.steps,
            snapshots: &loaded.snapshots,
            checks: outcome.map_or(&[], |outcome| &outcome.checks),
            events: &loaded.events,
            problems: &loaded.problems,
        }
    }

    /// A chart as a person knows it: by its version, and by its name in the plan as well where another
    /// chart has the same version.
    fn chart(&self, name: &str) -> String {
        let charts = &self.run.charts;
        match charts.get(name) {
            None => format!("chart `{name}`"),
            Some(chart) => {
                let same = charts
                    .values()
                    .filter(|other| other.version == chart.version);
                if same.count() > 1 {
                    format!("{} ({name})", chart.version)
                } else {
                    chart.version.clone()
                }
            }
        }
    }

    /// The last observed snapshot before a step that could see AIBOMs.
    fn before(&self, step: u32) -> Option<&'a Snapshot> {
        let mut earlier = self.snapshots.range(..step).rev();
        earlier
            .find(|(_, snapshot)| snapshot.aiboms.is_some())
            .map(|(_, snapshot)| snapshot)
    }

    fn step(&self, number: u32) -> Option<&'a StepRecord> {
        self.steps.iter().find(|record| record.step == number)
    }
}

/// The page for a terminal of this width, in columns.
#[must_use]
pub fn terminal(timeline: &Timeline, width: usize, color: bool) -> String {
    terminal::render(&page::page(timeline), width, color)
}

/// Only the beginning of the page: what the run was about, and what it came to.
#[must_use]
pub fn headline(timeline: &Timeline, width: usize, color: bool) -> String {
    terminal::render(&page::headline(timeline), width, color)
}

/// The page in Markdown: what `timeline.md` holds.
#[must_use]
pub fn markdown(timeline: &Timeline) -> String {
    markdown::render(&page::page(timeline))
}

/// The rows as JSON: what `summary.json` holds. Names of numbers end in their unit.
///
/// # Errors
///
/// When a number has no JSON form.
pub fn summary(timeline: &Timeline) -> Result<String, serde_json::Error> {
    serde_json::to_string_pretty(timeline).map(|text| text + "\n")
}
