//! Which change leads to which workload.
//!
//! Changes of workloads pass unfiltered; those of AIBOMs, namespaces and pods pass if they may change a
//! result (`controller.md` B.5). A pod of a Deployment is owned by a ReplicaSet, whose cache may
//! have to be filled first; [`PodOwners`] waits for that, because a handler must not.

use std::convert::Infallible;

use k8s_openapi::api::core::v1::{ContainerStatus, Namespace, Pod};
use kube::{Resource as _, ResourceExt as _};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;

use super::Shared;
use super::aibom::Aibom;
use super::kinds::Tracked;
use super::lineage::Lineage;
use super::replica_sets::ReplicaSets;
use crate::controller::api::meta::group;
use crate::controller::detect::pods::controller_of;
use crate::controller::profile::kind::{DEPLOYMENT, Kind, Origin};
use crate::controller::runtime::queue::{Add, LIVE, Queue};
use crate::controller::runtime::store::{Change, Informer, ObjectKey};
use crate::controller::settings::Settings;

fn add(queue: &Queue<ObjectKey>, key: ObjectKey, priority: i32) {
    let how = Add {
        priority,
        ..Add::default()
    };
    queue.add_with(key, how);
}

/// Leads every change that matters to the workloads of this kind into the queue. Pods of Deployments
/// need the result, which has to be [run](PodOwners::run).
pub fn subscribe<K: Tracked>(
    kind: &'static Kind,
    workloads: &Informer<K>,
    shared: &Shared,
    queue: &Queue<ObjectKey>,
) -> PodOwners<K> {
    let target = queue.clone();
    workloads.subscribe(move |change| {
        add(&target, ObjectKey::of(change.object()), change.priority());
    });

    let target = queue.clone();
    shared.aiboms.subscribe(move |change| {
        if let Some(key) = owner_of_aibom(change, kind) {
            add(&target, key, change.priority());
        }
    });

    let target = queue.clone();
    let (cache, settings) = (workloads.clone(), shared.settings.clone());
    shared.namespaces.subscribe(move |change| {
        if moves(change, &settings.get()) {
            for object in cache.in_namespace(&change.object().name_any()) {
                add(&target, ObjectKey::of(&*object), change.priority());
            }
        }
    });

    let (sender, receiver) = unbounded_channel();
    // Nobody makes pods of a third-party kind directly.
    if kind.origin == Origin::Kubernetes {
        let (target, far) = (queue.clone(), sender.clone());
        let above = Above::new(workloads, shared);
        shared.pods.subscribe(move |change| {
            let Some(owner) = owner_of_pod(change) else {
                return;
            };
            let priority = change.priority();
            if owner.group == "apps" && owner.kind == "ReplicaSet" {
                if *kind == DEPLOYMENT {
                    // Fails only when the process ends.
                    let _ = far.send(Message::ReplicaSet(owner.key, priority));
                }
            } else if owner.kind == kind.kind {
                above.changed(&owner.key, priority);
                add(&target, owner.key, priority);
            }
        });
    }
    PodOwners {
        sender,
        receiver,
        replica_sets: shared.replica_sets.clone(),
        queue: queue.clone(),
        above: Above::new(workloads, shared),
    }
}

/// Tells the owners of workloads, which may report the pods of these.
struct Above<K> {
    workloads: Informer<K>,
    lineage: Option<Lineage>,
}

impl<K: Tracked> Above<K> {
    fn new(workloads: &Informer<K>, shared: &Shared) -> Self {
        Self {
            workloads: workloads.clone(),
            lineage: shared.lineage.clone(),
        }
    }

    /// The pods of this workload changed, or what becomes of it.
    fn changed(&self, key: &ObjectKey, priority: i32) {
        if let Some(lineage) = &self.lineage
            && let Some(object) = self.workloads.get(key)
            && let Some(owner) = controller_of(object.meta())
        {
            lineage.changed(&key.namespace, owner.clone(), priority);
        }
    }
}

/// Looks anew at workloads when other kinds are allowed than before: at all of a kind that moved, and
/// at those whose owners may report them now, or no more. Works until dropped.
pub async fn follow_allowance<K: Tracked>(
    kind: &'static Kind,
    workloads: Informer<K>,
    shared: Shared,
    queue: Queue<ObjectKey>,
) -> Infallible {
    let settings = &shared.settings;
    let above = Above::new(&workloads, &shared);
    settings.confirmed().await;
    let mut before = settings.get().kinds.clone();
    loop {
        let after = settings.kinds_other_than(&before).await;
        let moved = before.allow(kind) != after.allow(kind);
        for object in workloads.all() {
            let key = ObjectKey::of(&*object);
            if moved {
                above.changed(&key, LIVE);
            }
            if moved || controller_of(object.meta()).is_some() {
                queue.add(key);
            }
        }
        before = after;
    }
}

/// The workload of this kind that owns the AIBOM, if the change may matter to it. A new status, which
/// is the controller's own work, does not.
fn owner_of_aibom(change: &Change<Aibom>, kind: &Kind) -> Option<ObjectKey> {
    let metadata = &change.object().metadata;
    let owner = controller_of(metadata)?;
    let matters = change.changes_generation()
        && owner.kind == kind.kind
        && group(&owner.api_version) == kind.group;
    matters.then(|| {
        ObjectKey::new(
            metadata.namespace.clone().unwrap_or_default(),
            owner.name.clone(),
        )
    })
}

/// Whether a namespace opted in or out, or came or went as one that is looked at.
fn moves(change: &Change<Namespace>, settings: &Settings) -> bool {
    let selects = |namespace: &Namespace| settings.selects(namespace.meta().labels.as_ref());
    match change {
        Change::Updated { old, new } => selects(old) != selects(new),
        Change::Added { object, .. } | Change::Deleted { object } => selects(object),
    }
}

/// What controls a pod.
struct Owner {
    group: String,
    kind: String,
    key: ObjectKey,
}

/// What controls the pod, if the change may bring or take a digest.
fn owner_of_pod(change: &Change<Pod>) -> Option<Owner> {
    if let Change::Updated { old, new } = change
        && images(old) == images(new)
    {
        return None;
    }
    let metadata = change.object().meta();
    let owner = controller_of(metadata)?;
    Some(Owner {
        group: group(&owner.api_version).to_owned(),
        kind: owner.kind.clone(),
        key: ObjectKey::new(
            metadata.namespace.clone().unwrap_or_default(),
            owner.name.clone(),
        ),
    })
}

/// Names and images of the pod's containers, and of its init containers.
fn images(pod: &Pod) -> [Vec<(&str, &str)>; 2] {
    let status = pod.status.as_ref();
    [
        sorted(status.and_then(|status| status.container_statuses.as_ref())),
        sorted(status.and_then(|status| status.init_container_statuses.as_ref())),
    ]
}

/// The order in which a status tells them says nothing.
fn sorted(statuses: Option<&Vec<ContainerStatus>>) -> Vec<(&str, &str)> {
    let mut images: Vec<_> = statuses
        .into_iter()
        .flatten()
        .map(|status| (status.name.as_str(), status.image_id.as_str()))
        .collect();
    images.sort_unstable();
    images
}

enum Message {
    /// A pod of this ReplicaSet changed, which is worth this priority.
    ReplicaSet(ObjectKey, i32),
    /// Everything before this has been dealt with.
    Settled(oneshot::Sender<()>),
}

/// Finds the Deployments of pods.
pub struct PodOwners<K> {
    sender: UnboundedSender<Message>,
    receiver: UnboundedReceiver<Message>,
    replica_sets: ReplicaSets,
    queue: Queue<ObjectKey>,
    above: Above<K>,
}

impl<K: Tracked> PodOwners<K> {
    /// Asks to be told when all pods that are known now have been dealt with.
    #[must_use]
    pub fn settled(&self) -> Settled {
        Settled(self.sender.clone())
    }

    /// Works until dropped.
    pub async fn run(mut self) {
        while let Some(message) = self.receiver.recv().await {
            match message {
                Message::ReplicaSet(key, priority) => {
                    let replica_sets = self.replica_sets.synced().await;
                    let Some(set) = replica_sets.get(&key) else {
                        continue;
                    };
                    if let Some(owner) = controller_of(&set.metadata)
                        && owner.kind == DEPLOYMENT.kind
                    {
                        let key = ObjectKey::new(key.namespace, owner.name.clone());
                        self.above.changed(&key, priority);
                        add(&self.queue, key, priority);
                    }
                }
                Message::Settled(answer) => {
                    // Whoever asked may have gone.
                    let _ = answer.send(());
                }
            }
        }
    }
}

/// Asks whether the pods that are known have been dealt with.
pub struct Settled(UnboundedSender<Message>);

impl Settled {
    /// Waits until all that are known now have been.
    pub async fn wait(self) {
        let (sender, receiver) = oneshot::channel();
        if self.0.send(Message::Settled(sender)).is_ok() {
            // An error means that nobody deals with pods any more.
            let _ = receiver.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde::de::DeserializeOwned;
    use serde_json::{Value, json};

    use super::*;
    use crate::controller::profile::{V1_3_0, kind};

    fn read<K: DeserializeOwned>(value: Value) -> Arc<K> {
        Arc::new(serde_json::from_value(value).expect("an object"))
    }

    fn updated<K: DeserializeOwned>(old: Value, new: Value) -> Change<K> {
        Change::Updated {
            old: read(old),
            new: read(new),
        }
    }

    fn pod(images: &[(&str, &str)]) -> Value {
        let statuses: Vec<_> = images
            .iter()
            .map(|(name, id)| {
                json!({"name": name, "imageID": id, "image": "", "ready": true, "restartCount": 0})
            })
            .collect();
        json!({
            "metadata": {"name": "p", "namespace": "ns", "ownerReferences": [{
                "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "rs", "uid": "1", "controller": true,
            }]},
            "status": {"containerStatuses": statuses},
        })
    }

    #[test]
    fn a_pod_matters_when_its_images_change() {
        let change = |old: &[_], new: &[_]| updated::<Pod>(pod(old), pod(new));
        let (a, b) = (("a", "x"), ("b", "y"));
        assert!(owner_of_pod(&change(&[a, b], &[b, a])).is_none());
        for (old, new) in [
            (vec![a], vec![a, b]),
            (vec![a], vec![b]),
            (vec![a], vec![("a", "z")]),
        ] {
            let owner = owner_of_pod(&change(&old, &new)).expect("an owner");
            assert_eq!(
                (owner.group.as_str(), owner.kind.as_str()),
                ("apps", "ReplicaSet")
            );
            assert_eq!(owner.key, ObjectKey::new("ns", "rs"));
        }
        let object = read(pod(&[]));
        assert!(owner_of_pod(&Change::Deleted { object }).is_some());
    }

    #[test]
    fn a_namespace_matters_when_it_opts_in_or_out() {
        let settings = Settings::defaults(&V1_3_0).expect("settings");
        let namespace = |value: &str| json!({"metadata": {"name": "n", "labels": {"aibom.k8saibom.dev/enabled": value}}});
        let change = |old, new| updated::<Namespace>(namespace(old), namespace(new));
        assert!(moves(&change("true", "false"), &settings));
        assert!(moves(&change("no", "true"), &settings));
        assert!(!moves(&change("true", "true"), &settings));
        assert!(!moves(&change("a", "b"), &settings));
        let object = read(namespace("b"));
        assert!(!moves(&Change::Deleted { object }, &settings));
    }

    #[test]
    fn an_aibom_matters_to_its_owner_unless_only_the_status_changed() {
        let aibom = |generation: i64, version: &str| {
            json!({
                "metadata": {"name": "a", "namespace": "ns", "generation": generation,
                    "ownerReferences": [{"apiVersion": version, "kind": "Deployment", "name": "web",
                        "uid": "1", "controller": true}]},
                "status": {"observedGeneration": 7},
            })
        };
        let change = |old, new| updated::<Aibom>(aibom(old, "apps/v1"), aibom(new, "apps/v1"));
        let owner = |change| owner_of_aibom(&change, &kind::DEPLOYMENT);
        assert_eq!(owner(change(1, 1)), None);
        assert_eq!(owner(change(1, 2)), Some(ObjectKey::new("ns", "web")));
        let object = read(aibom(1, "other.dev/v1"));
        assert_eq!(owner(Change::Deleted { object }), None);
    }
}
