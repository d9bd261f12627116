//! When a new process has done what a start costs (`design.md` 7): every tracked AIBOM was walked
//! over since the process began, and no write or reconcile has been counted for a while.

mod activity;
#[cfg(test)]
mod tests;

use std::time::Duration;

use chrono::{DateTime, Utc};
use tokio::time::{Instant, sleep_until, timeout_at};

pub(super) use self::activity::Activity;
use super::definitions::served;
use super::error::ObserveError;
use super::expected::Expected;
use super::inventory::Walks;
use super::progress::{OnProgress, Progress};
use super::scrape::{Purpose, ScrapeError, ScrapeFiles, scrape};
use super::target::Target;
use crate::cluster::fault::Fault;
use crate::cluster::wait::Deadline;
use crate::error_chain::chain;
use crate::record::Scrape;

/// Between two readings. Each goes through a forward of its own and costs the controller a scrape,
/// but none of the requests that are counted.
const INTERVAL: Duration = Duration::from_secs(1);
/// Names that are told of AIBOMs that were not walked over.
const NAMES: usize = 100;

/// What a process has to have done.
#[derive(Clone, Copy, Debug)]
pub struct Settling<'a> {
    /// The step that it belongs to.
    pub step: u32,
    /// The workloads whose AIBOMs are tracked.
    pub tracked: &'a Expected,
    /// A reading of the process before: that one does not count any more.
    pub previous: Option<&'a Scrape>,
    /// For how long nothing may be written or reconciled. Five seconds are the rule.
    pub quiet: Duration,
}

/// How a process settled.
#[derive(Clone, Debug, PartialEq)]
pub struct Settled {
    /// Its last sound reading.
    pub scrape: Scrape,
    /// From the start of the process until the reading that showed the last write or reconcile, in
    /// seconds: as much too long as the readings are apart, about a second, and not before the first
    /// one. [`None`] when it did not settle by the deadline.
    pub settled_after: Option<f64>,
    /// Tracked workloads whose AIBOMs were not reconciled since the process began, at most a hundred.
    pub not_walked: Vec<String>,
    /// How many workloads are tracked.
    pub tracked: u64,
}

/// Waits until the process has settled, or until the deadline.
///
/// That it did not settle is a result, not an error: [`Settled::settled_after`].
///
/// # Errors
///
/// [`ObserveError::Late`] when there was no sound reading of a new process by the deadline; otherwise
/// when something is refused that no waiting changes.
pub async fn settle(
    target: &Target,
    files: &ScrapeFiles,
    how: Settling<'_>,
    deadline: Deadline<'_>,
    on_progress: OnProgress<'_>,
) -> Result<Settled, ObserveError> {
    let mut watch = Watch::new(how);
    let purpose = Purpose {
        step: how.step,
        what: "settle",
    };
    loop {
        let next = Instant::now() + INTERVAL;
        match scrape(target, files, purpose, deadline).await {
            Ok(reading) => watch.see(reading),
            Err(error) => watch.miss(error)?,
        }
        if let Some(since) = watch.may_have_settled() {
            match timeout_at(deadline.at(), not_walked(target, how.tracked, since)).await {
                Ok(Ok(names)) => watch.walked(names),
                Ok(Err(error)) => watch.unlisted(error)?,
                Err(_) => {}
            }
        }
        on_progress(Progress {
            state: &watch.state,
            done: watch.done(),
            left: None,
        });
        if watch.has_settled() {
            return watch.finish(deadline, true);
        }
        if next >= deadline.at() {
            return watch.finish(deadline, false);
        }
        sleep_until(next).await;
    }
}

async fn not_walked(
    target: &Target,
    tracked: &Expected,
    since: DateTime<Utc>,
) -> Result<Vec<String>, ObserveError> {
    let walks = match served(target).await?.inventory {
        Some(resource) => Walks::read(&target.client, &resource).await?,
        None => Walks::none(),
    };
    Ok(walks.missing(tracked, since))
}

/// A process that is watched until it has settled.
struct Watch<'a> {
    how: Settling<'a>,
    activity: Activity,
    last: Option<Scrape>,
    /// What was not walked over when that was looked at last, and the reading of that time.
    looked: Option<(u64, Vec<String>)>,
    state: String,
}

impl<'a> Watch<'a> {
    fn new(how: Settling<'a>) -> Self {
        Self {
            how,
            activity: Activity::default(),
            last: None,
            looked: None,
            state: "no reading".to_owned(),
        }
    }

    fn see(&mut self, reading: Scrape) {
        if let Some(reason) = reading.unsound.first() {
            self.state = format!("the reading {} is not sound: {reason}", reading.file);
            return;
        }
        let previous = self.how.previous;
        if previous.is_some_and(|previous| previous.same_process(&reading)) {
            self.state = format!("the process before still answers, in {}", reading.pod);
            return;
        }
        if self.activity.see(&reading) {
            self.looked = None;
        }
        let counters = &reading.counters;
        self.state = format!(
            "{} writes and {} reconciles, none for {:.0} s",
            counters.writes(),
            counters.all_reconciles(),
            self.activity.quiet().as_secs_f64()
        );
        self.last = Some(reading);
    }

    /// A failure that passes is a state.
    fn miss(&mut self, error: ScrapeError) -> Result<(), ObserveError> {
        match error {
            ScrapeError::Unread { source, .. } if !source.is_final() => {
                self.state = chain(&source);
                Ok(())
            }
            error => Err(ObserveError::Scrape(Box::new(error))),
        }
    }

    fn unlisted(&mut self, error: ObserveError) -> Result<(), ObserveError> {
        match &error {
            ObserveError::Api { source, .. }
                if source.is_transient() || **source == Fault::NoSuchResource =>
            {
                self.state = chain(&error);
                Ok(())
            }
            ObserveError::Inconsistent { .. } => Ok(()),
            _ => Err(error),
        }
    }

    /// The start of the process, when it has been quiet for long enough that it is worth a look at
    /// what it walked over. What it had not, it may have left for later: then one look per period.
    fn may_have_settled(&self) -> Option<DateTime<Utc>> {
        let last = self.last.as_ref()?;
        let quiet = self.how.quiet;
        let looked = self.looked.as_ref().is_some_and(|(at_ms, _)| {
            Duration::from_millis(last.at_ms.saturating_sub(*at_ms)) < quiet
        });
        if looked || self.activity.quiet() < quiet {
            return None;
        }
        start(last)
    }

    fn walked(&mut self, names: Vec<String>) {
        let Some(last) = &self.last else {
            return;
        };
        if let Some(first) = names.first() {
            self.state = format!(
                "{} of {} AIBOMs were not reconciled since the process began, {first} among them",
                names.len(),
                self.how.tracked.len()
            );
        }
        self.looked = Some((last.at_ms, names));
    }

    fn done(&self) -> Option<(u64, u64)> {
        let (_, names) = self.looked.as_ref()?;
        let tracked = self.how.tracked.len();
        let walked = tracked.saturating_sub(names.len());
        Some((walked as u64, tracked as u64))
    }

    fn has_settled(&self) -> bool {
        self.looked
            .as_ref()
            .is_some_and(|(_, names)| names.is_empty())
    }

    fn finish(self, deadline: Deadline<'_>, settled: bool) -> Result<Settled, ObserveError> {
        let Some(scrape) = self.last else {
            return Err(ObserveError::Late {
                what: "a reading of the new process".to_owned(),
                waited: deadline.begun().elapsed(),
                last: self.state,
            });
        };
        let after = |changed: DateTime<Utc>| {
            let changed = changed.timestamp_micros() as f64 / 1e6;
            (changed - scrape.process_start).max(0.0)
        };
        let mut not_walked = self.looked.map_or_else(Vec::new, |(_, names)| names);
        not_walked.truncate(NAMES);
        Ok(Settled {
            settled_after: self.activity.changed_at().filter(|_| settled).map(after),
            scrape,
            not_walked,
            tracked: self.how.tracked.len() as u64,
        })
    }
}

/// The start of a process as a moment.
fn start(reading: &Scrape) -> Option<DateTime<Utc>> {
    DateTime::from_timestamp_micros((reading.process_start * 1e6) as i64)
}
