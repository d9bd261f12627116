//! The objects around the AIBOMs: release, Deployment, pods, configuration, definitions.

use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::aibom::Condition;

/// The state of a revision, as Helm stores it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RevisionStatus {
    /// Nothing is known.
    Unknown,
    /// The one in force.
    Deployed,
    /// Uninstalled, with its history kept.
    Uninstalled,
    /// Followed by another one.
    Superseded,
    /// Its move failed.
    Failed,
    /// An uninstall is under way or was interrupted.
    Uninstalling,
    /// An install is under way or was interrupted.
    PendingInstall,
    /// An upgrade is under way or was interrupted.
    PendingUpgrade,
    /// A rollback is under way or was interrupted.
    PendingRollback,
}

impl RevisionStatus {
    /// Whether Helm refuses the next upgrade because of it (`helm-moves.md` C).
    #[must_use]
    pub fn is_pending(self) -> bool {
        matches!(
            self,
            Self::PendingInstall | Self::PendingUpgrade | Self::PendingRollback
        )
    }
}

/// How Helm sent the objects of a revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ApplyMethod {
    /// Client-side apply; also what a record without the field means.
    Csa,
    /// Server-side apply.
    Ssa,
}

/// One revision of a release, from its record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HelmRevision {
    /// Its number, from 1.
    pub revision: u32,
    /// Its state.
    pub status: RevisionStatus,
    /// What Helm says of it, for example `Rollback to 1`.
    pub description: String,
    /// The chart's name.
    pub chart: String,
    /// The chart's version.
    pub chart_version: String,
    /// The chart's `appVersion`.
    pub app_version: String,
    /// The `apply_method` of the record; [`None`] when the record has no such field (Helm 3).
    pub apply_method: Option<ApplyMethod>,
    /// SHA-256 of the user's values in canonical JSON, in hex.
    pub values_sha256: String,
    /// When it was deployed last.
    pub last_deployed: Option<DateTime<Utc>>,
}

/// A release with its history.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ReleaseState {
    /// Its name.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
    /// All revisions that Helm still has, oldest first; never empty.
    pub history: Vec<HelmRevision>,
}

impl ReleaseState {
    /// The newest revision.
    #[must_use]
    pub fn newest(&self) -> Option<&HelmRevision> {
        self.history.last()
    }
}

/// A Deployment, by the terms that tell whether its rollout is complete (UPG-03, INS-06).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DeploymentState {
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// `metadata.generation`.
    pub generation: i64,
    /// `status.observedGeneration`.
    pub observed_generation: i64,
    /// `spec.replicas`.
    pub wanted: i32,
    /// `status.replicas`.
    pub replicas: i32,
    /// `status.updatedReplicas`.
    pub updated: i32,
    /// `status.readyReplicas`.
    pub ready: i32,
    /// `status.availableReplicas`.
    pub available: i32,
    /// The image of its first container, as the pod template has it.
    pub image: String,
    /// Its conditions.
    pub conditions: Vec<Condition>,
}

impl DeploymentState {
    /// All five terms: wanted > 0, and wanted = replicas = updated = available, and the newest
    /// generation was observed.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.wanted > 0
            && self.replicas == self.wanted
            && self.updated == self.wanted
            && self.available == self.wanted
            && self.observed_generation >= self.generation
    }
}

/// One pod of the Deployment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PodState {
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// Its label `pod-template-hash`.
    pub template_hash: Option<String>,
    /// Its phase, for example `Running`.
    pub phase: String,
    /// Whether its condition `Ready` is true.
    pub ready: bool,
    /// Whether it is being deleted.
    pub terminating: bool,
    /// The image of its first container, as the spec has it.
    pub image: String,
    /// The image ID that the node reports.
    pub image_id: Option<String>,
    /// The container ID that the node reports.
    pub container_id: Option<String>,
    /// Restarts of its first container.
    pub restarts: i32,
    /// Why its first container waits or ended last, for example `CrashLoopBackOff` or `Error (exit 3)`.
    pub trouble: Option<String>,
    /// When it was created.
    pub created_at: Option<DateTime<Utc>>,
}

/// The configuration object of the controller.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ConfigState {
    /// Its UID.
    pub uid: String,
    /// `metadata.generation`.
    pub generation: i64,
    /// `status.observedGeneration`.
    pub observed_generation: Option<i64>,
    /// SHA-256 of its spec in canonical JSON, in hex.
    pub spec_sha256: String,
    /// Its conditions.
    pub conditions: Vec<Condition>,
    /// `status.lastLoadedAt`.
    pub last_loaded_at: Option<DateTime<Utc>>,
}

impl ConfigState {
    /// The condition of this type.
    #[must_use]
    pub fn condition(&self, type_: &str) -> Option<&Condition> {
        self.conditions.iter().find(|known| known.type_ == type_)
    }
}

/// One version of a definition.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CrdVersion {
    /// Whether it is served.
    pub served: bool,
    /// Whether it is the one that is stored.
    pub storage: bool,
    /// SHA-256 of its schema in canonical JSON, in hex.
    pub schema_sha256: String,
}

/// One definition, as it is served.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CrdState {
    /// Its name, for example `aiboms.aibom.k8saibom.dev`.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// `metadata.generation`.
    pub generation: i64,
    /// `metadata.resourceVersion`.
    pub resource_version: String,
    /// Its versions, by name.
    pub versions: BTreeMap<String, CrdVersion>,
    /// `status.storedVersions`.
    pub stored_versions: Vec<String>,
    /// Whether it is `Established` and its names are accepted.
    pub established: bool,
    /// Whether it is being deleted.
    pub terminating: bool,
    /// Who manages fields of its `spec`.
    pub managers: BTreeSet<String>,
}
