//! Deployments and pods in our own words.

use chrono::{DateTime, Utc};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ContainerStateTerminated, ContainerStatus, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::time::moment;
use crate::record::{Condition, ConditionStatus, DeploymentState, PodState};

/// The label by which the pods of one template are known.
pub(super) const TEMPLATE_HASH: &str = "pod-template-hash";

/// A Deployment by the terms that tell whether its rollout is complete.
#[must_use]
pub fn deployment_state(deployment: &Deployment) -> DeploymentState {
    let metadata = &deployment.metadata;
    let spec = deployment.spec.as_ref();
    let status = deployment.status.as_ref();
    let count = |of: Option<i32>| of.unwrap_or(0);
    let template = spec.and_then(|spec| spec.template.spec.as_ref());
    let first = template.and_then(|template| template.containers.first());
    let conditions = status.and_then(|status| status.conditions.as_ref());
    DeploymentState {
        name: metadata.name.clone().unwrap_or_default(),
        uid: metadata.uid.clone().unwrap_or_default(),
        generation: metadata.generation.unwrap_or_default(),
        observed_generation: status
            .and_then(|status| status.observed_generation)
            .unwrap_or_default(),
        // What the server writes when the field is left out.
        wanted: spec.and_then(|spec| spec.replicas).unwrap_or(1),
        replicas: count(status.and_then(|status| status.replicas)),
        updated: count(status.and_then(|status| status.updated_replicas)),
        ready: count(status.and_then(|status| status.ready_replicas)),
        available: count(status.and_then(|status| status.available_replicas)),
        image: first
            .and_then(|container| container.image.clone())
            .unwrap_or_default(),
        conditions: conditions
            .into_iter()
            .flatten()
            .map(|condition| Condition {
                type_: condition.type_.clone(),
                status: condition_status(&condition.status),
                reason: condition.reason.clone().unwrap_or_default(),
                message: condition.message.clone().unwrap_or_default(),
                observed_generation: None,
                last_transition_time: at(condition.last_transition_time.as_ref()),
            })
            .collect(),
    }
}

/// One pod.
#[must_use]
pub fn pod_state(pod: &Pod) -> PodState {
    let metadata = &pod.metadata;
    let status = pod.status.as_ref();
    let conditions = status.and_then(|status| status.conditions.as_ref());
    let ready = conditions.into_iter().flatten();
    let container = first_container(pod);
    let spec = pod.spec.as_ref();
    let image = spec.and_then(|spec| spec.containers.first()?.image.clone());
    let labels = metadata.labels.as_ref();
    PodState {
        name: metadata.name.clone().unwrap_or_default(),
        uid: metadata.uid.clone().unwrap_or_default(),
        template_hash: labels.and_then(|labels| labels.get(TEMPLATE_HASH).cloned()),
        phase: status
            .and_then(|status| status.phase.clone())
            .unwrap_or_default(),
        ready: ready
            .clone()
            .any(|condition| condition.type_ == "Ready" && condition.status == "True"),
        terminating: metadata.deletion_timestamp.is_some(),
        image: image.unwrap_or_default(),
        image_id: container
            .map(|container| container.image_id.clone())
            .filter(|id| !id.is_empty()),
        container_id: container.and_then(|container| container.container_id.clone()),
        restarts: container.map_or(0, |container| container.restart_count),
        trouble: container.and_then(trouble),
        created_at: at(metadata.creation_timestamp.as_ref()),
    }
}

/// The status of the first container of the spec; the list of statuses has an order of its own.
pub(super) fn first_container(pod: &Pod) -> Option<&ContainerStatus> {
    let name = &pod.spec.as_ref()?.containers.first()?.name;
    let statuses = pod.status.as_ref()?.container_statuses.as_ref()?;
    statuses.iter().find(|status| &status.name == name)
}

/// Why a container waits, and how it ended last. Starting is no trouble.
fn trouble(container: &ContainerStatus) -> Option<String> {
    let state = container.state.as_ref();
    let waiting = state
        .and_then(|state| state.waiting.as_ref())
        .and_then(|waiting| Some((waiting.reason.as_ref()?, waiting.message.as_ref())))
        .filter(|(reason, _)| !matches!(reason.as_str(), "ContainerCreating" | "PodInitializing"))
        .map(|(reason, message)| match message {
            Some(message) if !message.is_empty() => format!("{reason}: {message}"),
            _ => reason.clone(),
        });
    let last = container.last_state.as_ref();
    let ended = state
        .and_then(|state| state.terminated.as_ref())
        .or_else(|| last.and_then(|last| last.terminated.as_ref()))
        .map(ended);
    match (waiting, ended) {
        (Some(waiting), Some(ended)) => Some(format!("{waiting}; ended with {ended}")),
        (waiting, ended) => waiting.or(ended),
    }
}

/// Such as `Error (exit 3)`.
fn ended(end: &ContainerStateTerminated) -> String {
    let reason = end.reason.as_deref().filter(|reason| !reason.is_empty());
    let reason = reason.unwrap_or("no reason");
    match end.signal.filter(|signal| *signal != 0) {
        Some(signal) => format!("{reason} (signal {signal})"),
        None => format!("{reason} (exit {})", end.exit_code),
    }
}

fn condition_status(status: &str) -> ConditionStatus {
    match status {
        "True" => ConditionStatus::True,
        "False" => ConditionStatus::False,
        _ => ConditionStatus::Unknown,
    }
}

fn at(time: Option<&Time>) -> Option<DateTime<Utc>> {
    time.and_then(moment)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(state: &Value, last: &Value) -> PodState {
        let pod = serde_json::from_value(json!({
            "metadata": {
                "name": "p", "uid": "u", "labels": {"pod-template-hash": "abc"},
                "creationTimestamp": "2026-01-02T03:04:05Z",
            },
            "spec": {"containers": [{"name": "manager", "image": "i:1"}, {"name": "other"}]},
            "status": {
                "phase": "Running",
                "conditions": [{"type": "Ready", "status": "False"}],
                "containerStatuses": [
                    {"name": "other", "ready": true, "restartCount": 9, "image": "", "imageID": "x"},
                    {"name": "manager", "ready": false, "restartCount": 2, "image": "", "imageID": "",
                     "state": state, "lastState": last},
                ],
            },
        }));
        pod_state(&pod.expect("a pod"))
    }

    #[test]
    fn a_pod_is_told_by_its_first_container() {
        let state = pod(&json!({"running": {}}), &json!({}));
        assert_eq!((state.restarts, state.image.as_str()), (2, "i:1"));
        assert_eq!(state.image_id, None);
        assert_eq!(state.template_hash.as_deref(), Some("abc"));
        assert_eq!(state.trouble, None);
        assert!(state.created_at.is_some() && !state.ready);
    }

    #[test]
    fn waiting_and_the_last_end_are_trouble_and_starting_is_none() {
        let exit = json!({"terminated": {"exitCode": 3, "reason": "Error"}});
        let back_off =
            json!({"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s"}});
        let told = |state: &Value, last: &Value| pod(state, last).trouble;
        assert_eq!(
            told(&back_off, &exit).as_deref(),
            Some("CrashLoopBackOff: back-off 10s; ended with Error (exit 3)")
        );
        assert_eq!(
            told(&json!({"running": {}}), &exit).as_deref(),
            Some("Error (exit 3)")
        );
        let killed = json!({"terminated": {"exitCode": 137, "signal": 9, "reason": "OOMKilled"}});
        assert_eq!(
            told(&killed, &json!({})).as_deref(),
            Some("OOMKilled (signal 9)")
        );
        let starting = json!({"waiting": {"reason": "ContainerCreating"}});
        assert_eq!(told(&starting, &json!({})), None);
    }

    #[test]
    fn a_deployment_that_nobody_has_looked_at_is_not_complete() {
        let deployment = serde_json::from_value(json!({
            "metadata": {"name": "d", "uid": "u", "generation": 1},
            "spec": {
                "selector": {}, "template": {"spec": {"containers": [{"name": "c", "image": "i:1"}]}},
            },
        }));
        let state = deployment_state(&deployment.expect("a Deployment"));
        assert_eq!((state.wanted, state.observed_generation), (1, 0));
        assert_eq!(state.image, "i:1");
        assert!(!state.is_complete());
    }
}
