//! The cache of ReplicaSets, which is filled only once somebody needs it.

use std::sync::Arc;

use k8s_openapi::api::apps::v1::ReplicaSet;
use tokio::sync::Notify;

use crate::controller::runtime::store::Informer;

/// A cache that nobody has started yet; clones are handles to the same one.
#[derive(Clone)]
pub struct ReplicaSets {
    informer: Informer<ReplicaSet>,
    wanted: Arc<Notify>,
}

impl ReplicaSets {
    /// A cache around this informer, which whoever makes it has to drive once it is
    /// [wanted](Self::wanted).
    #[must_use]
    pub fn new(informer: Informer<ReplicaSet>) -> Self {
        Self {
            informer,
            wanted: Arc::default(),
        }
    }

    /// Waits until somebody needs the cache.
    pub async fn wanted(&self) {
        self.wanted.notified().await;
    }

    /// The cache, complete; this starts it if necessary.
    pub async fn synced(&self) -> &Informer<ReplicaSet> {
        let flag = self.informer.sync_flag();
        if !flag.is_synced() {
            self.wanted.notify_one();
            flag.wait().await;
        }
        &self.informer
    }
}
