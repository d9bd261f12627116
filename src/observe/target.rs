//! What is looked at.

use std::fmt;

use kube::Client;
use kube::api::ListParams;

use crate::subject::Subject;

/// One installation of the controller.
#[derive(Clone)]
pub struct Target {
    /// The cluster.
    pub client: Client,
    /// What the controller is.
    pub subject: &'static Subject,
    /// The release's name.
    pub release: String,
    /// The release's namespace.
    pub namespace: String,
}

impl Target {
    /// The objects of the release.
    pub(super) fn of_release(&self) -> ListParams {
        ListParams::default().labels(&format!(
            "app.kubernetes.io/name={},app.kubernetes.io/instance={}",
            self.subject.chart, self.release
        ))
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Target")
            .field("release", &self.release)
            .field("namespace", &self.namespace)
            .finish_non_exhaustive()
    }
}
