//! Everything observed at one moment.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::aibom::{AibomState, Workload};
use super::cluster::{ConfigState, CrdState, DeploymentState, PodState, ReleaseState};
use super::counters::Scrape;

/// All AIBOMs from one consistent list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AibomList {
    /// The resourceVersion of the list; every page is of this one (MET-11).
    pub resource_version: String,
    /// How many pages it took.
    pub pages: u32,
    /// How often the whole list was begun again because the server had forgotten its state.
    pub restarts: u32,
    /// Sorted by namespace and name.
    pub items: Vec<AibomState>,
}

/// Everything observed after one step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Snapshot {
    /// The number of the step, from 1.
    pub step: u32,
    /// When it was begun.
    pub at: DateTime<Utc>,
    /// How long it took, in milliseconds.
    pub took_ms: u64,
    /// The release, if there is one.
    pub release: Option<ReleaseState>,
    /// The controller's Deployment, if there is one.
    pub deployment: Option<DeploymentState>,
    /// Its pods.
    pub pods: Vec<PodState>,
    /// The configuration object, if there is one.
    pub config: Option<ConfigState>,
    /// The definitions that exist, by name.
    pub crds: Vec<CrdState>,
    /// The workloads that should have an AIBOM now or as soon as a controller runs, sorted.
    pub expected: Vec<Workload>,
    /// The AIBOMs; [`None`] when their definition does not exist.
    pub aiboms: Option<AibomList>,
    /// The counters of the controller, if one runs.
    pub scrape: Option<Scrape>,
}

impl Snapshot {
    /// The AIBOMs; none when their definition does not exist.
    #[must_use]
    pub fn aiboms(&self) -> &[AibomState] {
        self.aiboms.as_ref().map_or(&[], |list| &list.items)
    }
}
