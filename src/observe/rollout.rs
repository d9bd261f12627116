//! The controller's Deployment and its pods, and the one process whose counters are read.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use kube::Api;
use kube::api::ListParams;

use super::error::ObserveError;
use super::target::Target;
use crate::cluster::fault::diagnose;
use crate::cluster::state::{deployment_state, pod_state};
use crate::record::{DeploymentState, PodState};

/// The label of a pod that tells which template it was made from.
const TEMPLATE_HASH: &str = "pod-template-hash";
/// The annotation by which the newest ReplicaSet is known. An older one that a rollback brings back
/// becomes the newest again.
const REVISION: &str = "deployment.kubernetes.io/revision";

/// The Deployment of the release, if there is one, and the pods with its labels, oldest first.
pub(super) async fn rollout(
    target: &Target,
) -> Result<(Option<DeploymentState>, Vec<PodState>), ObserveError> {
    let of_release = target.of_release();
    let (deployments, pods) = tokio::try_join!(
        all::<Deployment>(target, &of_release, "the Deployment"),
        all::<Pod>(target, &of_release, "the pods"),
    )?;
    let deployment = match &deployments[..] {
        [] => None,
        [deployment] => Some(deployment_state(deployment)),
        several => {
            let names = several.iter().map(|found| text(&found.metadata.name));
            return Err(ObserveError::Ambiguous {
                names: names.collect(),
            });
        }
    };
    let mut pods: Vec<PodState> = pods.iter().map(pod_state).collect();
    pods.sort_by(|one, other| (one.created_at, &one.name).cmp(&(other.created_at, &other.name)));
    Ok((deployment, pods))
}

/// What has to be known to choose a pod.
#[derive(Debug, Default)]
pub(super) struct Candidates {
    pub(super) deployments: Vec<Deployment>,
    pub(super) sets: Vec<ReplicaSet>,
    pub(super) pods: Vec<Pod>,
}

impl Candidates {
    pub(super) async fn read(target: &Target) -> Result<Self, ObserveError> {
        let of_release = target.of_release();
        let (deployments, sets, pods) = tokio::try_join!(
            all::<Deployment>(target, &of_release, "the Deployment"),
            all::<ReplicaSet>(target, &of_release, "the ReplicaSets"),
            all::<Pod>(target, &of_release, "the pods"),
        )?;
        Ok(Self {
            deployments,
            sets,
            pods,
        })
    }

    /// The one ready pod of the newest template that is not being deleted and whose container runs.
    pub(super) fn choose(&self) -> Result<Identity, Unready> {
        let deployment = match &self.deployments[..] {
            [] => return Err(Unready::NoDeployment),
            [deployment] => deployment,
            several => {
                let names = several.iter().map(|found| text(&found.metadata.name));
                return Err(Unready::Deployments(names.collect()));
            }
        };
        let observed = deployment.status.as_ref();
        let observed = observed.and_then(|status| status.observed_generation);
        if observed < deployment.metadata.generation {
            return Err(Unready::Unobserved);
        }
        let newest = self.newest(deployment).ok_or(Unready::NoReplicaSet)?;
        let is_newest = |pod: &&Pod| template_hash(pod.metadata.labels.as_ref()) == Some(newest);
        let mut ready = self
            .pods
            .iter()
            .filter(is_newest)
            .filter_map(Identity::of_live);
        match (ready.next(), ready.next()) {
            (Some(one), None) => Ok(one),
            (Some(one), Some(two)) => Err(Unready::Pods(vec![one.pod, two.pod])),
            (None, _) => Err(Unready::NoPod(self.pods.iter().map(word).collect())),
        }
    }

    /// The template hash of the Deployment's newest ReplicaSet.
    fn newest(&self, deployment: &Deployment) -> Option<&str> {
        let uid = deployment.metadata.uid.as_deref()?;
        let owned = self.sets.iter().filter(|set| {
            let owners = set.metadata.owner_references.iter().flatten();
            owners.into_iter().any(|owner| owner.uid == uid)
        });
        let newest = owned.max_by_key(|set| revision(set))?;
        template_hash(newest.metadata.labels.as_ref())
    }
}

async fn all<K>(target: &Target, which: &ListParams, what: &str) -> Result<Vec<K>, ObserveError>
where
    K: kube::Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>
        + Clone
        + fmt::Debug
        + serde::de::DeserializeOwned,
{
    let api = Api::<K>::namespaced(target.client.clone(), &target.namespace);
    let listed = api.list(which).await.map_err(|error| {
        let what = format!("{what} of the release {}", target.release);
        ObserveError::api(what, diagnose(&error))
    })?;
    Ok(listed.items)
}

fn revision(set: &ReplicaSet) -> Option<u64> {
    let annotations = set.metadata.annotations.as_ref()?;
    annotations.get(REVISION)?.parse().ok()
}

fn template_hash(labels: Option<&BTreeMap<String, String>>) -> Option<&str> {
    Some(labels?.get(TEMPLATE_HASH)?.as_str())
}

/// One process of a pod (MET-01).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    pub(super) pod: String,
    pub(super) uid: String,
    pub(super) container_id: Option<String>,
    pub(super) restarts: i32,
}

impl Identity {
    /// The process of the pod's first container.
    pub(super) fn of(pod: &Pod) -> Self {
        let state = pod_state(pod);
        Self {
            pod: state.name,
            uid: state.uid,
            container_id: state.container_id,
            restarts: state.restarts,
        }
    }

    /// Of a pod that is ready, is not being deleted, and whose container runs.
    fn of_live(pod: &Pod) -> Option<Self> {
        let running = first_status(pod)?.state.as_ref()?.running.is_some();
        let state = pod_state(pod);
        let live = running && state.ready && !state.terminating;
        live.then(|| Self::of(pod))
    }
}

/// Why there is no process to ask.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unready {
    /// There is no Deployment.
    #[error("there is no Deployment with the labels of the release")]
    NoDeployment,
    /// There is more than one.
    #[error("more than one Deployment has the labels of the release: {}", .0.join(", "))]
    Deployments(Vec<String>),
    /// Its newest state has not been acted upon.
    #[error("the newest generation of the Deployment has not been observed")]
    Unobserved,
    /// It has no ReplicaSet.
    #[error("the Deployment has no ReplicaSet")]
    NoReplicaSet,
    /// No pod of the newest template is ready and stays; all pods in words.
    #[error("no pod of the newest template is ready: {}", if .0.is_empty() { "there is none at all".to_owned() } else { .0.join("; ") })]
    NoPod(Vec<String>),
    /// More than one is.
    #[error("more than one pod of the newest template is ready: {}", .0.join(", "))]
    Pods(Vec<String>),
}

/// A pod in a few words.
fn word(pod: &Pod) -> String {
    let state = pod_state(pod);
    let mut word = format!("{} is {}", state.name, state.phase);
    word.push_str(match (state.terminating, state.ready) {
        (true, _) => " and being deleted",
        (false, true) => " and ready",
        (false, false) => " and not ready",
    });
    if let Some(trouble) = state.trouble {
        word.push_str(": ");
        word.push_str(&trouble);
    }
    word
}

/// The status of the first container of the spec; the list of statuses has an order of its own.
fn first_status(pod: &Pod) -> Option<&ContainerStatus> {
    let first = pod.spec.as_ref()?.containers.first()?;
    let statuses = pod.status.as_ref()?.container_statuses.as_ref()?;
    statuses.iter().find(|status| status.name == first.name)
}

fn text(value: &Option<String>) -> String {
    value.clone().unwrap_or_default()
}
