//! A quiet window inside one process of the controller (`qualification.md` B.7).
//!
//! It opens once nothing has been written or reconciled for a while (STS-01), or when the patience for
//! that is at its end, and closes after its length by a clock that never jumps. What is read in
//! between tells a single burst from a steady rate. It is only measured here; whether the window is
//! sound is for the gates to say.

mod instances;
mod plan;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use chrono::{DateTime, Utc};
use tokio::time::{Instant, sleep_until};

pub use self::plan::WindowPlan;
use super::definitions::served;
use super::error::ObserveError;
use super::progress::{OnProgress, Progress};
use super::scrape::{Purpose, ScrapeError, ScrapeFiles, scrape};
use super::settle::Activity;
use super::target::Target;
use crate::cluster::churn::{ChurnWatch, built_in_kinds};
use crate::cluster::wait::Deadline;
use crate::error_chain::chain;
use crate::record::{Scrape, WindowFacts};

/// Between two readings while quiet is awaited.
const QUIET_INTERVAL: Duration = Duration::from_secs(2);
/// How much later than planned a window may close when its last reading fails at first, and how long
/// a reading in between may take.
const GRACE: Duration = Duration::from_secs(30);

/// Measures one window.
///
/// # Errors
///
/// [`ObserveError::Late`] when no sound reading was to be had within the patience for quiet,
/// [`ObserveError::Scrape`] when none was at the end, or when a reading is refused or cannot be kept,
/// and [`ObserveError::Api`] when the changes of other objects cannot be watched.
pub async fn measure(
    target: &Target,
    files: &ScrapeFiles,
    plan: WindowPlan<'_>,
    on_progress: OnProgress<'_>,
) -> Result<WindowFacts, ObserveError> {
    let churn = churn(target).await?;
    let activity = await_quiet(target, files, &plan, on_progress).await?;
    let before = churn.counts();
    let mut api_servers = BTreeSet::new();
    api_servers.extend(instances::of(&target.client).await);

    // The reading that the quiet ends with is a little old by now; the window begins with one of
    // its own.
    let opened = reading(target, files, plan.purpose("opened"), GRACE).await?;
    let opened_at = Instant::now();
    let quiet_before = quiet_until(activity, &opened);
    let closes = opened_at + plan.length;
    let mut between = Vec::new();
    let mut next = opened_at + plan.interval();
    let closed = loop {
        on_progress(Progress {
            state: &describe(&opened, between.last().unwrap_or(&opened)),
            done: None,
            left: Some(closes.saturating_duration_since(Instant::now())),
        });
        if next + plan.interval() / 2 >= closes {
            sleep_until(closes).await;
            break reading(target, files, plan.purpose("closed"), GRACE).await?;
        }
        sleep_until(next).await;
        next += plan.interval();
        // One that fails is not needed.
        let limit = GRACE.min(closes.saturating_duration_since(Instant::now()));
        match reading(target, files, plan.purpose("between"), limit).await {
            // Nothing that comes later belongs to this window (MET-01).
            Ok(other) if !other.same_process(&opened) => break other,
            Ok(reading) => between.push(reading),
            Err(ObserveError::Scrape(error)) if matches!(*error, ScrapeError::Unread { .. }) => {
                tracing::debug!(error = chain(&*error), "a reading in between is missing");
            }
            Err(error) => return Err(error),
        }
    };
    let after = churn.counts();
    api_servers.extend(instances::of(&target.client).await);
    Ok(WindowFacts {
        asked: plan.length.as_secs_f64(),
        elapsed: seconds(closed.at_ms.saturating_sub(opened.at_ms)),
        phase: phase(&opened),
        quiet_before,
        churn: grown(&before, after),
        closed: with_holes(closed, churn.holes()),
        opened,
        between,
        api_servers: api_servers.into_iter().collect(),
    })
}

/// Watches what reconciles may be due to, AIBOMs included (MET-06).
async fn churn(target: &Target) -> Result<ChurnWatch, ObserveError> {
    let mut kinds = built_in_kinds();
    kinds.extend(served(target).await?.inventory);
    let churn = ChurnWatch::start(&target.client, &kinds).await;
    churn.map_err(|fault| ObserveError::api("the changes of other objects", fault))
}

/// Reads until nothing has changed for as long as the plan wants, or for as long as it is patient.
async fn await_quiet(
    target: &Target,
    files: &ScrapeFiles,
    plan: &WindowPlan<'_>,
    on_progress: OnProgress<'_>,
) -> Result<Activity, ObserveError> {
    let mut activity = Activity::default();
    if let Some(earlier) = plan.earlier {
        activity.see(earlier);
    }
    let deadline = Deadline::within(plan.patience);
    let mut state;
    let mut read = false;
    loop {
        let next = Instant::now() + QUIET_INTERVAL;
        match scrape(target, files, plan.purpose("quiet"), deadline).await {
            Ok(reading) if reading.unsound.is_empty() => {
                activity.see(&reading);
                read = true;
                state = format!("quiet for {:.0} s", activity.quiet().as_secs_f64());
            }
            Ok(reading) => {
                state = format!(
                    "the reading {} is not sound: {}",
                    reading.file,
                    reading.unsound.join("; ")
                );
            }
            Err(ScrapeError::Unread { source, .. }) if !source.is_final() => {
                state = chain(&source);
            }
            Err(error) => return Err(ObserveError::Scrape(Box::new(error))),
        }
        on_progress(Progress {
            state: &state,
            done: None,
            left: Some(plan.length + plan.quiet.saturating_sub(activity.quiet())),
        });
        if read && activity.quiet() >= plan.quiet {
            return Ok(activity);
        }
        if next >= deadline.at() {
            break;
        }
        sleep_until(next).await;
    }
    if read {
        return Ok(activity);
    }
    Err(ObserveError::Late {
        what: "a sound reading before the window".to_owned(),
        waited: deadline.begun().elapsed(),
        last: state,
    })
}

async fn reading(
    target: &Target,
    files: &ScrapeFiles,
    purpose: Purpose<'_>,
    limit: Duration,
) -> Result<Scrape, ObserveError> {
    let reading = scrape(target, files, purpose, Deadline::within(limit)).await;
    reading.map_err(|error| ObserveError::Scrape(Box::new(error)))
}

/// For how long it had been quiet when the window opened, in seconds.
fn quiet_until(mut activity: Activity, opened: &Scrape) -> f64 {
    activity.see(opened);
    activity.quiet().as_secs_f64()
}

/// From the start of the process to the start of the window, in seconds (MET-07).
fn phase(opened: &Scrape) -> f64 {
    unix(opened.at) - opened.process_start
}

fn unix(at: DateTime<Utc>) -> f64 {
    at.timestamp_micros() as f64 / 1e6
}

fn seconds(ms: u64) -> f64 {
    Duration::from_millis(ms).as_secs_f64()
}

/// What came to these counts.
fn grown(before: &BTreeMap<String, u64>, after: BTreeMap<String, u64>) -> BTreeMap<String, u64> {
    let grown = after.into_iter().map(|(kind, count)| {
        let before = before.get(&kind).copied().unwrap_or_default();
        (kind, count.saturating_sub(before))
    });
    grown.collect()
}

/// Reconciles cannot be judged by changes that nobody saw.
fn with_holes(mut closed: Scrape, holes: Vec<String>) -> Scrape {
    let holes = holes.into_iter();
    let holes = holes.map(|hole| format!("changes of other objects may be missing: {hole}"));
    closed.unsound.extend(holes);
    closed
}

/// What was counted since the window opened.
fn describe(opened: &Scrape, last: &Scrape) -> String {
    let since = |of: fn(&Scrape) -> u64| of(last).saturating_sub(of(opened));
    format!(
        "{} GET, {} writes, {} reconciles",
        since(|reading| reading.counters.requests("GET", |_| true)),
        since(|reading| reading.counters.writes()),
        since(|reading| reading.counters.all_reconciles()),
    )
}
