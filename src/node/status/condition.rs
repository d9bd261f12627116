//! A pod's conditions, as a kubelet words them.

use k8s_openapi::api::core::v1::{Pod, PodCondition};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::phase::Phase;
use super::record::{ContainerRecord, Record};

/// The conditions that a kubelet writes, in its order.
pub(in crate::node) const OWNED: [&str; 5] = [
    "PodReadyToStartContainers",
    "Initialized",
    "Ready",
    "ContainersReady",
    "PodScheduled",
];

/// What one condition says.
struct Verdict {
    holds: bool,
    reason: Option<&'static str>,
    message: Option<String>,
}

impl Verdict {
    fn plain(holds: bool) -> Self {
        Self {
            holds,
            reason: None,
            message: None,
        }
    }

    fn because(holds: bool, reason: &'static str) -> Self {
        Self {
            holds,
            reason: Some(reason),
            message: None,
        }
    }

    fn not(reason: &'static str, message: String) -> Self {
        Self {
            holds: false,
            reason: Some(reason),
            message: Some(message),
        }
    }
}

/// All conditions of a pod. One that says what it said `before` keeps its time.
pub(super) fn conditions(
    pod: &Pod,
    record: &Record,
    phase: Phase,
    never_ready: bool,
    before: &[PodCondition],
    now: &Time,
) -> Vec<PodCondition> {
    let containers_ready = || containers_ready(record, phase, never_ready);
    let verdicts = [
        Verdict::plain(record.address.is_some() && !record.over),
        initialized(record, phase),
        ready(pod, containers_ready()),
        containers_ready(),
        Verdict::plain(true),
    ];
    OWNED
        .into_iter()
        .zip(verdicts)
        .map(|(kind, verdict)| {
            let status = if verdict.holds { "True" } else { "False" };
            let same = |known: &&PodCondition| known.type_ == kind && known.status == status;
            let since = before.iter().find(same);
            let since = since.and_then(|known| known.last_transition_time.clone());
            PodCondition {
                type_: kind.to_owned(),
                status: status.to_owned(),
                reason: verdict.reason.map(str::to_owned),
                message: verdict.message,
                last_transition_time: Some(since.unwrap_or_else(|| now.clone())),
                observed_generation: pod.metadata.generation,
                last_probe_time: None,
            }
        })
        .collect()
}

fn initialized(record: &Record, phase: Phase) -> Verdict {
    let unfinished = names(&record.init, |container| container.exit_code() != Some(0));
    match phase {
        Phase::Succeeded => Verdict::because(true, "PodCompleted"),
        // A main container that was ever started proves that all others had ended well.
        _ if record.main.iter().any(ContainerRecord::was_started) => Verdict::plain(true),
        _ if unfinished.is_empty() => Verdict::plain(true),
        _ => Verdict::not(
            "ContainersNotInitialized",
            format!("containers with incomplete status: {}", list(&unfinished)),
        ),
    }
}

fn containers_ready(record: &Record, phase: Phase, never_ready: bool) -> Verdict {
    let is_ready = |container: &ContainerRecord| container.ready && !never_ready;
    let unready = names(&record.main, |container| !is_ready(container));
    match phase {
        Phase::Succeeded => Verdict::because(false, "PodCompleted"),
        Phase::Failed => Verdict::because(false, "PodFailed"),
        _ if unready.is_empty() => Verdict::plain(true),
        _ => Verdict::not(
            "ContainersNotReady",
            format!("containers with unready status: {}", list(&unready)),
        ),
    }
}

/// Readiness gates are conditions that somebody else writes.
fn ready(pod: &Pod, containers: Verdict) -> Verdict {
    if !containers.holds {
        return containers;
    }
    let gates = pod.spec.as_ref().and_then(|s| s.readiness_gates.as_ref());
    let known = pod.status.as_ref().and_then(|s| s.conditions.as_ref());
    let closed = gates.into_iter().flatten().find_map(|gate| {
        let kind = &gate.condition_type;
        let state = known.into_iter().flatten().find(|c| &c.type_ == kind);
        match state {
            None => Some(format!(
                "corresponding condition of pod readiness gate \"{kind}\" does not exist."
            )),
            Some(condition) if condition.status != "True" => Some(format!(
                "the status of pod readiness gate \"{kind}\" is not \"True\", but {}",
                condition.status
            )),
            Some(_) => None,
        }
    });
    match closed {
        Some(message) => Verdict::not("ReadinessGatesNotReady", message),
        None => containers,
    }
}

fn names(all: &[ContainerRecord], which: impl Fn(&ContainerRecord) -> bool) -> Vec<&str> {
    all.iter()
        .filter(|container| which(container))
        .map(|container| container.name.as_str())
        .collect()
}

/// As Go prints a list.
fn list(names: &[&str]) -> String {
    format!("[{}]", names.join(" "))
}
