//! The background process that supervises a persistent plane, and how `plane up` starts it.
//!
//! The supervisor is this same command with one hidden flag. Until the plane is ready it tells
//! `plane up` what happens, as JSON lines on its standard output; should nobody listen any more, it
//! gives up. Afterwards it is on its own.

use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::fd::AsFd as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags};
use rustix::process::{Pid, Signal};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use tokio::sync::oneshot;

use super::node::{Held, RuntimeArgs};
use crate::cli::exit::{Exit, Failure};
use crate::cli::signals::Signals;
use crate::plane::event::{Event, Sink};
use crate::plane::options::PlaneOptions;
use crate::plane::state::PlaneState;
use crate::plane::{Plane, PlaneError};

/// An interrupted supervisor kills what it has started, which takes two seconds at most.
const INTERRUPT_DEADLINE: Duration = Duration::from_secs(10);

/// One line from the supervisor.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Word {
    Event(Event),
    Ready(Box<PlaneState>),
    Failed {
        exit: u8,
        message: String,
        hint: Option<String>,
    },
}

/// Starts the supervisor of the plane `name`, which is `plane up` with these arguments, and waits until
/// the plane is ready. A signal ends the supervisor too.
pub(crate) async fn start(
    name: &str,
    args: Vec<OsString>,
    sink: &dyn Sink,
    signals: &mut Signals,
) -> Result<PlaneState, Failure> {
    let (mut supervisor, words) =
        spawn(args).map_err(|error| trouble(name, format!("cannot be started: {error}")))?;
    let interrupted = tokio::select! {
        outcome = relay(name, &mut supervisor, words, sink) => return outcome,
        () = signals.received() => PlaneError::Interrupted,
    };
    if let Some(pid) = supervisor
        .id()
        .and_then(|pid| Pid::from_raw(i32::try_from(pid).ok()?))
    {
        // It is our child and not waited for yet, so that the number is still its own. An error
        // means that it has just ended.
        let _ = rustix::process::kill_process(pid, Signal::TERM);
    }
    match tokio::time::timeout(INTERRUPT_DEADLINE, supervisor.wait()).await {
        Ok(_) => Err(interrupted.into()),
        Err(_) => {
            let limit = INTERRUPT_DEADLINE.as_secs();
            Err(trouble(
                name,
                format!("did not end within {limit} s of being interrupted"),
            ))
        }
    }
}

fn trouble(name: &str, problem: String) -> Failure {
    let name = name.to_owned();
    PlaneError::Supervisor { name, problem }.into()
}

async fn relay(
    name: &str,
    supervisor: &mut Child,
    mut words: Lines<BufReader<ChildStdout>>,
    sink: &dyn Sink,
) -> Result<PlaneState, Failure> {
    loop {
        let line = words.next_line().await;
        let line = line.map_err(|error| trouble(name, format!("cannot be heard: {error}")))?;
        let Some(line) = line else {
            let status = supervisor.wait().await;
            let how = status.map_or_else(|error| error.to_string(), |status| status.to_string());
            return Err(trouble(
                name,
                format!("ended before the plane was ready ({how})"),
            ));
        };
        match serde_json::from_str(&line) {
            Ok(Word::Event(event)) => sink.event(event),
            Ok(Word::Ready(state)) => return Ok(*state),
            Ok(Word::Failed {
                exit,
                message,
                hint,
            }) => {
                let same = |known: &Exit| *known as u8 == exit;
                let exit = [Exit::Input, Exit::Interrupted].into_iter().find(same);
                let exit = exit.unwrap_or(Exit::CouldNotRun);
                return Err(Failure {
                    exit,
                    message,
                    hint,
                });
            }
            Err(error) => {
                let problem = format!("said something that cannot be understood: {error}");
                return Err(trouble(name, problem));
            }
        }
    }
}

fn spawn(mut args: Vec<OsString>) -> std::io::Result<(Child, Lines<BufReader<ChildStdout>>)> {
    args.push("--supervise".into());
    let mut child = Command::new("/proc/self/exe")
        .arg0("aibom-qual")
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        // Only until the plane is ready; then the supervisor writes to its own log.
        .stderr(Stdio::inherit())
        .spawn()?;
    let stdout = child.stdout.take();
    let stdout = stdout.ok_or_else(|| std::io::Error::other("it has no standard output"))?;
    Ok((child, BufReader::new(stdout).lines()))
}

/// Runs the supervisor: starts the plane, reports, and holds it until asked to stop.
pub(crate) async fn run(options: PlaneOptions, runtimes: &RuntimeArgs) -> Result<Exit, Failure> {
    // Out of the terminal's reach: Ctrl-C is for `plane up`. Fails only for the leader of a process
    // group, which a child of `plane up` is not.
    let _ = rustix::process::setsid();
    let mut signals = Signals::install()?;
    let relay = Arc::new(Relay::default());
    let started = tokio::select! {
        started = Held::start(&options, runtimes, Arc::clone(&relay) as _) => started,
        () = signals.received() => Err(PlaneError::Interrupted.into()),
        () = deserted() => Err(PlaneError::Interrupted.into()),
    };
    let held = match started {
        Ok(held) => held,
        Err(failure) => {
            relay.say(&Word::from(&failure));
            return Ok(failure.exit);
        }
    };
    if let Err(error) = detach(&held.plane) {
        relay.say(&Word::Failed {
            exit: Exit::CouldNotRun as u8,
            message: format!("cannot detach the supervisor: {error}"),
            hint: None,
        });
        held.stop(None).await?;
        return Ok(Exit::CouldNotRun);
    }
    if !relay.say(&Word::Ready(Box::new(held.plane.state()))) {
        held.stop(None).await?;
        return Ok(Exit::Interrupted);
    }
    relay.close();
    let failure = tokio::select! {
        () = signals.received() => None,
        failure = held.failed() => Some(failure),
    };
    signals.end_on_next();
    held.stop(failure).await?;
    Ok(Exit::Pass)
}

impl From<&Failure> for Word {
    fn from(failure: &Failure) -> Self {
        Self::Failed {
            exit: failure.exit as u8,
            message: failure.message.clone(),
            hint: failure.hint.clone(),
        }
    }
}

/// From now on nothing is inherited from `plane up`: the plane's folder is the working folder, and a
/// log takes what only a panic would say.
fn detach(plane: &Plane) -> std::io::Result<()> {
    std::env::set_current_dir(plane.layout().root())?;
    let log = OpenOptions::new()
        .create(true)
        .append(true)
        .mode(0o600)
        .open(plane.layout().logs().join("supervisor.log"))?;
    rustix::stdio::dup2_stderr(&log)?;
    Ok(())
}

/// Resolves when `plane up` has gone away: the kernel then reports an error on our end of the pipe,
/// whether or not anything is written to it.
async fn deserted() {
    let (tell, gone) = oneshot::channel();
    // A thread of its own, since the wait has no end of its own; it ends with the reader.
    std::thread::spawn(move || {
        let stdout = std::io::stdout();
        let mut ends = [PollFd::from_borrowed_fd(stdout.as_fd(), PollFlags::empty())];
        while matches!(
            rustix::event::poll(&mut ends, None),
            Err(rustix::io::Errno::INTR)
        ) {}
        let _ = tell.send(());
    });
    if gone.await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// Tells events to `plane up`.
#[derive(Debug, Default)]
struct Relay {
    closed: AtomicBool,
}

impl Relay {
    /// Tells one word; `false` when nobody listens.
    fn say(&self, word: &Word) -> bool {
        if self.closed.load(Ordering::SeqCst) {
            return false;
        }
        let line = serde_json::to_string(word).map_err(std::io::Error::other);
        let said = line.and_then(|line| {
            let mut stdout = std::io::stdout().lock();
            writeln!(stdout, "{line}").and_then(|()| stdout.flush())
        });
        if said.is_err() {
            self.closed.store(true, Ordering::SeqCst);
        }
        said.is_ok()
    }

    /// Ends the conversation: `plane up` sees the end of its pipe.
    fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        if let Ok(null) = OpenOptions::new().write(true).open("/dev/null") {
            let _ = rustix::stdio::dup2_stdout(&null);
        }
    }
}

impl Sink for Relay {
    fn event(&self, event: Event) {
        self.say(&Word::Event(event));
    }
}
