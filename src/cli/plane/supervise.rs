//! The background process that supervises a persistent plane, and how `plane up` starts it.
//!
//! The supervisor is this same command with one hidden flag. Until the plane is ready it tells
//! `plane up` what happens, as JSON lines on its standard output; should nobody listen any more, it
//! gives up. Afterwards it is on its own.

use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde::{Deserialize, Serialize};
use tokio::sync::{Notify, mpsc};

use crate::cli::exit::{Exit, Failure};
use crate::cli::signals::Signals;
use crate::plane::event::{Event, Sink};
use crate::plane::options::PlaneOptions;
use crate::plane::state::PlaneState;
use crate::plane::{Plane, PlaneError};

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

/// Starts the supervisor of the plane `name` and waits until the plane is ready.
pub(crate) async fn start(name: &str, sink: Arc<dyn Sink>) -> Result<PlaneState, Failure> {
    let trouble = |problem: String| {
        Failure::from(PlaneError::Supervisor {
            name: name.to_owned(),
            problem,
        })
    };
    let (mut supervisor, stdout) =
        spawn().map_err(|error| trouble(format!("cannot be started: {error}")))?;
    let (sender, mut words) = mpsc::unbounded_channel();
    // Lines are read on a thread of their own: a pipe has no asynchronous reads without a copy of its
    // descriptor, and this thread ends with the supervisor's words.
    std::thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            if sender.send(serde_json::from_str::<Word>(&line)).is_err() {
                break;
            }
        }
    });
    loop {
        match words.recv().await {
            Some(Ok(Word::Event(event))) => sink.event(event),
            Some(Ok(Word::Ready(state))) => return Ok(*state),
            Some(Ok(Word::Failed {
                exit,
                message,
                hint,
            })) => {
                let exit = if exit == Exit::Input as u8 {
                    Exit::Input
                } else {
                    Exit::CouldNotRun
                };
                return Err(Failure {
                    exit,
                    message,
                    hint,
                });
            }
            Some(Err(error)) => {
                return Err(trouble(format!(
                    "said something that cannot be understood: {error}"
                )));
            }
            None => {
                let how = supervisor
                    .wait()
                    .map_or_else(|error| error.to_string(), |status| status.to_string());
                return Err(trouble(format!("ended before the plane was ready ({how})")));
            }
        }
    }
}

fn spawn() -> std::io::Result<(Child, ChildStdout)> {
    let mut args: Vec<OsString> = std::env::args_os().skip(1).collect();
    args.push("--supervise".into());
    let mut child = Command::new("/proc/self/exe")
        .arg0("aibom-qual")
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        // Only until the plane is ready; then the supervisor writes to its own log.
        .stderr(Stdio::inherit())
        // Ctrl-C at the terminal is for `plane up`, which then closes the pipe.
        .process_group(0)
        .spawn()?;
    let stdout = child
        .stdout
        .take()
        .ok_or_else(|| std::io::Error::other("it has no standard output"))?;
    Ok((child, stdout))
}

/// Runs the supervisor: starts the plane, reports, and holds it until asked to stop.
pub(crate) async fn run(options: PlaneOptions) -> Result<Exit, Failure> {
    let mut signals = Signals::install()?;
    let relay = Arc::new(Relay::default());
    let started = tokio::select! {
        started = Plane::start(&options, Arc::clone(&relay) as _) => started.map_err(Failure::from),
        () = signals.received() => Err(PlaneError::Interrupted.into()),
        () = relay.deserted() => Err(PlaneError::Interrupted.into()),
    };
    let plane = match started {
        Ok(plane) => plane,
        Err(failure) => {
            let exit = failure.exit;
            let Failure { message, hint, .. } = failure;
            relay.say(&Word::Failed {
                exit: exit as u8,
                message,
                hint,
            });
            return Ok(exit);
        }
    };
    if let Err(error) = detach(&plane) {
        let message = format!("cannot detach the supervisor: {error}");
        relay.say(&Word::Failed {
            exit: Exit::CouldNotRun as u8,
            message,
            hint: None,
        });
        plane.stop().await?;
        return Ok(Exit::CouldNotRun);
    }
    if !relay.say(&Word::Ready(Box::new(plane.state()))) {
        plane.stop().await?;
        return Ok(Exit::Interrupted);
    }
    relay.close();
    let failure = tokio::select! {
        () = signals.received() => None,
        failure = plane.failed() => Some(failure),
    };
    signals.end_on_next();
    plane.stop().await?;
    match failure {
        Some(failure) => Err(PlaneError::Component(failure).into()),
        None => Ok(Exit::Pass),
    }
}

/// Leaves the terminal: a session of its own, the plane's folder as working folder, and a log for
/// what only a panic would say.
fn detach(plane: &Plane) -> std::io::Result<()> {
    // Fails only for a group leader, which `process_group(0)` made of this process; leaving the
    // terminal's session is then not possible, but neither is being reached by its signals.
    let _ = rustix::process::setsid();
    std::env::set_current_dir(plane.layout().root())?;
    let log = OpenOptions::new()
        .create(true)
        .append(true)
        .mode(0o600)
        .open(plane.layout().logs().join("supervisor.log"))?;
    rustix::stdio::dup2_stderr(&log)?;
    Ok(())
}

/// Tells events to `plane up` and notices when it no longer listens.
#[derive(Debug, Default)]
struct Relay {
    closed: AtomicBool,
    gone: Notify,
}

impl Relay {
    /// Tells one word; `false` when nobody listens.
    fn say(&self, word: &Word) -> bool {
        if self.closed.load(Ordering::SeqCst) {
            return false;
        }
        let said = serde_json::to_string(word)
            .map_err(std::io::Error::other)
            .and_then(|line| {
                let mut stdout = std::io::stdout().lock();
                writeln!(stdout, "{line}").and_then(|()| stdout.flush())
            });
        if said.is_err() {
            self.closed.store(true, Ordering::SeqCst);
            self.gone.notify_one();
        }
        said.is_ok()
    }

    /// Resolves when `plane up` has gone away.
    async fn deserted(&self) {
        self.gone.notified().await;
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
