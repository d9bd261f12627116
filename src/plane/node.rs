//! What a plane gives to a node: who it is, whom it trusts, and where its files lie.

use std::path::PathBuf;

use super::error::PlaneError;
use super::guard::Plane;
use super::layout::Layout;
use crate::host::kubeconfig::{Kubeconfig, Names};

/// Everything that a node of this plane needs to be one.
#[derive(Clone, Debug)]
pub struct NodeIdentity {
    /// The Node object's name.
    pub name: String,
    /// The API server's URL.
    pub server: String,
    /// Vouches for the API server, PEM.
    pub server_ca_pem: String,
    /// Vouches for the API server as a client of the kubelet port, PEM.
    pub client_ca_pem: String,
    /// Its kubeconfig, as `system:node:NAME` of the group `system:nodes`.
    pub kubeconfig: PathBuf,
    /// What its kubelet port serves with, PEM.
    pub serving_cert: PathBuf,
    /// The key of that, PEM.
    pub serving_key: PathBuf,
    /// Its own folder.
    pub dir: PathBuf,
    /// Its own log.
    pub log: PathBuf,
    /// The version that its kubelet reports, as `v1.36.3`.
    pub kubelet_version: String,
}

impl Plane {
    /// Issues the certificates of a node and writes them and its kubeconfig into the plane's folder.
    ///
    /// # Errors
    ///
    /// [`PlaneError::Pki`] when the name is not one that a Node object can have; others when a file
    /// cannot be written.
    pub fn node_identity(&self, name: &str) -> Result<NodeIdentity, PlaneError> {
        let (pki, options) = self.pki().ok_or(PlaneError::NoPki)?;
        let pairs = pki.issue_node(name, options)?;
        let state = self.state();
        let server = state.server().unwrap_or_default();
        let layout: &Layout = self.layout();
        let kubeconfig = layout.node_kubeconfig(name);
        let context = self.context_name();
        let names = Names {
            cluster: &context,
            user: &format!("system:node:{name}"),
            context: &context,
        };
        let client = &pairs.client;
        let ca = pki.server_ca().cert_pem();
        Kubeconfig::new(&server, ca, client.cert_pem(), client.key_pem(), names)
            .write(&kubeconfig)?;
        Ok(NodeIdentity {
            name: name.to_owned(),
            server,
            server_ca_pem: ca.to_owned(),
            client_ca_pem: pki.client_ca().cert_pem().to_owned(),
            kubeconfig,
            serving_cert: pairs.serving.cert().to_owned(),
            serving_key: pairs.serving.key().to_owned(),
            dir: layout.node(name),
            log: layout.node_log(name),
            kubelet_version: format!("v{}", state.kubernetes),
        })
    }
}
