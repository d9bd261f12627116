//! The planes of this user: one folder each, made and cleared under one short lock.
//!
//! A folder is made together with its `state.json` while the lock is held. A folder without one,
//! seen by a holder of the lock, is therefore what an interrupted command left.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, Signal};

use super::event::{Event, Sink};
use super::files::{self, FileError};
use super::identity::ProcessIdentity;
use super::layout::Layout;
use super::state::{Lifetime, Phase, PlaneState, SCHEMA};

/// The lock is held for milliseconds only; a longer wait means a stuck process.
const LOCK_DEADLINE: Duration = Duration::from_secs(20);
/// A killed process is gone within milliseconds, unless the kernel holds it in a system call.
const DEATH_DEADLINE: Duration = Duration::from_secs(5);
/// How long the logs of a failed throw-away plane are kept for a look.
const KEEP_FAILED: chrono::TimeDelta = chrono::TimeDelta::hours(24);

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

fn io_error(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> RegistryError {
    let path = path.to_owned();
    move |source| RegistryError::Io { what, path, source }
}

/// A plane's name and its state, if that can be read.
pub type Entry = (String, Result<PlaneState, RegistryError>);

/// All planes below one folder.
#[derive(Clone, Debug)]
pub struct Registry {
    root: PathBuf,
}

/// Held while folders are made or cleared.
#[derive(Debug)]
struct Lock {
    _file: File,
}

impl Registry {
    /// The planes below `root`, which need not exist.
    #[must_use]
    pub fn new(root: PathBuf) -> Self {
        Self { root }
    }

    /// The folder of a plane, whether it exists or not.
    ///
    /// # Errors
    ///
    /// [`RegistryError::BadName`].
    pub fn layout(&self, name: &str) -> Result<Layout, RegistryError> {
        let fits = (1..=40).contains(&name.len())
            && name.starts_with(|c: char| c.is_ascii_lowercase())
            && name
                .bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
        if fits {
            Ok(Layout::new(self.root.join(name)))
        } else {
            Err(RegistryError::BadName(name.to_owned()))
        }
    }

    fn lock(&self) -> Result<Lock, RegistryError> {
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.root)
            .map_err(io_error("make the folder", &self.root))?;
        let path = self.root.join(".lock");
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(0o600)
            .open(&path)
            .map_err(io_error("open", &path))?;
        let begun = Instant::now();
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(Lock { _file: file }),
                Err(fs::TryLockError::WouldBlock) if begun.elapsed() < LOCK_DEADLINE => {
                    std::thread::sleep(Duration::from_millis(10));
                }
                Err(fs::TryLockError::WouldBlock) => {
                    return Err(RegistryError::Locked {
                        path,
                        waited: begun.elapsed(),
                    });
                }
                Err(fs::TryLockError::Error(source)) => {
                    return Err(RegistryError::Io {
                        what: "lock",
                        path,
                        source,
                    });
                }
            }
        }
    }

    /// Makes the folder of a new plane, or takes over that of a stopped persistent one, with
    /// `state` in it. Returns the state that was there before.
    ///
    /// # Errors
    ///
    /// [`RegistryError::InUse`] when a living process supervises a plane of that name; others when
    /// the folder cannot be written.
    pub fn claim(&self, state: &PlaneState) -> Result<(Layout, Option<PlaneState>), RegistryError> {
        let layout = self.layout(&state.name)?;
        let _lock = self.lock()?;
        let before = match self.read(&layout) {
            Ok(before) => Some(before),
            Err(RegistryError::NotFound(_)) => None,
            Err(error) => return Err(error),
        };
        if let Some(before) = &before
            && before.is_live()
        {
            return Err(RegistryError::InUse {
                name: state.name.clone(),
                phase: before.phase.word(),
                pid: before.owner.pid,
            });
        }
        let private = |path: &Path| {
            fs::DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(path)
                .map_err(io_error("make the folder", path))
        };
        private(layout.root())?;
        self.write(&layout, state)?;
        private(&layout.logs())?;
        Ok((layout, before))
    }

    /// Writes the state of a plane that this process owns.
    ///
    /// # Errors
    ///
    /// When the file cannot be written.
    pub fn write(&self, layout: &Layout, state: &PlaneState) -> Result<(), RegistryError> {
        let path = layout.state();
        let mut bytes =
            serde_json::to_vec_pretty(state).map_err(|error| RegistryError::BadState {
                path: path.clone(),
                problem: error.to_string(),
            })?;
        bytes.push(b'\n');
        Ok(files::write_atomic(&path, &bytes, 0o600)?)
    }

    /// The state of one plane.
    ///
    /// # Errors
    ///
    /// [`RegistryError::NotFound`], or [`RegistryError::BadState`] with line and column.
    pub fn load(&self, name: &str) -> Result<(Layout, PlaneState), RegistryError> {
        let layout = self.layout(name)?;
        let state = self.read(&layout)?;
        Ok((layout, state))
    }

    fn read(&self, layout: &Layout) -> Result<PlaneState, RegistryError> {
        let path = layout.state();
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let name = layout.root().file_name().unwrap_or_default();
                return Err(RegistryError::NotFound(name.to_string_lossy().into_owned()));
            }
            Err(source) => {
                return Err(RegistryError::Io {
                    what: "read",
                    path,
                    source,
                });
            }
        };
        let bad = |problem: String| RegistryError::BadState {
            path: path.clone(),
            problem,
        };
        let value: serde_json::Value =
            serde_json::from_slice(&bytes).map_err(|e| bad(e.to_string()))?;
        match value.get("schema").and_then(serde_json::Value::as_u64) {
            Some(schema) if schema == u64::from(SCHEMA) => {}
            Some(other) => {
                return Err(bad(format!(
                    "it has format {other}; this version reads {SCHEMA}"
                )));
            }
            None => return Err(bad("it has no `schema`".to_owned())),
        }
        serde_json::from_value(value).map_err(|e| bad(e.to_string()))
    }

    /// Every plane, by name. A folder whose state cannot be read is an entry of its own.
    ///
    /// # Errors
    ///
    /// When the folder of planes cannot be listed.
    pub fn list(&self) -> Result<Vec<Entry>, RegistryError> {
        let entries = match fs::read_dir(&self.root) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(source) => {
                return Err(RegistryError::Io {
                    what: "list",
                    path: self.root.clone(),
                    source,
                });
            }
        };
        let mut planes = Vec::new();
        for entry in entries {
            let entry = entry.map_err(io_error("list", &self.root))?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.starts_with('.') || !entry.path().is_dir() {
                continue;
            }
            let state = self.read(&Layout::new(entry.path()));
            planes.push((name, state));
        }
        planes.sort_by(|a, b| a.0.cmp(&b.0));
        Ok(planes)
    }

    /// Removes a plane's folder. The caller has made sure that nothing of it runs.
    ///
    /// # Errors
    ///
    /// When something in it cannot be removed.
    pub fn remove(&self, layout: &Layout) -> Result<(), RegistryError> {
        let _lock = self.lock()?;
        remove_tree(layout.root())
    }

    /// Clears what interrupted owners left: ends their processes, removes throw-away folders, marks
    /// persistent planes as failed. Trusts only process number *and* start time.
    ///
    /// # Errors
    ///
    /// When a process does not end or a folder cannot be removed. A folder with an unreadable state
    /// is left alone: nothing tells whose it is.
    pub fn reap(&self, sink: &dyn Sink) -> Result<(), RegistryError> {
        if !self.root.exists() {
            return Ok(());
        }
        let _lock = self.lock()?;
        for (name, state) in self.list()? {
            let layout = Layout::new(self.root.join(&name));
            match state {
                Ok(state) => self.reap_one(&layout, state, sink)?,
                Err(RegistryError::NotFound(_)) => remove_tree(layout.root())?,
                Err(_) => {}
            }
        }
        Ok(())
    }

    fn reap_one(
        &self,
        layout: &Layout,
        mut state: PlaneState,
        sink: &dyn Sink,
    ) -> Result<(), RegistryError> {
        let running = !matches!(state.phase, Phase::Stopped | Phase::Failed { .. });
        if state.is_live() {
            return Ok(());
        }
        let mut ended = 0;
        for component in state.components.values() {
            ended += usize::from(end(&state.name, &component.process)?);
        }
        let expired = match &state.phase {
            Phase::Failed { at, .. } => chrono::Utc::now() - *at > KEEP_FAILED,
            _ => true,
        };
        match state.lifetime {
            Lifetime::ThrowAway if expired => remove_tree(layout.root())?,
            Lifetime::ThrowAway => {}
            Lifetime::Persistent if running || ended > 0 => {
                state.phase = state.effective_phase();
                state.components.clear();
                self.write(layout, &state)?;
            }
            Lifetime::Persistent => {}
        }
        if running || ended > 0 {
            sink.event(Event::Reaped {
                plane: state.name,
                processes: ended,
            });
        }
        Ok(())
    }
}

/// Kills exactly this process, if it still runs, and waits for its end. Tells whether it ran.
pub(crate) fn end(plane: &str, process: &ProcessIdentity) -> Result<bool, RegistryError> {
    let undead = |problem: String| RegistryError::Undead {
        name: plane.to_owned(),
        pid: process.pid,
        problem,
    };
    if !signal(process, Signal::KILL).map_err(|error| undead(error.to_string()))? {
        return Ok(false);
    }
    let begun = Instant::now();
    while process.is_alive() {
        if begun.elapsed() > DEATH_DEADLINE {
            return Err(undead(format!(
                "still there {} s after SIGKILL",
                DEATH_DEADLINE.as_secs()
            )));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(true)
}

/// Sends a signal to exactly this process; `false` when it no longer runs.
///
/// The pidfd is opened before the identity is checked, so that the signal cannot reach a process
/// that took over the number in between.
pub(crate) fn signal(process: &ProcessIdentity, signal: Signal) -> io::Result<bool> {
    let Some(pid) = i32::try_from(process.pid).ok().and_then(Pid::from_raw) else {
        return Ok(false);
    };
    let pidfd = match rustix::process::pidfd_open(pid, PidfdFlags::empty()) {
        Ok(pidfd) => pidfd,
        Err(rustix::io::Errno::SRCH) => return Ok(false),
        Err(error) => return Err(error.into()),
    };
    if !process.is_alive() {
        return Ok(false);
    }
    match rustix::process::pidfd_send_signal(&pidfd, signal) {
        Ok(()) => Ok(true),
        Err(rustix::io::Errno::SRCH) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

fn remove_tree(path: &Path) -> Result<(), RegistryError> {
    match fs::remove_dir_all(path) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(source) => Err(RegistryError::Io {
            what: "remove",
            path: path.to_owned(),
            source,
        }),
    }
}
