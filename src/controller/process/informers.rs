//! Which caches are filled, and when: at once, when a kind is served, or when somebody needs it.

use std::fmt::Debug;

use k8s_openapi::api::apps::v1::ReplicaSet;
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, Resource};
use serde::de::DeserializeOwned;

use super::{Own, Process, version};
use crate::controller::api::object::resource;
use crate::controller::api::release::ApiKind;
use crate::controller::profile;
use crate::controller::reconcile::replica_sets::ReplicaSets;
use crate::controller::runtime::discovery::DiscoveryError;
use crate::controller::runtime::store::Informer;
use crate::controller::runtime::watch::{Trouble, Watch, dice};
use crate::error_chain::chain;

impl Process {
    /// Fills the cache of a kind that every cluster serves.
    pub(super) fn inform_built_in<K>(&mut self, informer: &Informer<K>)
    where
        K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
    {
        self.started.add(informer.sync_flag());
        let filled = fill(informer.clone(), Api::all(self.client.clone()));
        self.background.spawn(filled);
    }

    /// Fills the cache of ReplicaSets once somebody needs it.
    pub(super) fn inform_later(
        &mut self,
        informer: Informer<ReplicaSet>,
        replica_sets: ReplicaSets,
    ) {
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
    pub(super) fn inform_probes(&mut self, own: &Own) {
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
    pub(super) fn inform_custom<K>(
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
}

fn kind_of(resource: &ApiResource) -> GroupVersionKind {
    GroupVersionKind::gvk(&resource.group, &resource.version, &resource.kind)
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
