//! `state.json`: what is known of one plane, for `plane status`, `plane down` and the reaper.

use std::collections::BTreeMap;
use std::path::PathBuf;

use chrono::{DateTime, Utc};
use semver::Version;
use serde::{Deserialize, Serialize};

use super::tool::Tool;
use crate::host::identity::ProcessIdentity;

/// The format of the file. A reader refuses a newer one instead of guessing.
pub const SCHEMA: u32 = 1;

/// How long a plane is meant to live.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Lifetime {
    /// Dies with the process that started it; nothing of it is kept.
    ThrowAway,
    /// Outlives the command that started it, and its data outlives its processes.
    Persistent,
}

/// What a plane does at the moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "name")]
pub enum Phase {
    /// Components are being started.
    Starting,
    /// Every component is ready.
    Ready,
    /// Components are being stopped.
    Stopping,
    /// Nothing runs; the data is kept.
    Stopped,
    /// It ended by itself, or never became ready.
    Failed {
        /// Why, as it was told to the caller.
        reason: String,
        /// When.
        at: DateTime<Utc>,
    },
}

impl Phase {
    /// It failed just now.
    #[must_use]
    pub fn failed(reason: &str) -> Self {
        Self::Failed {
            reason: reason.to_owned(),
            at: Utc::now(),
        }
    }

    /// One word for tables.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Ready => "ready",
            Self::Stopping => "stopping",
            Self::Stopped => "stopped",
            Self::Failed { .. } => "failed",
        }
    }
}

/// One component's process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ComponentState {
    /// Number and start time of the process.
    pub process: ProcessIdentity,
    /// The port that clients use, on 127.0.0.1.
    pub port: u16,
    /// The program.
    pub binary: PathBuf,
    /// The program's version.
    pub version: Version,
    /// The program's SHA-256, in hexadecimal, as it was checked before the start.
    pub sha256: String,
    /// Its log.
    pub log: PathBuf,
    /// When it was started.
    pub started: DateTime<Utc>,
}

/// The node beside a plane, as it was asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeSettings {
    /// The Node object's name.
    pub name: String,
    /// What was asked to stand behind images, as `IMAGE=COMMAND`; a later one wins.
    pub runtimes: Vec<String>,
}

/// The node beside a plane.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeState {
    /// As it was asked for.
    pub settings: NodeSettings,
    /// Its kubelet port on 127.0.0.1, while it runs.
    pub port: Option<u16>,
    /// Its log.
    pub log: PathBuf,
}

/// Everything in `state.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlaneState {
    /// The format, [`SCHEMA`].
    pub schema: u32,
    /// The plane's name, which is also its folder's.
    pub name: String,
    /// How long it is meant to live.
    pub lifetime: Lifetime,
    /// The Kubernetes version that was asked for.
    pub kubernetes: Version,
    /// The version of this tool that wrote the file.
    pub tool_version: String,
    /// When the folder was made.
    pub created: DateTime<Utc>,
    /// When the present, or the last, start began.
    pub started: DateTime<Utc>,
    /// The process that supervises the plane, or did so last.
    pub owner: ProcessIdentity,
    /// What the plane does.
    pub phase: Phase,
    /// The API server's port, kept for the next start of a persistent plane, so that copies of its
    /// kubeconfig stay valid.
    pub port: Option<u16>,
    /// Arguments that the user added to those of a component.
    pub component_args: BTreeMap<Tool, Vec<String>>,
    /// Its processes, by component.
    pub components: BTreeMap<Tool, ComponentState>,
    /// The node beside it, if it was started with one.
    #[serde(default)]
    pub node: Option<NodeState>,
}

impl PlaneState {
    /// Nothing runs any more.
    pub(crate) fn forget_processes(&mut self) {
        self.components.clear();
        if let Some(node) = &mut self.node {
            node.port = None;
        }
    }

    /// Where the API server listens, once it was started.
    #[must_use]
    pub fn server(&self) -> Option<String> {
        self.components
            .get(&Tool::KubeApiserver)
            .map(|c| super::component::https_url(c.port))
    }

    /// Whether the supervising process still runs.
    #[must_use]
    pub fn is_supervised(&self) -> bool {
        self.owner.is_alive()
    }

    /// Whether a living process has it in hand: its folder is not for others to touch.
    #[must_use]
    pub fn is_live(&self) -> bool {
        let over = matches!(self.phase, Phase::Stopped | Phase::Failed { .. })
            && self.components.is_empty();
        !over && self.is_supervised()
    }

    /// The phase as far as it can be believed: one that only a living owner could have left is
    /// reported as a failure when the owner is gone.
    #[must_use]
    pub fn effective_phase(&self) -> Phase {
        match &self.phase {
            settled @ (Phase::Stopped | Phase::Failed { .. }) => settled.clone(),
            running if self.is_supervised() => running.clone(),
            running => Phase::Failed {
                reason: format!(
                    "its supervisor (process {}) ended without stopping it while it was {}",
                    self.owner.pid,
                    running.word()
                ),
                at: self.started,
            },
        }
    }
}
