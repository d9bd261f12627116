//! Which pods are a workload's, and which images they really run.

use std::collections::BTreeSet;

use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

use super::image::{Digest, Reference};
use crate::controller::profile::kind::DEPLOYMENT;
use crate::controller::profile::{Detection, PodAttribution, StatusDigest};
use crate::controller::workload::Workload;

/// Whether a container runs before the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Regular,
    Init,
}

/// The pods that count as the workload's, in the order they are listed.
///
/// `pods` and `replica_sets` may come from all namespaces. A workload that selects no label has no
/// pods.
pub fn of_workload<'p>(
    attribution: PodAttribution,
    workload: &Workload<'_>,
    pods: impl IntoIterator<Item = &'p Pod>,
    replica_sets: impl IntoIterator<Item = &'p ReplicaSet>,
) -> Vec<&'p Pod> {
    if workload.match_labels.is_empty() {
        return Vec::new();
    }
    let selected = pods
        .into_iter()
        .filter(|pod| is_selected(workload, &pod.metadata));
    match attribution {
        PodAttribution::MatchLabels => selected.collect(),
        PodAttribution::OwnerChain => {
            let selected: Vec<_> = selected.collect();
            if selected.is_empty() {
                // Else every workload would look at every ReplicaSet of its namespace for nothing.
                return selected;
            }
            let owners = pod_owners(workload, replica_sets);
            selected
                .into_iter()
                .filter(|pod| owner_uid(&pod.metadata).is_some_and(|uid| owners.contains(uid)))
                .collect()
        }
    }
}

fn is_selected(workload: &Workload<'_>, pod: &ObjectMeta) -> bool {
    let labels = pod.labels.as_ref();
    pod.namespace.as_deref() == Some(workload.namespace)
        && workload
            .match_labels
            .iter()
            .all(|(key, value)| labels.and_then(|labels| labels.get(key)) == Some(value))
}

/// UIDs of what owns the workload's pods directly: its ReplicaSets, or itself.
fn pod_owners<'a, 'p: 'a>(
    workload: &'a Workload<'_>,
    replica_sets: impl IntoIterator<Item = &'p ReplicaSet>,
) -> BTreeSet<&'a str> {
    if *workload.kind != DEPLOYMENT {
        return BTreeSet::from([workload.uid]);
    }
    replica_sets
        .into_iter()
        .map(|set| &set.metadata)
        .filter(|set| {
            set.namespace.as_deref() == Some(workload.namespace)
                && owner_uid(set) == Some(workload.uid)
        })
        .filter_map(|set| set.uid.as_deref())
        .collect()
}

/// The owner that controls an object. There is at most one.
#[must_use]
pub fn controller_of(metadata: &ObjectMeta) -> Option<&OwnerReference> {
    metadata
        .owner_references
        .iter()
        .flatten()
        .find(|owner| owner.controller == Some(true))
}

fn owner_uid(metadata: &ObjectMeta) -> Option<&str> {
    controller_of(metadata).map(|owner| owner.uid.as_str())
}

/// The first digest that a pod reports for a container, and where it stands.
pub(super) fn running_digest(
    rules: &Detection,
    container: &str,
    reference: &Reference<'_>,
    role: Role,
    pods: &[&Pod],
) -> Option<(Digest, String)> {
    pods.iter().find_map(|pod| {
        let status = pod.status.as_ref()?;
        let (statuses, field) = match role {
            Role::Regular => (&status.container_statuses, "containerStatuses"),
            Role::Init => (&status.init_container_statuses, "initContainerStatuses"),
        };
        let digest = statuses
            .iter()
            .flatten()
            .filter(|entry| entry.name == container)
            .filter(|entry| match rules.status_digest {
                StatusDigest::AnyImage => true,
                StatusDigest::SameImage => {
                    let runs = Reference::parse(&entry.image);
                    entry.image.is_empty() || runs.familiar_name() == reference.familiar_name()
                }
            })
            .find_map(|entry| Digest::of_image_id(&entry.image_id))?;
        Some((digest, format!("status.{field}[name={container}].imageID")))
    })
}
