//! A container from its start to its end.

use std::fs::File;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use rustix::process::{Pid, Signal};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::log;
use crate::host::process::{Child, DEATH_DEADLINE};
use crate::node::port_map::PortMap;

/// How long what a process wrote may take to arrive after its end.
const DRAIN_DEADLINE: Duration = Duration::from_secs(5);
/// The exit code of a container whose end nobody saw, as with a kubelet.
const UNKNOWN: i32 = 137;

/// A container that was started and has not been seen to end. Dropping it ends what stands behind it.
#[derive(Clone, Debug)]
pub struct Running(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    start: Start,
    body: Body,
    finished: watch::Receiver<Option<Finished>>,
}

/// What is known of a container's start.
#[derive(Clone, Debug)]
pub(super) struct Start {
    pub(super) container_id: String,
    pub(super) at: DateTime<Utc>,
    pub(super) log: PathBuf,
}

/// What stands behind a container.
#[derive(Debug)]
enum Body {
    /// Ends when the token is cancelled.
    Pause(CancellationToken),
    Process {
        child: Child,
        ports: PortMap,
    },
}

/// How a container ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finished {
    /// Its exit code; 128 + signal when a signal ended it.
    pub exit_code: i32,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// When it was started.
    pub started_at: DateTime<Utc>,
    /// When it ended.
    pub finished_at: DateTime<Utc>,
}

impl Finished {
    /// The end of a process, as of now. Without a status nobody saw it.
    fn now(started_at: DateTime<Utc>, status: Option<ExitStatus>) -> Self {
        let signal = status.and_then(|status| status.signal());
        let code = status.and_then(|status| status.code());
        Self {
            exit_code: code
                .or(signal.map(|signal| 128 + signal))
                .unwrap_or(UNKNOWN),
            signal,
            started_at,
            finished_at: Utc::now(),
        }
    }
}

impl Running {
    /// A container without a process, which ends when asked to or after this time.
    pub(super) fn pause(start: Start, completes_after: Option<Duration>) -> Self {
        let (tell, finished) = watch::channel(None);
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        let at = start.at;
        tokio::spawn(async move {
            let completed = async {
                match completes_after {
                    Some(after) => sleep(after).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = stopped.cancelled() => {}
                () = completed => {}
            }
            let _ = tell.send(Some(Finished::now(at, Some(ExitStatus::default()))));
        });
        Self(Arc::new(Inner {
            start,
            body: Body::Pause(stop),
            finished,
        }))
    }

    /// A container that is a process, whose output goes to the log.
    pub(super) fn process(start: Start, child: Child, ports: PortMap, log: File) -> Self {
        let (tell, finished) = watch::channel(None);
        let at = start.at;
        let pid = child.identity().pid;
        let mut exit = child.watch_exit();
        let pipes = child.take_output();
        tokio::spawn(async move {
            let copied = tokio::spawn(async move {
                if let Some(pipes) = pipes {
                    log::copy(pipes, log, log::LARGEST_LOG).await;
                }
            });
            let status = exit.wait_for(Option::is_some).await;
            let finished = Finished::now(at, status.ok().and_then(|status| *status));
            end_group(pid);
            let stop_copying = copied.abort_handle();
            if timeout(DRAIN_DEADLINE, copied).await.is_err() {
                // Somebody else has the pipe: a process that left the group.
                stop_copying.abort();
            }
            let _ = tell.send(Some(finished));
        });
        Self(Arc::new(Inner {
            start,
            body: Body::Process { child, ports },
            finished,
        }))
    }

    /// Its made-up id, as in `containerID`: `aibom-qual://<64 digits>`.
    #[must_use]
    pub fn container_id(&self) -> &str {
        &self.0.start.container_id
    }

    /// When it was started.
    #[must_use]
    pub fn started_at(&self) -> DateTime<Utc> {
        self.0.start.at
    }

    /// Its ports; [`None`] when no process stands behind it.
    #[must_use]
    pub fn ports(&self) -> Option<&PortMap> {
        match &self.0.body {
            Body::Pause(_) => None,
            Body::Process { ports, .. } => Some(ports),
        }
    }

    /// Its log, one line of the container runtime interface's format per line.
    #[must_use]
    pub fn log(&self) -> &Path {
        &self.0.start.log
    }

    /// Waits for its end, and until all that it wrote is in its log; may be called again and gives
    /// the same answer.
    pub async fn exited(&self) -> Finished {
        let mut finished = self.0.finished.clone();
        let seen = finished.wait_for(Option::is_some).await;
        match seen.ok().and_then(|seen| seen.clone()) {
            Some(finished) => finished,
            // The one who would tell is gone only when the runtime shuts down.
            None => std::future::pending().await,
        }
    }

    /// SIGTERM, and SIGKILL after `grace`; waits for the end. A process that the kernel does not let
    /// go even then is given up a few seconds later.
    pub async fn stop(&self, grace: Duration) -> Finished {
        match &self.0.body {
            Body::Pause(stop) => stop.cancel(),
            Body::Process { child, .. } => {
                // What went wrong shows in whether the end is seen.
                let _ = child.stop(grace).await;
            }
        }
        let seen = timeout(DEATH_DEADLINE + DRAIN_DEADLINE, self.exited()).await;
        seen.unwrap_or_else(|_| Finished::now(self.started_at(), None))
    }

    /// For who looks after it without keeping it alive.
    pub(super) fn downgrade(&self) -> Weak {
        Weak(Arc::downgrade(&self.0))
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        match &self.body {
            Body::Pause(stop) => stop.cancel(),
            // A child that is dropped is killed.
            Body::Process { .. } => {}
        }
    }
}

/// A container that ends when nobody else holds it.
#[derive(Debug)]
pub(super) struct Weak(std::sync::Weak<Inner>);

impl Weak {
    /// The container, unless it is gone or has ended.
    pub(super) fn upgrade(&self) -> Option<Running> {
        let running = self.0.upgrade().map(Running)?;
        let ended = running.0.finished.borrow().is_some();
        (!ended).then_some(running)
    }
}

/// Kills what a container's process left behind in its group, as the end of a container's first
/// process ends all others. The group's number was the process's own and has been free for a moment
/// at most: the kernel gives it out again only after all others.
fn end_group(pid: u32) {
    if let Some(group) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        // Mostly nobody is left.
        let _ = rustix::process::kill_process_group(group, Signal::KILL);
    }
}
