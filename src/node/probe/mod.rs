//! Startup, liveness and readiness probes by the kubelet's rules (`virtual-node.md` 3).
//!
//! The loop of a probe begins with the container and ticks every `periodSeconds`; a tick earlier than
//! `initialDelaySeconds` is skipped. A kubelet also probes a container that is not ready out of turn
//! whenever it looks at its pod again, which makes real rollouts faster by up to a period at random;
//! this node does not, so that its rollouts take the same time each run.

mod action;
mod http_get;
mod schedule;
mod worker;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use k8s_openapi::api::core::v1::{Container, Probe};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;

use self::action::Action;
use self::schedule::Schedule;
use self::worker::Worker;
use super::port_map::PortMap;

/// Attempts that may wait for the pod's worker to look at them. More than a pod's probes can make
/// while it writes a status; a worker that is slower still slows the probes down.
const QUEUE: usize = 16;

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

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Startup => "Startup",
            Self::Liveness => "Liveness",
            Self::Readiness => "Readiness",
        })
    }
}

impl Kind {
    /// The probe of this kind that a container has.
    fn of(self, container: &Container) -> Option<&Probe> {
        match self {
            Self::Startup => container.startup_probe.as_ref(),
            Self::Liveness => container.liveness_probe.as_ref(),
            Self::Readiness => container.readiness_probe.as_ref(),
        }
    }
}

/// What one attempt showed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The probe.
    pub kind: Kind,
    /// Why this attempt failed, in the words of the kubelet's event `Unhealthy`.
    pub failure: Option<String>,
    /// What holds from now on, thresholds considered. Before the first attempt a container is live,
    /// but has neither started nor is it ready.
    pub healthy: bool,
    /// Whether the container is to be restarted now: a liveness or startup probe has failed as often
    /// as its threshold allows. It is the probe's last report.
    pub restart: bool,
}

/// The probes of one start of a container. They end when this is dropped.
#[derive(Debug)]
pub struct Probes {
    reports: mpsc::Receiver<Report>,
    _workers: JoinSet<()>,
}

impl Probes {
    /// Begins to probe a container that was started just now. Needs a Tokio runtime.
    #[must_use]
    pub fn begin(container: &Container, ports: PortMap, started: Instant) -> Self {
        let (sender, reports) = mpsc::channel(QUEUE);
        let gate = Gate::new(!has(container, Kind::Startup));
        let mut workers = JoinSet::new();
        for kind in [Kind::Startup, Kind::Liveness, Kind::Readiness] {
            let Some(probe) = kind.of(container) else {
                continue;
            };
            let schedule = Schedule::of(probe);
            let action = Action::new(probe, container, ports.clone(), schedule.timeout);
            let worker = Worker::new(kind, schedule, gate.clone(), sender.clone(), action);
            workers.spawn(worker.run(started));
        }
        Self {
            reports,
            _workers: workers,
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
    kind.of(container).is_some()
}

/// Whether the container has started; clones share it.
#[derive(Clone, Debug)]
struct Gate(Arc<AtomicBool>);

impl Gate {
    fn new(open: bool) -> Self {
        Self(Arc::new(AtomicBool::new(open)))
    }

    fn open(&self) {
        self.0.store(true, Ordering::Release);
    }

    fn is_open(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}
