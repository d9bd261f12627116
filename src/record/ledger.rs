//! What a run made, by UID: what clean-up may delete, and nothing else (CLN-05).

use serde::{Deserialize, Serialize};

/// One object that the run made, or a set of objects that goes with it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "what", deny_unknown_fields)]
pub enum Created {
    /// A namespace, with all that is in it.
    #[serde(rename_all = "camelCase")]
    Namespace {
        /// Its name.
        name: String,
        /// Its UID; [`None`] while the request is under way.
        uid: Option<String>,
    },
    /// A Helm release.
    #[serde(rename_all = "camelCase")]
    Release {
        /// Its name.
        name: String,
        /// Its namespace.
        namespace: String,
    },
    /// A definition that was not there before.
    #[serde(rename_all = "camelCase")]
    Crd {
        /// Its name.
        name: String,
        /// Its UID; [`None`] while the request is under way.
        uid: Option<String>,
    },
}

/// All that a run made, oldest first. An entry is written *before* the request that makes the object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Ledger {
    /// The UID of the namespace `kube-system`: the identity of the cluster (MET-09).
    pub cluster: Option<String>,
    /// The kubeconfig that led to it; [`None`] for a private plane, which is gone with the run.
    pub kubeconfig: Option<std::path::PathBuf>,
    /// Its context.
    pub context: Option<String>,
    /// What was made.
    pub created: Vec<Created>,
    /// Whether all of it is gone again.
    pub cleaned: bool,
}
