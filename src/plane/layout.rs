//! Where things lie in one plane's folder.

use std::path::{Path, PathBuf};

use super::tool::Tool;

/// The folder of one plane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    root: PathBuf,
}

impl Layout {
    /// The folder `root`, whether it exists or not.
    #[must_use]
    pub fn new(root: PathBuf) -> Self {
        Self { root }
    }

    /// The folder itself.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Keys and certificates (0700).
    #[must_use]
    pub fn pki(&self) -> PathBuf {
        self.root.join("pki")
    }

    /// etcd's data.
    #[must_use]
    pub fn etcd(&self) -> PathBuf {
        self.root.join("etcd")
    }

    /// Whether etcd has ever stored anything.
    #[must_use]
    pub fn has_data(&self) -> bool {
        self.etcd().join("member").exists()
    }

    /// Logs of all components.
    #[must_use]
    pub fn logs(&self) -> PathBuf {
        self.root.join("logs")
    }

    /// The administrator's kubeconfig, with embedded credentials (0600).
    #[must_use]
    pub fn kubeconfig(&self) -> PathBuf {
        self.root.join("kubeconfig")
    }

    /// The kubeconfig of one component (0600).
    #[must_use]
    pub fn component_kubeconfig(&self, tool: Tool) -> PathBuf {
        self.pki().join(format!("{tool}.kubeconfig"))
    }

    /// The kubeconfig of a node (0600).
    #[must_use]
    pub fn node_kubeconfig(&self, node: &str) -> PathBuf {
        self.pki().join(format!("node-{node}.kubeconfig"))
    }

    /// What a node keeps of its pods: volumes, logs, credentials.
    #[must_use]
    pub fn node(&self, node: &str) -> PathBuf {
        self.root.join("nodes").join(node)
    }

    /// A node's own log.
    #[must_use]
    pub fn node_log(&self, node: &str) -> PathBuf {
        self.logs().join(format!("node-{node}.log"))
    }

    /// What is known of the plane's processes.
    #[must_use]
    pub fn state(&self) -> PathBuf {
        self.root.join("state.json")
    }

    /// Locked by the supervisor for as long as the plane lives.
    #[must_use]
    pub fn owner_lock(&self) -> PathBuf {
        self.root.join("owner.lock")
    }

    /// The log of one component's attempt, counted from 1; later attempts do not overwrite what the
    /// first one said.
    #[must_use]
    pub fn log(&self, tool: Tool, attempt: u32) -> PathBuf {
        let name = match attempt {
            0 | 1 => format!("{tool}.log"),
            n => format!("{tool}.{n}.log"),
        };
        self.logs().join(name)
    }
}
