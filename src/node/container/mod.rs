//! Containers as processes of this machine.
//!
//! A container of an image with [`Runtime::Command`](super::image::Runtime::Command) is a child
//! process, started through the launcher. The command takes the place of the image's entrypoint *and*
//! of the pod's `command`, which names a program that this machine does not have; the pod's `args`
//! follow it. What arguments and variables say about ports and mounted paths is moved to where those
//! are on this machine, as the module `place` tells. The process sees this machine's files, runs as
//! whoever runs this tool, and in a folder of its own instead of `workingDir`.
//!
//! A container of an image with [`Runtime::Pause`](super::image::Runtime::Pause) has no process. It
//! ends when it is asked to, with exit code 0; an init container, for which the others wait, at once.
//! The annotation [`COMPLETES_AFTER`] of its pod lets it end by itself, as the containers of a Job
//! have to.
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
use std::path::PathBuf;
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
    pub fn new(mut options: NodeOptions, client: kube::Client) -> Self {
        // A process sees the paths from a folder of its own. Only an empty path has no absolute form.
        if let Ok(absolute) = std::path::absolute(&options.dir) {
            options.dir = absolute;
        }
        let options = Arc::new(options);
        Self { options, client }
    }

    /// Makes a pod's folder, its volumes, and the kubeconfig of its ServiceAccount, whose token is
    /// replaced before it expires for as long as the sandbox lives. When it fails, nothing is left,
    /// and it may be called again.
    ///
    /// # Errors
    ///
    /// [`StartError::Volume`].
    pub async fn prepare(&self, pod: &Pod) -> Result<Sandbox, StartError> {
        let uid = pod.metadata.uid.as_deref().unwrap_or_default();
        let namespace = pod.metadata.namespace.clone().unwrap_or_default();
        let node = self.options.name.clone();
        let mut sandbox = Sandbox {
            options: Arc::clone(&self.options),
            objects: Objects::new(self.client.clone(), namespace, node),
            dir: volume::member(&self.options.dir, uid).map_err(StartError::Volume)?,
            volumes: BTreeMap::new(),
            kubeconfigs: BTreeMap::new(),
            refreshers: JoinSet::new(),
            started: Mutex::default(),
        };
        match sandbox.fill(pod).await {
            Ok(()) => Ok(sandbox),
            Err(error) => {
                // The error that matters is the first one.
                let _ = sandbox.remove().await;
                Err(error)
            }
        }
    }
}

impl Sandbox {
    /// Makes the folder and all volumes.
    async fn fill(&mut self, pod: &Pod) -> Result<(), StartError> {
        for folder in [&self.options.dir, &self.dir] {
            private_dir(folder).map_err(|error| StartError::Volume(chain(&error)))?;
        }
        let (metadata, spec) = (&pod.metadata, pod.spec.as_ref());
        let service_account = spec.and_then(|spec| spec.service_account_name.clone());
        let service_account = service_account.filter(|name| !name.is_empty());
        let holder = Arc::new(Holder {
            pod: metadata.name.clone().unwrap_or_default(),
            uid: metadata.uid.clone().unwrap_or_default(),
            service_account: service_account.unwrap_or_else(|| "default".to_owned()),
        });
        for volume in volume::mounted(pod) {
            self.make(pod, volume, &holder).await.map_err(|why| {
                let name = &volume.name;
                StartError::Volume(format!(
                    "MountVolume.SetUp failed for volume \"{name}\" : {why}"
                ))
            })?;
        }
        Ok(())
    }

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
        let folder = volume::member(&self.dir.join("_volumes"), name)?;
        let tokens = content.tokens.clone();
        let target = folder.clone();
        blocking(move || content.write(&target)).await?;
        for projection in &tokens {
            let path = volume::below(&folder, &projection.path)?;
            if let Some(parent) = path.parent() {
                private_dir(parent).map_err(|error| chain(&error))?;
            }
            let objects = self.objects.clone();
            let token = TokenFile::new(objects, Arc::clone(holder), projection, path.clone());
            let life = token.write().await.map_err(|error| chain(&error))?;
            self.refreshers.spawn(token.keep_fresh(life));
            // Should there be more than one token, programs look for the first.
            if !self.kubeconfigs.contains_key(name) {
                let kubeconfig = self.write_kubeconfig(name, path, holder).await?;
                self.kubeconfigs.insert(name.clone(), kubeconfig);
            }
        }
        self.volumes.insert(name.clone(), folder);
        Ok(())
    }

    /// Writes the kubeconfig that uses the token in this file of a volume.
    async fn write_kubeconfig(
        &self,
        volume: &str,
        token: PathBuf,
        holder: &Holder,
    ) -> Result<PathBuf, String> {
        let namespace = self.objects.namespace();
        let account = &holder.service_account;
        let names = Names {
            cluster: "aibom-qual",
            user: &format!("system:serviceaccount:{namespace}:{account}"),
            context: "pod",
        };
        let (server, ca) = (&self.options.server, &self.options.server_ca_pem);
        let kubeconfig = Kubeconfig::with_token_file(server, ca, token, namespace, names);
        let folder = self.dir.join("_kubeconfigs");
        let path = volume::member(&folder, volume)?;
        blocking(move || {
            private_dir(&folder).map_err(|error| chain(&error))?;
            kubeconfig.write(&path).map_err(|error| chain(&error))?;
            Ok(path)
        })
        .await
    }
}

/// Works with files on a thread that may wait for the disk.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, String> + Send + 'static,
) -> Result<T, String> {
    let done = spawn_blocking(work).await;
    done.map_err(|error| error.to_string()).flatten()
}
