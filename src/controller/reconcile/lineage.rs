//! Who owns whom among workloads: which are reported by their owners, and whom an owner reports
//! (`controller.md` E.8).
//!
//! Owners are read from caches, those of tracked kinds and of [intermediates](super::intermediates).
//! When something below an owner comes, goes or changes its pods, the owner that reports it is looked
//! at anew; and so are workloads whose owners could not be followed, when an owner comes.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use futures_util::future::BoxFuture;
use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::Resource as _;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;

use super::intermediates::{Intermediates, News};
use super::kinds::Tracked;
use super::replica_sets::ReplicaSets;
use crate::controller::api::meta::group;
use crate::controller::detect::pods::{self, controller_of};
use crate::controller::profile::kind::{Kind, Origin};
use crate::controller::profile::{PodAttribution, RollUp};
use crate::controller::roll_up::{Outcome, Step, Walk};
use crate::controller::runtime::queue::{Add, LIVE, Queue};
use crate::controller::runtime::store::{Change, Informer, ObjectKey};
use crate::controller::settings::Current;
use crate::controller::workload_kinds::WorkloadKinds;

/// What is known of owners; clones are handles to the same knowledge.
#[derive(Clone)]
pub struct Lineage(Arc<Inner>);

struct Inner {
    rules: RollUp,
    settings: Current,
    pods: Informer<Pod>,
    replica_sets: ReplicaSets,
    intermediates: Intermediates,
    branches: RwLock<Vec<Arc<dyn Branch>>>,
    messages: UnboundedSender<Message>,
}

/// Where a walk ended.
pub enum Ancestry {
    /// At an object that nothing owns.
    Independent,
    /// At an owner that is reported.
    Under(Box<Owner>),
    /// Nowhere: an owner could not be read.
    Unresolved,
}

/// An owner that is reported.
pub struct Owner {
    kind: &'static Kind,
    key: ObjectKey,
    /// As much of it as a walk needs.
    metadata: ObjectMeta,
}

/// A workload that its owner reports.
pub struct Absorbed {
    branch: Arc<dyn Branch>,
    key: ObjectKey,
}

impl Absorbed {
    /// Its kind.
    #[must_use]
    pub fn kind(&self) -> &'static Kind {
        self.branch.kind()
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.key.name
    }

    /// Its pods among these.
    #[must_use]
    pub fn pods<'p>(
        &self,
        attribution: PodAttribution,
        listed: &'p [Arc<Pod>],
        replica_sets: &'p [Arc<ReplicaSet>],
    ) -> Vec<&'p Pod> {
        self.branch
            .pods(&self.key, attribution, listed, replica_sets)
    }
}

/// The workloads of one kind.
trait Branch: Send + Sync {
    fn kind(&self) -> &'static Kind;
    fn synced(&self) -> BoxFuture<'static, ()>;
    fn find(&self, key: &ObjectKey) -> Option<ObjectMeta>;
    /// Those of a namespace that something owns.
    fn owned(&self, namespace: &str) -> Vec<(ObjectKey, ObjectMeta)>;
    fn pods<'p>(
        &self,
        key: &ObjectKey,
        attribution: PodAttribution,
        listed: &'p [Arc<Pod>],
        replica_sets: &'p [Arc<ReplicaSet>],
    ) -> Vec<&'p Pod>;
    fn look_at(&self, key: ObjectKey, priority: i32);
    fn remember_unresolved(&self, key: &ObjectKey);
    fn forget_unresolved(&self, key: &ObjectKey);
    fn look_at_unresolved(&self, news: &News);
}

struct Workloads<K> {
    kind: &'static Kind,
    cache: Informer<K>,
    queue: Queue<ObjectKey>,
    owned: Mutex<BTreeMap<ObjectKey, ObjectMeta>>,
    unresolved: Mutex<BTreeSet<ObjectKey>>,
}

impl<K: Tracked> Branch for Workloads<K> {
    fn kind(&self) -> &'static Kind {
        self.kind
    }

    fn synced(&self) -> BoxFuture<'static, ()> {
        Box::pin(self.cache.sync_flag().wait())
    }

    fn find(&self, key: &ObjectKey) -> Option<ObjectMeta> {
        let object = self.cache.get(key)?;
        Some(essence(object.meta()))
    }

    fn owned(&self, namespace: &str) -> Vec<(ObjectKey, ObjectMeta)> {
        let owned = lock(&self.owned);
        let from = owned.range(ObjectKey::new(namespace, "")..);
        from.take_while(|(key, _)| key.namespace == namespace)
            .map(|(key, metadata)| (key.clone(), metadata.clone()))
            .collect()
    }

    fn pods<'p>(
        &self,
        key: &ObjectKey,
        attribution: PodAttribution,
        listed: &'p [Arc<Pod>],
        replica_sets: &'p [Arc<ReplicaSet>],
    ) -> Vec<&'p Pod> {
        let Some(object) = self.cache.get(key) else {
            return Vec::new();
        };
        pods::of_workload(
            attribution,
            &object.workload(self.kind),
            listed.iter().map(|pod| &**pod),
            replica_sets.iter().map(|set| &**set),
        )
    }

    fn look_at(&self, key: ObjectKey, priority: i32) {
        let how = Add {
            priority,
            ..Add::default()
        };
        self.queue.add_with(key, how);
    }

    fn remember_unresolved(&self, key: &ObjectKey) {
        lock(&self.unresolved).insert(key.clone());
    }

    fn forget_unresolved(&self, key: &ObjectKey) {
        lock(&self.unresolved).remove(key);
    }

    fn look_at_unresolved(&self, news: &News) {
        let mut unresolved = lock(&self.unresolved);
        let concerned = unresolved.extract_if(.., |key| match news {
            News::In(namespace) => key.namespace == *namespace,
            News::Anywhere => true,
        });
        for key in concerned {
            self.look_at(key, LIVE);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a walk needs of an object.
fn essence(metadata: &ObjectMeta) -> ObjectMeta {
    ObjectMeta {
        uid: metadata.uid.clone(),
        owner_references: controller_of(metadata).map(|owner| vec![owner.clone()]),
        ..ObjectMeta::default()
    }
}

enum Message {
    /// What this owner reports may have changed, which is worth this priority.
    Changed {
        namespace: String,
        owner: OwnerReference,
        priority: i32,
    },
    /// Everything before this has been dealt with.
    Settled(oneshot::Sender<()>),
}

/// Deals with changes below owners.
pub struct Changes {
    lineage: Lineage,
    messages: UnboundedReceiver<Message>,
}

impl Changes {
    /// Works until dropped.
    pub async fn run(mut self) -> Infallible {
        while let Some(message) = self.messages.recv().await {
            match message {
                Message::Changed {
                    namespace,
                    owner,
                    priority,
                } => self.lineage.rise(&namespace, owner, priority).await,
                Message::Settled(answer) => {
                    // Whoever asked may have gone.
                    let _ = answer.send(());
                }
            }
        }
        // Impossible: the lineage at hand holds a sender.
        std::future::pending().await
    }
}

impl Lineage {
    /// Knows of no workload yet. Changes have to be [run](Changes::run).
    #[must_use]
    pub fn new(
        rules: RollUp,
        settings: Current,
        pods: Informer<Pod>,
        replica_sets: ReplicaSets,
        intermediates: Intermediates,
    ) -> (Self, Changes) {
        let (sender, receiver) = unbounded_channel();
        let lineage = Self(Arc::new(Inner {
            rules,
            settings,
            pods,
            replica_sets,
            intermediates,
            branches: RwLock::default(),
            messages: sender,
        }));
        let changes = Changes {
            lineage: lineage.clone(),
            messages: receiver,
        };
        (lineage, changes)
    }

    /// Takes account of the workloads of a kind.
    pub fn add<K: Tracked>(
        &self,
        kind: &'static Kind,
        cache: &Informer<K>,
        queue: &Queue<ObjectKey>,
    ) {
        let branch = Arc::new(Workloads {
            kind,
            cache: cache.clone(),
            queue: queue.clone(),
            owned: Mutex::default(),
            unresolved: Mutex::default(),
        });
        let known: Arc<dyn Branch> = Arc::clone(&branch) as _;
        let branches = self.0.branches.write();
        branches.unwrap_or_else(PoisonError::into_inner).push(known);
        let lineage = self.clone();
        cache.subscribe(move |change| lineage.heard(&branch, change));
    }

    fn heard<K: Tracked>(&self, branch: &Workloads<K>, change: &Change<K>) {
        let key = ObjectKey::of(change.object());
        let (old, new) = match change {
            Change::Added { object, .. } => (None, Some(object.meta())),
            Change::Updated { old, new } => (Some(old.meta()), Some(new.meta())),
            Change::Deleted { object } => (Some(object.meta()), None),
        };
        let [before, after] = [old, new].map(|metadata| metadata.and_then(controller_of));
        let mut owned = lock(&branch.owned);
        match new.filter(|_| after.is_some()) {
            Some(metadata) => {
                owned.insert(key.clone(), essence(metadata));
            }
            None => {
                owned.remove(&key);
            }
        }
        drop(owned);
        if after.is_none() {
            branch.forget_unresolved(&key);
        }
        if before != after || old.is_none() || new.is_none() {
            for owner in [before, after].into_iter().flatten() {
                self.changed(&key.namespace, owner.clone(), change.priority());
            }
        }
        if matches!(change, Change::Added { .. }) {
            self.look_at_unresolved(&News::In(key.namespace));
        }
    }

    /// Looks anew at the workloads whose owners could not be followed and may be now.
    pub fn look_at_unresolved(&self, news: &News) {
        for branch in self.branches() {
            branch.look_at_unresolved(news);
        }
    }

    /// Says that what this owner reports may have changed.
    pub fn changed(&self, namespace: &str, owner: OwnerReference, priority: i32) {
        // Fails only when the process ends.
        let _ = self.0.messages.send(Message::Changed {
            namespace: namespace.to_owned(),
            owner,
            priority,
        });
    }

    /// Waits until all workloads that every cluster serves are known, and what followed from them.
    pub async fn settled(&self) {
        for branch in self.branches() {
            if branch.kind().origin == Origin::Kubernetes {
                branch.synced().await;
            }
        }
        let (sender, receiver) = oneshot::channel();
        if self.0.messages.send(Message::Settled(sender)).is_ok() {
            // An error means that nobody deals with changes any more.
            let _ = receiver.await;
        }
    }

    /// Where a walk up from this object ends. One that leads nowhere is remembered.
    pub async fn of(
        &self,
        kinds: &WorkloadKinds,
        kind: &'static Kind,
        key: &ObjectKey,
        metadata: &ObjectMeta,
    ) -> Ancestry {
        let branch = self.branch(kind.group, kind.kind);
        // Before the walk, else an owner that comes during it would be missed.
        if let Some(branch) = &branch {
            branch.remember_unresolved(key);
        }
        let ancestry = self.nearest(kinds, &key.namespace, metadata).await;
        if let Some(branch) = &branch
            && !matches!(ancestry, Ancestry::Unresolved)
        {
            branch.forget_unresolved(key);
        }
        ancestry
    }

    /// The workloads that this one reports.
    pub async fn absorbed(
        &self,
        kinds: &WorkloadKinds,
        namespace: &str,
        uid: &str,
    ) -> Vec<Absorbed> {
        let mut below: HashMap<String, Vec<(String, Absorbed)>> = HashMap::new();
        for branch in self.branches() {
            if !kinds.allow(branch.kind()) {
                continue;
            }
            for (key, metadata) in branch.owned(namespace) {
                let nearest = self.nearest(kinds, namespace, &metadata).await;
                if let Ancestry::Under(owner) = nearest
                    && let (Some(owner), Some(uid)) = (owner.metadata.uid, metadata.uid)
                {
                    let branch = Arc::clone(&branch);
                    let child = (uid, Absorbed { branch, key });
                    below.entry(owner).or_default().push(child);
                }
            }
        }
        let mut absorbed = Vec::new();
        let mut open = vec![uid.to_owned()];
        while let Some(uid) = open.pop() {
            // Taken out, so that owners in a circle come to an end.
            for (uid, child) in below.remove(&uid).unwrap_or_default() {
                open.push(uid);
                absorbed.push(child);
            }
        }
        absorbed
    }

    /// Looks at the workload at the top that reports what this owner owns.
    async fn rise(&self, namespace: &str, owner: OwnerReference, priority: i32) {
        let settings = self.0.settings.get();
        let mut below = ObjectMeta {
            owner_references: Some(vec![owner]),
            ..ObjectMeta::default()
        };
        let mut top = None;
        // Owners may stand in a circle.
        for _ in 0..=self.0.rules.max_hops {
            let nearest = self.nearest(&settings.kinds, namespace, &below).await;
            let Ancestry::Under(owner) = nearest else {
                break;
            };
            below = owner.metadata;
            top = Some((owner.kind, owner.key));
        }
        if let Some((kind, key)) = top
            && let Some(branch) = self.branch(kind.group, kind.kind)
        {
            branch.look_at(key, priority);
        }
    }

    async fn nearest(
        &self,
        kinds: &WorkloadKinds,
        namespace: &str,
        metadata: &ObjectMeta,
    ) -> Ancestry {
        let (mut walk, mut step) = Walk::begin(self.0.rules, metadata);
        let mut last = None;
        loop {
            let owner = match step {
                Step::Read(owner) => owner,
                Step::Done(Outcome::Reported) => return Ancestry::Independent,
                Step::Done(Outcome::Unresolved) => return Ancestry::Unresolved,
                Step::Done(Outcome::RolledUp) => {
                    return last.map_or(Ancestry::Unresolved, Ancestry::Under);
                }
            };
            let found = self.read(kinds, namespace, &owner).await;
            step = walk.resume(&owner, found.as_ref(), |group, kind| {
                kinds.reported(group, kind).is_some()
            });
            let kind = kinds.reported(group(&owner.api_version), &owner.kind);
            last = kind.zip(found).map(|(kind, metadata)| {
                Box::new(Owner {
                    kind,
                    key: ObjectKey::new(namespace, owner.name),
                    metadata,
                })
            });
        }
    }

    /// The owner of this name, if it can be read.
    async fn read(
        &self,
        kinds: &WorkloadKinds,
        namespace: &str,
        owner: &OwnerReference,
    ) -> Option<ObjectMeta> {
        let group = group(&owner.api_version);
        let key = ObjectKey::new(namespace, owner.name.as_str());
        if let Some(branch) = self.branch(group, &owner.kind) {
            if branch.kind().origin == Origin::Kubernetes {
                branch.synced().await;
                return branch.find(&key);
            }
            if kinds.allow(branch.kind()) {
                // Before its first list nothing is found; what that brings leads here again.
                return branch.find(&key);
            }
            // What is not allowed is not watched by its supervisor, but may stand between others.
        } else if kinds.reported(group, &owner.kind).is_some() {
            return None;
        }
        match (group, owner.kind.as_str()) {
            ("", "Pod") => {
                self.0.pods.sync_flag().wait().await;
                Some(essence(self.0.pods.get(&key)?.meta()))
            }
            ("apps", "ReplicaSet") => {
                let replica_sets = self.0.replica_sets.synced().await;
                Some(essence(replica_sets.get(&key)?.meta()))
            }
            _ => self.0.intermediates.find(namespace, owner).await,
        }
    }

    fn branches(&self) -> Vec<Arc<dyn Branch>> {
        let branches = self.0.branches.read();
        branches.unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn branch(&self, group: &str, kind: &str) -> Option<Arc<dyn Branch>> {
        let branches = self.0.branches.read();
        let branches = branches.unwrap_or_else(PoisonError::into_inner);
        let found = branches
            .iter()
            .find(|branch| branch.kind().group == group && branch.kind().kind == kind);
        found.cloned()
    }
}

#[cfg(test)]
mod tests;
