//! Where programs may come from, and where one did come from.

use std::env;
use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use reqwest::Url;
use serde::{Deserialize, Serialize};

/// Which sources may be used beside the cache, and how long each may take.
#[derive(Clone, Debug)]
pub struct Sources {
    /// Whether `KUBEBUILDER_ASSETS` and `PATH` are searched.
    pub search_environment: bool,
    /// Whether official releases are downloaded.
    pub download: bool,
    /// Whether programs are built from pinned Go modules.
    pub build: bool,
    /// Asked instead of the official hosts; their names become the first path segment.
    pub mirror: Option<Url>,
    /// The variables that matter here.
    pub environment: Environment,
    /// The deadlines.
    pub timeouts: Timeouts,
}

impl Sources {
    /// Every source, no mirror, the usual deadlines.
    #[must_use]
    pub fn new(environment: Environment) -> Self {
        Self {
            search_environment: true,
            download: true,
            build: true,
            mirror: None,
            environment,
            timeouts: Timeouts::default(),
        }
    }
}

/// The environment variables that decide about programs, read once at the edge.
#[derive(Clone, Debug, Default)]
pub struct Environment {
    /// `KUBEBUILDER_ASSETS`: a folder of programs.
    pub kubebuilder_assets: Option<PathBuf>,
    /// `PATH`: where programs and `go` are searched.
    pub path: Option<OsString>,
    /// `GOCACHE`: honoured when set.
    pub gocache: Option<PathBuf>,
    /// `GOMODCACHE`: honoured when set.
    pub gomodcache: Option<PathBuf>,
    /// `GOFLAGS`: kept.
    pub goflags: Option<OsString>,
    /// The file that `go env -w` writes: where modules come from is taken from it.
    pub goenv: Option<PathBuf>,
}

impl Environment {
    /// Reads the variables of this process. An empty one counts as unset.
    #[must_use]
    pub fn from_process() -> Self {
        let read = |name: &str| env::var_os(name).filter(|value| !value.is_empty());
        Self {
            kubebuilder_assets: read("KUBEBUILDER_ASSETS").map(PathBuf::from),
            path: read("PATH"),
            gocache: read("GOCACHE").map(PathBuf::from),
            gomodcache: read("GOMODCACHE").map(PathBuf::from),
            goflags: read("GOFLAGS"),
            goenv: match read("GOENV") {
                Some(off) if off == "off" => None,
                Some(file) => Some(file.into()),
                // Where Go looks by itself: the user's folder of configuration.
                None => read("XDG_CONFIG_HOME")
                    .map(PathBuf::from)
                    .or_else(|| read("HOME").map(|home| PathBuf::from(home).join(".config")))
                    .map(|dir| dir.join("go/env")),
            },
        }
    }

    /// The absolute folders of `PATH`. A relative one would make the result depend on where the
    /// command was started.
    pub(super) fn path_dirs(&self) -> Vec<PathBuf> {
        self.path
            .iter()
            .flat_map(env::split_paths)
            .filter(|dir| dir.is_absolute())
            .collect()
    }
}

/// How long each step may take.
#[derive(Clone, Copy, Debug)]
pub struct Timeouts {
    /// A connection to a host, name resolution included.
    pub connect: Duration,
    /// The first answer of a host, connecting included. Once a host was unreachable and none has
    /// answered, the others get a third of it.
    pub answer: Duration,
    /// Without a byte from a server that has answered before.
    pub stall: Duration,
    /// One whole download.
    pub download: Duration,
    /// A program that is asked for its version.
    pub version: Duration,
    /// One build.
    pub build: Duration,
    /// For another process to release the cache.
    pub lock: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(3),
            answer: Duration::from_secs(3),
            stall: Duration::from_secs(10),
            download: Duration::from_secs(30 * 60),
            version: Duration::from_secs(5),
            build: Duration::from_secs(40 * 60),
            lock: Duration::from_secs(45 * 60),
        }
    }
}

/// A place that was or may be asked for a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Source {
    /// The folder that the user named.
    Explicit,
    /// The folder in `KUBEBUILDER_ASSETS`.
    KubebuilderAssets,
    /// The folders in `PATH`.
    SearchPath,
    /// Our own cache.
    Cache,
    /// A release on the network.
    Download,
    /// Pinned Go modules.
    Build,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Explicit => "--binaries",
            Self::KubebuilderAssets => "KUBEBUILDER_ASSETS",
            Self::SearchPath => "PATH",
            Self::Cache => "cache",
            Self::Download => "download",
            Self::Build => "build",
        })
    }
}

/// Where a program came from when it was first had.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Origin {
    /// The folder that the user named.
    Explicit,
    /// The folder in `KUBEBUILDER_ASSETS`.
    KubebuilderAssets,
    /// A folder in `PATH`.
    SearchPath,
    /// An official release or its mirror.
    Downloaded {
        /// The file, without user name or password.
        url: String,
    },
    /// Pinned Go modules.
    Built {
        /// The toolchain, as in `go1.26.8`.
        go: String,
    },
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Explicit => f.write_str("named with --binaries"),
            Self::KubebuilderAssets => f.write_str("found in KUBEBUILDER_ASSETS"),
            Self::SearchPath => f.write_str("found in PATH"),
            Self::Downloaded { url } => write!(f, "downloaded from {url}"),
            Self::Built { go } => write!(f, "built with {go}"),
        }
    }
}
