//! The controller of one kind: its queue, what leads into it, and its worker.

use std::convert::Infallible;
use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use kube::core::ApiResource;
use kube::{Api, Client};
use tokio::time::{Duration, Instant, timeout, timeout_at};
use tokio_util::sync::CancellationToken;

use super::Shared;
use super::kinds::{ThirdParty, Tracked};
use super::sources::{self, PodOwners};
use super::workload::WorkloadReconciler;
use crate::controller::api::release::ApiKind;
use crate::controller::profile::kind::{Kind, Origin};
use crate::controller::runtime::metrics::Metrics;
use crate::controller::runtime::queue::Queue;
use crate::controller::runtime::store::{Informer, ObjectKey};
use crate::controller::runtime::worker::{SYNC_TIMEOUT, Worker, WorkerError};

/// How long a controller waits for third-party kinds that are watched by themselves.
const OTHERS: Duration = Duration::from_secs(10);

type Fetch<K> =
    Arc<dyn Fn(&ObjectKey) -> BoxFuture<'static, Result<Option<K>, kube::Error>> + Send + Sync>;

/// Where a reconcile reads its workload.
#[derive(Clone)]
pub enum Read<K> {
    /// In the cache that leads to the reconcile.
    Cache,
    /// On the server, each time.
    Server(Fetch<K>),
}

impl Read<ThirdParty> {
    /// Reads of this kind with a GET each.
    #[must_use]
    pub fn uncached(client: Client, resource: ApiResource) -> Self {
        Self::Server(Arc::new(move |key| {
            let api = Api::<ThirdParty>::namespaced_with(client.clone(), &key.namespace, &resource);
            let name = key.name.clone();
            async move { api.get_opt(&name).await }.boxed()
        }))
    }
}

/// A controller that has not started.
pub struct Controller<K: Tracked> {
    name: String,
    owners: PodOwners<K>,
    allowance: BoxFuture<'static, Infallible>,
    needs_pods: bool,
    shared: Shared,
    worker: Worker<ObjectKey, WorkloadReconciler<K>>,
}

impl<K: Tracked> Controller<K> {
    /// The controller of a kind, whose cache has to be filled by someone else. From now on changes are
    /// heard, so that the initial lists are recognised as such.
    #[must_use]
    pub fn new(
        kind: &'static Kind,
        workloads: &Informer<K>,
        read: Read<K>,
        shared: &Shared,
        metrics: &Metrics,
    ) -> Self {
        let name = kind.controller();
        let queue = Queue::new(&name, metrics);
        let owners = sources::subscribe(kind, workloads, shared, &queue);
        if let Some(lineage) = &shared.lineage {
            lineage.add(kind, workloads, &queue);
        }
        let allowance =
            sources::follow_allowance(kind, workloads.clone(), shared.clone(), queue.clone())
                .boxed();
        let reconciler = WorkloadReconciler::new(kind, workloads.clone(), read, shared.clone());
        let mut worker = Worker::new(&name, queue, reconciler, metrics)
            .source(workloads.sync_flag())
            .source(shared.aiboms.sync_flag())
            .source(shared.namespaces.sync_flag())
            .deadline(shared.profile.reconcile.deadline);
        // Owners report the pods of what they own, whatever their kind.
        let needs_pods = kind.origin == Origin::Kubernetes || shared.lineage.is_some();
        if needs_pods {
            worker = worker.source(shared.pods.sync_flag());
        }
        Self {
            name,
            owners,
            allowance,
            needs_pods,
            shared: shared.clone(),
            worker,
        }
    }

    /// Works until told to stop.
    ///
    /// # Errors
    ///
    /// [`WorkerError`] when what it needs to know is not there in time.
    pub async fn run(self, stop: CancellationToken) -> Result<(), WorkerError> {
        let Self {
            name,
            owners,
            allowance,
            needs_pods,
            shared,
            worker,
        } = self;
        let settled = owners.settled();
        let work = async {
            let not_synced = |source_name: &str| WorkerError::NotSynced {
                controller: name.clone(),
                source_name: source_name.to_owned(),
            };
            let prepared = async {
                let deadline = Instant::now() + SYNC_TIMEOUT;
                let known = timeout_at(deadline, shared.aiboms.sync_flag().wait()).await;
                known.map_err(|_| not_synced(ApiKind::Aibom.kind()))?;
                let configured = timeout_at(deadline, shared.settings.confirmed()).await;
                configured.map_err(|_| not_synced(ApiKind::ControllerConfig.kind()))?;
                if needs_pods {
                    let known = async {
                        shared.pods.sync_flag().wait().await;
                        settled.wait().await;
                    };
                    // Else each pod that is there already would lead to one more reconcile.
                    let known = timeout_at(deadline, known).await;
                    known.map_err(|_| not_synced("Pod"))?;
                }
                if let Some(lineage) = &shared.lineage {
                    // Else owners would be reported without what they own, and what they own beside
                    // them. A kind that cannot be watched must not hold up the others for long.
                    let _ = timeout(OTHERS, shared.third_party.opened()).await;
                    let settled = timeout_at(deadline, lineage.settled()).await;
                    settled.map_err(|_| not_synced("owner"))?;
                }
                Ok(())
            };
            tokio::select! {
                prepared = prepared => prepared.inspect_err(WorkerError::log)?,
                () = stop.cancelled() => return Ok(()),
            }
            worker.run(stop.clone()).await
        };
        let owners = async {
            owners.run().await;
            std::future::pending().await
        };
        tokio::select! {
            result = work => result,
            never = owners => never,
            never = allowance => match never {},
        }
    }
}
