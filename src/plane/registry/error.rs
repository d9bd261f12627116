//! What can be wrong with the folders of planes.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::host::files::{self, FileError};

/// A problem with the folders of planes.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RegistryError {
    /// The name cannot be a folder's and a cluster's.
    #[error("`{0}` cannot name a plane")]
    BadName(String),
    /// A plane of that name is running.
    #[error("a plane `{name}` is already {phase}, supervised by process {pid}")]
    InUse {
        /// The plane.
        name: String,
        /// What it does.
        phase: &'static str,
        /// Its supervisor.
        pid: u32,
    },
    /// Somebody holds the plane who cannot be seen from here.
    #[error(
        "plane `{0}` is held by a process that cannot be seen from here, or that is just ending"
    )]
    Held(String),
    /// The folder was removed, or replaced, under a running plane.
    #[error("the folder of plane `{0}` is no longer the one that it was started in")]
    Replaced(String),
    /// No plane has that name.
    #[error("there is no plane `{0}`")]
    NotFound(String),
    /// The state file cannot be understood.
    #[error("{}: {problem}", path.display())]
    BadState {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// The lock stayed taken.
    #[error("the lock {} stayed taken for {} s", path.display(), waited.as_secs())]
    Locked {
        /// The lock file.
        path: PathBuf,
        /// How long was waited.
        waited: Duration,
    },
    /// A process of a former plane could not be ended.
    #[error("process {pid} of the former plane `{name}` did not end: {problem}")]
    Undead {
        /// The plane.
        name: String,
        /// The process.
        pid: u32,
        /// What happened.
        problem: String,
    },
    /// A file could not be written.
    #[error(transparent)]
    File(#[from] FileError),
    /// A folder could not be read, made or removed.
    #[error("cannot {what} {}", path.display())]
    Io {
        /// The operation.
        what: &'static str,
        /// The folder or file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
}

impl RegistryError {
    /// What to do about it.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::BadName(_) => Some(
                "use 1 to 40 lower-case letters, digits and `-`, beginning with a letter"
                    .to_owned(),
            ),
            Self::InUse { name, .. } => Some(format!(
                "use it with `aibom-qual plane env {name}`, or end it with `aibom-qual plane down {name}`"
            )),
            Self::Held(_) => Some(
                "try again in a moment; if it persists, its supervisor runs in another container or on another \
                 machine that shares the folder: end it there"
                    .to_owned(),
            ),
            Self::Replaced(_) => {
                Some("its processes are ended; nothing in the new folder was touched".to_owned())
            }
            Self::NotFound(_) => Some("`aibom-qual plane status` lists the planes".to_owned()),
            Self::BadState { path, .. } => {
                let folder = path.parent().unwrap_or(path);
                Some(format!(
                    "if nothing of it runs any more, remove {}",
                    folder.display()
                ))
            }
            Self::Locked { .. } => {
                Some("see which process holds it: `fuser` or `lsof` on the file tell".to_owned())
            }
            Self::Undead { .. } => {
                Some("a process that SIGKILL does not end waits for a disk or a network".to_owned())
            }
            Self::File(error) => error.hint(),
            Self::Io { source, path, .. } => files::io_hint(source.kind(), path),
        }
    }
}

pub(super) fn io_error(
    what: &'static str,
    path: &Path,
) -> impl FnOnce(io::Error) -> RegistryError + use<> {
    let path = path.to_owned();
    move |source| RegistryError::Io { what, path, source }
}
