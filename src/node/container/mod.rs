//! Containers as processes of this machine.

use std::path::Path;
use std::time::Duration;

use chrono::{DateTime, Utc};
use k8s_openapi::api::core::v1::{Container, Pod};

use super::image::Pulled;
use super::options::NodeOptions;
use super::port_map::PortMap;

/// What all containers of this node need: folders, launcher, a client that requests tokens.
#[derive(Clone)]
pub struct Containers {
    _options: NodeOptions,
}

/// A pod's share of this machine: its folder with volumes, logs and credentials. Removed by
/// [`Sandbox::remove`].
#[derive(Debug)]
pub struct Sandbox {}

/// A container that was started and has not been seen to end.
#[derive(Debug)]
pub struct Running {}

/// How a container ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finished {
    /// Its exit code; 128 + signal when a signal ended it.
    pub exit_code: i32,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// When it was started.
    pub started_at: DateTime<Utc>,
    /// When it ended.
    pub finished_at: DateTime<Utc>,
}

/// Why a container does not run.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Its configuration cannot be made (the kubelet's `CreateContainerConfigError`).
    #[error("{0}")]
    Config(String),
    /// A volume cannot be made yet (the kubelet's event `FailedMount`); it is tried again.
    #[error("{0}")]
    Volume(String),
    /// The process cannot be started (the kubelet's `RunContainerError`).
    #[error("{0}")]
    Run(String),
}

impl Containers {
    /// The containers of a node; `client` has the node's identity.
    #[must_use]
    pub fn new(options: NodeOptions, _client: kube::Client) -> Self {
        Self { _options: options }
    }

    /// Makes a pod's folder, its volumes, and the kubeconfig of its ServiceAccount, whose token is
    /// replaced before it expires for as long as the sandbox lives.
    ///
    /// # Errors
    ///
    /// [`StartError::Volume`].
    pub async fn prepare(&self, _pod: &Pod) -> Result<Sandbox, StartError> {
        Ok(Sandbox {})
    }
}

impl Sandbox {
    /// Starts a container of an image that was pulled. `start` counts from 0.
    ///
    /// # Errors
    ///
    /// [`StartError::Config`] and [`StartError::Run`].
    pub async fn start(
        &self,
        _pod: &Pod,
        _container: &Container,
        _pulled: &Pulled,
        _start: u32,
    ) -> Result<Running, StartError> {
        Ok(Running {})
    }

    /// Ends what still runs and removes the folder.
    ///
    /// # Errors
    ///
    /// When the folder cannot be removed.
    pub async fn remove(self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Running {
    /// Its made-up id, as in `containerID`: `aibom-qual://<64 digits>`.
    #[must_use]
    pub fn container_id(&self) -> &str {
        ""
    }

    /// When it was started.
    #[must_use]
    pub fn started_at(&self) -> DateTime<Utc> {
        Utc::now()
    }

    /// Its ports; [`None`] when no process stands behind it.
    #[must_use]
    pub fn ports(&self) -> Option<&PortMap> {
        None
    }

    /// Its log, one line of the container runtime interface's format per line.
    #[must_use]
    pub fn log(&self) -> &Path {
        Path::new("")
    }

    /// Waits for its end; may be called again and gives the same answer.
    pub async fn exited(&self) -> Finished {
        std::future::pending().await
    }

    /// SIGTERM, and SIGKILL after `grace`; waits for the end.
    pub async fn stop(&self, _grace: Duration) -> Finished {
        std::future::pending().await
    }
}
