//! Child processes that never outlive their owner and whose end is noticed at once.
//!
//! A parent-death signal is tied to the *thread* that made the child, so all children are made by
//! one thread that lives as long as this process. Signals go through a pidfd, so that a recycled
//! process number can never be hit.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::{Mutex, OnceLock, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, Signal};
use tokio::process::{ChildStderr, ChildStdout};
use tokio::runtime::Handle;
use tokio::sync::{oneshot, watch};

use super::identity::ProcessIdentity;
use super::launch::{Launcher, Mode};

/// Variables that send a program's requests through a proxy. A proxy cannot reach our loopback.
pub const PROXY_VARIABLES: [&str; 8] = [
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "no_proxy",
];

/// A killed process is gone within milliseconds, unless the kernel holds it in a system call.
pub(crate) const DEATH_DEADLINE: Duration = Duration::from_secs(5);

/// What to start, and how.
#[derive(Clone, Debug)]
pub struct Spec {
    /// The program, by absolute path.
    pub program: PathBuf,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// Variables to set.
    pub env: Vec<(OsString, OsString)>,
    /// Variables to remove.
    pub env_remove: Vec<OsString>,
    /// The working folder; the owner's when `None`.
    pub cwd: Option<PathBuf>,
    /// Where standard output and error go.
    pub output: Output,
    /// Whether the program forks.
    pub mode: Mode,
}

/// Where a child's standard output and error go.
#[derive(Clone, Debug)]
pub enum Output {
    /// To this file, appended (created with mode 0600).
    Log(PathBuf),
    /// To the owner, who takes them with [`Child::take_output`] and has to read them: a child whose
    /// pipe is full stands still.
    Pipes,
}

/// What a child writes, for its owner to read.
#[derive(Debug)]
pub struct Pipes {
    /// Its standard output.
    pub stdout: ChildStdout,
    /// Its standard error.
    pub stderr: ChildStderr,
}

/// A running (or ended) child. Dropping it ends the process if it still runs, and its whole group if
/// it was started as one.
#[derive(Debug)]
pub struct Child {
    identity: ProcessIdentity,
    mode: Mode,
    pidfd: OwnedFd,
    exit: watch::Receiver<Option<ExitStatus>>,
    started: Instant,
    pipes: Mutex<Option<Pipes>>,
}

/// How a child came to its end after it was asked to.
#[derive(Clone, Copy, Debug)]
pub struct Stopped {
    /// Its exit status.
    pub status: ExitStatus,
    /// From the first signal to the end.
    pub took: Duration,
    /// Whether SIGTERM was not enough.
    pub killed: bool,
}

impl Child {
    /// Starts a child.
    ///
    /// # Errors
    ///
    /// When the log cannot be opened or the launcher cannot be started. That the *program* cannot be
    /// executed shows later: as exit status 126 and a line in the log.
    pub async fn spawn(launcher: &Launcher, spec: &Spec) -> io::Result<Self> {
        let mut command = launcher.command(spec.mode, &spec.program, &spec.args);
        command.stdin(Stdio::null());
        match &spec.output {
            Output::Log(path) => {
                let log = open_log(path)?;
                command.stdout(log.try_clone()?).stderr(log);
            }
            Output::Pipes => {
                command.stdout(Stdio::piped()).stderr(Stdio::piped());
            }
        }
        for name in &spec.env_remove {
            command.env_remove(name);
        }
        command.envs(spec.env.iter().map(|(name, value)| (name, value)));
        if let Some(cwd) = &spec.cwd {
            command.current_dir(cwd);
        }
        // A group of its own, so that Ctrl-C at the terminal reaches only the owner, which then stops
        // its children in the right order.
        std::os::unix::process::CommandExt::process_group(&mut command, 0);

        let started = Instant::now();
        let unclaimed = spawn_on_lasting_thread(command, spec.mode).await?;
        let pid = unclaimed
            .pid()
            .ok_or_else(|| io::Error::other("the child ended before it was seen"))?;
        let identity = ProcessIdentity::of_unreaped_child(pid)
            .ok_or_else(|| io::Error::other(format!("/proc does not know the new child {pid}")))?;
        let raw = raw_pid(pid)
            .ok_or_else(|| io::Error::other(format!("{pid} is not a process number")))?;
        let pidfd = rustix::process::pidfd_open(raw, PidfdFlags::empty())?;
        // Only now: whatever failed above must not leave the process behind.
        let mut child = unclaimed.claim()?;
        let pipes = child.stdout.take().zip(child.stderr.take());
        let pipes = pipes.map(|(stdout, stderr)| Pipes { stdout, stderr });
        let (tell, exit) = watch::channel(None);
        tokio::spawn(async move {
            // `wait` fails only if somebody else reaped our child; then its status is unknown, which
            // the dropped sender says.
            if let Ok(status) = child.wait().await {
                let _ = tell.send(Some(status));
            }
        });
        Ok(Self {
            identity,
            mode: spec.mode,
            pidfd,
            exit,
            started,
            pipes: Mutex::new(pipes),
        })
    }

    /// What it writes, if it was started with [`Output::Pipes`] and nobody has taken it yet.
    #[must_use]
    pub fn take_output(&self) -> Option<Pipes> {
        self.pipes
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
    }

    /// Number and start time of the process.
    #[must_use]
    pub fn identity(&self) -> &ProcessIdentity {
        &self.identity
    }

    /// Time since it was started.
    #[must_use]
    pub fn age(&self) -> Duration {
        self.started.elapsed()
    }

    /// Its exit status, if it has ended.
    #[must_use]
    pub fn try_exit(&self) -> Option<ExitStatus> {
        *self.exit.borrow()
    }

    /// A receiver that sees the exit status as soon as there is one; closed without a value when the
    /// status was lost.
    #[must_use]
    pub fn watch_exit(&self) -> watch::Receiver<Option<ExitStatus>> {
        self.exit.clone()
    }

    /// Waits for its end.
    ///
    /// # Errors
    ///
    /// When its exit status was lost (the runtime shut down, or another part of the process reaped it).
    pub async fn exited(&self) -> io::Result<ExitStatus> {
        let mut exit = self.exit.clone();
        let seen = exit.wait_for(Option::is_some).await.map(|status| *status);
        seen.ok()
            .flatten()
            .ok_or_else(|| io::Error::other("the exit status was lost"))
    }

    /// Sends a signal; not an error when the process has already ended.
    ///
    /// # Errors
    ///
    /// When the kernel refuses for another reason.
    pub fn signal(&self, signal: Signal) -> io::Result<()> {
        match rustix::process::pidfd_send_signal(&self.pidfd, signal) {
            Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// SIGTERM, then SIGKILL after `grace`.
    ///
    /// # Errors
    ///
    /// When a signal cannot be sent or the exit status was lost.
    pub async fn stop(&self, grace: Duration) -> io::Result<Stopped> {
        let begun = Instant::now();
        self.signal(Signal::TERM)?;
        let (status, killed) = match tokio::time::timeout(grace, self.exited()).await {
            Ok(status) => (status?, false),
            Err(_) => {
                self.signal(Signal::KILL)?;
                let dead = tokio::time::timeout(DEATH_DEADLINE, self.exited()).await;
                let survived = |_| {
                    let pid = self.identity.pid;
                    let limit = DEATH_DEADLINE.as_secs();
                    io::Error::other(format!(
                        "process {pid} was still there {limit} s after SIGKILL"
                    ))
                };
                (dead.map_err(survived)??, true)
            }
        };
        Ok(Stopped {
            status,
            took: begun.elapsed(),
            killed,
        })
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if self.try_exit().is_none() {
            let _ = self.signal(ending_signal(self.mode));
        }
    }
}

fn open_log(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .create(true)
        .append(true)
        .mode(0o600)
        .open(path)
        .map_err(|error| {
            io::Error::new(
                error.kind(),
                format!("cannot open the log {}: {error}", path.display()),
            )
        })
}

struct Request {
    command: Command,
    runtime: Handle,
    mode: Mode,
    reply: oneshot::Sender<io::Result<Unclaimed>>,
}

/// A child on its way to the one who asked for it, and who may have gone away meanwhile.
struct Unclaimed {
    child: Option<tokio::process::Child>,
    mode: Mode,
}

impl Unclaimed {
    fn pid(&self) -> Option<u32> {
        self.child.as_ref().and_then(tokio::process::Child::id)
    }

    fn claim(mut self) -> io::Result<tokio::process::Child> {
        self.child
            .take()
            .ok_or_else(|| io::Error::other("the child was claimed twice"))
    }
}

impl Drop for Unclaimed {
    fn drop(&mut self) {
        // Nobody has waited for it yet, so that its number is still its own.
        if let Some(pid) = self.pid().and_then(raw_pid) {
            let _ = rustix::process::kill_process(pid, ending_signal(self.mode));
        }
    }
}

/// Starts the command on the one thread that lives as long as the process.
async fn spawn_on_lasting_thread(command: Command, mode: Mode) -> io::Result<Unclaimed> {
    static THREAD: OnceLock<mpsc::Sender<Request>> = OnceLock::new();
    let gone = || io::Error::other("the thread that starts children is gone");
    let sender = THREAD.get_or_init(|| {
        let (sender, requests) = mpsc::channel::<Request>();
        // If the thread cannot be made, the receiver is dropped and every request says so.
        let _ = thread::Builder::new()
            .name("spawn-children".to_owned())
            .spawn(move || {
                for Request {
                    command,
                    runtime,
                    mode,
                    reply,
                } in requests
                {
                    let _inside = runtime.enter();
                    let child = tokio::process::Command::from(command).spawn();
                    let child = child.map(|child| Unclaimed {
                        child: Some(child),
                        mode,
                    });
                    let _ = reply.send(child);
                }
            });
        sender
    });
    let (reply, answer) = oneshot::channel();
    sender
        .send(Request {
            command,
            runtime: Handle::current(),
            mode,
            reply,
        })
        .map_err(|_| gone())?;
    answer.await.map_err(|_| gone())?
}

fn raw_pid(pid: u32) -> Option<Pid> {
    i32::try_from(pid).ok().and_then(Pid::from_raw)
}

/// What ends a child for certain: a launcher that was killed could not end the group beside it.
fn ending_signal(mode: Mode) -> Signal {
    match mode {
        Mode::Exec => Signal::KILL,
        Mode::Group => Signal::TERM,
    }
}
