//! The log of a run: one line of `events.jsonl` per entry, appended as it happens.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::run::Outcome;
use super::step::{StepKind, StepRecord};

/// An event of the cluster, as its own objects tell it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct KubernetesEvent {
    /// The UID of the event object.
    pub uid: String,
    /// `Normal` or `Warning`.
    #[serde(rename = "type")]
    pub type_: String,
    /// Its reason, for example `ConfigLoaded`.
    pub reason: String,
    /// Its message.
    pub message: String,
    /// The component that reports it.
    pub component: String,
    /// The kind of the object that it is about.
    pub kind: String,
    /// That object's namespace; empty outside of namespaces.
    pub namespace: String,
    /// That object's name.
    pub name: String,
    /// How often it happened.
    pub count: u32,
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "event", deny_unknown_fields)]
pub enum Event {
    /// The run begins.
    #[serde(rename_all = "camelCase")]
    RunStarted {
        /// Its name: that of its folder.
        run: String,
        /// How many steps it has.
        steps: u32,
    },
    /// Something is prepared before the first step, for example the control plane.
    #[serde(rename_all = "camelCase")]
    Preparing {
        /// What.
        what: String,
    },
    /// A step begins.
    #[serde(rename_all = "camelCase")]
    StepStarted {
        /// Its number, from 1.
        step: u32,
        /// Its kind.
        kind: StepKind,
        /// What is done, for people.
        action: String,
    },
    /// A part of a step begins: `helm`, `rollout`, `settle`, `snapshot`, `load`, `converge`, `window`.
    #[serde(rename_all = "camelCase")]
    PhaseStarted {
        /// The step.
        step: u32,
        /// Which part.
        phase: String,
    },
    /// Something is waited for; told when its state changes.
    #[serde(rename_all = "camelCase")]
    Waiting {
        /// The step.
        step: u32,
        /// What for.
        what: String,
        /// The state, in words.
        state: String,
        /// How much of it is there, and how much there will be, where that can be counted.
        progress: Option<(u64, u64)>,
    },
    /// The cluster reports something.
    #[serde(rename_all = "camelCase")]
    Cluster {
        /// What.
        reported: KubernetesEvent,
    },
    /// The event watch had to begin again after the server forgot its state: reports may be missing.
    #[serde(rename_all = "camelCase")]
    EventsMissed {
        /// Why.
        reason: String,
    },
    /// A step is over.
    #[serde(rename_all = "camelCase")]
    StepFinished {
        /// Everything about it.
        record: Box<StepRecord>,
    },
    /// The run is over.
    #[serde(rename_all = "camelCase")]
    RunFinished {
        /// How.
        outcome: Box<Outcome>,
    },
}

/// One line of the log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Entry {
    /// When.
    pub at: DateTime<Utc>,
    /// Milliseconds since the run began, by a clock that never jumps.
    pub at_ms: u64,
    /// What.
    pub event: Event,
}
