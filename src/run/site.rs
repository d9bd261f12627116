//! Where a run takes place.

use std::path::PathBuf;

use kube::Client;

use crate::record::{PlaneKind, SubjectKind};

/// The cluster of a run, and how helm and people reach it.
#[derive(Clone)]
pub struct Site {
    /// A client for it.
    pub client: Client,
    /// The kubeconfig that helm is given, whose current context it is.
    pub kubeconfig: PathBuf,
    /// Where it is.
    pub plane: PlaneKind,
    /// What stands behind the controller's image.
    pub subject: SubjectKind,
    /// What `cleanup --run` is to use later: the user's own kubeconfig, or [`None`] where the cluster is
    /// gone with the run.
    pub kept: Option<PathBuf>,
}

impl Site {
    /// Whether it is there after the run, so that what the run made has to be removed from it.
    pub(super) fn outlives_the_run(&self) -> bool {
        self.kept.is_some()
    }
}

impl std::fmt::Debug for Site {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Site")
            .field("kubeconfig", &self.kubeconfig)
            .field("plane", &self.plane)
            .finish_non_exhaustive()
    }
}
