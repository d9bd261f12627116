//! What a rollout needs to know of each object, and nothing more.

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::{Event, Pod, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Value;

use crate::cluster::state::{TEMPLATE_HASH, deployment_state, first_container, pod_state};
use crate::record::{DeploymentState, PodState};

/// The Deployment.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Target {
    pub(super) state: DeploymentState,
    /// Its pod template.
    pub(super) template: Value,
}

/// A ReplicaSet: the pods of one template.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Set {
    pub(super) uid: String,
    /// The UID of the Deployment that it belongs to.
    pub(super) owner: Option<String>,
    /// Its pod template, without the label that tells it from the others.
    pub(super) template: Value,
}

/// A pod.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Member {
    pub(super) state: PodState,
    /// The UID of the ReplicaSet that it belongs to.
    pub(super) set: Option<String>,
    /// Whether the process of its first container runs.
    pub(super) running: bool,
    /// Why no node takes it.
    pub(super) unscheduled: Option<String>,
}

impl Member {
    /// Whether it has ended for good. What is left of it then is an object without a process.
    pub(super) fn is_over(&self) -> bool {
        matches!(self.state.phase.as_str(), "Succeeded" | "Failed")
    }

    /// Whether it is ready and will stay so.
    pub(super) fn serves(&self) -> bool {
        self.state.ready && !self.state.terminating && !self.is_over()
    }
}

/// A warning about an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Warning {
    /// That object's UID.
    pub(super) about: String,
    pub(super) reason: String,
    pub(super) message: String,
}

impl From<Deployment> for Target {
    fn from(deployment: Deployment) -> Self {
        Self {
            state: deployment_state(&deployment),
            template: deployment
                .spec
                .map_or(Value::Null, |spec| template(spec.template)),
        }
    }
}

impl From<ReplicaSet> for Set {
    fn from(set: ReplicaSet) -> Self {
        Self {
            owner: controller(&set.metadata),
            uid: set.metadata.uid.unwrap_or_default(),
            template: set
                .spec
                .and_then(|spec| spec.template)
                .map_or(Value::Null, template),
        }
    }
}

impl From<Pod> for Member {
    fn from(pod: Pod) -> Self {
        let state = pod_state(&pod);
        let container = first_container(&pod).and_then(|container| container.state.as_ref());
        let running = container.is_some_and(|state| state.running.is_some());
        let status = pod.status.as_ref();
        let conditions = status.and_then(|status| status.conditions.as_ref());
        let unscheduled = conditions
            .into_iter()
            .flatten()
            .find(|condition| condition.type_ == "PodScheduled" && condition.status == "False")
            .map(|condition| {
                let reason = condition.reason.as_deref().unwrap_or("not scheduled");
                let message = condition.message.as_deref().unwrap_or("no message");
                format!("{reason}: {message}")
            });
        Self {
            state,
            set: controller(&pod.metadata),
            running,
            unscheduled,
        }
    }
}

impl From<Event> for Warning {
    fn from(event: Event) -> Self {
        Self {
            about: event.involved_object.uid.unwrap_or_default(),
            reason: event.reason.unwrap_or_default(),
            message: event.message.unwrap_or_default(),
        }
    }
}

/// The UID of the owner that controls an object.
fn controller(metadata: &ObjectMeta) -> Option<String> {
    let owners = metadata.owner_references.iter().flatten();
    let mut controllers = owners.filter(|owner| owner.controller == Some(true));
    controllers.next().map(|owner| owner.uid.clone())
}

/// A template as the Deployment's controller compares it: without the label that it adds itself.
fn template(mut template: PodTemplateSpec) -> Value {
    let metadata = template.metadata.as_mut();
    if let Some(labels) = metadata.and_then(|metadata| metadata.labels.as_mut()) {
        labels.remove(TEMPLATE_HASH);
    }
    // Nothing in a template has keys that are no strings.
    serde_json::to_value(template).unwrap_or(Value::Null)
}
