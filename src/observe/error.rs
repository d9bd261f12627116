//! Why something could not be seen.

use std::time::Duration;

use super::scrape::ScrapeError;
use crate::cluster::fault::Fault;
use crate::helm::records::RecordError;

/// Something could not be seen.
#[derive(Debug, thiserror::Error)]
pub enum ObserveError {
    /// The API server does not answer the question.
    #[error("cannot read {what}")]
    Api {
        /// What was asked for.
        what: String,
        /// Why not.
        source: Box<Fault>,
    },
    /// The record of the release cannot be read.
    #[error("cannot read the release {name} in the namespace {namespace}")]
    Release {
        /// Its name.
        name: String,
        /// Its namespace.
        namespace: String,
        /// Why not.
        source: Box<RecordError>,
    },
    /// A definition exists, but in none of the versions that the controller's releases use.
    #[error("the definition {crd} exists, but none of its versions {} is served", versions.join(", "))]
    NotServed {
        /// The definition.
        crd: String,
        /// The versions that were asked for.
        versions: &'static [&'static str],
    },
    /// More than one Deployment bears the labels of the release.
    #[error("more than one Deployment is of the release: {}", names.join(", "))]
    Ambiguous {
        /// Their names.
        names: Vec<String>,
    },
    /// An answer is not what the API promises.
    #[error("cannot understand {what}: {reason}")]
    Unreadable {
        /// What was read.
        what: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A list could not be read to its end from one state of the cluster.
    #[error("{what} could not be listed from one state of the cluster in {attempts} attempts")]
    Inconsistent {
        /// What was listed.
        what: String,
        /// How often it was begun.
        attempts: u32,
    },
    /// A reading cannot be kept, or there is none.
    #[error(transparent)]
    Scrape(Box<ScrapeError>),
    /// Workloads of this kind cannot be listed.
    #[error("no workloads of the kind {kind} are known")]
    UnknownKind {
        /// The kind.
        kind: String,
    },
    /// The deadline came first.
    #[error("waited {:.1} s for {what}; last seen: {last}", waited.as_secs_f64())]
    Late {
        /// What was awaited.
        what: String,
        /// For how long.
        waited: Duration,
        /// The last state seen.
        last: String,
    },
}

impl ObserveError {
    pub(super) fn api(what: impl Into<String>, fault: Fault) -> Self {
        Self::Api {
            what: what.into(),
            source: Box::new(fault),
        }
    }

    /// The one thing to do about it, if there is one.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Api { source, .. } => source.hint(),
            Self::Release { source, .. } => source.hint(),
            Self::NotServed { crd, .. } => Some(format!(
                "apply the chart's definitions; `kubectl get crd {crd} -o yaml` shows what is served"
            )),
            Self::Ambiguous { .. } => Some(
                "remove the Deployment that the chart did not make, or take another release name"
                    .to_owned(),
            ),
            Self::Inconsistent { .. } => Some(
                "the server forgets its states faster than they can be read: check that etcd is not \
                 compacted more often than every few minutes"
                    .to_owned(),
            ),
            Self::Late { .. } => Some(
                "the state last seen says what is missing; allow more time if it was about to come"
                    .to_owned(),
            ),
            Self::Scrape(source) => source.hint(),
            Self::Unreadable { .. } | Self::UnknownKind { .. } => None,
        }
    }
}
