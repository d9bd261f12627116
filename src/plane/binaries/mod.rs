//! Finds, downloads or builds the programs of [`Tool`].
//!
//! For each program the first source that has it wins: the folder that the user named (then nothing
//! else is tried), `KUBEBUILDER_ASSETS`, `PATH`, our cache, an official release whose checksum fits,
//! and a build from Go modules pinned in this repository. Nothing is written outside the cache.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;

use semver::Version;
use tokio::task::JoinSet;

use super::dirs::Dirs;
use super::event::{Event, Sink};
use super::tool::{Family, Tool};
use crate::host::launch::Launcher;

mod archive;
mod build;
mod cache;
mod client;
mod download;
mod error;
mod go;
mod hosts;
mod locate;
mod lock;
mod obtain;
mod official;
mod pins;
mod platform;
mod probe;
mod progress;
mod reason;
mod search;
mod sha256;
mod source;

use cache::{Cache, Cached};
use obtain::Missing;
use platform::Platform;
use probe::Probe;

pub use error::BinaryError;
pub use locate::{Availability, Located, Obtainable, locate};
pub use pins::{
    DEFAULT_KUBERNETES, ETCD, HELM3, HELM4, OLDEST_KUBERNETES, pinned_kubernetes, wanted,
};
pub use reason::{Attempt, GoProblem, Problem, Reason};
pub use sha256::{NotADigest, Sha256};
pub use source::{Environment, Origin, Source, Sources, Timeouts};

/// What is needed, and where it may come from.
#[derive(Clone, Debug)]
pub struct Request {
    /// The programs.
    pub tools: Vec<Tool>,
    /// The Kubernetes version of the plane.
    pub kubernetes: Version,
    /// A folder that must hold all of the programs, in the wanted versions (`--binaries`).
    pub explicit: Option<PathBuf>,
    /// The sources for programs when no folder is named.
    pub sources: Sources,
}

/// A program in a known version.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Want {
    tool: Tool,
    version: Version,
}

impl Request {
    /// Refuses a Kubernetes of which no plane can be made, if this program is a part of it.
    fn require_supported(&self, tool: Tool) -> Result<(), BinaryError> {
        if tool.family() != Family::Kubernetes || pins::is_supported(&self.kubernetes) {
            return Ok(());
        }
        Err(BinaryError::KubernetesTooOld {
            version: self.kubernetes.clone(),
            oldest: OLDEST_KUBERNETES,
        })
    }

    /// Each requested program once, in the order of [`Tool::ALL`].
    fn wants(&self) -> Vec<Want> {
        Tool::ALL
            .into_iter()
            .filter(|tool| self.tools.contains(tool))
            .map(|tool| Want {
                tool,
                version: wanted(tool, &self.kubernetes),
            })
            .collect()
    }
}

/// A program that is ready to be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binary {
    /// Which program.
    pub tool: Tool,
    /// Where it is.
    pub path: PathBuf,
    /// Its version.
    pub version: Version,
    /// The digest of the file as it is now.
    pub sha256: Sha256,
    /// Where it first came from.
    pub origin: Origin,
    /// Whether it was in our cache already.
    pub from_cache: bool,
}

/// The programs that were asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Binaries(BTreeMap<Tool, Binary>);

impl Binaries {
    /// One of the programs; `None` when it was not asked for.
    #[must_use]
    pub fn get(&self, tool: Tool) -> Option<&Binary> {
        self.0.get(&tool)
    }

    /// All of them, in the order of [`Tool::ALL`].
    pub fn iter(&self) -> impl Iterator<Item = &Binary> {
        self.0.values()
    }

    fn add(&mut self, binary: Binary) {
        self.0.insert(binary.tool, binary);
    }
}

/// Makes sure that the requested programs are there, in the wanted versions and undamaged.
///
/// When the future is dropped, downloads and builds stop, and go on from there the next time.
///
/// # Errors
///
/// [`BinaryError`] for the first program that cannot be had. A wrong checksum, a full disk and a
/// failed build end the search; an unreachable or unreliable server only moves it to the next source.
pub async fn ensure(
    dirs: &Dirs,
    launcher: &Launcher,
    request: &Request,
    sink: &dyn Sink,
) -> Result<Binaries, BinaryError> {
    for tool in &request.tools {
        request.require_supported(*tool)?;
    }
    let sources = &request.sources;
    let probe = Probe {
        launcher,
        platform: Platform::current()?,
        deadline: sources.timeouts.version,
    };
    let wants = request.wants();
    let mut binaries = Binaries::default();
    if let Some(dir) = &request.explicit {
        let tools = search::lacking(dir, &wants);
        if !tools.is_empty() {
            let dir = dir.clone();
            return Err(BinaryError::MissingInDir { dir, tools });
        }
        for want in &wants {
            let binary = search::explicit(&probe, want, dir).await?;
            found(&binary, sink);
            binaries.add(binary);
        }
        return Ok(binaries);
    }

    let mut missing = Vec::new();
    for want in wants {
        let mut attempts = Vec::new();
        if sources.search_environment {
            let (binary, passed_over) =
                search::environment(&probe, &want, &sources.environment).await;
            for attempt in &passed_over {
                // That a folder lacks a program is its right; that one does not fit may surprise.
                if attempt.reason != Reason::NotFound {
                    skipped(want.tool, attempt, false, sink);
                }
            }
            if let Some(binary) = binary {
                found(&binary, sink);
                binaries.add(binary);
                continue;
            }
            attempts = passed_over;
        }
        missing.push(Missing { want, attempts });
    }

    let cache = Cache::new(dirs.cache());
    for binary in cached(&cache, probe.platform, &missing).await? {
        found(&binary, sink);
        missing.retain(|missing| missing.want.tool != binary.tool);
        binaries.add(binary);
    }
    if missing.is_empty() {
        build::clear_leavings(&cache, sink).await;
    } else {
        for binary in obtain::obtain(&cache, probe, sources, missing, sink).await? {
            binaries.add(binary);
        }
    }
    Ok(binaries)
}

/// The programs that are in the cache and undamaged, all checked at once and without the lock.
async fn cached(
    cache: &Cache,
    platform: Platform,
    missing: &[Missing],
) -> Result<Vec<Binary>, BinaryError> {
    let mut checks = JoinSet::new();
    for Missing { want, .. } in missing {
        let slot = cache.slot(want, platform);
        checks.spawn_blocking(move || slot.check());
    }
    let mut good = Vec::new();
    while let Some(checked) = checks.join_next().await {
        if let Cached::Good(binary) = checked.map_err(lost)? {
            good.push(binary);
        }
    }
    good.sort_by_key(|binary| binary.tool);
    Ok(good)
}

/// Why a source did not deliver: the next one is tried, or none.
#[derive(Debug)]
enum Fault {
    Skip(Reason),
    Stop(BinaryError),
}

impl From<Reason> for Fault {
    fn from(reason: Reason) -> Self {
        Self::Skip(reason)
    }
}

impl From<BinaryError> for Fault {
    fn from(error: BinaryError) -> Self {
        Self::Stop(error)
    }
}

fn found(binary: &Binary, sink: &dyn Sink) {
    sink.event(Event::BinaryFound {
        tool: binary.tool,
        version: binary.version.clone(),
        origin: binary.origin.clone(),
        from_cache: binary.from_cache,
    });
}

fn skipped(tool: Tool, attempt: &Attempt, repeated: bool, sink: &dyn Sink) {
    sink.event(Event::SourceSkipped {
        tool,
        origin: attempt.from,
        reason: attempt.reason.to_string(),
        repeated,
    });
}

/// Runs work that blocks (hashing, unpacking, waiting for the disk) beside the async threads.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, BinaryError> {
    tokio::task::spawn_blocking(work).await.map_err(lost)
}

/// Only a panic or the end of the runtime loses a task.
fn lost(error: tokio::task::JoinError) -> BinaryError {
    BinaryError::Io {
        path: PathBuf::from("the cache"),
        source: io::Error::other(error),
    }
}
