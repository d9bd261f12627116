//! The controller's process: everything that one release runs, until it is told to stop.
//!
//! One informer per kind, one worker per tracked kind, health and metrics endpoints. A custom kind
//! that is not served is asked for until it is; when it is not in time, the process ends
//! (`controller.md` G and M).

use std::fmt::Debug;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::core::v1::{ObjectReference, Pod};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, Client, Config, Resource};
use serde::de::DeserializeOwned;
use tokio::task::{JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

use super::api::object::{ConfigObject, resource};
use super::api::release::{ApiKind, ApiVersion};
use super::config::load::Loader;
use super::config::sinks::SinkMaker;
use super::config::{self, reconcile::ConfigReconciler, schema::ServedSchema};
use super::document::redact::Redactor;
use super::events::{Happening, Recorder, Severity};
use super::go_regexp::PatternError;
use super::leader::{Candidate, Leader, LeadershipLost};
use super::profile::kind::{CRON_JOB, Kind};
use super::profile::{self, Profile, ThirdPartyWatch, metric};
use super::reconcile::Shared;
use super::reconcile::aibom::{Aibom, Writer};
use super::reconcile::controller::{Controller, Read};
use super::reconcile::intermediates::Intermediates;
use super::reconcile::kinds::{BuiltIn, ThirdParty};
use super::reconcile::lineage::Lineage;
use super::reconcile::replica_sets::ReplicaSets;
use super::runtime::client::{ClientError, connect};
use super::runtime::discovery::{DiscoveryError, Served};
use super::runtime::health::{
    Bind, BindError, Check, Endpoint, Latch, Readiness, Routes, bind, checks, serve,
};
use super::runtime::metrics::aibom::{AibomMetrics, Since};
use super::runtime::metrics::{Metrics, MetricsError};
use super::runtime::queue::Queue;
use super::runtime::store::{Informer, ObjectKey, SyncSet};
use super::runtime::watch::{Trouble, Watch, dice};
use super::runtime::worker::{Worker, WorkerError};
use super::settings::{Current, Settings};
use super::sink::guard::Guard;
use super::sink::secret::Secrets;
use super::third_party::gate::Gate;
use super::third_party::health::{Regarding, Report, Reporter, WatchHealth};
use super::third_party::presence::Presence;
use super::third_party::supervisor::{Rhythm, Supervisor};
use crate::error_chain::chain;

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

    /// Starts informers and workers.
    async fn start(
        &mut self,
        own: Own,
        loader: Loader,
        recorder: Recorder,
        own_metrics: Arc<AibomMetrics>,
        invalid: Arc<AtomicBool>,
        pod: Option<ObjectReference>,
    ) -> Result<(), ProcessError> {
        let profile = self.profile;
        let api = version(profile.api.in_use);
        let replica_sets = Informer::<ReplicaSet>::new("ReplicaSet");
        let settings = Current::new(loader.defaults.clone());
        let pods = Informer::new("Pod");
        let on_demand = ReplicaSets::new(replica_sets.clone());
        let shared = Shared {
            profile,
            lineage: self.lineage(&settings, &pods, &on_demand),
            settings,
            redactor: Arc::new(Redactor::new(profile.document.redaction)?),
            namespaces: Informer::new("Namespace"),
            pods,
            replica_sets: on_demand,
            aiboms: own.aiboms,
            third_party: Gate::default(),
            writer: Writer::new(
                self.client.clone(),
                api,
                recorder.clone(),
                Arc::clone(&own_metrics),
            ),
            metrics: own_metrics,
        };
        // Workers first, so that their handlers hear the initial lists as such.
        self.track::<Deployment>(&shared);
        self.track::<StatefulSet>(&shared);
        self.track::<DaemonSet>(&shared);
        self.track::<Job>(&shared);
        if tracks(profile, &CRON_JOB) {
            self.track::<CronJob>(&shared);
        }
        let watches = WatchHealth::default();
        match profile.reconcile.third_party {
            ThirdPartyWatch::AtStart => {
                for kind in profile.third_party_kinds() {
                    self.track_if_served(kind, &shared).await?;
                }
            }
            ThirdPartyWatch::Supervised {
                probe,
                retry_base,
                retry_max,
            } => {
                let rhythm = Rhythm {
                    probe,
                    retry_base,
                    retry_max,
                };
                let reporter = Reporter {
                    health: watches.clone(),
                    recorder: recorder.clone(),
                    regarding: regarding(own.configs.clone(), pod.clone()),
                    metrics: Arc::clone(&shared.metrics),
                };
                self.supervise(rhythm, &reporter, &shared);
            }
        }
        self.inform_built_in(&shared.namespaces);
        self.inform_built_in(&shared.pods);
        // Each of them watches the AIBOMs that it owns.
        let controllers = profile.built_in_kinds().count();
        self.inform_custom(&shared.aiboms, &resource(ApiKind::Aibom, api), controllers);
        self.inform_later(replica_sets, shared.replica_sets.clone());
        let configs = resource(ApiKind::ControllerConfig, api);
        let schema = match profile.config.schema_skew {
            profile::SchemaSkew::Unnoticed => None,
            profile::SchemaSkew::Detected(wanted) => {
                let client = self.client.clone();
                Some(ServedSchema::new(client, configs.clone(), wanted))
            }
        };
        self.configure(ConfigReconciler {
            configs: own.configs,
            client: self.client.clone(),
            resource: configs,
            loader,
            settings: shared.settings,
            invalid,
            recorder,
            pod,
            metrics: shared.metrics,
            watches,
            state: Mutex::default(),
            schema,
        });
        Ok(())
    }

    /// Makes what knows of owners, if the release rolls workloads up to them.
    fn lineage(
        &mut self,
        settings: &Current,
        pods: &Informer<Pod>,
        replica_sets: &ReplicaSets,
    ) -> Option<Lineage> {
        let rules = self.profile.reconcile.roll_up?;
        let (intermediates, filler) = Intermediates::new(self.client.clone());
        let (lineage, changes) = Lineage::new(
            rules,
            settings.clone(),
            pods.clone(),
            replica_sets.clone(),
            intermediates,
        );
        let again = lineage.clone();
        let filler = filler.run(move |news| again.look_at_unresolved(&news));
        self.background.spawn(async { match filler.await {} });
        let changes = changes.run();
        self.background.spawn(async { match changes.await {} });
        Some(lineage)
    }

    /// Starts the controller of the configuration.
    fn configure(&mut self, reconciler: ConfigReconciler) {
        let name = ApiKind::ControllerConfig.kind().to_lowercase();
        let (configs, resource) = (reconciler.configs.clone(), reconciler.resource.clone());
        let queue = Queue::new(&name, &self.metrics);
        config::reconcile::subscribe(&configs, &queue);
        let (watches, again) = (reconciler.watches.clone(), queue.clone());
        self.background.spawn(async move {
            let look = || again.add(config::reconcile::key());
            match watches.follow(look).await {}
        });
        let worker = Worker::new(&name, queue, reconciler, &self.metrics)
            .source(configs.sync_flag())
            .deadline(self.profile.reconcile.deadline);
        self.workers.spawn(worker.run(self.stop.clone()));
        self.inform_custom(&configs, &resource, 1);
    }

    /// Starts the controller of a kind that every cluster serves.
    fn track<K: BuiltIn>(&mut self, shared: &Shared) {
        let workloads = Informer::<K>::new(K::KIND.kind);
        let controller = Controller::new(K::KIND, &workloads, Read::Cache, shared, &self.metrics);
        self.workers.spawn(controller.run(self.stop.clone()));
        self.inform_built_in(&workloads);
    }

    /// Starts the controller of a third-party kind that is served now; otherwise there never is one.
    async fn track_if_served(
        &mut self,
        kind: &'static Kind,
        shared: &Shared,
    ) -> Result<(), ProcessError> {
        let resource = ThirdParty::resource(kind);
        let wanted = GroupVersionKind::gvk(kind.group, kind.version, kind.kind);
        if self.served.check(&wanted).is_err() {
            tracing::info!(
                logger = "setup",
                kind = format!("{}.{}", kind.kind, kind.group),
                "the kind is not served; its objects are not looked at"
            );
            return Ok(());
        }
        Served::confirm(&self.client, &wanted).await?;
        let workloads = Informer::new(kind.kind);
        let read = Read::uncached(self.client.clone(), resource.clone());
        let controller = Controller::new(kind, &workloads, read, shared, &self.metrics);
        self.workers.spawn(controller.run(self.stop.clone()));
        self.inform_custom(&workloads, &resource, 1);
        Ok(())
    }

    /// Starts a supervisor for every third-party kind.
    fn supervise(&mut self, rhythm: Rhythm, reporter: &Reporter, shared: &Shared) {
        let presence = Presence::new(self.client.clone(), self.served.clone());
        let asking = presence.clone().run(rhythm.retry_max);
        self.background.spawn(async { match asking.await {} });
        for kind in self.profile.third_party_kinds() {
            let supervisor = Supervisor::new(
                kind,
                rhythm,
                self.client.clone(),
                presence.clone(),
                shared.settings.clone(),
            );
            let report = Report::new(kind, reporter.clone());
            let ticket = shared.third_party.ticket();
            let (own, metrics) = (shared.clone(), Arc::clone(&self.metrics));
            let make = move |workloads: &Informer<ThirdParty>| {
                Controller::new(kind, workloads, Read::Cache, &own, &metrics)
            };
            let supervised = supervisor.run(make, report, ticket, self.stop.clone());
            self.workers.spawn(supervised);
        }
    }

    /// Fills the cache of a kind that every cluster serves.
    fn inform_built_in<K>(&mut self, informer: &Informer<K>)
    where
        K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
    {
        self.started.add(informer.sync_flag());
        let filled = fill(informer.clone(), Api::all(self.client.clone()));
        self.background.spawn(filled);
    }

    /// Fills the cache of ReplicaSets once somebody needs it.
    fn inform_later(&mut self, informer: Informer<ReplicaSet>, replica_sets: ReplicaSets) {
        let started = self.started.clone();
        let api = Api::all(self.client.clone());
        self.background.spawn(async move {
            replica_sets.wanted().await;
            started.add(informer.sync_flag());
            fill(informer, api).await;
        });
    }

    /// Fills the caches that probes of readiness ask for, which they do of a process that does not
    /// lead as well.
    fn inform_probes(&mut self, own: &Own) {
        if self.profile.process.readiness == profile::Readiness::Latch {
            return;
        }
        let api = version(self.profile.api.in_use);
        let (aiboms, configs) = (&own.aiboms, &own.configs);
        self.inform_served(aiboms, &resource(ApiKind::Aibom, api));
        self.inform_served(configs, &resource(ApiKind::ControllerConfig, api));
    }

    /// Fills the cache of a kind if it is served; says whether it is.
    fn inform_served<K>(&mut self, informer: &Informer<K>, resource: &ApiResource) -> bool
    where
        K: Resource<DynamicType = ApiResource>
            + Clone
            + Debug
            + DeserializeOwned
            + Send
            + Sync
            + 'static,
    {
        let is_served = self.served.check(&kind_of(resource)).is_ok();
        if is_served {
            self.started.add(informer.sync_flag());
            let api = Api::all_with(self.client.clone(), resource);
            self.background.spawn(fill(informer.clone(), api));
        }
        is_served
    }

    /// Fills the cache of a kind whose definition may be missing, once it is served. So many
    /// controllers wait for it, and each complains.
    fn inform_custom<K>(
        &mut self,
        informer: &Informer<K>,
        resource: &ApiResource,
        controllers: usize,
    ) where
        K: Resource<DynamicType = ApiResource>
            + Clone
            + Debug
            + DeserializeOwned
            + Send
            + Sync
            + 'static,
    {
        let is_there = self.started.find(informer.name()).is_some();
        if is_there || self.inform_served(informer, resource) {
            return;
        }
        let api = Api::all_with(self.client.clone(), resource);
        let kind = kind_of(resource);
        let (served, client) = (self.served.clone(), self.client.clone());
        let (started, informer) = (self.started.clone(), informer.clone());
        self.background.spawn(async move {
            let absent = |error: &DiscoveryError| {
                for _ in 0..controllers {
                    tracing::error!(
                        logger = "controller-runtime.source.Kind",
                        kind = format!("{}.{}", kind.kind, kind.group),
                        error = chain(error),
                        "if kind is a CRD, it should be installed before calling Start"
                    );
                }
            };
            served.wait_for(&client, &kind, absent).await;
            started.add(informer.sync_flag());
            fill(informer, api).await;
        });
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

/// Events about watches are about the configuration, or about the pod if there is none.
fn regarding(configs: Informer<ConfigObject>, pod: Option<ObjectReference>) -> Regarding {
    Arc::new(move || {
        let config = configs.get(&config::reconcile::key());
        let config = config.map(|object| config::reconcile::reference(&object));
        config.or_else(|| pod.clone())
    })
}

fn kind_of(resource: &ApiResource) -> GroupVersionKind {
    GroupVersionKind::gvk(&resource.group, &resource.version, &resource.kind)
}

fn tracks(profile: &Profile, kind: &Kind) -> bool {
    profile.kind(kind.group, kind.kind).is_some()
}

/// Fills a cache until dropped. Who wrote which field is of no use here and the largest part of many
/// objects; the server keeps it when an object comes back without.
async fn fill<K>(informer: Informer<K>, api: Api<K>)
where
    K: Resource + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
{
    let kind = informer.name().to_owned();
    let watch = Watch::new(api, kind.clone(), dice())
        .transform(|object| object.meta_mut().managed_fields = None);
    let observe = |trouble: &Trouble| {
        tracing::error!(
            logger = "controller-runtime.cache",
            kind,
            error = chain(&trouble.error),
            "Failed to watch"
        );
    };
    match informer.drive(watch, dice(), observe).await {}
}
