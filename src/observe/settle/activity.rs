//! How long a process has been quiet.

use std::time::Duration;

use chrono::{DateTime, Utc};

use crate::record::Scrape;

/// Follows the readings of one process after another.
#[derive(Clone, Debug, Default)]
pub(in crate::observe) struct Activity {
    last: Option<Scrape>,
    changed: Option<(DateTime<Utc>, u64)>,
}

impl Activity {
    /// Takes the next reading; says whether something was written or reconciled since the one
    /// before. The first reading of a process counts as a change, since nothing is known before it.
    pub(in crate::observe) fn see(&mut self, reading: &Scrape) -> bool {
        let quiet = self.last.as_ref().is_some_and(|last| {
            last.same_process(reading)
                && last.counters.writes() == reading.counters.writes()
                && last.counters.all_reconciles() == reading.counters.all_reconciles()
        });
        if !quiet {
            self.changed = Some((reading.at, reading.at_ms));
        }
        self.last = Some(reading.clone());
        !quiet
    }

    /// For how long nothing was written or reconciled when the last reading was taken.
    pub(in crate::observe) fn quiet(&self) -> Duration {
        match (&self.last, self.changed) {
            (Some(last), Some((_, changed_ms))) => {
                Duration::from_millis(last.at_ms.saturating_sub(changed_ms))
            }
            _ => Duration::ZERO,
        }
    }

    /// When the last write or reconcile was seen.
    pub(in crate::observe) fn changed_at(&self) -> Option<DateTime<Utc>> {
        self.changed.map(|(at, _)| at)
    }
}
