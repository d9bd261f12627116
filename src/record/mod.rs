//! What a run leaves behind, as data: the types of `run.json`, `events.jsonl`, the snapshots and the
//! ledger, and the folder that they lie in.
//!
//! This is the contract between those who see ([`observe`](crate::observe), the engine) and those who
//! judge and tell ([`compare`](crate::compare), [`gates`](crate::gates), [`report`](crate::report)):
//! everything that the latter say is a function of what is here. So nothing here knows a client, and
//! whatever a verdict needs is a field with a unit, not a text to be read again. No type has a place
//! for a token, a kubeconfig or the data of a Secret.

mod aibom;
mod canonical;
mod cluster;
mod counters;
mod event;
mod folder;
mod ledger;
mod number;
mod run;
mod snapshot;
mod step;
mod verdict;

pub use self::aibom::{
    AibomState, Condition, ConditionStatus, DocumentState, OwnerState, Workload,
};
pub use self::canonical::{canonical_json, crd_versions, schema_sha256, sha256_hex};
pub use self::cluster::{
    ApplyMethod, ConfigState, CrdState, CrdVersion, DeploymentState, HelmRevision, PodState,
    ReleaseState, RevisionStatus,
};
pub use self::counters::{Counters, RequestCount, Scrape};
pub use self::event::{Entry, Event, KubernetesEvent};
pub use self::folder::{FolderError, LoadedRun, RunFolder};
pub use self::ledger::{Created, Ledger};
pub use self::number::grouped;
pub use self::run::{
    ChartRecord, Environment, HelmRecord, Outcome, PlaneKind, RunFile, SCHEMA_VERSION, SubjectKind,
};
pub use self::snapshot::{AibomList, Snapshot};
pub use self::step::{
    CleanupFacts, CrdApplied, CrdFacts, HelmFacts, HelmFailure, LoadFacts, PhaseTime, RestartFacts,
    RolloutFacts, StepEnd, StepKind, StepRecord, WindowFacts,
};
pub use self::verdict::{CheckResult, Verdict};
