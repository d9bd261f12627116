//! What the controller costs: in a quiet window, and when it starts.
//!
//! Everything is attributed on the side of the client: the counters are those of the controller's own
//! process.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::RunView;
use super::words::seconds;
use crate::record::{RestartFacts, Scrape, StepKind, WindowFacts, grouped};

const WRITES: [&str; 4] = ["POST", "PUT", "PATCH", "DELETE"];

/// How a counter moved in a window.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CounterDelta {
    /// The metric, and which of its series.
    pub counter: String,
    /// By how much.
    pub delta: u64,
    /// Per minute.
    pub per_minute: f64,
}

/// A quiet window.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WindowRow {
    /// The step.
    pub step: u32,
    /// The chart that ran, as a person knows it.
    pub running: Option<String>,
    /// How many workloads were tracked.
    pub tracked: Option<u64>,
    /// Its length, in seconds.
    pub elapsed_seconds: f64,
    /// From the process's start to the window's start, in seconds.
    pub phase_seconds: f64,
    /// How long it had been quiet when the window began, in seconds.
    pub quiet_before_seconds: f64,
    /// The counters of requests and reconciles; empty when the window is not sound.
    pub counters: Vec<CounterDelta>,
    /// Processor time of the process in the window, in seconds.
    pub cpu_seconds: f64,
    /// The same as a mean, in thousandths of a CPU.
    pub cpu_millis: f64,
    /// Resident memory at the start and at the end, in bytes.
    pub resident_bytes: [u64; 2],
    /// Changes of other objects in the window, by kind.
    pub churn: BTreeMap<String, u64>,
    /// Instances of API server that were seen.
    pub api_servers: u64,
    /// Why the numbers must not be used, if so.
    pub unsound: Vec<String>,
}

impl WindowRow {
    pub(super) fn new(step: u32, running: Option<String>, window: &WindowFacts) -> Self {
        let unsound = unsound(&window.opened, &window.closed);
        let (opened, closed) = (&window.opened.counters, &window.closed.counters);
        let cpu_seconds = (closed.cpu_seconds - opened.cpu_seconds).max(0.0);
        Self {
            step,
            running,
            tracked: None,
            elapsed_seconds: window.elapsed,
            phase_seconds: window.phase,
            quiet_before_seconds: window.quiet_before,
            counters: if unsound.is_empty() && window.elapsed > 0.0 {
                counters(window)
            } else {
                Vec::new()
            },
            cpu_seconds,
            cpu_millis: cpu_seconds * 1000.0 / window.elapsed.max(f64::MIN_POSITIVE),
            resident_bytes: [opened.resident_bytes, closed.resident_bytes],
            churn: window.churn.clone(),
            api_servers: window.api_servers.len() as u64,
            unsound,
        }
    }

    /// `935 s: 15 GET (0.96/min), 0 writes, 0 reconciles, 1.00 CPU-s`.
    pub(super) fn clauses(&self) -> Vec<String> {
        if let Some(reason) = self.unsound.first() {
            return vec![format!(
                "{}, but not sound: {reason}",
                seconds(self.elapsed_seconds)
            )];
        }
        let mut parts = Vec::new();
        let all = |what: &str| -> u64 {
            let named = self
                .counters
                .iter()
                .filter(|row| row.counter.contains(what));
            named.map(|row| row.delta).sum()
        };
        if let Some(gets) = self
            .counters
            .iter()
            .find(|row| row.counter.contains(" GET"))
        {
            parts.push(format!(
                "{} GET ({:.2}/min)",
                grouped(gets.delta),
                gets.per_minute
            ));
        }
        parts.push(format!(
            "{} writes",
            grouped(all("POST, PUT, PATCH, DELETE"))
        ));
        parts.push(format!("{} reconciles", grouped(all("reconcile_total"))));
        parts.push(format!("{:.2} CPU-s", self.cpu_seconds));
        vec![format!(
            "{}: {}",
            seconds(self.elapsed_seconds),
            parts.join(", ")
        )]
    }
}

/// Why the two readings cannot be subtracted (MET-01, MET-02, MET-04).
fn unsound(opened: &Scrape, closed: &Scrape) -> Vec<String> {
    let mut reasons: Vec<String> = opened
        .unsound
        .iter()
        .chain(&closed.unsound)
        .cloned()
        .collect();
    if !opened.same_process(closed) {
        reasons.push("the two readings are of different processes".to_owned());
    }
    let (before, after) = (&opened.counters, &closed.counters);
    let requests = |scrape: &Scrape| -> BTreeMap<String, u64> {
        let series = scrape.counters.requests.iter();
        series
            .map(|one| (format!("{} {}", one.method, one.code), one.count))
            .collect()
    };
    let pairs = [
        (requests(opened), requests(closed)),
        (before.reconciles.clone(), after.reconciles.clone()),
    ];
    for (old, new) in pairs {
        for (series, was) in old {
            match new.get(&series) {
                None => reasons.push(format!("the series {series} has vanished")),
                Some(now) if *now < was => {
                    reasons.push(format!("the counter {series} fell from {was} to {now}"));
                }
                Some(_) => {}
            }
        }
    }
    if after.cpu_seconds < before.cpu_seconds {
        reasons.push("process_cpu_seconds_total fell".to_owned());
    }
    reasons
}

fn counters(window: &WindowFacts) -> Vec<CounterDelta> {
    let (opened, closed) = (&window.opened.counters, &window.closed.counters);
    let row = |counter: String, before: u64, after: u64| {
        let delta = after.saturating_sub(before);
        CounterDelta {
            counter,
            delta,
            per_minute: delta as f64 * 60.0 / window.elapsed,
        }
    };
    let requests = "rest_client_requests_total";
    let success = |code: &str| code.starts_with('2');
    let mut rows = vec![row(
        format!("{requests} GET 2xx"),
        opened.requests("GET", success),
        closed.requests("GET", success),
    )];
    rows.push(row(
        format!("{requests} POST, PUT, PATCH, DELETE"),
        opened.writes(),
        closed.writes(),
    ));
    // Whatever else was asked, and how it ended, has a row of its own: there should be none.
    let others: BTreeSet<(&str, &str)> = closed
        .requests
        .iter()
        .filter(|series| !WRITES.contains(&series.method.as_str()))
        .filter(|series| series.method != "GET" || !success(&series.code))
        .map(|series| (series.method.as_str(), series.code.as_str()))
        .collect();
    for (method, code) in others {
        let exactly = |known: &str| known == code;
        let (before, after) = (
            opened.requests(method, exactly),
            closed.requests(method, exactly),
        );
        if after > before {
            rows.push(row(format!("{requests} {method} {code}"), before, after));
        }
    }
    rows.push(row(
        "controller_runtime_reconcile_total, all controllers".to_owned(),
        opened.all_reconciles(),
        closed.all_reconciles(),
    ));
    rows
}

/// All windows of a run.
pub(super) fn windows(view: &RunView<'_>) -> Vec<WindowRow> {
    let windows = view.steps.iter().filter_map(|record| {
        let window = record.window.as_ref()?;
        let running = record.chart.as_ref().map(|chart| view.chart(chart));
        let mut row = WindowRow::new(record.step, running, window);
        let snapshot = view.snapshots.get(&record.step);
        row.tracked = snapshot.map(|snapshot| snapshot.expected.len() as u64);
        Some(row)
    });
    windows.collect()
}

/// What a new process cost until it had settled: its counters since it began.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RestartRow {
    /// The step.
    pub step: u32,
    /// Its kind.
    pub kind: StepKind,
    /// The chart that ran, as a person knows it.
    pub running: Option<String>,
    /// How many AIBOMs were tracked.
    pub tracked: u64,
    /// GET requests, whatever became of them.
    pub get: u64,
    /// POST requests.
    pub post: u64,
    /// PUT requests.
    pub put: u64,
    /// PATCH and DELETE requests.
    pub patch_delete: u64,
    /// Requests per tracked workload; [`None`] without one.
    pub requests_per_workload: Option<f64>,
    /// Processor time, in seconds.
    pub cpu_seconds: f64,
    /// Resident memory, in bytes.
    pub resident_bytes: u64,
    /// From the process's start until its last write or reconcile, in seconds; [`None`] when it did not
    /// settle in the time allowed.
    pub settled_after_seconds: Option<f64>,
    /// AIBOMs that it did not walk over, at most a hundred names.
    pub not_walked: Vec<String>,
    /// Why the numbers must not be used, if so.
    pub unsound: Vec<String>,
}

/// One row per new process.
pub(super) fn restarts(view: &RunView<'_>) -> Vec<RestartRow> {
    let restarts = view.steps.iter().filter_map(|record| {
        let facts = record.restart.as_ref()?;
        let running = record.chart.as_ref().map(|chart| view.chart(chart));
        Some(restart(record.step, record.kind, running, facts))
    });
    restarts.collect()
}

fn restart(step: u32, kind: StepKind, running: Option<String>, facts: &RestartFacts) -> RestartRow {
    let counters = &facts.after.counters;
    let of = |method| counters.requests(method, |_| true);
    let all: u64 = counters.requests.iter().map(|series| series.count).sum();
    RestartRow {
        step,
        kind,
        running,
        tracked: facts.tracked,
        get: of("GET"),
        post: of("POST"),
        put: of("PUT"),
        patch_delete: of("PATCH") + of("DELETE"),
        requests_per_workload: (facts.tracked > 0).then(|| all as f64 / facts.tracked as f64),
        cpu_seconds: counters.cpu_seconds,
        resident_bytes: counters.resident_bytes,
        settled_after_seconds: facts.settled_after,
        not_walked: facts.not_walked.clone(),
        unsound: facts.after.unsound.clone(),
    }
}
