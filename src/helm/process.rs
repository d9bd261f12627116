//! One helm process, from its start to its end: it never outlives its owner, sees nothing of the user's
//! environment but `PATH` and `HOME` (which credential plugins of a kubeconfig need), and is stopped when
//! it does not stop by itself.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

use crate::host::launch::{Launcher, Mode};
use crate::host::process::{Child, Output, Spec};

/// Most that is kept of each stream, in bytes. The manifest of a release is limited to about 1 MiB by the
/// Secret that stores it, and compressed in it.
const MOST_OUTPUT: usize = 32 << 20;

/// How long Helm may take after SIGTERM, which it uses to mark the release as failed
/// (`helm-moves.md` C), before SIGKILL.
const GRACE: Duration = Duration::from_secs(15);

/// How long output may still come after the end: a process that Helm started may hold the pipe open.
const DRAIN: Duration = Duration::from_secs(2);

/// Variables of the environment that a helm process keeps.
const KEPT: [&str; 2] = ["PATH", "HOME"];

/// How to start one program again and again.
#[derive(Clone, Debug)]
pub(super) struct Program {
    pub(super) launcher: Launcher,
    pub(super) path: PathBuf,
    /// Variables to set.
    pub(super) env: Vec<(OsString, OsString)>,
    /// The working folder.
    pub(super) cwd: PathBuf,
}

/// What a process wrote to one stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Captured {
    pub(super) bytes: Vec<u8>,
    /// Whether there was more than is kept.
    pub(super) cut: bool,
}

impl Captured {
    /// All of it as text; what is not UTF-8 is replaced.
    pub(super) fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }

    #[cfg(test)]
    pub(super) fn whole(bytes: &[u8]) -> Self {
        Self {
            bytes: bytes.to_vec(),
            cut: false,
        }
    }
}

/// A process that has ended.
#[derive(Clone, Debug)]
pub(super) struct Ended {
    /// Its exit code; [`None`] when a signal ended it.
    pub(super) exit: Option<i32>,
    /// The signal that ended it.
    pub(super) signal: Option<i32>,
    pub(super) stdout: Captured,
    pub(super) stderr: Captured,
    pub(super) took: Duration,
    /// The limit after which it was stopped, if it was.
    pub(super) stopped_after: Option<Duration>,
}

impl Program {
    /// Runs it to its end, for at most `limit` and the grace of a stop.
    ///
    /// Dropping the future asks the process to stop, and lets it mark its release as failed.
    pub(super) async fn run(&self, args: Vec<OsString>, limit: Duration) -> io::Result<Ended> {
        let started = Instant::now();
        let spec = Spec {
            program: self.path.clone(),
            args,
            env: self.env.clone(),
            env_remove: unwanted(std::env::vars_os().map(|(name, _)| name)),
            cwd: Some(self.cwd.clone()),
            output: Output::Pipes,
            mode: Mode::Exec,
        };
        let mut running = Running(Some(Child::spawn(&self.launcher, &spec).await?));
        let pipes = running.child()?.take_output();
        let pipes = pipes.ok_or_else(|| io::Error::other("the child has no pipes"))?;
        let (stdout, stderr) = (Reader::start(pipes.stdout), Reader::start(pipes.stderr));

        let child = running.child()?;
        let (status, stopped_after) = match tokio::time::timeout(limit, child.exited()).await {
            Ok(status) => (status?, None),
            Err(_) => (child.stop(GRACE).await?.status, Some(limit)),
        };
        let took = started.elapsed();
        running.0 = None;
        let (stdout, stderr) = tokio::join!(stdout.finish(), stderr.finish());
        Ok(Ended {
            exit: status.code(),
            signal: status.signal(),
            stdout,
            stderr,
            took,
            stopped_after,
        })
    }
}

/// The variables to remove, of those that are set.
fn unwanted(set: impl Iterator<Item = OsString>) -> Vec<OsString> {
    set.filter(|name| !KEPT.iter().any(|kept| name == kept))
        .collect()
}

/// A child whose owner may lose interest before it has ended.
struct Running(Option<Child>);

impl Running {
    fn child(&self) -> io::Result<&Child> {
        let gone = || io::Error::other("the child is gone");
        self.0.as_ref().ok_or_else(gone)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let Some(child) = self.0.take() else { return };
        if child.try_exit().is_some() {
            return;
        }
        // A kill would leave the release pending. Without a runtime nothing else is possible, and
        // dropping the child does it.
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(async move {
                // Whoever cared is gone.
                let _ = child.stop(GRACE).await;
            });
        }
    }
}

/// Reads a stream to its end beside the process; more than is kept is read and dropped, so that the
/// process never stands still.
struct Reader {
    kept: Arc<Mutex<Captured>>,
    task: JoinHandle<()>,
}

impl Reader {
    fn start(mut pipe: impl AsyncRead + Unpin + Send + 'static) -> Self {
        let kept = Arc::new(Mutex::new(Captured::default()));
        let shared = Arc::clone(&kept);
        let task = tokio::spawn(async move {
            let mut buffer = vec![0; 16 * 1024];
            // A pipe that cannot be read has ended.
            while let Ok(count @ 1..) = pipe.read(&mut buffer).await {
                let mut kept = shared.lock().unwrap_or_else(PoisonError::into_inner);
                let room = MOST_OUTPUT.saturating_sub(kept.bytes.len()).min(count);
                kept.bytes.extend_from_slice(&buffer[..room]);
                kept.cut |= room < count;
            }
        });
        Self { kept, task }
    }

    async fn finish(mut self) -> Captured {
        if tokio::time::timeout(DRAIN, &mut self.task).await.is_err() {
            self.task.abort();
        }
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *kept)
    }
}

#[cfg(test)]
mod tests;
