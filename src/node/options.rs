//! What a caller decides about a node.

use std::path::PathBuf;
use std::sync::Arc;

use super::image::ImageTable;
use crate::host::launch::Launcher;
use crate::host::ports::PortPicker;

/// Options of [`Node::start`](super::Node::start).
#[derive(Clone, Debug)]
pub struct NodeOptions {
    /// The Node object's name.
    pub name: String,
    /// The API server's URL.
    pub server: String,
    /// Vouches for the API server, PEM; also goes into the kubeconfig of every pod.
    pub server_ca_pem: String,
    /// The node's kubeconfig, as `system:node:NAME` of the group `system:nodes`.
    pub kubeconfig: PathBuf,
    /// Certificate and key of the kubelet port, PEM files for 127.0.0.1.
    pub serving: ServingFiles,
    /// Vouches for who may talk to the kubelet port (the API server's kubelet client), PEM.
    pub client_ca_pem: String,
    /// The node's own folder: logs, volumes and credentials of pods. Made with mode 0700 if it is
    /// not there.
    pub dir: PathBuf,
    /// The executable through which processes start.
    pub launcher: Launcher,
    /// What stands behind an image.
    pub images: ImageTable,
    /// Chooses free ports.
    pub ports: Arc<PortPicker>,
    /// The Kubernetes version that the node reports, for example `v1.36.3`.
    pub kubelet_version: String,
}

/// What the kubelet port serves TLS with.
#[derive(Clone, Debug)]
pub struct ServingFiles {
    /// The certificate, PEM.
    pub cert: PathBuf,
    /// Its private key, PEM.
    pub key: PathBuf,
}
