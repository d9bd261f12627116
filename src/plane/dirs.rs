//! The two folders that the plane writes to, and nothing outside of them.

use std::env;
use std::path::{Path, PathBuf};

/// The cache (binaries, kept between runs) and the state (one folder per plane).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dirs {
    cache: PathBuf,
    state: PathBuf,
}

/// No folder for the cache or the state could be derived from the environment.
#[derive(Debug, thiserror::Error)]
#[error(
    "cannot tell where to keep {what}: neither --{flag}, {xdg} nor HOME is set to an absolute path"
)]
pub struct NoHome {
    what: &'static str,
    flag: &'static str,
    xdg: &'static str,
}

impl Dirs {
    /// Uses exactly these folders.
    #[must_use]
    pub fn new(cache: PathBuf, state: PathBuf) -> Self {
        Self { cache, state }
    }

    /// Takes what the user gave, else the XDG base directories, else their defaults below `HOME`.
    ///
    /// # Errors
    ///
    /// [`NoHome`] when a folder was not given and neither XDG variable nor `HOME` is absolute.
    pub fn resolve(cache: Option<PathBuf>, state: Option<PathBuf>) -> Result<Self, NoHome> {
        let cache = match cache {
            Some(dir) => dir,
            None => base("XDG_CACHE_HOME", ".cache").ok_or(NoHome {
                what: "the binaries",
                flag: "cache-dir",
                xdg: "XDG_CACHE_HOME",
            })?,
        };
        let state = match state {
            Some(dir) => dir,
            None => base("XDG_STATE_HOME", ".local/state").ok_or(NoHome {
                what: "the planes",
                flag: "state-dir",
                xdg: "XDG_STATE_HOME",
            })?,
        };
        Ok(Self { cache, state })
    }

    /// The folder of binaries; safe to delete while no plane runs.
    #[must_use]
    pub fn cache(&self) -> &Path {
        &self.cache
    }

    /// The folder that holds one folder per plane.
    #[must_use]
    pub fn planes(&self) -> PathBuf {
        self.state.join("planes")
    }
}

/// A relative value in an XDG variable must be ignored (XDG Base Directory Specification).
fn base(xdg: &str, below_home: &str) -> Option<PathBuf> {
    let absolute = |name: &str| {
        env::var_os(name)
            .map(PathBuf::from)
            .filter(|p| p.is_absolute())
    };
    absolute(xdg)
        .or_else(|| absolute("HOME").map(|home| home.join(below_home)))
        .map(|dir| dir.join("aibom-qual"))
}
