//! What the parts of one plane have in common: its folder, its state, and the first failure.

use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use kube::config::{KubeConfigOptions, Kubeconfig};
use tokio::sync::watch;

use super::autopsy::ComponentFailure;
use super::error::PlaneError;
use super::event::{Doing, Event, Sink};
use super::layout::Layout;
use super::registry::{Claim, Registry, RegistryError};
use super::state::{ComponentState, Phase, PlaneState};
use super::tool::Tool;
use crate::host::process::Child;

/// A component that runs and was ready once.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) tool: Tool,
    pub(crate) child: Child,
    pub(crate) log: PathBuf,
    /// The port that clients use.
    pub(crate) port: u16,
}

/// The one owner of a plane's state; the plane's parts hold it together.
pub(crate) struct Shared {
    pub(crate) layout: Layout,
    registry: Registry,
    state: Mutex<PlaneState>,
    sink: Arc<dyn Sink>,
    /// From now on the end of a component is no surprise.
    stopping: AtomicBool,
    is_failed: AtomicBool,
    failure: watch::Sender<Option<Arc<ComponentFailure>>>,
    /// Locked for as long as the plane lives.
    claim: Claim,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared")
            .field("layout", &self.layout)
            .finish_non_exhaustive()
    }
}

impl Shared {
    pub(crate) fn new(registry: Registry, claim: Claim, sink: Arc<dyn Sink>) -> Self {
        Self {
            layout: claim.layout.clone(),
            registry,
            state: Mutex::new(claim.state.clone()),
            sink,
            stopping: AtomicBool::new(false),
            is_failed: AtomicBool::new(false),
            failure: watch::Sender::new(None),
            claim,
        }
    }

    pub(crate) fn event(&self, event: Event) {
        self.sink.event(event);
    }

    pub(crate) fn doing(&self, doing: Doing) {
        self.event(Event::Phase { doing });
    }

    pub(crate) fn failures(&self) -> watch::Receiver<Option<Arc<ComponentFailure>>> {
        self.failure.subscribe()
    }

    /// Waits until a component ends by itself.
    pub(crate) async fn failed(&self) -> Arc<ComponentFailure> {
        let mut failures = self.failures();
        match failures
            .wait_for(Option::is_some)
            .await
            .map(|seen| seen.clone())
        {
            Ok(Some(failure)) => failure,
            // The sender lives in `self`, so that the channel cannot close while this waits.
            Ok(None) | Err(_) => std::future::pending().await,
        }
    }

    /// From here on the end of a component is no failure.
    pub(crate) fn expect_ends(&self) {
        self.stopping.store(true, Ordering::SeqCst);
    }

    pub(crate) fn context_name(&self) -> String {
        format!("aibom-qual-{}", self.state().name)
    }

    pub(crate) fn state(&self) -> PlaneState {
        self.with_state(|state| state.clone())
    }

    fn with_state<T>(&self, use_it: impl FnOnce(&mut PlaneState) -> T) -> T {
        // The state is replaced field by field; a panic elsewhere cannot leave it half-changed.
        use_it(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn change(&self, change: impl FnOnce(&mut PlaneState)) -> Result<(), RegistryError> {
        self.with_state(|state| {
            change(state);
            self.require_intact(&state.name)?;
            self.registry.write(&self.layout, state)
        })
    }

    /// A folder that took the place of ours belongs to somebody else.
    fn require_intact(&self, name: &str) -> Result<(), RegistryError> {
        if self.claim.is_intact() {
            Ok(())
        } else {
            Err(RegistryError::Replaced(name.to_owned()))
        }
    }

    /// Everything is ready, unless something has ended meanwhile.
    pub(crate) fn set_ready(&self) -> Result<(), RegistryError> {
        self.change(|state| {
            if state.phase == Phase::Starting {
                state.phase = Phase::Ready;
            }
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

    /// Removes the plane's folder.
    pub(crate) fn remove(&self) -> Result<(), RegistryError> {
        self.require_intact(&self.state().name)?;
        self.registry.remove_owned(&self.layout)
    }

    /// A client with the administrator's credentials.
    pub(crate) async fn client(&self) -> Result<kube::Client, PlaneError> {
        let error = |error: &dyn std::error::Error| PlaneError::Client(error.to_string());
        let mut file = Kubeconfig::read_from(self.layout.kubeconfig()).map_err(|e| error(&e))?;
        // The conversion takes a proxy from the environment, and fails when that is not a URL, unless
        // the file names one. No proxy reaches the loopback, so a stand-in is named and taken out.
        for cluster in file
            .clusters
            .iter_mut()
            .filter_map(|named| named.cluster.as_mut())
        {
            cluster.proxy_url = Some("http://127.0.0.1".to_owned());
        }
        let options = KubeConfigOptions::default();
        let mut config = kube::Config::from_custom_kubeconfig(file, &options)
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
            let ran_for = age + since.elapsed();
            let failure = Arc::new(ComponentFailure::examine(tool, status, &log, ran_for));
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
            let _ = shared.change(|state| state.phase = Phase::failed(&failure.to_string()));
            shared.failure.send_replace(Some(failure));
        });
    }
}
