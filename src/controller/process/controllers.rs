//! Which controllers run: those of workloads, and that of the configuration.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::core::v1::{ObjectReference, Pod};
use kube::core::GroupVersionKind;

use super::{Own, Process, ProcessError, version};
use crate::controller::api::object::{ConfigObject, resource};
use crate::controller::api::release::ApiKind;
use crate::controller::config;
use crate::controller::config::load::Loader;
use crate::controller::config::reconcile::ConfigReconciler;
use crate::controller::config::schema::ServedSchema;
use crate::controller::document::redact::Redactor;
use crate::controller::events::Recorder;
use crate::controller::profile::kind::{CRON_JOB, Kind};
use crate::controller::profile::{self, Profile, ThirdPartyWatch};
use crate::controller::reconcile::Shared;
use crate::controller::reconcile::aibom::Writer;
use crate::controller::reconcile::controller::{Controller, Read};
use crate::controller::reconcile::intermediates::Intermediates;
use crate::controller::reconcile::kinds::{BuiltIn, ThirdParty};
use crate::controller::reconcile::lineage::Lineage;
use crate::controller::reconcile::replica_sets::ReplicaSets;
use crate::controller::runtime::discovery::Served;
use crate::controller::runtime::metrics::aibom::AibomMetrics;
use crate::controller::runtime::queue::Queue;
use crate::controller::runtime::store::Informer;
use crate::controller::runtime::worker::Worker;
use crate::controller::settings::Current;
use crate::controller::third_party::gate::Gate;
use crate::controller::third_party::health::{Regarding, Report, Reporter, WatchHealth};
use crate::controller::third_party::presence::Presence;
use crate::controller::third_party::supervisor::{Rhythm, Supervisor};

impl Process {
    /// Starts informers and workers.
    pub(super) async fn start(
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
}

/// Events about watches are about the configuration, or about the pod if there is none.
fn regarding(configs: Informer<ConfigObject>, pod: Option<ObjectReference>) -> Regarding {
    Arc::new(move || {
        let config = configs.get(&config::reconcile::key());
        let config = config.map(|object| config::reconcile::reference(&object));
        config.or_else(|| pod.clone())
    })
}

fn tracks(profile: &Profile, kind: &Kind) -> bool {
    profile.kind(kind.group, kind.kind).is_some()
}
