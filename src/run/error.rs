//! Why a run cannot begin, or cannot go on.

use crate::cluster::client::ClusterError;
use crate::cluster::fault::Fault;
use crate::cluster::wait::WaitError;
use crate::helm::records::RecordError;
use crate::helm::{ChartError, HelmError};
use crate::observe::ObserveError;
use crate::record::{FolderError, RevisionStatus};
use crate::scenario::ChartName;
use crate::workloads::LoadError;

/// A run cannot begin, or cannot go on. What a check can judge is no such error.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// Somebody asked for the end.
    #[error("interrupted")]
    Interrupted,
    /// The control plane that it uses has failed.
    #[error("{message}")]
    Plane {
        /// What failed.
        message: String,
        /// What to do about it.
        hint: Option<String>,
        /// Whether what it was asked for is at fault, for example a version that does not exist.
        input: bool,
    },
    /// The run's folder cannot be written or read.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// The helm program cannot be used at all.
    #[error(transparent)]
    Helm(#[from] HelmError),
    /// The record of the release cannot be read.
    #[error("cannot read the record of the release {release}")]
    Record {
        /// The release, as `NAMESPACE/NAME`.
        release: String,
        /// Why not.
        source: Box<RecordError>,
    },
    /// A chart cannot be used.
    #[error("cannot use the chart `{name}`")]
    Chart {
        /// Its name in the plan.
        name: ChartName,
        /// Why not.
        source: Box<ChartError>,
    },
    /// A chart cannot be rendered.
    #[error("cannot render the chart `{name}`")]
    Render {
        /// Its name in the plan.
        name: ChartName,
        /// Why not.
        source: Box<HelmError>,
    },
    /// Two charts of the plan are the same to a cluster, so that a move between them would show
    /// nothing (MET-14).
    #[error(
        "the charts `{one}` and `{other}` render the same objects with the same image {image}: a move \
         between them would show nothing"
    )]
    SameCharts {
        /// The name of one.
        one: ChartName,
        /// The name of the other.
        other: ChartName,
        /// The image of both.
        image: String,
    },
    /// The plan asks for workloads that nobody knows how to make.
    #[error("there is no mix of workloads `{0}`")]
    UnknownMix(String),
    /// The release of the plan is there, and is not this run's.
    #[error("the release {namespace}/{name} exists already, in revision {revision}")]
    ReleaseExists {
        /// Its name.
        name: String,
        /// Its namespace.
        namespace: String,
        /// Its newest revision.
        revision: u32,
    },
    /// A namespace for the load is there, and is not this run's.
    #[error("the namespace {0} exists already")]
    NamespaceExists(String),
    /// The cluster outlives the run, and holds what a run would change for good (CLN-03, CLN-04).
    #[error("this cluster already has {0}, which the run would change or delete")]
    InUse(String),
    /// Another operation on the release is under way, or was when helm was killed
    /// (`helm-moves.md` C).
    #[error(
        "the release {namespace}/{name} is in the state {} since revision {revision}",
        status_word(*status)
    )]
    Pending {
        /// Its name.
        name: String,
        /// Its namespace.
        namespace: String,
        /// The revision that is pending.
        revision: u32,
        /// Its state.
        status: RevisionStatus,
        /// The newest revision that was deployed once, to go back to.
        good: Option<u32>,
    },
    /// Something that the run needs is not in the cluster.
    #[error("{0}")]
    Missing(String),
    /// The kubeconfig leads to no cluster.
    #[error(transparent)]
    Client(#[from] ClusterError),
    /// The kubeconfig leads to another cluster than the one that the run was in (MET-09).
    #[error("the kubeconfig leads to another cluster than the one that this run was in")]
    OtherCluster,
    /// The cluster refuses.
    #[error("cannot {doing}")]
    Cluster {
        /// What was tried.
        doing: String,
        /// Why not.
        source: Box<Fault>,
    },
    /// Something did not happen in time, and nothing can be judged without it.
    #[error(transparent)]
    Wait(#[from] WaitError),
    /// The workloads cannot be made.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The cluster cannot be looked at.
    #[error(transparent)]
    Observe(#[from] ObserveError),
}

impl RunError {
    /// The exit code (`design.md` 4).
    #[must_use]
    pub fn exit(&self) -> u8 {
        match self {
            Self::Interrupted => 130,
            Self::Plane { input: true, .. }
            | Self::Chart { .. }
            | Self::Render { .. }
            | Self::SameCharts { .. }
            | Self::UnknownMix(_) => 2,
            _ => 4,
        }
    }

    /// The one thing to do about it, if there is one.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Interrupted | Self::Missing(_) => None,
            Self::Plane { hint, .. } => hint.clone(),
            Self::Folder(error) => error.hint(),
            Self::Helm(error) => error.hint(),
            Self::Render { source, .. } => source.hint(),
            Self::Record { source, .. } => source.hint(),
            Self::Chart { source, .. } => source.hint(),
            Self::SameCharts { other, .. } => Some(format!(
                "give `{other}` another version (--chart {other}=PATH), or other values"
            )),
            Self::UnknownMix(_) => Some(format!(
                "write one of: {}",
                crate::workloads::Mix::ALL
                    .map(|mix| mix.to_string())
                    .join(", ")
            )),
            Self::ReleaseExists {
                name, namespace, ..
            } => Some(format!(
                "uninstall it (`helm uninstall {name} --namespace {namespace}`), or give the scenario \
                 another release"
            )),
            Self::NamespaceExists(name) => Some(format!(
                "if an earlier run left it, `aibom-qual cleanup --run RUN` removes it; else rename or \
                 delete it: kubectl delete namespace {name}"
            )),
            Self::InUse(_) => Some(
                "take a cluster that has neither, or leave out --kubeconfig and --context: the run then \
                 makes one of its own"
                    .to_owned(),
            ),
            Self::Pending {
                name,
                namespace,
                good,
                ..
            } => Some(recovery(name, namespace, *good)),
            Self::Client(error) => error.hint(),
            Self::OtherCluster => Some(
                "take the kubeconfig and context of the cluster that the run was in".to_owned(),
            ),
            Self::Cluster { source, .. } => source.hint(),
            Self::Wait(error) => error.hint(),
            Self::Load(error) => error.hint(),
            Self::Observe(error) => error.hint(),
        }
    }

    /// Whether the cluster must be left as it is: somebody else may be at work on the release.
    pub(super) fn leaves_all(&self) -> bool {
        matches!(self, Self::Pending { .. })
    }
}

/// The documented way out: back by number when there is a good revision, else a fresh start.
fn recovery(name: &str, namespace: &str, good: Option<u32>) -> String {
    match good {
        Some(revision) => format!(
            "if no helm is at work on it any more: helm rollback {name} {revision} --namespace \
             {namespace} --wait"
        ),
        None => format!(
            "if no helm is at work on it any more: helm uninstall {name} --namespace {namespace} --wait, \
             then install it again"
        ),
    }
}

fn status_word(status: RevisionStatus) -> &'static str {
    match status {
        RevisionStatus::PendingInstall => "pending-install",
        RevisionStatus::PendingUpgrade => "pending-upgrade",
        RevisionStatus::PendingRollback => "pending-rollback",
        _ => "unknown",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_out_of_a_pending_release_names_a_revision_where_there_is_one() {
        let pending = |good| RunError::Pending {
            name: "r".to_owned(),
            namespace: "n".to_owned(),
            revision: 2,
            status: RevisionStatus::PendingUpgrade,
            good,
        };
        assert_eq!(
            pending(None).to_string(),
            "the release n/r is in the state pending-upgrade since revision 2"
        );
        let hint = pending(Some(1)).hint().expect("a hint");
        assert!(hint.contains("helm rollback r 1 --namespace n"), "{hint}");
        let hint = pending(None).hint().expect("a hint");
        assert!(hint.contains("helm uninstall r"), "{hint}");
        assert_eq!(pending(None).exit(), 4);
        assert!(pending(None).leaves_all());
    }
}
