//! What happened in a step, in numbers: the facts that checks judge and reports tell.

use std::collections::BTreeMap;
use std::fmt;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::counters::Scrape;

/// The kind of a step, as scenarios write it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StepKind {
    /// Look at the cluster as it was found.
    Baseline,
    /// `helm install`.
    Install,
    /// Make the workloads.
    Load,
    /// `helm upgrade`.
    Upgrade,
    /// `helm rollback`.
    Rollback,
    /// Apply the definitions of a chart.
    Crds,
    /// Measure a quiet window.
    Steady,
    /// Restart the controller without a change of version.
    Restart,
    /// Change the controller's configuration.
    Config,
    /// Wait.
    Hold,
    /// `helm uninstall`.
    Uninstall,
    /// Remove all that the run made.
    Cleanup,
}

impl StepKind {
    /// Whether the step is a move: an install, upgrade or rollback.
    #[must_use]
    pub fn is_move(self) -> bool {
        matches!(self, Self::Install | Self::Upgrade | Self::Rollback)
    }
}

impl fmt::Display for StepKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Baseline => "baseline",
            Self::Install => "install",
            Self::Load => "load",
            Self::Upgrade => "upgrade",
            Self::Rollback => "rollback",
            Self::Crds => "crds",
            Self::Steady => "steady",
            Self::Restart => "restart",
            Self::Config => "config",
            Self::Hold => "hold",
            Self::Uninstall => "uninstall",
            Self::Cleanup => "cleanup",
        })
    }
}

/// Why Helm failed, as far as its words tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HelmFailure {
    /// The time allowed was over before the objects were ready.
    Timeout,
    /// The Deployment's own progress deadline passed.
    ProgressDeadline,
    /// Another manager owns a field.
    Conflict,
    /// Another operation is, or was, under way.
    PendingLock,
    /// The release name is taken.
    NameInUse,
    /// There is no such release or revision.
    NotFound,
    /// A kind is not served.
    MissingCrd,
    /// The API server does not allow it.
    Forbidden,
    /// The chart refused to render, or does not.
    Render,
    /// An object is invalid.
    Invalid,
    /// The API server cannot be reached.
    Unreachable,
    /// A flag that this Helm does not know.
    UnknownFlag,
    /// It was ended by a signal.
    Killed,
    /// Anything else; the transcript tells.
    Other,
}

/// One run of the helm program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HelmFacts {
    /// The arguments, without anything that comes from a Secret.
    pub args: Vec<String>,
    /// Its exit code; [`None`] when a signal ended it.
    pub exit: Option<i32>,
    /// How long it ran, in seconds.
    pub seconds: f64,
    /// Why it failed; [`None`] when it did not.
    pub failure: Option<HelmFailure>,
    /// Its last line of complaint.
    pub said: Option<String>,
    /// The newest revision before; [`None`] without a release.
    pub revision_before: Option<u32>,
    /// The newest revision after.
    pub revision_after: Option<u32>,
    /// Its whole output, relative to the run's folder.
    pub transcript: String,
}

/// A rollout of the controller's Deployment, seen by watch from before Helm began.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RolloutFacts {
    /// From the start of the helm process until the rollout was complete, in seconds; [`None`] when it
    /// never was.
    pub complete_after: Option<f64>,
    /// The longest time without a ready pod, in seconds (UPG-05). An install has it by nature.
    pub longest_without_ready: f64,
    /// How long pods of both versions ran, in seconds (UPG-06).
    pub overlap: f64,
    /// Whether the pod template changed.
    pub template_changed: bool,
    /// Pods of the previous template that are left at the end.
    pub old_pods_left: Vec<String>,
    /// Restarts of the new pod.
    pub restarts: i32,
    /// What troubles the new pod, if something does: a waiting reason, a failed probe, an exit code.
    pub trouble: Option<String>,
    /// The state of the Deployment and its pods when the wait ended, in words.
    pub last_seen: String,
    /// How many changes were seen. Nothing is known when it is 0.
    pub observed: u32,
}

/// What became of the load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LoadFacts {
    /// Workloads asked for.
    pub asked: u32,
    /// Made.
    pub created: u32,
    /// There already.
    pub existing: u32,
    /// Not made: name and reason.
    pub failed: BTreeMap<String, String>,
    /// From the first request to the last answer, in seconds.
    pub seconds: f64,
    /// Made per second.
    pub rate: f64,
    /// Median time of an answer, in milliseconds.
    pub p50_ms: Option<f64>,
    /// The 99th percentile, in milliseconds.
    pub p99_ms: Option<f64>,
    /// From the last answer until the last AIBOM was Ready, in seconds; [`None`] when that was not
    /// reached (CNV-03). Negative is not possible: an AIBOM that was Ready before counts as 0.
    pub converged_after: Option<f64>,
}

/// One definition that was applied.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CrdApplied {
    /// Its name.
    pub name: String,
    /// Whether its generation changed.
    pub changed: bool,
    /// Why the server refused it, if it did.
    pub refused: Option<String>,
}

/// A step that applied definitions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CrdFacts {
    /// The name of the chart in the plan.
    pub chart: String,
    /// The field manager that they were applied as.
    pub manager: String,
    /// Each of them.
    pub applied: Vec<CrdApplied>,
}

/// What a restart of the controller cost: absolute counters of the new process (RST-01).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RestartFacts {
    /// The old process's last reading, before the move.
    pub before: Option<Scrape>,
    /// The new process's reading once it had settled.
    pub after: Scrape,
    /// From the new process's start until the last write or reconcile was seen, in seconds; [`None`]
    /// when it did not settle by the deadline.
    pub settled_after: Option<f64>,
    /// AIBOMs whose `lastReconciled` is not later than the process's start, at most a hundred names.
    pub not_walked: Vec<String>,
    /// How many AIBOMs were tracked.
    pub tracked: u64,
}

/// One measured interval inside one controller process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WindowFacts {
    /// The length that was asked for, in seconds.
    pub asked: f64,
    /// The real length, by a clock that never jumps, in seconds.
    pub elapsed: f64,
    /// From the process's start to the window's start, in seconds: the phase (MET-07).
    pub phase: f64,
    /// How long nothing had been written or reconciled when the window began, in seconds (STS-01).
    pub quiet_before: f64,
    /// The reading at the start.
    pub opened: Scrape,
    /// The reading at the end.
    pub closed: Scrape,
    /// Readings in between, oldest first: what a single burst looked like.
    pub between: Vec<Scrape>,
    /// Changes of other objects in the window, by kind: what the reconciles may be due to (MET-06).
    pub churn: BTreeMap<String, u64>,
    /// The instances of API server that were seen, by their start time.
    pub api_servers: Vec<String>,
}

/// What clean-up did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CleanupFacts {
    /// Objects that were deleted, by kind.
    pub deleted: BTreeMap<String, u64>,
    /// What is still there that the run made, as `KIND NAMESPACE/NAME`.
    pub left: Vec<String>,
    /// How the cluster differs from what was found at the start, one line each (CLN-01).
    pub differences: Vec<String>,
}

/// How a step ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "end", deny_unknown_fields)]
pub enum StepEnd {
    /// As planned.
    Done,
    /// Not as planned, but the cluster is known and the checks judge it.
    #[serde(rename_all = "camelCase")]
    Failed {
        /// Why.
        reason: String,
    },
    /// The run cannot go on after it.
    #[serde(rename_all = "camelCase")]
    Aborted {
        /// Why.
        reason: String,
        /// What to do about it.
        hint: Option<String>,
    },
}

/// Time spent in a part of a step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PhaseTime {
    /// Which, for example `helm`, `rollout`, `settle`, `snapshot`.
    pub name: String,
    /// How long, in seconds.
    pub seconds: f64,
}

/// One step, complete.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StepRecord {
    /// Its number, from 1.
    pub step: u32,
    /// Its kind.
    pub kind: StepKind,
    /// What was done, for people, for example `helm upgrade to 1.5.1`.
    pub action: String,
    /// When it began.
    pub started_at: DateTime<Utc>,
    /// How long it took, in seconds, by a clock that never jumps.
    pub seconds: f64,
    /// How it ended.
    pub end: StepEnd,
    /// The name of the chart in the plan that the release runs after the step.
    pub chart: Option<String>,
    /// Where the time went.
    pub phases: Vec<PhaseTime>,
    /// Its snapshot, relative to the run's folder; [`None`] when it was not reached.
    pub snapshot: Option<String>,
    /// The helm process, if one ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub helm: Option<HelmFacts>,
    /// The rollout, if there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollout: Option<RolloutFacts>,
    /// The cost of the new process, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restart: Option<RestartFacts>,
    /// The load, if one was applied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load: Option<LoadFacts>,
    /// The definitions, if some were applied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub crds: Option<CrdFacts>,
    /// The window, if one was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<WindowFacts>,
    /// The clean-up, if one was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cleanup: Option<CleanupFacts>,
}

impl StepRecord {
    /// A step that has just begun: nothing has happened in it, and nothing went wrong.
    #[must_use]
    pub fn begun(step: u32, kind: StepKind, action: String, started_at: DateTime<Utc>) -> Self {
        Self {
            step,
            kind,
            action,
            started_at,
            seconds: 0.0,
            end: StepEnd::Done,
            chart: None,
            phases: Vec::new(),
            snapshot: None,
            helm: None,
            rollout: None,
            restart: None,
            load: None,
            crds: None,
            window: None,
            cleanup: None,
        }
    }
}
