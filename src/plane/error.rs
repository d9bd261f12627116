//! What can go wrong with a plane. Every kind says what failed, with what, and what to do.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use semver::Version;

use super::autopsy::{self, ComponentFailure, FailureKind};
use super::binaries::BinaryError;
use super::dirs::NoHome;
use super::health::Late;
use super::pki::PkiError;
use super::registry::RegistryError;
use super::tool::Tool;
use crate::host::files::FileError;
use crate::host::kubeconfig::KubeconfigError;
use crate::host::ports::PortError;

/// A plane could not be started, used or stopped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlaneError {
    /// There is no place for the cache or the state.
    #[error(transparent)]
    NoHome(#[from] NoHome),
    /// A program could not be found, downloaded or built.
    #[error(transparent)]
    Binary(#[from] BinaryError),
    /// The folders of planes.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// Certificates or keys.
    #[error(transparent)]
    Pki(#[from] PkiError),
    /// No free port.
    #[error(transparent)]
    Port(#[from] PortError),
    /// A kubeconfig could not be made.
    #[error(transparent)]
    Kubeconfig(#[from] KubeconfigError),
    /// A file could not be written.
    #[error(transparent)]
    File(#[from] FileError),
    /// The limit on open files is too low for a control plane.
    #[error("this process may open only {hard} files; a control plane needs {wanted}")]
    FewFiles {
        /// The hard limit.
        hard: u64,
        /// What is needed.
        wanted: u64,
    },
    /// A component's process could not be made at all.
    #[error("cannot start {tool}")]
    Spawn {
        /// The component.
        tool: Tool,
        /// The cause.
        source: io::Error,
    },
    /// A component ended though nobody asked it to.
    #[error("{0}")]
    Component(Arc<ComponentFailure>),
    /// A port that the user chose is taken.
    #[error("port {port} on 127.0.0.1, chosen for {tool}, is already in use")]
    ChosenPortTaken {
        /// The component.
        tool: Tool,
        /// The port.
        port: u16,
    },
    /// Every port tried was taken by somebody else in the same moment.
    #[error("{tool} found its port taken {attempts} times, last {last}")]
    PortsTaken {
        /// The component.
        tool: Tool,
        /// How many ports were tried.
        attempts: u32,
        /// The last of them.
        last: u16,
    },
    /// A component runs but is not ready.
    #[error(
        "{what} was not ready after {:.1} s; last seen: {last}{}",
        waited.as_secs_f64(),
        cause.as_ref().map(|(_, line)| format!("\n  | {line}")).unwrap_or_default()
    )]
    NotReady {
        /// What was waited for.
        what: String,
        /// How long.
        waited: Duration,
        /// The last state seen.
        last: String,
        /// A known cause that the component's log tells, and the line.
        cause: Option<(FailureKind, String)>,
        /// The log of the component at fault.
        log: PathBuf,
    },
    /// A plane with data of a newer minor version.
    #[error("plane `{name}` holds data of Kubernetes {had}, which {wanted} may not understand")]
    Downgrade {
        /// The plane.
        name: String,
        /// The version that wrote the data.
        had: Version,
        /// The version that was asked for.
        wanted: Version,
    },
    /// `/proc` does not tell about processes.
    #[error(
        "/proc does not tell about this process, so that no process could be told from another"
    )]
    NoProc,
    /// Something was asked of a plane that has not come up.
    #[error("the plane has no certificates: it has not come up")]
    NoPki,
    /// A part of this program ended in an unforeseen way.
    #[error("an internal task failed: {0}")]
    Internal(String),
    /// A client for the plane could not be made.
    #[error("cannot make a client for the plane: {0}")]
    Client(String),
    /// A component could not be stopped.
    #[error("cannot stop {tool}")]
    Stop {
        /// The component.
        tool: Tool,
        /// The cause.
        source: io::Error,
    },
    /// The plane is there but does not run.
    #[error("plane `{name}` is {phase}{}", reason.as_deref().map(|r| format!(": {r}")).unwrap_or_default())]
    NotRunning {
        /// The plane.
        name: String,
        /// What it does instead.
        phase: &'static str,
        /// Why, if it failed.
        reason: Option<String>,
    },
    /// The supervisor of a persistent plane ended without a word.
    #[error("the supervisor of plane `{name}` {problem}")]
    Supervisor {
        /// The plane.
        name: String,
        /// What happened.
        problem: String,
    },
    /// A running plane did not stop in time.
    #[error("plane `{name}` was still {phase} after {} s", waited.as_secs())]
    StillThere {
        /// The plane.
        name: String,
        /// Its last phase.
        phase: &'static str,
        /// How long was waited.
        waited: Duration,
    },
    /// The caller was asked to stop.
    #[error("interrupted")]
    Interrupted,
}

impl PlaneError {
    /// What to do about it.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::NoHome(_) => Some("set HOME, or give --cache-dir and --state-dir".to_owned()),
            Self::Binary(error) => error.hint(),
            Self::Registry(error) => error.hint(),
            Self::Pki(error) => error.hint(),
            Self::Port(error) => error.hint(),
            Self::Kubeconfig(error) => error.hint(),
            Self::File(error) => error.hint(),
            Self::FewFiles { wanted, .. } => Some(format!(
                "raise the hard limit (`ulimit -Hn {wanted}` as root, or limits.conf)"
            )),
            Self::Spawn { source, .. } if source.kind() == io::ErrorKind::StorageFull => {
                Some("free some space on the disk that holds the plane's folder".to_owned())
            }
            Self::Spawn { .. } => {
                Some("`aibom-qual doctor` checks the programs, limits and disks".to_owned())
            }
            Self::Stop { .. } => {
                Some("a process that SIGKILL does not end waits for a disk or a network".to_owned())
            }
            Self::Component(failure) => Some(failure.hint()),
            Self::ChosenPortTaken { .. } => Some(
                "leave out --port to have a free one chosen, or end the program that listens there"
                    .to_owned(),
            ),
            Self::PortsTaken { .. } => Some(
                "many ports below 32768 are in use on this machine; `ss -ltn` shows by whom"
                    .to_owned(),
            ),
            Self::NotReady { log, cause, .. } => Some(match cause {
                Some((kind, _)) => kind.hint(log),
                None => format!(
                    "its log is {}; a slow machine may need a longer --timeout",
                    log.display()
                ),
            }),
            Self::Client(_) => {
                Some("`aibom-qual doctor` checks clock, proxies and limits".to_owned())
            }
            Self::Downgrade { name, had, .. } => Some(format!(
                "start it with --kubernetes {had}, or remove it with `aibom-qual plane down {name} --delete`"
            )),
            Self::NoProc => Some("mount /proc: mount -t proc proc /proc".to_owned()),
            Self::NoPki | Self::Internal(_) => {
                Some("this is a fault of aibom-qual; please report it".to_owned())
            }
            Self::NotRunning { name, .. } => Some(format!(
                "start it with `aibom-qual plane up --persistent {name}`"
            )),
            Self::Supervisor { .. } => Some(
                "once the plane was ready, its log is logs/supervisor.log in the plane's folder"
                    .to_owned(),
            ),
            Self::StillThere { name, .. } => {
                Some(format!("run `aibom-qual plane down {name} --force`"))
            }
            Self::Interrupted => None,
        }
    }

    pub(crate) fn internal(error: tokio::task::JoinError) -> Self {
        Self::Internal(error.to_string())
    }

    pub(crate) fn late(late: Late, log: PathBuf) -> Self {
        let cause = autopsy::known_cause(&log);
        Self::NotReady {
            what: late.what,
            waited: late.waited,
            last: late.last,
            cause,
            log,
        }
    }
}
