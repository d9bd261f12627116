//! One reconcile of one workload.
//!
//! What is there is read from caches. An AIBOM whose input hash still holds only gets a new time; else
//! the document is built and written anew.

use std::sync::Arc;

use chrono::Utc;
use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::Pod;

use super::Shared;
use super::aibom::{Aibom, WriteError};
use super::kinds::Tracked;
use crate::controller::detect::{Confidence, Scrape, pods};
use crate::controller::document::{Document, Source};
use crate::controller::profile::kind::DEPLOYMENT;
use crate::controller::profile::{MissingStatus, PodAttribution, ReplicaSetInformer};
use crate::controller::runtime::store::{Informer, ObjectKey};
use crate::controller::runtime::worker::{Outcome, Reconciler};
use crate::controller::settings::Settings;
use crate::controller::status::{Build, Failure, Status};
use crate::controller::workload::Workload;
use crate::controller::{input_hash, name};

/// A workload could not be reconciled.
#[derive(Debug, thiserror::Error)]
pub enum ReconcileError {
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
            Self::Build(_) => None,
            Self::Write(error) => error.hint(),
        }
    }
}

/// Reconciles the workloads of one kind.
#[derive(Clone)]
pub struct WorkloadReconciler<K> {
    workloads: Informer<K>,
    shared: Shared,
}

impl<K: Tracked> WorkloadReconciler<K> {
    /// A reconciler of what this cache holds.
    #[must_use]
    pub fn new(workloads: Informer<K>, shared: Shared) -> Self {
        Self { workloads, shared }
    }

    /// What is detected in the workload, if it is to be reported.
    fn scrape(
        &self,
        workload: &Workload<'_>,
        replica_sets: Option<&Informer<ReplicaSet>>,
        settings: &Settings,
    ) -> Option<Scrape> {
        let listed: Vec<Arc<Pod>> = if workload.match_labels.is_empty() {
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
        let pods = pods::of_workload(
            self.shared.profile.pods,
            workload,
            listed.iter().map(|pod| &**pod),
            replica_sets.iter().map(|set| &**set),
        );
        let scrape = settings.detector.scrape(workload, &pods);
        for error in &scrape.errors {
            self.shared
                .metrics
                .extraction_errors
                .with_label_values(&[scrape.scraper_name, error.source.as_str()])
                .inc();
        }
        let is_matched = scrape.confidence != Confidence::Unresolved;
        self.count(if is_matched { "matched" } else { "unmatched" });
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
            .with_label_values(&[K::KIND.kind, outcome])
            .inc();
    }

    /// Builds the document and writes everything.
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
        let build = Build {
            workload,
            scrape,
            input_hash,
            document: &document,
            sinks: &[],
            previous_errors: cached.map_or(0, |aibom| aibom.status.consecutive_errors),
        };
        let status = Status::built(&build, settings.limits, &profile.reconcile, redactor, now);
        let mut aibom = self.shared.writer.settle(key, workload, cached).await?;
        aibom.status = status;
        Ok(self.put(&aibom).await?)
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
        self.shared.writer.put_status(aibom, K::KIND.kind).await
    }
}

impl<K: Tracked> Reconciler<ObjectKey> for WorkloadReconciler<K> {
    type Error = ReconcileError;

    async fn reconcile(&self, key: &ObjectKey) -> Result<Outcome, ReconcileError> {
        let settings = self.shared.settings.get();
        let Some(object) = self.workloads.get(key) else {
            // The garbage collector takes the AIBOM.
            return Ok(Outcome::Done);
        };
        let workload = object.workload();
        let replica_sets = self.replica_sets(&workload).await;
        let namespace = ObjectKey::new("", workload.namespace);
        let Some(namespace) = self.shared.namespaces.get(&namespace) else {
            return Ok(Outcome::Done);
        };
        let aibom_name = name::aibom(K::KIND.group, K::KIND.kind, workload.name);
        let aibom_key = ObjectKey::new(workload.namespace, aibom_name);
        let scrape = if settings.selects(namespace.metadata.labels.as_ref()) {
            self.scrape(&workload, replica_sets, &settings)
        } else {
            self.count("not_opted_in");
            None
        };
        let cached = self.shared.aiboms.get(&aibom_key);
        let Some(scrape) = scrape else {
            if cached.is_some() {
                self.shared.writer.delete(&aibom_key).await?;
            }
            return Ok(Outcome::Done);
        };
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
