//! Why a node could not be started, or is no node any more.

use std::path::PathBuf;

use super::server::ServerError;
use crate::cluster::client::ClusterError;
use crate::cluster::fault::Fault;
use crate::cluster::wait::WaitError;
use crate::host::files::FileError;

/// A node could not be started, or has ended by itself.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NodeError {
    /// Its folder cannot be made.
    #[error(transparent)]
    Folder(#[from] FileError),
    /// What an earlier life of it left in its folder cannot be cleared, or its log cannot be opened.
    #[error("cannot use {}", path.display())]
    Place {
        /// The folder or file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Its kubeconfig cannot be used.
    #[error(transparent)]
    Client(#[from] ClusterError),
    /// Its kubelet port cannot be opened.
    #[error(transparent)]
    Server(#[from] ServerError),
    /// The API server refuses its Node object.
    #[error("the node {name} cannot be registered")]
    Register {
        /// The node.
        name: String,
        /// Why.
        source: Fault,
    },
    /// It is registered, but pods are kept away from it.
    #[error("the node {name} was not ready in time")]
    NotReady {
        /// The node.
        name: String,
        /// What was seen last.
        source: Box<WaitError>,
        /// The node's own log.
        log: PathBuf,
    },
    /// A part of it has ended, though none ever should.
    #[error("the node {name} lost its {part}: {how}")]
    Ended {
        /// The node.
        name: String,
        /// Which part.
        part: &'static str,
        /// How it ended.
        how: String,
    },
}

impl NodeError {
    /// The one thing to do about it, if there is one.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Folder(error) => error.hint(),
            Self::Place { path, .. } => Some(format!(
                "check the owner and the mode of {}",
                path.display()
            )),
            Self::Client(error) => error.hint(),
            Self::Server(_) => None,
            Self::Register { source, .. } => source.hint(),
            Self::NotReady { log, .. } => Some(format!(
                "its log is {}; the controller manager takes the taint away, so see its log too",
                log.display()
            )),
            Self::Ended { .. } => {
                Some("this is a fault of aibom-qual; please report it".to_owned())
            }
        }
    }
}
