//! One reconcile of one workload.
//!
//! What is there is read from caches. An AIBOM whose input hash still holds only gets a new time; else
//! the document is built and written anew.

use std::sync::Arc;

use chrono::Utc;
use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::{Namespace, Pod};

use super::Shared;
use super::aibom::{Aibom, WriteError};
use super::controller::Read;
use super::kinds::Tracked;
use super::lineage::{Absorbed, Ancestry};
use crate::controller::detect::pods::{self, controller_of};
use crate::controller::detect::{Confidence, Scrape};
use crate::controller::document::{Document, Source, category};
use crate::controller::profile::kind::{DEPLOYMENT, Kind};
use crate::controller::profile::{MissingStatus, PodAttribution, ReplicaSetInformer, SinkFailure};
use crate::controller::runtime::store::{Informer, ObjectKey};
use crate::controller::runtime::worker::{Outcome, Reconciler};
use crate::controller::settings::Settings;
use crate::controller::sink::Delivery;
use crate::controller::status::{Build, Failure, SinkOutcome, Status};
use crate::controller::workload::Workload;
use crate::controller::{input_hash, name};

/// A workload could not be reconciled.
#[derive(Debug, thiserror::Error)]
pub enum ReconcileError {
    /// It could not be read.
    #[error("cannot get {kind} {workload}")]
    Read {
        /// Its kind.
        kind: &'static str,
        /// The workload.
        workload: ObjectKey,
        /// Why not.
        source: Box<kube::Error>,
    },
    /// What was detected cannot be hashed or written as a document.
    #[error("cannot build the document")]
    Build(#[from] serde_json::Error),
    /// Its AIBOM could not be written.
    #[error(transparent)]
    Write(#[from] WriteError),
}

impl ReconcileError {
    /// The one thing to do about it, if there is one.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Read { source, .. } => match &**source {
                kube::Error::Api(status) if status.is_forbidden() => {
                    Some("check the rules of the controller's ClusterRole".to_owned())
                }
                _ => None,
            },
            Self::Build(_) => None,
            Self::Write(error) => error.hint(),
        }
    }
}

/// Reconciles the workloads of one kind.
#[derive(Clone)]
pub struct WorkloadReconciler<K> {
    kind: &'static Kind,
    workloads: Informer<K>,
    read: Read<K>,
    shared: Shared,
}

impl<K: Tracked> WorkloadReconciler<K> {
    /// A reconciler of what this cache holds.
    #[must_use]
    pub fn new(kind: &'static Kind, workloads: Informer<K>, read: Read<K>, shared: Shared) -> Self {
        Self {
            kind,
            workloads,
            read,
            shared,
        }
    }

    /// The workload, if it exists.
    async fn read(&self, key: &ObjectKey) -> Result<Option<Arc<K>>, ReconcileError> {
        match &self.read {
            Read::Cache => Ok(self.workloads.get(key)),
            Read::Server(fetch) => {
                let fetched = fetch(key).await.map_err(|source| ReconcileError::Read {
                    kind: self.kind.kind,
                    workload: key.clone(),
                    source: Box::new(source),
                });
                Ok(fetched?.map(Arc::new))
            }
        }
    }

    /// What is detected in the workload and in what it reports for others.
    fn scrape(
        &self,
        workload: &Workload<'_>,
        replica_sets: Option<&Informer<ReplicaSet>>,
        absorbed: &[Absorbed],
        settings: &Settings,
    ) -> Scrape {
        let attribution = self.shared.profile.pods;
        let listed: Vec<Arc<Pod>> = if workload.match_labels.is_empty() && absorbed.is_empty() {
            Vec::new()
        } else {
            self.shared.pods.in_namespace(workload.namespace)
        };
        // Without pods nobody asks whose they are; going through the ReplicaSets for each workload would
        // cost the square of their number.
        let replica_sets = replica_sets.filter(|_| !listed.is_empty());
        let replica_sets = replica_sets.map_or_else(Vec::new, |replica_sets| {
            replica_sets.in_namespace(workload.namespace)
        });
        let mut pods = pods::of_workload(
            attribution,
            workload,
            listed.iter().map(|pod| &**pod),
            replica_sets.iter().map(|set| &**set),
        );
        for child in absorbed {
            pods.extend(child.pods(attribution, &listed, &replica_sets));
        }
        let mut scrape = settings.detector.scrape(workload, &pods);
        for error in &scrape.errors {
            self.shared
                .metrics
                .extraction_errors
                .with_label_values(&[scrape.scraper_name, error.source.as_str()])
                .inc();
        }
        scrape.absorb(
            absorbed
                .iter()
                .map(|child| (child.kind().kind, child.name())),
        );
        scrape
    }

    /// What is to be reported of the workload, if anything. How that was decided is counted.
    async fn wanted<'a>(
        &'a self,
        key: &ObjectKey,
        object: &K,
        namespace: &Namespace,
        mut replica_sets: Option<&'a Informer<ReplicaSet>>,
        settings: &Settings,
    ) -> Option<Scrape> {
        if !settings.selects(namespace.metadata.labels.as_ref()) {
            self.count("not_opted_in");
            return None;
        }
        if !settings.kinds.allow(self.kind) {
            self.count("kind_not_allowed");
            return None;
        }
        let workload = object.workload(self.kind);
        let mut is_resolved = true;
        let mut absorbed = Vec::new();
        if let Some(lineage) = &self.shared.lineage {
            let kinds = &settings.kinds;
            if controller_of(object.meta()).is_some() {
                match lineage.of(kinds, self.kind, key, object.meta()).await {
                    Ancestry::Under(_) => {
                        self.count("rolled_up");
                        return None;
                    }
                    Ancestry::Independent => {}
                    Ancestry::Unresolved => is_resolved = false,
                }
            }
            absorbed = lineage
                .absorbed(kinds, workload.namespace, workload.uid)
                .await;
            if replica_sets.is_none() && absorbed.iter().any(|child| *child.kind() == DEPLOYMENT) {
                replica_sets = Some(self.shared.replica_sets.synced().await);
            }
        }
        let scrape = self.scrape(&workload, replica_sets, &absorbed, settings);
        let is_matched = scrape.confidence != Confidence::Unresolved;
        self.count(match (is_resolved, is_matched) {
            (false, _) => "rollup_unresolved",
            (true, true) => "matched",
            (true, false) => "unmatched",
        });
        is_matched.then_some(scrape)
    }

    /// The cache of ReplicaSets, where it is needed. The first Deployment starts their cache
    /// under releases that look at owners, whether or not its namespace is looked at.
    async fn replica_sets(&self, workload: &Workload<'_>) -> Option<&Informer<ReplicaSet>> {
        let profile = self.shared.profile;
        let needed = profile.pods == PodAttribution::OwnerChain
            && profile.reconcile.replica_sets == ReplicaSetInformer::DeploymentReconcile
            && *workload.kind == DEPLOYMENT;
        if !needed {
            return None;
        }
        Some(self.shared.replica_sets.synced().await)
    }

    fn count(&self, outcome: &str) {
        self.shared
            .metrics
            .outcomes
            .with_label_values(&[self.kind.kind, outcome])
            .inc();
    }

    /// Builds the document, sends it to the sinks and writes everything.
    async fn build(
        &self,
        key: &ObjectKey,
        workload: &Workload<'_>,
        scrape: &Scrape,
        input_hash: &str,
        cached: Option<&Aibom>,
        settings: &Settings,
    ) -> Result<Outcome, ReconcileError> {
        let Shared {
            profile, redactor, ..
        } = &self.shared;
        let now = Utc::now();
        let source = Source {
            workload,
            scrape,
            controller_version: profile.version,
            scraped_at: now,
            built_at: now,
        };
        let document = match Document::build(&source, &profile.document, redactor) {
            Ok(document) => document,
            Err(error) => {
                let failure = Failure::Build(error.to_string());
                self.fail(workload, cached, &failure).await?;
                return Err(error.into());
            }
        };
        let delivery = Delivery {
            document: &document,
            workload,
            category: category(scrape),
            controller_version: profile.version,
            content_type: profile.sinks.webhook_content_type,
        };
        let sinks = settings.sinks.deliver(&delivery).await;
        self.tell(key, workload, &sinks);
        let build = Build {
            workload,
            scrape,
            input_hash,
            document: &document,
            sinks: &sinks,
            previous_errors: cached.map_or(0, |aibom| aibom.status.consecutive_errors),
        };
        // Sinks may have taken their time.
        let now = Utc::now();
        let status = Status::built(&build, settings.limits, &profile.reconcile, redactor, now);
        let mut aibom = self.shared.writer.settle(key, workload, cached).await?;
        aibom.status = status;
        let written = self.put(&aibom).await?;
        Ok(match (written, profile.reconcile.sink_failure) {
            (Outcome::Done, SinkFailure::RequeueAfter(delay))
                if sinks.iter().any(SinkOutcome::has_failed) =>
            {
                Outcome::RequeueAfter(delay)
            }
            (written, _) => written,
        })
    }

    /// Counts and logs sinks that did not take a document. Nothing else fails for it.
    fn tell(&self, aibom: &ObjectKey, workload: &Workload<'_>, sinks: &[SinkOutcome]) {
        for sink in sinks {
            let Err(error) = &sink.delivered else {
                continue;
            };
            self.shared
                .metrics
                .sink_emit_failures
                .with_label_values(&[sink.name, workload.namespace, self.kind.kind])
                .inc();
            tracing::error!(
                sink = sink.name,
                aibom = %aibom,
                error,
                "cannot deliver the document to an external sink"
            );
        }
    }

    /// Deletes the AIBOM, and tells whether there was one.
    async fn delete(&self, aibom: &ObjectKey) -> Result<bool, WriteError> {
        let is_known = self.shared.aiboms.get(aibom).is_some();
        if is_known {
            self.shared.writer.delete(aibom).await?;
        }
        Ok(is_known)
    }

    /// Tells a failure in an AIBOM that exists; none is made for it, and a conflict is ignored.
    async fn fail(
        &self,
        workload: &Workload<'_>,
        cached: Option<&Aibom>,
        failure: &Failure,
    ) -> Result<(), WriteError> {
        let Some(cached) = cached else {
            return Ok(());
        };
        let mut aibom = cached.clone();
        aibom.status = aibom
            .status
            .failed(failure, workload.generation, Utc::now());
        self.put(&aibom).await.map(drop)
    }

    async fn put(&self, aibom: &Aibom) -> Result<Outcome, WriteError> {
        self.shared.writer.put_status(aibom, self.kind.kind).await
    }
}

impl<K: Tracked> Reconciler<ObjectKey> for WorkloadReconciler<K> {
    type Error = ReconcileError;

    async fn reconcile(&self, key: &ObjectKey) -> Result<Outcome, ReconcileError> {
        let settings = self.shared.settings.get();
        let Some(object) = self.read(key).await? else {
            // The garbage collector takes the AIBOM. A kind that is not allowed may not be in the cache.
            if !settings.kinds.allow(self.kind) {
                let name = name::aibom(self.kind.group, self.kind.kind, &key.name);
                let aibom = ObjectKey::new(key.namespace.clone(), name);
                if self.delete(&aibom).await? {
                    self.count("kind_not_allowed");
                }
            }
            return Ok(Outcome::Done);
        };
        let workload = object.workload(self.kind);
        let replica_sets = self.replica_sets(&workload).await;
        let namespace = ObjectKey::new("", workload.namespace);
        let Some(namespace) = self.shared.namespaces.get(&namespace) else {
            return Ok(Outcome::Done);
        };
        let aibom_name = name::aibom(self.kind.group, self.kind.kind, workload.name);
        let aibom_key = ObjectKey::new(workload.namespace, aibom_name);
        let scrape = self
            .wanted(key, &object, &namespace, replica_sets, &settings)
            .await;
        let Some(scrape) = scrape else {
            self.delete(&aibom_key).await?;
            return Ok(Outcome::Done);
        };
        let cached = self.shared.aiboms.get(&aibom_key);
        let input_hash = input_hash::of(&scrape)?;
        if let Some(cached) = &cached {
            let status = &cached.status;
            if !status.input_hash.is_empty() && status.input_hash == input_hash {
                let mut aibom = (**cached).clone();
                aibom.status = aibom.status.refreshed(workload.generation, Utc::now());
                return Ok(self.put(&aibom).await?);
            }
            if status.last_reconciled.is_none() {
                return Ok(match self.shared.profile.reconcile.missing_status {
                    MissingStatus::Return => Outcome::Done,
                    MissingStatus::RequeueAfter(delay) => Outcome::RequeueAfter(delay),
                });
            }
        }
        self.build(
            &aibom_key,
            &workload,
            &scrape,
            &input_hash,
            cached.as_deref(),
            &settings,
        )
        .await
    }
}
