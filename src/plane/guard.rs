//! A plane in the hands of this process: supervised while it lives, stopped in order, and never
//! left behind.

use std::collections::BTreeMap;
use std::fs;
use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use chrono::Utc;
use rustix::process::{Resource, Signal};
use tokio::sync::watch;

use super::autopsy::ComponentFailure;
use super::binaries;
use super::error::PlaneError;
use super::event::{Event, Sink};
use super::identity::ProcessIdentity;
use super::launch::WANTED_FILES;
use super::layout::Layout;
use super::options::PlaneOptions;
use super::process::Stopped;
use super::registry::{Registry, RegistryError};
use super::start::{self, Running};
use super::state::{ComponentState, Lifetime, Phase, PlaneState, SCHEMA};
use super::tool::Tool;

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

/// What the plane's parts have in common: its folder, its state, and the first failure.
pub(crate) struct Shared {
    pub(crate) layout: Layout,
    registry: Registry,
    state: Mutex<PlaneState>,
    sink: Arc<dyn Sink>,
    stopping: AtomicBool,
    is_failed: AtomicBool,
    failure: watch::Sender<Option<Arc<ComponentFailure>>>,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared")
            .field("layout", &self.layout)
            .finish_non_exhaustive()
    }
}

impl Shared {
    pub(crate) fn event(&self, event: Event) {
        self.sink.event(event);
    }

    pub(crate) fn phase_event(&self, doing: &str) {
        self.event(Event::Phase {
            doing: doing.to_owned(),
        });
    }

    pub(crate) fn failures(&self) -> watch::Receiver<Option<Arc<ComponentFailure>>> {
        self.failure.subscribe()
    }

    pub(crate) fn context_name(&self) -> String {
        format!("aibom-qual-{}", self.with_state(|state| state.name.clone()))
    }

    fn with_state<T>(&self, use_it: impl FnOnce(&mut PlaneState) -> T) -> T {
        // The state is replaced field by field; a panic elsewhere cannot leave it half-changed.
        use_it(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn change(&self, change: impl FnOnce(&mut PlaneState)) -> Result<(), RegistryError> {
        self.with_state(|state| {
            change(state);
            self.registry.write(&self.layout, state)
        })
    }

    pub(crate) fn set_component(
        &self,
        tool: Tool,
        component: ComponentState,
    ) -> Result<(), RegistryError> {
        self.change(|state| {
            state.components.insert(tool, component);
        })
    }

    pub(crate) fn set_port(&self, port: u16) -> Result<(), RegistryError> {
        self.change(|state| state.port = Some(port))
    }

    /// A client with the administrator's credentials. Proxies of the environment are not for the
    /// loopback.
    pub(crate) async fn client(&self) -> Result<kube::Client, PlaneError> {
        let error = |error: &dyn std::error::Error| PlaneError::Client(error.to_string());
        let kubeconfig =
            kube::config::Kubeconfig::read_from(self.layout.kubeconfig()).map_err(|e| error(&e))?;
        let mut config = kube::Config::from_custom_kubeconfig(kubeconfig, &Default::default())
            .await
            .map_err(|e| error(&e))?;
        config.proxy_url = None;
        kube::Client::try_from(config).map_err(|e| error(&e))
    }

    /// Reports the component's end, should it come before anybody asks for it.
    pub(crate) fn watch(self: &Arc<Self>, running: &Running) {
        let shared = Arc::clone(self);
        let (tool, log, age) = (running.tool, running.log.clone(), running.child.age());
        let since = Instant::now();
        let mut exit = running.child.watch_exit();
        tokio::spawn(async move {
            let status = exit
                .wait_for(Option::is_some)
                .await
                .ok()
                .and_then(|status| *status);
            if shared.stopping.load(Ordering::SeqCst) {
                return;
            }
            let failure = Arc::new(ComponentFailure::examine(
                tool,
                status,
                &log,
                age + since.elapsed(),
            ));
            shared.event(Event::ComponentDied {
                tool,
                status: failure.status.clone(),
            });
            // What ends after the first one most often ends because of it.
            if shared.is_failed.swap(true, Ordering::SeqCst) {
                return;
            }
            // Written for other processes before the caller hears of it and begins to stop the plane.
            // A disk that refuses this is told by whatever comes next.
            let _ = shared.change(|state| {
                state.phase = Phase::Failed {
                    reason: failure.to_string(),
                    at: Utc::now(),
                };
            });
            shared.failure.send_replace(Some(failure));
        });
    }
}

impl Plane {
    /// Starts a plane and waits until it is ready.
    ///
    /// # Errors
    ///
    /// Any [`PlaneError`]; then nothing of the plane runs any more, and only its logs are kept.
    pub async fn start(options: &PlaneOptions, sink: Arc<dyn Sink>) -> Result<Self, PlaneError> {
        check_file_limit()?;
        let registry = Registry::new(options.dirs.planes());
        registry.layout(&options.name)?;
        registry.reap(&*sink)?;
        let request = binaries::Request {
            tools: Tool::PLANE.to_vec(),
            kubernetes: options.kubernetes.clone(),
            explicit: options.binaries.clone(),
            sources: options.sources.clone(),
        };
        let found = binaries::ensure(&options.dirs, &options.launcher, &request, &*sink).await?;
        let state = PlaneState {
            schema: SCHEMA,
            name: options.name.clone(),
            lifetime: options.lifetime,
            kubernetes: options.kubernetes.clone(),
            tool_version: env!("CARGO_PKG_VERSION").to_owned(),
            created: Utc::now(),
            owner: ProcessIdentity::current()
                .ok_or_else(|| PlaneError::Client("/proc is not mounted".to_owned()))?,
            phase: Phase::Starting,
            port: None,
            components: BTreeMap::new(),
        };
        let (layout, before) = registry.claim(&state)?;
        let shared = Arc::new(Shared {
            layout,
            registry,
            state: Mutex::new(state),
            sink,
            stopping: AtomicBool::new(false),
            is_failed: AtomicBool::new(false),
            failure: watch::Sender::new(None),
        });
        let mut plane = Self {
            shared,
            running: Vec::new(),
            settled: false,
        };
        let kept_port = before.as_ref().and_then(|before| before.port);
        let shared = Arc::clone(&plane.shared);
        match start::bring_up(&shared, options, &found, kept_port, &mut plane.running).await {
            Ok(()) => {
                shared.change(|state| state.phase = Phase::Ready)?;
                Ok(plane)
            }
            Err(error) => {
                plane.settle_as_failed(&error.to_string());
                Err(error)
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
    pub fn kubeconfig(&self) -> std::path::PathBuf {
        self.shared.layout.kubeconfig()
    }

    /// A copy of the plane's state.
    #[must_use]
    pub fn state(&self) -> PlaneState {
        self.shared.with_state(|state| state.clone())
    }

    /// A client with the administrator's credentials.
    ///
    /// # Errors
    ///
    /// [`PlaneError::Client`].
    pub async fn client(&self) -> Result<kube::Client, PlaneError> {
        self.shared.client().await
    }

    /// Waits until a component ends by itself; never returns while all is well.
    pub async fn failed(&self) -> Arc<ComponentFailure> {
        let mut failures = self.shared.failures();
        loop {
            if let Ok(seen) = failures.wait_for(Option::is_some).await
                && let Some(failure) = seen.clone()
            {
                return failure;
            }
            // The sender lives in `self`, so that the channel cannot close; this is never reached.
            std::future::pending::<()>().await;
        }
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
    /// When a process cannot be signalled or the folder cannot be removed.
    pub async fn stop(mut self) -> Result<StopReport, PlaneError> {
        let begun = Instant::now();
        let failed = self.shared.failures().borrow().clone();
        self.shared.stopping.store(true, Ordering::SeqCst);
        let lifetime = self.state().lifetime;
        if failed.is_none() {
            self.shared.change(|state| state.phase = Phase::Stopping)?;
        }
        let api_grace = match lifetime {
            Lifetime::ThrowAway => APISERVER_GRACE,
            Lifetime::Persistent => APISERVER_GRACE_PERSISTENT,
        };
        let (kcm, scheduler) = tokio::join!(
            self.stop_one(Tool::KubeControllerManager, CLIENTS_GRACE),
            self.stop_one(Tool::KubeScheduler, CLIENTS_GRACE),
        );
        let apiserver = self.stop_one(Tool::KubeApiserver, api_grace).await;
        let etcd = self.stop_one(Tool::Etcd, ETCD_GRACE).await;
        let mut components = BTreeMap::new();
        for stopped in [kcm, scheduler, apiserver, etcd] {
            if let Some((tool, stopped)) = stopped? {
                components.insert(tool, stopped);
            }
        }
        match failed {
            Some(failure) => self.settle_as_failed(&failure.to_string()),
            None => {
                self.settled = true;
                match lifetime {
                    Lifetime::ThrowAway => self.shared.registry.remove(&self.shared.layout)?,
                    Lifetime::Persistent => self.shared.change(|state| {
                        state.phase = Phase::Stopped;
                        state.components.clear();
                    })?,
                }
            }
        }
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
        let stopped = running
            .child
            .stop(grace)
            .await
            .map_err(|source| PlaneError::Stop { tool, source })?;
        self.shared.event(Event::ComponentStopped {
            tool,
            took: stopped.took,
            killed: stopped.killed,
        });
        Ok(Some((tool, stopped)))
    }

    /// Ends all processes at once and keeps what explains the failure: state and logs.
    fn settle_as_failed(&mut self, reason: &str) {
        self.settled = true;
        self.kill_all();
        let throw_away = self.state().lifetime == Lifetime::ThrowAway;
        // The failure itself is on its way to the caller; a second one about writing it down would
        // only hide it.
        let _ = self.shared.change(|state| {
            state.phase = Phase::Failed {
                reason: reason.to_owned(),
                at: Utc::now(),
            };
            state.components.clear();
        });
        if throw_away {
            let layout = &self.shared.layout;
            let _ = fs::remove_dir_all(layout.pki());
            let _ = fs::remove_dir_all(layout.etcd());
            let _ = fs::remove_file(layout.kubeconfig());
        }
    }

    /// Kills every process recorded, also one that was still becoming ready, and waits for the end.
    fn kill_all(&mut self) {
        self.shared.stopping.store(true, Ordering::SeqCst);
        let processes: Vec<ProcessIdentity> = self
            .state()
            .components
            .into_values()
            .map(|component| component.process)
            .collect();
        for running in &self.running {
            let _ = running.child.signal(Signal::KILL);
        }
        for process in &processes {
            let _ = super::registry::signal(process, Signal::KILL);
        }
        let begun = Instant::now();
        while processes.iter().any(ProcessIdentity::is_alive) && begun.elapsed() < DROP_DEADLINE {
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

impl Drop for Plane {
    fn drop(&mut self) {
        if self.settled {
            return;
        }
        self.kill_all();
        match self.state().lifetime {
            Lifetime::ThrowAway => {
                let _ = self.shared.registry.remove(&self.shared.layout);
            }
            Lifetime::Persistent => {
                let _ = self.shared.change(|state| {
                    state.phase = Phase::Stopped;
                    state.components.clear();
                });
            }
        }
    }
}

/// A control plane opens a connection per watch and a file per segment; the default soft limit of
/// 1024 is raised by the launcher, so that only the hard one counts.
fn check_file_limit() -> Result<(), PlaneError> {
    match rustix::process::getrlimit(Resource::Nofile).maximum {
        Some(hard) if hard < WANTED_FILES => Err(PlaneError::FewFiles {
            hard,
            wanted: WANTED_FILES,
        }),
        _ => Ok(()),
    }
}
