//! Containers as processes of this machine.
//!
//! A container of an image with [`Runtime::Command`](super::image::Runtime::Command) is a child
//! process, started through the launcher. The command takes the place of the image's entrypoint *and*
//! of the pod's `command`, which names a program that this machine does not have; the pod's `args`
//! follow it. What arguments and variables say about ports and mounted paths is moved to where those
//! are on this machine, as [`place`] tells. The process sees this machine's files, runs as whoever
//! runs this tool, and in a folder of its own instead of `workingDir`.
//!
//! A container of an image with [`Runtime::Pause`](super::image::Runtime::Pause) has no process. It
//! ends when it is asked to, with exit code 0. The annotation [`COMPLETES_AFTER`] of its pod lets it
//! end by itself, as the containers of a Job have to.
//!
//! A container has a kubeconfig, named by `KUBECONFIG`, if and only if it has a token of its
//! ServiceAccount at the usual place; the API server's admission puts it there unless
//! `automountServiceAccountToken` says no.

mod env;
mod expand;
mod field;
mod log;
mod objects;
mod place;
mod quantity;
mod running;
mod sandbox;
mod token;
mod user;
mod volume;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use k8s_openapi::api::core::v1::{Pod, Volume};
use tokio::task::{JoinSet, spawn_blocking};

use self::objects::Objects;
pub use self::running::{Finished, Running};
pub use self::sandbox::Sandbox;
use self::token::{Holder, TokenFile};
use super::options::NodeOptions;
use crate::error_chain::chain;
use crate::host::files::private_dir;
use crate::host::kubeconfig::{Kubeconfig, Names};

/// The annotation of a pod whose containers without a process end by themselves, with exit code 0,
/// this long after their start; a duration such as `5s`.
pub const COMPLETES_AFTER: &str = "node.aibom-qual.dev/completes-after";

/// What all containers of this node need: folders, launcher, a client that requests tokens.
#[derive(Clone)]
pub struct Containers {
    options: Arc<NodeOptions>,
    client: kube::Client,
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
    pub fn new(options: NodeOptions, client: kube::Client) -> Self {
        let options = Arc::new(options);
        Self { options, client }
    }

    /// Makes a pod's folder, its volumes, and the kubeconfig of its ServiceAccount, whose token is
    /// replaced before it expires for as long as the sandbox lives. It may be called again after it
    /// failed.
    ///
    /// # Errors
    ///
    /// [`StartError::Volume`].
    pub async fn prepare(&self, pod: &Pod) -> Result<Sandbox, StartError> {
        let metadata = &pod.metadata;
        let uid = metadata.uid.clone().unwrap_or_default();
        let namespace = metadata.namespace.clone().unwrap_or_default();
        let service_account = pod
            .spec
            .as_ref()
            .and_then(|spec| spec.service_account_name.clone());
        let service_account = service_account.filter(|name| !name.is_empty());
        let holder = Arc::new(Holder {
            pod: metadata.name.clone().unwrap_or_default(),
            uid: uid.clone(),
            service_account: service_account.unwrap_or_else(|| "default".to_owned()),
        });
        let node = self.options.name.clone();
        let dir = volume::below(&self.options.dir, &uid).map_err(StartError::Volume)?;
        let mut sandbox = Sandbox {
            options: Arc::clone(&self.options),
            objects: Objects::new(self.client.clone(), namespace, node),
            volumes: BTreeMap::new(),
            kubeconfigs: BTreeMap::new(),
            refreshers: JoinSet::new(),
            started: Mutex::default(),
            dir,
        };
        for folder in [&self.options.dir, &sandbox.dir] {
            private_dir(folder).map_err(|error| StartError::Volume(chain(&error)))?;
        }
        for volume in volume::mounted(pod) {
            let made = sandbox.make(pod, volume, &holder).await;
            made.map_err(|why| {
                let name = &volume.name;
                StartError::Volume(format!(
                    "MountVolume.SetUp failed for volume \"{name}\" : {why}"
                ))
            })?;
        }
        Ok(sandbox)
    }
}

impl Sandbox {
    /// Makes one volume.
    async fn make(
        &mut self,
        pod: &Pod,
        volume: &Volume,
        holder: &Arc<Holder>,
    ) -> Result<(), String> {
        let content = volume::content(pod, volume, &self.objects).await?;
        let name = &volume.name;
        if let Some(path) = content.host_path {
            self.volumes.insert(name.clone(), path);
            return Ok(());
        }
        let folder = volume::below(&self.dir.join("_volumes"), name)?;
        let tokens = content.tokens.clone();
        let target = folder.clone();
        let written = spawn_blocking(move || content.write(&target)).await;
        written.map_err(|error| error.to_string()).flatten()?;
        for projection in &tokens {
            let path = volume::below(&folder, &projection.path)?;
            if let Some(parent) = path.parent() {
                private_dir(parent).map_err(|error| chain(&error))?;
            }
            let token = TokenFile::new(
                self.objects.clone(),
                Arc::clone(holder),
                projection,
                path.clone(),
            );
            let life = token.write().await.map_err(|error| chain(&error))?;
            self.refreshers.spawn(token.keep_fresh(life));
            let kubeconfig = volume::below(&self.dir.join("_kubeconfigs"), name)?;
            // The first token is the one at the usual place.
            if !self.kubeconfigs.contains_key(name) {
                self.write_kubeconfig(&kubeconfig, &path, holder)?;
                self.kubeconfigs.insert(name.clone(), kubeconfig);
            }
        }
        self.volumes.insert(name.clone(), folder);
        Ok(())
    }

    fn write_kubeconfig(
        &self,
        path: &Path,
        token: &PathBuf,
        holder: &Holder,
    ) -> Result<(), String> {
        let namespace = self.objects.namespace();
        let user = format!(
            "system:serviceaccount:{namespace}:{}",
            holder.service_account
        );
        let names = Names {
            cluster: "aibom-qual",
            user: &user,
            context: "pod",
        };
        let (server, ca) = (&self.options.server, &self.options.server_ca_pem);
        let kubeconfig = Kubeconfig::with_token_file(server, ca, token, namespace, names);
        let folder = path.parent().unwrap_or(path);
        private_dir(folder).map_err(|error| chain(&error))?;
        kubeconfig.write(path).map_err(|error| chain(&error))
    }
}
