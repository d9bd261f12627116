//! Caches of owners that are no workloads, made when somebody first asks for one of a kind.
//!
//! Only metadata is kept. A kind that is not served, or that may not be read, has no owners for now;
//! it is asked for again, and [`News`] are told when there are some.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::api::{DynamicObject, PartialObjectMeta};
use kube::core::{ApiResource, GroupVersion, GroupVersionKind};
use kube::error::DiscoveryError;
use kube::{Api, Client, discovery};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::watch as latest;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::controller::runtime::store::{Change, Informer, ObjectKey};
use crate::controller::runtime::watch::{Trouble, Watch, dice};
use crate::error_chain::chain;

/// How long a kind that is not served is taken for that.
const ABSENT: Duration = Duration::from_secs(60);
/// Time between two questions after a kind about which the server says nothing.
const RETRY: Duration = Duration::from_secs(5);
/// How long the server may take for an answer.
const ANSWER: Duration = Duration::from_secs(10);
/// How long the first list may take, from the first question on, before the objects of a kind count as
/// unknown. Whoever looks later does not wait again.
const FIRST_LIST: Duration = Duration::from_secs(10);

type Metadata = PartialObjectMeta<DynamicObject>;

/// The caches; clones are handles to the same ones.
#[derive(Clone)]
pub struct Intermediates {
    known: Arc<Mutex<HashMap<GroupVersionKind, Cache>>>,
    new: UnboundedSender<(Cache, GroupVersionKind)>,
}

#[derive(Clone)]
struct Cache {
    informer: Informer<Metadata>,
    /// When waiting for the first list ends.
    until: Instant,
    /// Whether waiting is in vain, for now: the kind is not served, or a request for it has failed.
    in_vain: latest::Sender<bool>,
}

/// Fills the caches.
pub struct Filler {
    client: Client,
    new: UnboundedReceiver<(Cache, GroupVersionKind)>,
}

/// What is new: what owns something in this namespace, or in any.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    /// An object of this namespace.
    In(String),
    /// A kind, or an object that belongs to no namespace.
    Anywhere,
}

impl Intermediates {
    /// No cache yet, and what has to be [run](Filler::run) to fill those that are made.
    #[must_use]
    pub fn new(client: Client) -> (Self, Filler) {
        let (sender, receiver) = unbounded_channel();
        let caches = Self {
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
        let cache = self.cache(kind);
        let mut in_vain = cache.in_vain.subscribe();
        tokio::select! {
            biased;
            () = cache.informer.sync_flag().wait() => {}
            // An error is impossible: the sender is at hand.
            _ = in_vain.wait_for(|in_vain| *in_vain) => return None,
            () = sleep_until(cache.until) => return None,
        }
        let found = |namespace| {
            let key = ObjectKey::new(namespace, owner.name.as_str());
            cache.informer.get(&key)
        };
        let object = found(namespace).or_else(|| found(""))?;
        Some(object.metadata.clone())
    }

    fn cache(&self, kind: GroupVersionKind) -> Cache {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(cache) = known.get(&kind) {
            return cache.clone();
        }
        let cache = Cache {
            informer: Informer::new(kind.kind.as_str()),
            until: Instant::now() + FIRST_LIST,
            in_vain: latest::Sender::new(false),
        };
        known.insert(kind.clone(), cache.clone());
        // Fails only when the process ends.
        let _ = self.new.send((cache.clone(), kind));
        cache
    }
}

impl Filler {
    /// Works until dropped. `tell` hears when owners may be found that were not before: a first list
    /// is complete, or a later object came.
    pub async fn run(mut self, tell: impl Fn(News) + Clone + Send + Sync + 'static) -> Infallible {
        let mut filled = JoinSet::new();
        while let Some((cache, kind)) = self.new.recv().await {
            let (client, tell) = (self.client.clone(), tell.clone());
            filled.spawn(async move { cache.fill(client, &kind, tell).await });
        }
        // Nobody can make another one; those that were made go on.
        std::future::pending().await
    }
}

impl Cache {
    async fn fill(
        self,
        client: Client,
        kind: &GroupVersionKind,
        tell: impl Fn(News) + Clone + Send + Sync + 'static,
    ) -> Infallible {
        let resource = self.served(&client, kind).await;
        let later = tell.clone();
        self.informer.subscribe(move |change| {
            if let Change::Added {
                object,
                initial: false,
            } = change
            {
                let namespace = object.metadata.namespace.clone();
                later(namespace.map_or(News::Anywhere, News::In));
            }
        });
        let complete = async {
            self.informer.sync_flag().wait().await;
            tell(News::Anywhere);
            std::future::pending().await
        };
        let api = Api::<Metadata>::all_with(client, &resource);
        let watch = Watch::new(api, resource.kind.clone(), dice())
            .transform(|object| object.metadata.managed_fields = None);
        let observe = |trouble: &Trouble| {
            tracing::error!(
                logger = "controller-runtime.cache",
                kind = resource.kind,
                error = chain(&trouble.error),
                "Failed to watch"
            );
            self.in_vain.send_replace(true);
        };
        tokio::select! {
            never = self.informer.drive(watch, dice(), observe) => never,
            never = complete => never,
        }
    }

    /// Waits until the kind is served.
    async fn served(&self, client: &Client, kind: &GroupVersionKind) -> ApiResource {
        loop {
            let again_in = match timeout(ANSWER, discovery::pinned_kind(client, kind)).await {
                Ok(Ok((resource, _))) => return resource,
                Ok(Err(error)) if is_absent(&error) => ABSENT,
                Ok(Err(_)) | Err(_) => RETRY,
            };
            self.in_vain.send_replace(true);
            sleep(again_in).await;
        }
    }
}

/// Whether an error is the server's word that there is no such kind.
fn is_absent(error: &kube::Error) -> bool {
    match error {
        kube::Error::Api(status) => status.is_not_found(),
        kube::Error::Discovery(DiscoveryError::MissingKind(_)) => true,
        _ => false,
    }
}
