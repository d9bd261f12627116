//! A pod's share of this machine, and the start of containers in it.
//!
//! The folder of a pod, `<dir>/<uid>`, holds:
//!
//! - `_volumes/<volume>`: the volumes; `_kubeconfigs/<volume>`: for each volume with a token, a
//!   kubeconfig that uses it (no container is called like either);
//! - `<container>/<start>.log`: the logs of the last three starts that came to something;
//! - `<container>/<start>/`: the working folder of a start, its `HOME` and, unless a volume is mounted
//!   at `/tmp`, its `TMPDIR`. A restart does not see it any more.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use chrono::Utc;
use k8s_openapi::api::core::v1::{Container, Pod};
use k8s_openapi::jiff::SignedDuration;
use tokio::task::{JoinSet, spawn_blocking};

use super::env::{self, Variables};
use super::expand::expand;
use super::objects::Objects;
use super::place::{self, Mounts};
use super::running::{Running, Start, Weak};
use super::{COMPLETES_AFTER, StartError, blocking, log, user, volume};
use crate::error_chain::chain;
use crate::host::files::private_dir;
use crate::host::launch::Mode;
use crate::host::ports::PortError;
use crate::host::process::{Child, Output, Spec};
use crate::node::digest::sha256_hex;
use crate::node::image::{CommandTemplate, Pulled, Runtime};
use crate::node::options::NodeOptions;
use crate::node::port_map::PortMap;

/// Where containers find the credentials of their ServiceAccount.
const SERVICE_ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// The folder with the program's link, below the working folder.
const LINK_FOLDER: &str = ".bin";
/// The programs are this machine's, and so is where they are found.
const PATH: &str = "PATH";

/// A pod's share of this machine: its folder with volumes, logs and credentials. Removed by
/// [`Sandbox::remove`].
pub struct Sandbox {
    pub(super) options: Arc<NodeOptions>,
    pub(super) objects: Objects,
    /// The pod's folder.
    pub(super) dir: PathBuf,
    /// Where the volumes are, by name.
    pub(super) volumes: BTreeMap<String, PathBuf>,
    /// Kubeconfigs, by the volume that holds the token.
    pub(super) kubeconfigs: BTreeMap<String, PathBuf>,
    /// Keep the tokens fresh.
    pub(super) refreshers: JoinSet<()>,
    pub(super) started: Mutex<Vec<Weak>>,
}

impl std::fmt::Debug for Sandbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sandbox")
            .field("dir", &self.dir)
            .field("volumes", &self.volumes)
            .finish_non_exhaustive()
    }
}

/// Where a start has its things.
#[derive(Debug)]
struct Place {
    /// The working folder.
    folder: PathBuf,
    log_path: PathBuf,
    log: File,
}

impl Sandbox {
    /// Starts a container of an image that was pulled. `start` counts from 0.
    ///
    /// # Errors
    ///
    /// [`StartError::Config`] and [`StartError::Run`].
    pub async fn start(
        &self,
        pod: &Pod,
        container: &Container,
        pulled: &Pulled,
        start: u32,
    ) -> Result<Running, StartError> {
        let cluster = env::cluster_variables(&self.options.server);
        let declared = env::declared(pod, container, &cluster, &self.objects).await;
        let declared = declared.map_err(StartError::Config)?;
        user::check(pod, container, &pulled.image.user).map_err(StartError::Config)?;
        let mounts = self.mounts(container, &declared, &cluster)?;
        let completes_after = completes_after(pod, container)?;

        let Place {
            folder,
            log_path,
            log,
        } = self.place(&container.name, start).await?;
        let at = Utc::now();
        let uid = pod.metadata.uid.as_deref().unwrap_or_default();
        let nanos = at.timestamp_nanos_opt().unwrap_or_default();
        let name = format!("{uid}/{}/{start}/{nanos}", container.name);
        let begun = Start {
            container_id: format!("aibom-qual://{}", sha256_hex(name.as_bytes())),
            at,
            log: log_path,
        };
        let log_path = begun.log.clone();
        let running = async {
            Ok::<_, StartError>(match &pulled.image.runtime {
                Runtime::Pause => Running::pause(begun, completes_after),
                Runtime::Command(template) => {
                    let ports = PortMap::new(Arc::clone(&self.options.ports));
                    let variables = Layers {
                        declared: &declared,
                        cluster: &cluster,
                        mounts: &mounts,
                    };
                    let spec = Spec {
                        program: link(template, &folder, &container.name).await?,
                        args: variables.args(template, container, &ports)?,
                        env: self.env(pod, container, &variables, &folder),
                        env_remove: std::env::vars_os().map(|(name, _)| name).collect(),
                        cwd: Some(folder),
                        output: Output::Pipes,
                        mode: Mode::Exec,
                    };
                    let child = Child::spawn(&self.options.launcher, &spec).await;
                    let program = template.program();
                    let child = child.map_err(|error| {
                        StartError::Run(format!("cannot start {}: {error}", program.display()))
                    })?;
                    Running::process(begun, child, ports, log)
                }
            })
        };
        let running = running.await.inspect_err(|_| {
            // Of a start that came to nothing there is nothing to read.
            remove_tree(&log_path);
        })?;
        let mut started = self.started.lock().unwrap_or_else(PoisonError::into_inner);
        started.retain(|running| running.upgrade().is_some());
        started.push(running.downgrade());
        Ok(running)
    }

    /// Ends what still runs and removes the folder.
    ///
    /// # Errors
    ///
    /// When the folder cannot be removed.
    pub async fn remove(mut self) -> io::Result<()> {
        self.refreshers.shutdown().await;
        let started = {
            let mut started = self.started.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::take(&mut *started)
        };
        for running in started.iter().filter_map(Weak::upgrade) {
            running.stop(Duration::ZERO).await;
        }
        let dir = self.dir.clone();
        match spawn_blocking(move || fs::remove_dir_all(dir)).await? {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Where the container sees its volumes.
    fn mounts(
        &self,
        container: &Container,
        declared: &Variables,
        cluster: &Variables,
    ) -> Result<Mounts, StartError> {
        let mut mounts = Mounts::default();
        for mount in container.volume_mounts.iter().flatten() {
            let Some(folder) = self.volumes.get(&mount.name) else {
                continue;
            };
            let expression = mount.sub_path_expr.as_deref();
            let expanded =
                expression.map(|text| expand(text, |name| env::lookup(name, declared, cluster)));
            let sub_path = expanded.as_deref().or(mount.sub_path.as_deref());
            let is_at = match sub_path.unwrap_or_default() {
                "" => folder.clone(),
                sub_path => {
                    let is_at = volume::below(folder, sub_path).map_err(StartError::Config)?;
                    // A folder that is not there yet is made; a file is there.
                    if !is_at.exists() {
                        private_dir(&is_at).map_err(|error| StartError::Config(chain(&error)))?;
                    }
                    is_at
                }
            };
            mounts.add(PathBuf::from(&mount.mount_path), is_at);
        }
        Ok(mounts)
    }

    /// Makes folder and log of a start. The logs of the two before it that came to something stay:
    /// they are what clients read as current and previous until this one runs.
    async fn place(&self, container: &str, start: u32) -> Result<Place, StartError> {
        let all = volume::member(&self.dir, container).map_err(StartError::Run)?;
        let made = blocking(move || {
            if let Some(last) = start.checked_sub(1) {
                remove_tree(&all.join(last.to_string()));
            }
            for older in logs(&all).iter().rev().skip(2) {
                remove_tree(&all.join(format!("{older}.log")));
            }
            let folder = all.join(start.to_string());
            private_dir(&folder).map_err(|error| chain(&error))?;
            let log_path = all.join(format!("{start}.log"));
            let log = log::create(&log_path)
                .map_err(|error| format!("cannot make the log {}: {error}", log_path.display()))?;
            Ok(Place {
                folder,
                log_path,
                log,
            })
        });
        made.await.map_err(StartError::Run)
    }

    /// All variables of the process. None is inherited.
    fn env(
        &self,
        pod: &Pod,
        container: &Container,
        variables: &Layers<'_>,
        folder: &Path,
    ) -> Vec<(OsString, OsString)> {
        let mut all: BTreeMap<OsString, OsString> = BTreeMap::new();
        if let Some(path) = std::env::var_os(PATH) {
            all.insert(PATH.into(), path);
        }
        let temporary = variables.mounts.resolve(Path::new("/tmp"));
        all.insert("HOME".into(), folder.into());
        all.insert(
            "TMPDIR".into(),
            temporary.unwrap_or_else(|| folder.to_owned()).into(),
        );
        all.insert("HOSTNAME".into(), hostname(pod).into());
        for (name, value) in variables.cluster {
            all.insert(name.into(), value.into());
        }
        if let Some(kubeconfig) = self.kubeconfig(container) {
            all.insert("KUBECONFIG".into(), kubeconfig.into());
        }
        for (name, value) in variables.declared {
            all.insert(name.into(), variables.mounts.value(value));
        }
        all.into_iter().collect()
    }

    /// The kubeconfig of a container that has a token where programs look for one. Whether it has
    /// one is what `automountServiceAccountToken` decides.
    fn kubeconfig(&self, container: &Container) -> Option<&Path> {
        let mut mounts = container.volume_mounts.iter().flatten();
        let mount =
            mounts.find(|mount| Path::new(&mount.mount_path) == Path::new(SERVICE_ACCOUNT))?;
        self.kubeconfigs.get(&mount.name).map(PathBuf::as_path)
    }
}

/// What a container's variables and paths are made of. Not to be shown: some of it is secret.
#[derive(Clone, Copy)]
struct Layers<'a> {
    declared: &'a Variables,
    cluster: &'a Variables,
    mounts: &'a Mounts,
}

impl Layers<'_> {
    /// The template's arguments and then the container's own ones.
    fn args(
        &self,
        template: &CommandTemplate,
        container: &Container,
        ports: &PortMap,
    ) -> Result<Vec<OsString>, StartError> {
        let no_port = |error: PortError| StartError::Run(error.to_string());
        let own = template.args(|port| ports.host(port)).map_err(no_port)?;
        let mut args: Vec<OsString> = own.into_iter().map(OsString::from).collect();
        let declared = place::declared_ports(container);
        for text in container.args.iter().flatten() {
            let text = expand(text, |name| env::lookup(name, self.declared, self.cluster));
            let arg = place::argument(&text, self.mounts, |port| {
                let is_own = declared.contains(&port) || ports.known(port).is_some();
                is_own.then(|| ports.host(port)).transpose()
            });
            args.push(arg.map_err(no_port)?);
        }
        Ok(args)
    }
}

/// The program under the container's name: clients tell a server the name of the file that they were
/// started as, and the name in a container is mostly that of the container.
async fn link(
    template: &CommandTemplate,
    folder: &Path,
    container: &str,
) -> Result<PathBuf, StartError> {
    let program = template.program().to_owned();
    let folder = folder.join(LINK_FOLDER);
    let link = folder.join(container);
    let linked = blocking(move || {
        // The launcher would say it, but only in the log.
        rustix::fs::access(&program, rustix::fs::Access::EXEC_OK)
            .map_err(|error| format!("cannot execute {}: {error}", program.display()))?;
        private_dir(&folder).map_err(|error| chain(&error))?;
        remove_tree(&link);
        std::os::unix::fs::symlink(&program, &link)
            .map_err(|error| format!("cannot make the link {}: {error}", link.display()))?;
        Ok(link)
    });
    linked.await.map_err(StartError::Run)
}

/// The starts of a container whose logs are there, the oldest first.
fn logs(folder: &Path) -> BTreeSet<u32> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    names
        .filter_map(|name| name.strip_suffix(".log")?.parse().ok())
        .collect()
}

/// Removes a file or folder that may not be there. What cannot be removed is in nobody's way.
fn remove_tree(path: &Path) {
    if fs::remove_file(path).is_err() {
        let _ = fs::remove_dir_all(path);
    }
}

fn hostname(pod: &Pod) -> &str {
    let hostname = pod.spec.as_ref().and_then(|spec| spec.hostname.as_deref());
    let hostname = hostname.filter(|name| !name.is_empty());
    hostname
        .or(pod.metadata.name.as_deref())
        .unwrap_or_default()
}

/// How long a container without a process lasts by itself; [`None`] for as long as nobody stops it.
fn completes_after(pod: &Pod, container: &Container) -> Result<Option<Duration>, StartError> {
    let spec = pod.spec.as_ref();
    let mut init = spec
        .into_iter()
        .flat_map(|spec| spec.init_containers.iter().flatten());
    let is_sidecar = container.restart_policy.as_deref() == Some("Always");
    if !is_sidecar && init.any(|init| init.name == container.name) {
        return Ok(Some(Duration::ZERO));
    }
    let annotations = pod.metadata.annotations.as_ref();
    let Some(text) = annotations.and_then(|annotations| annotations.get(COMPLETES_AFTER)) else {
        return Ok(None);
    };
    let duration = text.parse::<SignedDuration>().ok();
    let duration = duration.and_then(|duration| Duration::try_from(duration).ok());
    duration.map(Some).ok_or_else(|| {
        StartError::Config(format!(
            "annotation {COMPLETES_AFTER}: {text:?} is not a duration such as 5s"
        ))
    })
}
