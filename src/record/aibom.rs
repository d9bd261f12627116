//! One AIBOM as it was found, without its document: a few hundred bytes each, so that a hundred
//! thousand can be held at once.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

/// The status of a condition, as the API conventions have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum ConditionStatus {
    /// `True`.
    True,
    /// `False`.
    False,
    /// `Unknown`.
    Unknown,
}

/// A condition of a status.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Condition {
    /// Its type.
    #[serde(rename = "type")]
    pub type_: String,
    /// Whether it holds.
    pub status: ConditionStatus,
    /// Why, as one word.
    pub reason: String,
    /// Why, for people.
    pub message: String,
    /// The generation that it was judged for, if it says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// When its status changed last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<DateTime<Utc>>,
}

/// A workload that should have an AIBOM: opted in, of a tracked kind, and with a signal.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Workload {
    /// Its namespace.
    pub namespace: String,
    /// Its kind, for example `Deployment`.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// Its `metadata.generation`.
    pub generation: i64,
}

/// The controlling owner of an AIBOM.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OwnerState {
    /// Its kind.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
}

/// The document of an AIBOM, as recomputed from what is stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "state", deny_unknown_fields)]
pub enum DocumentState {
    /// It lies in the status and can be decoded.
    #[serde(rename_all = "camelCase")]
    Inline {
        /// SHA-256 of the decoded bytes, in hex.
        sha256: String,
        /// SHA-256 of the document's canonical form (sorted keys, without `metadata.timestamp` and
        /// `serialNumber`), in hex: equal when only the time of generation differs (DAT-06).
        canonical_sha256: String,
        /// Its size in bytes.
        bytes: u64,
        /// The digest that the status itself states for it, in hex; CNV-07 wants it equal to `sha256`.
        stated_sha256: Option<String>,
        /// The size that the status states, in bytes.
        stated_bytes: Option<u64>,
    },
    /// It was too large to be kept in the status (`controller.md` D.3).
    Truncated,
    /// There is none.
    Absent,
    /// What is there cannot be decoded.
    #[serde(rename_all = "camelCase")]
    Unreadable {
        /// Why not.
        reason: String,
    },
}

/// One AIBOM.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AibomState {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// Its `metadata.resourceVersion`.
    pub resource_version: String,
    /// Its controlling owner.
    pub owner: Option<OwnerState>,
    /// `status.inputHash`; [`None`] when absent or empty.
    pub input_hash: Option<String>,
    /// `status.bomHash`; [`None`] when absent or empty.
    pub bom_hash: Option<String>,
    /// Its document.
    pub document: DocumentState,
    /// The status of its condition `Ready`; [`None`] when there is no such condition.
    pub ready: Option<ConditionStatus>,
    /// SHA-256 over all conditions, transition times included (DAT-08).
    pub conditions_sha256: String,
    /// `status.observedGeneration`: the generation of the *workload*.
    pub observed_generation: Option<i64>,
    /// `status.lastReconciled`.
    pub last_reconciled: Option<DateTime<Utc>>,
    /// Size of the object on the wire, in bytes.
    pub bytes: u64,
}

impl AibomState {
    /// `NAMESPACE/NAME`.
    #[must_use]
    pub fn key(&self) -> (&str, &str) {
        (&self.namespace, &self.name)
    }
}
