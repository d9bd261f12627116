//! A pod's status out of what is known of it: pure functions, computed from the state and never from
//! what changed (`virtual-node.md` 2).

mod condition;
mod phase;
mod record;
#[cfg(test)]
mod tests;

use k8s_openapi::api::core::v1::{
    ContainerState, ContainerStateRunning, ContainerStateWaiting, ContainerStatus, HostIP, Pod,
    PodCondition, PodIP, PodStatus,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Value, json};

pub(super) use phase::{Phase, RestartPolicy};
pub(super) use record::{ContainerRecord, Record, State};

use super::faults::Faults;

/// The address of this machine, of which all pods are processes.
pub(super) const HOST: &str = "127.0.0.1";

/// The parts of a pod's status that the node owns. Conditions that say what they said `before` keep
/// their times.
pub(super) fn compose(
    pod: &Pod,
    record: &Record,
    before: &[PodCondition],
    now: &Time,
) -> PodStatus {
    let spec = pod.spec.as_ref();
    let policy = RestartPolicy::parse(spec.and_then(|spec| spec.restart_policy.as_deref()));
    let never_ready = Faults::of(pod).0.never_ready;
    let phase = Phase::of(record, policy);
    let all = |containers: &[ContainerRecord], is_main: bool| -> Option<Vec<ContainerStatus>> {
        let status = |container| container_status(container, is_main && never_ready);
        (!containers.is_empty()).then(|| containers.iter().map(status).collect())
    };
    let on_host = spec.and_then(|spec| spec.host_network).unwrap_or(false);
    let ip = record.address.map(|own| {
        if on_host {
            HOST.to_owned()
        } else {
            own.to_string()
        }
    });
    PodStatus {
        observed_generation: pod.metadata.generation,
        phase: Some(phase.as_str().to_owned()),
        start_time: Some(record.taken.clone()),
        host_ip: Some(HOST.to_owned()),
        host_ips: Some(vec![HostIP {
            ip: HOST.to_owned(),
        }]),
        pod_ips: ip.clone().map(|ip| vec![PodIP { ip }]),
        pod_ip: ip,
        // The API server has computed it, and lets nobody change it.
        qos_class: pod.status.as_ref().and_then(|s| s.qos_class.clone()),
        conditions: Some(condition::conditions(
            pod,
            record,
            phase,
            never_ready,
            before,
            now,
        )),
        init_container_statuses: all(&record.init, false),
        container_statuses: all(&record.main, true),
        ..PodStatus::default()
    }
}

/// The same parts of a status that came from the API server.
pub(super) fn owned(status: &PodStatus) -> PodStatus {
    let conditions = condition::OWNED.iter().filter_map(|kind| {
        let all = status.conditions.iter().flatten();
        all.into_iter().find(|known| known.type_ == *kind).cloned()
    });
    PodStatus {
        observed_generation: status.observed_generation,
        phase: status.phase.clone(),
        start_time: status.start_time.clone(),
        host_ip: status.host_ip.clone(),
        host_ips: status.host_ips.clone(),
        pod_ip: status.pod_ip.clone(),
        pod_ips: status.pod_ips.clone(),
        qos_class: status.qos_class.clone(),
        conditions: Some(conditions.collect()),
        init_container_statuses: status.init_container_statuses.clone(),
        container_statuses: status.container_statuses.clone(),
        ..PodStatus::default()
    }
}

/// The strategic merge patch that makes a pod's status this one; the server refuses it when the name
/// belongs to another pod by now.
pub(super) fn patch(uid: &str, status: &PodStatus) -> Result<Value, serde_json::Error> {
    let mut body = serde_json::to_value(status)?;
    let conditions = body.get_mut("conditions").and_then(Value::as_array_mut);
    for condition in conditions.into_iter().flatten() {
        // What is not mentioned would keep its old text.
        for field in ["reason", "message"] {
            if condition.get(field).is_none() {
                condition[field] = Value::Null;
            }
        }
    }
    // These lists are merged by address: without this, a pod that comes back would have two.
    for field in ["hostIPs", "podIPs"] {
        if let Some(list) = body.get_mut(field).and_then(Value::as_array_mut) {
            list.insert(0, json!({"$patch": "replace"}));
        }
    }
    let order: Vec<Value> = condition::OWNED
        .iter()
        .map(|kind| json!({"type": kind}))
        .collect();
    body["$setElementOrder/conditions"] = Value::Array(order);
    // What somebody else gave as the reason of an end that has not come.
    for field in ["reason", "message"] {
        body[field] = Value::Null;
    }
    Ok(json!({"metadata": {"uid": uid}, "status": body}))
}

fn container_status(container: &ContainerRecord, held_back: bool) -> ContainerStatus {
    let state = match &container.state {
        State::Waiting { reason, message } => ContainerState {
            waiting: Some(ContainerStateWaiting {
                reason: Some((*reason).to_owned()),
                message: message.clone(),
            }),
            ..ContainerState::default()
        },
        State::Running(since) => ContainerState {
            running: Some(ContainerStateRunning {
                started_at: Some(since.clone()),
            }),
            ..ContainerState::default()
        },
        State::Terminated(ended) => ContainerState {
            terminated: Some(ended.clone()),
            ..ContainerState::default()
        },
    };
    ContainerStatus {
        name: container.name.clone(),
        image: container.image.clone(),
        image_id: container.image_id.clone(),
        container_id: container.id.clone(),
        state: Some(state),
        last_state: Some(ContainerState {
            terminated: container.last.clone(),
            ..ContainerState::default()
        }),
        restart_count: i32::try_from(container.restarts).unwrap_or(i32::MAX),
        started: Some(container.started),
        ready: container.ready && !held_back,
        ..ContainerStatus::default()
    }
}
