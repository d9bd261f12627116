//! The controller's process: everything that one release runs, until it is told to stop.
//!
//! One informer per kind, one worker per tracked kind, health and metrics endpoints. A custom kind
//! that is not served is asked for until it is; when it is not in time, the process ends
//! (`controller.md` G and M).

mod controllers;
mod informers;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use k8s_openapi::api::core::v1::ObjectReference;
use kube::{Client, Config};
use tokio::task::{JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

use super::api::object::ConfigObject;
use super::api::release::{ApiKind, ApiVersion};
use super::config::load::Loader;
use super::config::sinks::SinkMaker;
use super::events::{Happening, Recorder, Severity};
use super::go_regexp::PatternError;
use super::leader::{Candidate, Leader, LeadershipLost};
use super::profile::{self, Profile, metric};
use super::reconcile::aibom::Aibom;
use super::runtime::client::{ClientError, connect};
use super::runtime::discovery::{DiscoveryError, Served};
use super::runtime::health::{
    Bind, BindError, Check, Endpoint, Latch, Readiness, Routes, bind, checks, serve,
};
use super::runtime::metrics::aibom::{AibomMetrics, Since};
use super::runtime::metrics::{Metrics, MetricsError};
use super::runtime::store::{Informer, ObjectKey, SyncSet};
use super::runtime::watch::dice;
use super::runtime::worker::WorkerError;
use super::settings::Settings;
use super::sink::guard::Guard;
use super::sink::secret::Secrets;

/// How a process is started.
#[derive(Clone, Debug)]
pub struct Options {
    /// The release to behave like.
    pub profile: &'static Profile,
    /// The server.
    pub server: Config,
    /// Where metrics are served.
    pub metrics: Bind,
    /// Where health is served.
    pub health: Bind,
    /// Whether an invalid configuration makes the process not ready.
    pub strict_config_readiness: bool,
    /// Whether it controls only while it holds a lease.
    pub leader_elect: bool,
    /// The namespace that the process runs in, where the lease is.
    pub namespace: Option<String>,
    /// The pod that the process runs in, which its events are about. Without one they are not written.
    pub pod: Option<ObjectKey>,
    /// The namespace whose Secrets sinks may use.
    pub secrets_namespace: String,
    /// Whether sinks may lead inside the network.
    pub guard: Guard,
}

/// The process cannot start, or cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum ProcessError {
    /// Metrics cannot be kept.
    #[error(transparent)]
    Metrics(#[from] MetricsError),
    /// There is no client.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// A pattern of the profile is wrong.
    #[error(transparent)]
    Pattern(#[from] PatternError),
    /// An address cannot be listened on.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// The server does not say what it serves.
    #[error(transparent)]
    Discovery(#[from] DiscoveryError),
    /// A controller cannot go on.
    #[error(transparent)]
    Worker(#[from] WorkerError),
    /// There is nowhere to look for a lease.
    #[error(
        "unable to find leader election namespace: not running in-cluster, please specify \
         LeaderElectionNamespace"
    )]
    NoNamespace,
    /// Another process may lead.
    #[error(transparent)]
    Leadership(#[from] LeadershipLost),
    /// A controller panicked. Reconciles catch their own panics; this one is a mistake of what is around
    /// them.
    #[error("a controller ended unexpectedly")]
    Ended(#[from] JoinError),
}

impl ProcessError {
    /// The one thing to do about it, if there is one.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Metrics(error) => error.hint(),
            Self::Client(error) => error.hint(),
            Self::Pattern(error) => error.hint(),
            Self::Bind(error) => error.hint(),
            Self::Discovery(error) => error.hint(),
            Self::Worker(error) => error.hint(),
            Self::NoNamespace => Some("set POD_NAMESPACE".to_owned()),
            Self::Leadership(error) => error.hint(),
            Self::Ended(_) => Some("report it together with the log".to_owned()),
        }
    }
}

/// What runs.
struct Process {
    profile: &'static Profile,
    client: Client,
    served: Served,
    metrics: Arc<Metrics>,
    started: SyncSet,
    stop: CancellationToken,
    background: JoinSet<()>,
    workers: JoinSet<Result<(), WorkerError>>,
}

/// Caches of the controller's own kinds.
struct Own {
    aiboms: Informer<Aibom>,
    configs: Informer<ConfigObject>,
}

impl Own {
    fn new() -> Self {
        Self {
            aiboms: Informer::new(ApiKind::Aibom.kind()),
            configs: Informer::new(ApiKind::ControllerConfig.kind()),
        }
    }
}

/// Runs a controller until told to stop.
///
/// # Errors
///
/// [`ProcessError`] when it cannot start, or when a kind that it needs is not served in time.
pub async fn run(options: Options, stop: CancellationToken) -> Result<(), ProcessError> {
    let Options {
        profile, server, ..
    } = options;
    let metrics = Metrics::new()?;
    let own_metrics = Arc::new(AibomMetrics::register(&metrics, since(profile))?);
    let user_agent = format!("manager/{}", profile.version);
    let client = connect(server, &user_agent, Arc::clone(&metrics))?;
    let served = tokio::select! {
        served = Served::discover(&client) => served?,
        () = stop.cancelled() => return Ok(()),
    };

    let mut process = Process {
        profile,
        client: client.clone(),
        served,
        metrics,
        started: SyncSet::default(),
        stop: stop.child_token(),
        background: JoinSet::new(),
        workers: JoinSet::new(),
    };
    let invalid = Arc::new(AtomicBool::new(false));
    let strict = options
        .strict_config_readiness
        .then(|| Arc::clone(&invalid));
    process
        .serve(&options.metrics, &options.health, strict)
        .await?;
    let loader = Loader {
        defaults: Settings::defaults(profile)?,
        rules: profile.config,
        sinks: SinkMaker {
            secrets: Secrets::new(client.clone(), options.secrets_namespace),
            guard: options.guard,
            rules: profile.sinks,
        },
    };
    let (recorder, writer) = Recorder::new(client.clone());
    process.background.spawn(writer.run());
    let candidate = match (options.leader_elect, options.namespace) {
        (false, _) => None,
        (true, None) => return Err(ProcessError::NoNamespace),
        (true, Some(namespace)) => {
            let (metrics, recorder) = (&process.metrics, recorder.clone());
            Some(Candidate::new(
                client,
                &namespace,
                recorder,
                metrics,
                dice(),
            ))
        }
    };
    let pod = options.pod.as_ref().map(pod_reference);
    if let Some(pod) = &pod {
        recorder.record(starting(profile, pod.clone()));
    }
    let own = Own::new();
    let leader = match candidate {
        None => None,
        Some(candidate) => {
            process.inform_probes(&own);
            tokio::select! {
                leader = candidate.acquire() => Some(leader),
                () = stop.cancelled() => return Ok(()),
            }
        }
    };
    tokio::select! {
        started = process.start(own, loader, recorder, own_metrics, invalid, pod) => started?,
        () = stop.cancelled() => return Ok(()),
    }
    process.wait(leader).await
}

fn since(profile: &Profile) -> Since {
    let has = |name: &str| {
        let mut families = profile.metrics.iter().copied().flatten();
        families.any(|family| family.name == name)
    };
    Since {
        persist_failures: has("aibom_status_persist_failures_total"),
        outcomes_and_watches: metric::OUTCOMES.iter().all(|family| has(family.name)),
    }
}

fn pod_reference(pod: &ObjectKey) -> ObjectReference {
    ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("Pod".to_owned()),
        namespace: Some(pod.namespace.clone()),
        name: Some(pod.name.clone()),
        ..ObjectReference::default()
    }
}

fn starting(profile: &Profile, pod: ObjectReference) -> Happening {
    Happening {
        component: "k8s-aibom",
        regarding: pod,
        severity: Severity::Normal,
        reason: "ControllerStarting",
        message: format!("k8s-aibom controller starting; version={}", profile.version),
    }
}

const fn version(of: profile::ApiVersion) -> ApiVersion {
    match of {
        profile::ApiVersion::V1Alpha1 => ApiVersion::V1Alpha1,
        profile::ApiVersion::V1Beta1 => ApiVersion::V1Beta1,
    }
}

impl Process {
    /// Opens both addresses.
    async fn serve(
        &mut self,
        metrics: &Bind,
        health: &Bind,
        config_invalid: Option<Arc<AtomicBool>>,
    ) -> Result<(), ProcessError> {
        let (readiness, latch) = match self.profile.process.readiness {
            profile::Readiness::Latch => (Readiness::Latched, Latch::default()),
            profile::Readiness::Informers(budget) => {
                (Readiness::Probed { budget }, Latch::default())
            }
        };
        let required = ApiKind::ALL.map(|kind| kind.kind().to_owned()).to_vec();
        let ready = checks(
            readiness,
            latch.clone(),
            self.started.clone(),
            required,
            config_invalid,
        );
        let health_routes = Routes {
            endpoints: vec![
                Endpoint::new("/healthz", vec![Check::passing("healthz")]),
                Endpoint::new("/readyz", ready),
            ],
            metrics: None,
        };
        let metrics_routes = Routes {
            endpoints: Vec::new(),
            metrics: Some(Arc::clone(&self.metrics)),
        };
        for (what, address, routes) in [
            ("health probe", health, health_routes),
            ("metrics", metrics, metrics_routes),
        ] {
            if let Some(listener) = bind(address).await? {
                if let Ok(addr) = listener.local_addr() {
                    tracing::info!(name = what, %addr, "starting server");
                }
                self.background
                    .spawn(serve(listener, routes, self.stop.clone()));
            }
        }
        // The wait of releases with a latch begins before there is any informer to wait for.
        let started = self.started.clone();
        self.background.spawn(async move {
            started.wait_for_present().await;
            latch.set();
        });
        Ok(())
    }

    /// Waits for the end: because it is asked for, or because a controller cannot go on. A process that
    /// led and no longer does ends at once.
    async fn wait(mut self, leader: Option<Leader>) -> Result<(), ProcessError> {
        let mut result = Ok(());
        let lost = async {
            match leader {
                Some(leader) => leader.hold().await,
                None => std::future::pending().await,
            }
        };
        tokio::pin!(lost);
        loop {
            let ended = tokio::select! {
                ended = self.workers.join_next() => ended,
                lost = &mut lost => return Err(lost.into()),
            };
            let Some(ended) = ended else {
                break;
            };
            let ended = match ended {
                Ok(ended) => ended.map_err(ProcessError::from),
                Err(error) => Err(error.into()),
            };
            if result.is_ok() {
                result = ended;
            }
            self.stop.cancel();
        }
        self.background.shutdown().await;
        result
    }
}
