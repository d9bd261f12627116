//! The planes of this user: one folder each, made and cleared under one short lock.
//!
//! A folder is made under another name and gets its own with its `state.json` in it, and loses its
//! name before it is removed: whatever has a plane's name is whole.

mod error;
mod reap;

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::layout::Layout;
use super::state::{PlaneState, SCHEMA};
use crate::host::files;

pub use error::RegistryError;
use error::io_error;
pub(crate) use reap::{end, signal};

/// The lock is held for milliseconds only; a longer wait means a stuck process.
const LOCK_DEADLINE: Duration = Duration::from_secs(20);
/// Begins the name of a folder that is being made.
const NEW: &str = ".new-";
/// Begins the name of a folder that is being removed.
const GONE: &str = ".gone-";

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

/// A plane's folder in the hands of this process, until dropped.
#[derive(Debug)]
pub struct Claim {
    /// The folder.
    pub layout: Layout,
    /// What stands in it now.
    pub state: PlaneState,
    /// Locked for as long as the plane lives.
    held: File,
}

impl Claim {
    /// Whether the folder at this path is still the one that was claimed. Somebody may have removed
    /// it, and made another one of that name.
    #[must_use]
    pub fn is_intact(&self) -> bool {
        let identity = |meta: &fs::Metadata| (meta.dev(), meta.ino());
        let now = fs::metadata(self.layout.owner_lock()).map(|meta| identity(&meta));
        let held = self.held.metadata().map(|meta| identity(&meta));
        matches!((now, held), (Ok(now), Ok(held)) if now == held)
    }
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
        private_dir(&self.root)?;
        let path = self.root.join(".lock");
        let file = open_lock(&path)?;
        let begun = Instant::now();
        while !try_lock(&file, &path)? {
            if begun.elapsed() > LOCK_DEADLINE {
                let waited = begun.elapsed();
                return Err(RegistryError::Locked { path, waited });
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(Lock { _file: file })
    }

    /// Makes the folder of a new plane, or takes over that of a stopped persistent one, with `state`
    /// in it; keeps the age and the port of the latter, and ends what still runs of an abandoned one.
    ///
    /// # Errors
    ///
    /// [`RegistryError::InUse`] when a living process supervises a plane of that name,
    /// [`RegistryError::Held`] when one does that cannot be seen from here; others when the folder
    /// cannot be written.
    pub fn claim(&self, mut state: PlaneState) -> Result<Claim, RegistryError> {
        let layout = self.layout(&state.name)?;
        let _lock = self.lock()?;
        let before = match self.read(&layout) {
            Ok(before) => Some(before),
            Err(RegistryError::NotFound(_)) => None,
            Err(error) => return Err(error),
        };
        let Some(before) = before else {
            let new = Layout::new(self.root.join(format!("{NEW}{}", state.name)));
            remove_tree(new.root())?;
            private_dir(&new.logs())?;
            self.write(&new, &state)?;
            let held = hold(&new)?.ok_or_else(|| RegistryError::Held(state.name.clone()))?;
            fs::rename(new.root(), layout.root())
                .map_err(io_error("make the folder", layout.root()))?;
            return Ok(Claim {
                layout,
                state,
                held,
            });
        };
        if before.is_live() {
            return Err(RegistryError::InUse {
                name: state.name,
                phase: before.phase.word(),
                pid: before.owner.pid,
            });
        }
        // Before anything is written: whoever holds it still writes there too.
        let held = hold(&layout)?.ok_or_else(|| RegistryError::Held(state.name.clone()))?;
        reap::end_all(&before)?;
        state.created = before.created;
        state.port = before.port;
        self.write(&layout, &state)?;
        Ok(Claim {
            layout,
            state,
            held,
        })
    }

    /// Whether somebody holds the plane who cannot be seen from here.
    ///
    /// # Errors
    ///
    /// When its lock cannot be looked at.
    pub fn is_held(&self, name: &str) -> Result<bool, RegistryError> {
        is_held(&self.layout(name)?)
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
        Ok(files::write_atomic(&path, &bytes, files::SECRET)?)
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
            Err(error) if error.kind() == io::ErrorKind::NotFound && layout.root().exists() => {
                let problem =
                    "it is missing, so that nothing tells what the folder holds".to_owned();
                return Err(RegistryError::BadState { path, problem });
            }
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
        let mut planes = Vec::new();
        for name in self.entries()? {
            let name = name.to_string_lossy().into_owned();
            let root = self.root.join(&name);
            if !name.starts_with('.') && root.is_dir() {
                planes.push((name, self.read(&Layout::new(root))));
            }
        }
        planes.sort_by(|a, b| a.0.cmp(&b.0));
        Ok(planes)
    }

    fn entries(&self) -> Result<Vec<OsString>, RegistryError> {
        let entries = match fs::read_dir(&self.root) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(source) => return Err(io_error("list", &self.root)(source)),
        };
        entries
            .map(|entry| entry.map(|entry| entry.file_name()))
            .collect::<Result<_, _>>()
            .map_err(io_error("list", &self.root))
    }

    /// Removes the folder of a plane that this process owns.
    ///
    /// # Errors
    ///
    /// When something in it cannot be removed.
    pub(crate) fn remove_owned(&self, layout: &Layout) -> Result<(), RegistryError> {
        let _lock = self.lock()?;
        remove_tree(layout.root())
    }

    /// Removes the folder of a plane that nobody owns any more; nothing to do if it is gone.
    ///
    /// # Errors
    ///
    /// [`RegistryError::InUse`] when somebody has claimed it meanwhile, or when something in it
    /// cannot be removed.
    pub fn remove(&self, name: &str) -> Result<(), RegistryError> {
        let layout = self.layout(name)?;
        let _lock = self.lock()?;
        match self.read(&layout) {
            Ok(state) if state.is_live() || is_held(&layout)? => Err(RegistryError::InUse {
                name: name.to_owned(),
                phase: state.phase.word(),
                pid: state.owner.pid,
            }),
            Ok(state) => {
                reap::end_all(&state)?;
                remove_tree(layout.root())
            }
            Err(RegistryError::NotFound(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

fn private_dir(path: &Path) -> Result<(), RegistryError> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(io_error("make the folder", path))
}

fn open_lock(path: &Path) -> Result<File, RegistryError> {
    OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .mode(files::SECRET)
        .open(path)
        .map_err(io_error("open", path))
}

/// Takes the lock unless somebody has it.
fn try_lock(file: &File, path: &Path) -> Result<bool, RegistryError> {
    match file.try_lock() {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(source)) => Err(io_error("lock", path)(source)),
    }
}

/// Takes the plane unless somebody has it.
fn hold(layout: &Layout) -> Result<Option<File>, RegistryError> {
    let path = layout.owner_lock();
    let file = open_lock(&path)?;
    Ok(try_lock(&file, &path)?.then_some(file))
}

/// Whether somebody holds the plane, on this machine or another one.
fn is_held(layout: &Layout) -> Result<bool, RegistryError> {
    let path = layout.owner_lock();
    match File::open(&path) {
        Ok(file) => Ok(!try_lock(&file, &path)?),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(source) => Err(io_error("open", &path)(source)),
    }
}

/// Leaves of a failed throw-away plane what explains the failure: its state and its logs. What
/// cannot be removed now is removed with the folder.
pub(crate) fn prune_failed(layout: &Layout) {
    let _ = fs::remove_dir_all(layout.pki());
    let _ = fs::remove_dir_all(layout.etcd());
    let _ = fs::remove_file(layout.kubeconfig());
}

/// Takes the folder's name away first, so that nobody sees half of a plane.
fn remove_tree(path: &Path) -> Result<(), RegistryError> {
    let mut name = OsString::from(GONE);
    name.push(path.file_name().unwrap_or_default());
    let gone = path.with_file_name(name);
    let nothing = |result: io::Result<()>| match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    };
    nothing(fs::remove_dir_all(&gone)).map_err(io_error("remove", &gone))?;
    nothing(fs::rename(path, &gone)).map_err(io_error("remove", path))?;
    nothing(fs::remove_dir_all(&gone)).map_err(io_error("remove", &gone))
}
