//! What the API server holds of one kind, as far as this process has heard.
//!
//! An [`Informer`] is filled by one [watch](super::watch) and read by any number of controllers.
//! Its handlers hear every change with the object before and after, which is what predicates need, and
//! have heard the whole initial list when [`SyncFlag`] says that it is synced.

mod key;
mod sync;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fmt::Debug;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use kube::{Resource, ResourceExt};
use serde::de::DeserializeOwned;
use tokio::sync::watch as latest;
use tokio::time::sleep;

pub use self::key::ObjectKey;
pub use self::sync::{SyncFlag, SyncSet};
use super::queue;
use super::watch::{Dice, Event, Trouble, Watch};

/// After how long every object is delivered again as if it had been updated; ±10 % by chance.
pub const RESYNC: Duration = Duration::from_secs(10 * 60 * 60);

/// What happened to an object.
#[derive(Debug)]
pub enum Change<K> {
    /// It was not known before.
    Added {
        /// The object.
        object: Arc<K>,
        /// Whether it belongs to the first list, or to what was there when the handler came.
        initial: bool,
    },
    /// It was known. On a resync both are the same.
    Updated {
        /// As it was known.
        old: Arc<K>,
        /// As it is now.
        new: Arc<K>,
    },
    /// It is gone.
    Deleted {
        /// Its last state, or the last one known if the deletion itself was missed.
        object: Arc<K>,
    },
}

impl<K> Clone for Change<K> {
    fn clone(&self) -> Self {
        match self {
            Self::Added { object, initial } => Self::Added {
                object: Arc::clone(object),
                initial: *initial,
            },
            Self::Updated { old, new } => Self::Updated {
                old: Arc::clone(old),
                new: Arc::clone(new),
            },
            Self::Deleted { object } => Self::Deleted {
                object: Arc::clone(object),
            },
        }
    }
}

impl<K: Resource> Change<K> {
    /// The object as it is now, or was last.
    #[must_use]
    pub fn object(&self) -> &K {
        match self {
            Self::Added { object, .. } | Self::Deleted { object } => object,
            Self::Updated { new, .. } => new,
        }
    }

    /// The priority on a queue: initial lists and resyncs wait behind what happens.
    #[must_use]
    pub fn priority(&self) -> i32 {
        let low = match self {
            Self::Added { initial, .. } => *initial,
            Self::Updated { old, new } => old.resource_version() == new.resource_version(),
            Self::Deleted { .. } => false,
        };
        if low { queue::LOW } else { queue::LIVE }
    }

    /// Whether the generation of an updated object differs; true of every other change.
    #[must_use]
    pub fn changes_generation(&self) -> bool {
        match self {
            Self::Updated { old, new } => old.meta().generation != new.meta().generation,
            Self::Added { .. } | Self::Deleted { .. } => true,
        }
    }
}

type Handler<K> = Box<dyn Fn(&Change<K>) + Send + Sync>;
type Objects<K> = BTreeMap<ObjectKey, Arc<K>>;

/// The cache of one kind; clones are handles to the same one.
pub struct Informer<K> {
    shared: Arc<Shared<K>>,
}

impl<K> Clone for Informer<K> {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
        }
    }
}

struct Shared<K> {
    name: Arc<str>,
    objects: RwLock<Objects<K>>,
    // Held while a change is applied and told, so that all handlers hear the same order.
    writer: Mutex<Writer<K>>,
    synced: latest::Sender<bool>,
}

struct Writer<K> {
    /// The list that is being received.
    listing: Option<Objects<K>>,
    handlers: Vec<Handler<K>>,
}

impl<K> Informer<K>
where
    K: Resource + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
{
    /// An empty cache that has not synced.
    #[must_use]
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Self {
            shared: Arc::new(Shared {
                name: name.into(),
                objects: RwLock::default(),
                writer: Mutex::new(Writer {
                    listing: None,
                    handlers: Vec::new(),
                }),
                synced: latest::Sender::new(false),
            }),
        }
    }

    /// The kind, as messages name it.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    /// The object of this name.
    #[must_use]
    pub fn get(&self, key: &ObjectKey) -> Option<Arc<K>> {
        self.read(|objects| objects.get(key).cloned())
    }

    /// Every object of a namespace (the empty one holds cluster-scoped objects), by name.
    #[must_use]
    pub fn in_namespace(&self, namespace: &str) -> Vec<Arc<K>> {
        let first = ObjectKey::new(namespace, "");
        self.read(|objects| {
            let from = objects.range(first..);
            let same = from.take_while(|(key, _)| key.namespace == namespace);
            same.map(|(_, object)| Arc::clone(object)).collect()
        })
    }

    /// Every object.
    #[must_use]
    pub fn all(&self) -> Vec<Arc<K>> {
        self.read(|objects| objects.values().cloned().collect())
    }

    /// How many objects there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.read(BTreeMap::len)
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Tells whether the first list is complete and every handler has heard of it.
    #[must_use]
    pub fn sync_flag(&self) -> SyncFlag {
        SyncFlag::new(
            Arc::clone(&self.shared.name),
            self.shared.synced.subscribe(),
        )
    }

    /// Waits until a list is complete that is not so yet.
    pub fn next_list(&self) -> impl Future<Output = ()> + Send + 'static {
        let mut lists = self.shared.synced.subscribe();
        async move {
            if lists.changed().await.is_err() {
                // The informer is gone.
                std::future::pending::<()>().await;
            }
        }
    }

    /// Calls this for every change from now on, and first for every object that is known.
    ///
    /// A handler runs while the change is applied: it must not block, and must not subscribe to the
    /// same informer. It may read any cache.
    pub fn subscribe(&self, handler: impl Fn(&Change<K>) + Send + Sync + 'static) {
        let mut writer = self.writer();
        for object in self.all() {
            handler(&Change::Added {
                object,
                initial: true,
            });
        }
        writer.handlers.push(Box::new(handler));
    }

    /// Fills the cache until dropped. `observe` hears of all trouble; nothing else reports it.
    pub async fn drive(
        &self,
        watch: Watch<K>,
        mut dice: Dice,
        mut observe: impl FnMut(&Trouble) + Send,
    ) -> Infallible {
        let resync = async {
            loop {
                sleep(RESYNC.mul_f64(0.9 + 0.2 * dice())).await;
                self.resync();
            }
        };
        let watch = watch.run(|event| match event {
            Event::Trouble(trouble) => observe(&trouble),
            event => self.apply(event),
        });
        tokio::select! {
            never = watch => never,
            never = resync => never,
        }
    }

    /// Applies one event of a watch and tells the handlers.
    pub fn apply(&self, event: Event<K>) {
        let mut writer = self.writer();
        match event {
            Event::ListBegin => writer.listing = Some(Objects::new()),
            Event::ListObject(object) => {
                if let Some(listing) = &mut writer.listing {
                    listing.insert(ObjectKey::of(&object), Arc::new(object));
                }
            }
            Event::ListDeleted(object) => {
                if let Some(listing) = &mut writer.listing {
                    listing.remove(&ObjectKey::of(&object));
                }
            }
            Event::ListEnd => {
                if let Some(listing) = writer.listing.take() {
                    self.replace(&writer, listing);
                }
            }
            Event::Applied(object) => {
                let object = Arc::new(object);
                let old = self
                    .write(|objects| objects.insert(ObjectKey::of(&*object), Arc::clone(&object)));
                let change = match old {
                    Some(old) => Change::Updated { old, new: object },
                    None => Change::Added {
                        object,
                        initial: false,
                    },
                };
                writer.tell(&change);
            }
            Event::Deleted(object) => {
                let known = self.write(|objects| objects.remove(&ObjectKey::of(&object)));
                if known.is_some() {
                    let object = Arc::new(object);
                    writer.tell(&Change::Deleted { object });
                }
            }
            // Nothing is known to be different.
            Event::Trouble(_) => {}
        }
    }

    /// Delivers every object as if it had been updated.
    pub fn resync(&self) {
        let writer = self.writer();
        for object in self.all() {
            writer.tell(&Change::Updated {
                old: Arc::clone(&object),
                new: object,
            });
        }
    }

    /// Puts a complete list in the place of what was known, and tells the differences.
    fn replace(&self, writer: &Writer<K>, listing: Objects<K>) {
        let initial = !*self.shared.synced.borrow();
        let changes = self.write(|objects| {
            let mut before = std::mem::take(objects);
            let mut changes = Vec::new();
            for (key, object) in listing {
                let new = Arc::clone(&object);
                match before.remove(&key) {
                    // Heard of already.
                    Some(old) if old.resource_version() == new.resource_version() => {}
                    Some(old) => changes.push(Change::Updated { old, new }),
                    None => changes.push(Change::Added {
                        object: new,
                        initial,
                    }),
                }
                objects.insert(key, object);
            }
            let gone = before.into_values();
            changes.extend(gone.map(|object| Change::Deleted { object }));
            changes
        });
        for change in &changes {
            writer.tell(change);
        }
        self.shared.synced.send_replace(true);
    }

    fn writer(&self) -> std::sync::MutexGuard<'_, Writer<K>> {
        let writer = self.shared.writer.lock();
        writer.unwrap_or_else(PoisonError::into_inner)
    }

    fn read<T>(&self, read: impl FnOnce(&Objects<K>) -> T) -> T {
        let objects = self.shared.objects.read();
        read(&objects.unwrap_or_else(PoisonError::into_inner))
    }

    fn write<T>(&self, write: impl FnOnce(&mut Objects<K>) -> T) -> T {
        let objects = self.shared.objects.write();
        write(&mut objects.unwrap_or_else(PoisonError::into_inner))
    }
}

impl<K> Writer<K> {
    fn tell(&self, change: &Change<K>) {
        for handler in &self.handlers {
            handler(change);
        }
    }
}

#[cfg(test)]
mod convergence;
#[cfg(test)]
mod tests;
