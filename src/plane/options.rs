//! What a caller decides about a plane.

use std::collections::BTreeMap;
use std::hash::{BuildHasher as _, RandomState};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use semver::Version;

use super::binaries::{self, Environment, Sources};
use super::dirs::Dirs;
use super::pki::PkiOptions;
use super::state::{Lifetime, NodeSettings};
use super::tool::Tool;
use crate::host::launch::Launcher;
use crate::host::ports::PortPicker;

/// How long a start may take in all once the binaries are there. Four seconds are usual on two
/// cores; a loaded CI machine needs many times that.
pub const START_TIMEOUT: Duration = Duration::from_secs(120);

/// Options of [`Plane::start`](super::Plane::start).
#[derive(Clone, Debug)]
pub struct PlaneOptions {
    /// Cache and state.
    pub dirs: Dirs,
    /// The executable through which children start.
    pub launcher: Launcher,
    /// The plane's name, which is also its folder's.
    pub name: String,
    /// Whether it, and its data, outlive the command that starts it.
    pub lifetime: Lifetime,
    /// The Kubernetes version.
    pub kubernetes: Version,
    /// A folder that holds all the programs, instead of a search.
    pub binaries: Option<PathBuf>,
    /// Where programs may come from.
    pub sources: Sources,
    /// The API server's port; a free one when `None`.
    pub port: Option<u16>,
    /// Arguments appended to a component's own, so that they win.
    pub component_args: BTreeMap<Tool, Vec<String>>,
    /// The node that the caller means to start beside the plane, for the record.
    pub node: Option<NodeSettings>,
    /// For the start in all, binaries excluded.
    pub timeout: Duration,
    /// Lifetimes of certificates.
    pub pki: PkiOptions,
    /// Chooses free ports.
    pub ports: Arc<PortPicker>,
}

impl PlaneOptions {
    /// A throw-away plane of the default version under a fresh name.
    #[must_use]
    pub fn throw_away(dirs: Dirs) -> Self {
        Self {
            dirs,
            launcher: Launcher::current(),
            name: fresh_name(),
            lifetime: Lifetime::ThrowAway,
            kubernetes: binaries::DEFAULT_KUBERNETES,
            binaries: None,
            sources: Sources::new(Environment::from_process()),
            port: None,
            component_args: BTreeMap::new(),
            node: None,
            timeout: START_TIMEOUT,
            pki: PkiOptions::default(),
            ports: Arc::new(PortPicker::new()),
        }
    }

    /// The same, but kept under `name`.
    #[must_use]
    pub fn persistent(dirs: Dirs, name: String) -> Self {
        Self {
            name,
            lifetime: Lifetime::Persistent,
            ..Self::throw_away(dirs)
        }
    }

    pub(crate) fn extra_args(&self, tool: Tool) -> &[String] {
        self.component_args.get(&tool).map_or(&[], Vec::as_slice)
    }
}

/// A name that no other plane has. The standard library seeds each `RandomState` from the operating
/// system, which is random enough for a folder's name.
fn fresh_name() -> String {
    format!(
        "tmp-{:08x}",
        RandomState::new().hash_one(std::process::id()) & 0xffff_ffff
    )
}
