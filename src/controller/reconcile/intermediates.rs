//! Caches of owners that are no workloads, made when somebody first asks for one of a kind.
//!
//! Only metadata is kept. A kind that is not served, or that may not be read, has no owners.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::api::{DynamicObject, PartialObjectMeta};
use kube::core::{ApiResource, GroupVersion, GroupVersionKind};
use kube::{Api, Client, discovery};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{Mutex, watch as latest};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::controller::runtime::store::{Informer, ObjectKey};
use crate::controller::runtime::watch::{Trouble, Watch, dice};
use crate::error_chain::chain;

/// How long a kind that is not served is taken for that.
const ABSENT: Duration = Duration::from_secs(60);
/// How long a first list may take before its objects count as unknown.
const FIRST_LIST: Duration = Duration::from_secs(10);

type Metadata = PartialObjectMeta<DynamicObject>;

/// The caches; clones are handles to the same ones.
#[derive(Clone)]
pub struct Intermediates {
    client: Client,
    known: Arc<Mutex<HashMap<GroupVersionKind, State>>>,
    new: UnboundedSender<(Cache, ApiResource)>,
}

enum State {
    Watched(Cache),
    AbsentSince(Instant),
}

#[derive(Clone)]
struct Cache {
    informer: Informer<Metadata>,
    /// Whether a request for it has failed.
    troubled: latest::Sender<bool>,
}

/// Fills the caches.
pub struct Filler {
    client: Client,
    new: UnboundedReceiver<(Cache, ApiResource)>,
}

impl Intermediates {
    /// No cache yet, and what has to be [run](Filler::run) to fill those that are made.
    #[must_use]
    pub fn new(client: Client) -> (Self, Filler) {
        let (sender, receiver) = unbounded_channel();
        let caches = Self {
            client: client.clone(),
            known: Arc::default(),
            new: sender,
        };
        let filler = Filler {
            client,
            new: receiver,
        };
        (caches, filler)
    }

    /// The object that a reference from this namespace names; its UID is not compared.
    pub async fn find(&self, namespace: &str, owner: &OwnerReference) -> Option<ObjectMeta> {
        let version: GroupVersion = owner.api_version.parse().ok()?;
        let kind = version.with_kind(&owner.kind);
        let Cache { informer, troubled } = self.cache(&kind).await?;
        let mut trouble = troubled.subscribe();
        tokio::select! {
            biased;
            () = informer.sync_flag().wait() => {}
            // An error is impossible: the sender is at hand.
            _ = trouble.wait_for(|troubled| *troubled) => return None,
            () = sleep(FIRST_LIST) => return None,
        }
        let found = |namespace| informer.get(&ObjectKey::new(namespace, owner.name.as_str()));
        let object = found(namespace).or_else(|| found(""))?;
        Some(object.metadata.clone())
    }

    async fn cache(&self, kind: &GroupVersionKind) -> Option<Cache> {
        let mut known = self.known.lock().await;
        match known.get(kind) {
            Some(State::Watched(cache)) => return Some(cache.clone()),
            Some(State::AbsentSince(since)) if since.elapsed() < ABSENT => return None,
            Some(State::AbsentSince(_)) | None => {}
        }
        let state = match discovery::pinned_kind(&self.client, kind).await {
            Ok((resource, _)) => {
                let cache = Cache {
                    informer: Informer::new(kind.kind.as_str()),
                    troubled: latest::Sender::new(false),
                };
                // Fails only when the process ends.
                let _ = self.new.send((cache.clone(), resource));
                State::Watched(cache)
            }
            Err(_) => State::AbsentSince(Instant::now()),
        };
        let cache = match &state {
            State::Watched(cache) => Some(cache.clone()),
            State::AbsentSince(_) => None,
        };
        known.insert(kind.clone(), state);
        cache
    }
}

impl Filler {
    /// Works until dropped.
    pub async fn run(mut self) -> Infallible {
        let mut filled = JoinSet::new();
        while let Some((cache, resource)) = self.new.recv().await {
            let api = Api::<Metadata>::all_with(self.client.clone(), &resource);
            filled.spawn(async move {
                let watch = Watch::new(api, resource.kind.clone(), dice())
                    .transform(|object| object.metadata.managed_fields = None);
                let observe = |trouble: &Trouble| {
                    tracing::error!(
                        logger = "controller-runtime.cache",
                        kind = resource.kind,
                        error = chain(&trouble.error),
                        "Failed to watch"
                    );
                    cache.troubled.send_replace(true);
                };
                match cache.informer.drive(watch, dice(), observe).await {}
            });
        }
        // Nobody can make another one; those that were made go on.
        std::future::pending().await
    }
}
