//! A step while it is under way.

use std::time::Instant;

use chrono::Utc;

use super::journal::Journal;
use crate::record::{Event, PhaseTime, StepEnd, StepRecord};
use crate::scenario::Step;

/// The record of a step that is not finished.
#[derive(Debug)]
pub(super) struct Draft {
    pub(super) record: StepRecord,
    begun: Instant,
    failures: Vec<String>,
}

/// A part of a step that is under way.
#[derive(Debug)]
#[must_use]
pub(super) struct Phase {
    name: &'static str,
    begun: Instant,
}

impl Draft {
    /// Begins the step of this number.
    pub(super) fn begin(number: u32, step: &Step, action: String, journal: &Journal) -> Self {
        journal.tell(Event::StepStarted {
            step: number,
            kind: step.kind(),
            action: action.clone(),
        });
        Self {
            record: StepRecord::begun(number, step.kind(), action, Utc::now()),
            begun: Instant::now(),
            failures: Vec::new(),
        }
    }

    pub(super) fn number(&self) -> u32 {
        self.record.step
    }

    /// Begins a part.
    pub(super) fn start(&self, name: &'static str, journal: &Journal) -> Phase {
        journal.tell(Event::PhaseStarted {
            step: self.record.step,
            phase: name.to_owned(),
        });
        Phase {
            name,
            begun: Instant::now(),
        }
    }

    /// Ends a part.
    pub(super) fn done(&mut self, phase: Phase) {
        self.record.phases.push(PhaseTime {
            name: phase.name.to_owned(),
            seconds: phase.begun.elapsed().as_secs_f64(),
        });
    }

    /// Something did not go as planned; the step goes on with what can still be seen.
    pub(super) fn fail(&mut self, reason: String) {
        self.failures.push(reason);
    }

    pub(super) fn has_failed(&self) -> bool {
        !self.failures.is_empty()
    }

    /// Ends the step; one without an end of its own ends by what failed in it.
    pub(super) fn finish(mut self, end: Option<StepEnd>) -> StepRecord {
        self.record.seconds = self.begun.elapsed().as_secs_f64();
        self.record.end = match end {
            Some(end) => end,
            None if self.failures.is_empty() => StepEnd::Done,
            None => StepEnd::Failed {
                reason: self.failures.join("; "),
            },
        };
        self.record
    }
}
