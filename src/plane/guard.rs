//! A plane in the hands of this process: supervised while it lives, stopped in order, and never
//! left behind.

use std::collections::BTreeMap;
use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use chrono::Utc;
use rustix::process::{Resource, Signal};

use super::autopsy::ComponentFailure;
use super::binaries;
use super::error::PlaneError;
use super::event::{Doing, Event, Sink};
use super::layout::Layout;
use super::options::PlaneOptions;
use super::pki::{Pki, PkiOptions};
use super::registry::{self, Registry};
use super::shared::{Running, Shared};
use super::start;
use super::state::{Lifetime, NodeState, Phase, PlaneState, SCHEMA};
use super::tool::Tool;
use crate::error_chain::chain;
use crate::host::identity::ProcessIdentity;
use crate::host::launch::{WANTED_FILES, raise_file_limit};
use crate::host::process::Stopped;

/// KCM and scheduler stop within a second or two.
const CLIENTS_GRACE: Duration = Duration::from_secs(2);
/// An API server with one open watch does not stop by itself within 15 s, so that more patience
/// than this only makes people wait.
const APISERVER_GRACE: Duration = Duration::from_secs(2);
/// The same, where requests in flight may matter to somebody.
const APISERVER_GRACE_PERSISTENT: Duration = Duration::from_secs(5);
/// etcd has to write its last entries.
const ETCD_GRACE: Duration = Duration::from_millis(1500);
/// Killed processes let go of their files within milliseconds.
const DROP_DEADLINE: Duration = Duration::from_secs(2);

/// A running plane. Stop it with [`Plane::stop`]; dropping it kills the processes at once.
#[derive(Debug)]
pub struct Plane {
    shared: Arc<Shared>,
    /// In start order.
    running: Vec<Running>,
    /// What vouches for its nodes.
    pki: Option<(Pki, PkiOptions)>,
    settled: bool,
}

/// How a plane was stopped.
#[derive(Debug)]
pub struct StopReport {
    /// In all.
    pub took: Duration,
    /// By component.
    pub components: BTreeMap<Tool, Stopped>,
}

impl Plane {
    /// Starts a plane and waits until it is ready.
    ///
    /// # Errors
    ///
    /// Any [`PlaneError`]; then nothing of the plane runs any more, and only its logs are kept.
    pub async fn start(options: &PlaneOptions, sink: Arc<dyn Sink>) -> Result<Self, PlaneError> {
        settle_file_limit()?;
        let registry = Registry::new(options.dirs.planes());
        registry.layout(&options.name)?;
        reap(&registry, &sink).await?;
        let request = binaries::Request {
            tools: Tool::PLANE.to_vec(),
            kubernetes: options.kubernetes.clone(),
            explicit: options.binaries.clone(),
            sources: options.sources.clone(),
        };
        let found = binaries::ensure(&options.dirs, &options.launcher, &request, &*sink).await?;
        let (shared, kept_port) = claim(registry, options, sink).await?;
        let shared = Arc::new(shared);
        let mut plane = Self {
            shared: Arc::clone(&shared),
            running: Vec::new(),
            pki: None,
            settled: false,
        };
        let brought_up =
            start::bring_up(&shared, options, &found, kept_port, &mut plane.running).await;
        let ready = brought_up.and_then(|pki| {
            plane.pki = Some((pki, options.pki.clone()));
            Ok(shared.set_ready()?)
        });
        shared.event(Event::Idle);
        let died = shared.failures().borrow().clone();
        match (ready, died) {
            (Ok(()), None) => Ok(plane),
            (Err(error), _) => {
                plane.settle_as_failed(&chain(&error));
                Err(error)
            }
            (Ok(()), Some(failure)) => {
                plane.settle_as_failed(&failure.to_string());
                Err(PlaneError::Component(failure))
            }
        }
    }

    /// The plane's name.
    #[must_use]
    pub fn name(&self) -> String {
        self.state().name
    }

    /// The plane's folder.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        &self.shared.layout
    }

    /// The administrator's kubeconfig.
    #[must_use]
    pub fn kubeconfig(&self) -> PathBuf {
        self.shared.layout.kubeconfig()
    }

    /// A copy of the plane's state.
    #[must_use]
    pub fn state(&self) -> PlaneState {
        self.shared.state()
    }

    /// A client with the administrator's credentials.
    ///
    /// # Errors
    ///
    /// [`PlaneError::Client`].
    pub async fn client(&self) -> Result<kube::Client, PlaneError> {
        self.shared.client().await
    }

    pub(super) fn pki(&self) -> Option<(&Pki, &PkiOptions)> {
        self.pki.as_ref().map(|(pki, options)| (pki, options))
    }

    pub(super) fn context_name(&self) -> String {
        self.shared.context_name()
    }

    /// Tells what happens beside the plane to whoever listens to it.
    pub fn tell(&self, event: Event) {
        self.shared.event(event);
    }

    /// Writes down at which port the node beside the plane is reached; [`None`] when it has ended.
    ///
    /// # Errors
    ///
    /// [`PlaneError::Registry`] when the state cannot be written.
    pub fn note_node(&self, port: Option<u16>) -> Result<(), PlaneError> {
        let noted = self.shared.change(|state| {
            if let Some(node) = &mut state.node {
                node.port = port;
            }
        });
        Ok(noted?)
    }

    /// Waits until a component ends by itself; never returns while all is well.
    pub async fn failed(&self) -> Arc<ComponentFailure> {
        self.shared.failed().await
    }

    /// Runs `work` and ends it early, with the reason, when a component dies meanwhile: a request to a
    /// dead API server would otherwise wait for its own deadline.
    ///
    /// # Errors
    ///
    /// [`PlaneError::Component`].
    pub async fn guard<F: Future>(&self, work: F) -> Result<F::Output, PlaneError> {
        tokio::select! {
            biased;
            failure = self.failed() => Err(PlaneError::Component(failure)),
            output = work => Ok(output),
        }
    }

    /// Stops the components in order: scheduler and controller manager together, API server, etcd.
    /// A throw-away plane's folder is removed, unless a component had failed: then its logs stay.
    ///
    /// # Errors
    ///
    /// When a process cannot be ended or the folder cannot be removed. Everything that can be
    /// stopped is stopped all the same.
    pub async fn stop(mut self) -> Result<StopReport, PlaneError> {
        let begun = Instant::now();
        let failed = self.shared.failures().borrow().clone();
        self.shared.expect_ends();
        let lifetime = self.state().lifetime;
        let noted = match &failed {
            None => self.shared.change(|state| state.phase = Phase::Stopping),
            Some(_) => Ok(()),
        };
        let api_grace = match lifetime {
            Lifetime::ThrowAway => APISERVER_GRACE,
            Lifetime::Persistent => APISERVER_GRACE_PERSISTENT,
        };
        self.shared.doing(Doing::Stopping);
        let (kcm, scheduler) = tokio::join!(
            self.stop_one(Tool::KubeControllerManager, CLIENTS_GRACE),
            self.stop_one(Tool::KubeScheduler, CLIENTS_GRACE),
        );
        let apiserver = self.stop_one(Tool::KubeApiserver, api_grace).await;
        let etcd = self.stop_one(Tool::Etcd, ETCD_GRACE).await;
        self.shared.event(Event::Idle);
        let mut components = BTreeMap::new();
        for stopped in [kcm, scheduler, apiserver, etcd] {
            if let Some((tool, stopped)) = stopped? {
                components.insert(tool, stopped);
            }
        }
        match failed {
            Some(failure) => self.settle_as_failed(&failure.to_string()),
            None => self.settle()?,
        }
        noted?;
        Ok(StopReport {
            took: begun.elapsed(),
            components,
        })
    }

    async fn stop_one(
        &self,
        tool: Tool,
        grace: Duration,
    ) -> Result<Option<(Tool, Stopped)>, PlaneError> {
        let Some(running) = self.running.iter().find(|running| running.tool == tool) else {
            return Ok(None);
        };
        let stopped = running.child.stop(grace).await;
        let stopped = stopped.map_err(|source| PlaneError::Stop { tool, source })?;
        self.shared.event(Event::ComponentStopped {
            tool,
            took: stopped.took,
            killed: stopped.killed,
        });
        Ok(Some((tool, stopped)))
    }

    /// Nothing runs any more and nothing went wrong.
    fn settle(&mut self) -> Result<(), PlaneError> {
        self.settled = true;
        match self.state().lifetime {
            Lifetime::ThrowAway => self.shared.remove()?,
            Lifetime::Persistent => self.shared.change(|state| {
                state.phase = Phase::Stopped;
                state.forget_processes();
            })?,
        }
        Ok(())
    }

    /// Ends all processes at once and keeps what explains the failure: state and logs.
    fn settle_as_failed(&mut self, reason: &str) {
        self.settled = true;
        self.kill_all();
        // The failure itself is on its way to the caller; a second one about writing it down would
        // only hide it.
        let _ = self.shared.change(|state| {
            state.phase = Phase::failed(reason);
            state.forget_processes();
        });
        if self.state().lifetime == Lifetime::ThrowAway {
            registry::prune_failed(&self.shared.layout);
        }
    }

    /// Kills every process recorded, also one that was still becoming ready, and waits for the end.
    fn kill_all(&mut self) {
        self.shared.expect_ends();
        let components = self.state().components.into_values();
        let processes: Vec<ProcessIdentity> =
            components.map(|component| component.process).collect();
        for running in &self.running {
            let _ = running.child.signal(Signal::KILL);
        }
        for process in &processes {
            let _ = registry::signal(process, Signal::KILL);
        }
        let begun = Instant::now();
        while processes.iter().any(ProcessIdentity::is_alive) && begun.elapsed() < DROP_DEADLINE {
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

impl Drop for Plane {
    fn drop(&mut self) {
        if !self.settled {
            self.kill_all();
            // A destructor has nobody to tell; the next command clears what is left.
            let _ = self.settle();
        }
    }
}

/// Clears what others left. On a thread that may wait for a lock or for a process to die.
async fn reap(registry: &Registry, sink: &Arc<dyn Sink>) -> Result<(), PlaneError> {
    let (registry, sink) = (registry.clone(), Arc::clone(sink));
    let reaped = tokio::task::spawn_blocking(move || registry.reap(&*sink)).await;
    Ok(reaped.map_err(PlaneError::internal)??)
}

/// Takes the plane's name, and the port that it had before.
async fn claim(
    registry: Registry,
    options: &PlaneOptions,
    sink: Arc<dyn Sink>,
) -> Result<(Shared, Option<u16>), PlaneError> {
    if let Ok((layout, before)) = registry.load(&options.name)
        && layout.has_data()
        && newer_minor(&before, options)
    {
        return Err(PlaneError::Downgrade {
            name: before.name,
            had: before.kubernetes,
            wanted: options.kubernetes.clone(),
        });
    }
    let owner = ProcessIdentity::current().ok_or(PlaneError::NoProc)?;
    let layout = registry.layout(&options.name)?;
    let node = options.node.clone().map(|settings| NodeState {
        log: layout.node_log(&settings.name),
        settings,
        port: None,
    });
    let state = PlaneState {
        schema: SCHEMA,
        name: options.name.clone(),
        lifetime: options.lifetime,
        kubernetes: options.kubernetes.clone(),
        tool_version: env!("CARGO_PKG_VERSION").to_owned(),
        created: Utc::now(),
        started: Utc::now(),
        owner,
        phase: Phase::Starting,
        port: None,
        component_args: options.component_args.clone(),
        components: BTreeMap::new(),
        node,
    };
    let taking = registry.clone();
    let claim = tokio::task::spawn_blocking(move || taking.claim(state)).await;
    let claim = claim.map_err(PlaneError::internal)??;
    let kept_port = claim.state.port;
    Ok((Shared::new(registry, claim, sink), kept_port))
}

/// An API server does not read what a newer minor version may have stored.
fn newer_minor(before: &PlaneState, options: &PlaneOptions) -> bool {
    let minor = |version: &semver::Version| (version.major, version.minor);
    minor(&before.kubernetes) > minor(&options.kubernetes)
}

/// A control plane opens a connection per watch and a file per segment; the default soft limit of
/// 1024 is raised, here for the owner's own pipes and by the launcher for the components, so that
/// only the hard one counts.
fn settle_file_limit() -> Result<(), PlaneError> {
    match rustix::process::getrlimit(Resource::Nofile).maximum {
        Some(hard) if hard < WANTED_FILES => Err(PlaneError::FewFiles {
            hard,
            wanted: WANTED_FILES,
        }),
        _ => {
            raise_file_limit();
            Ok(())
        }
    }
}
