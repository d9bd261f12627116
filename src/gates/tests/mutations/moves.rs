//! INS, UPG, EVT and CLN.

use super::super::fixture::{AIBOMS, Case, event};
use super::{Mutation, at};
use crate::record::{ApplyMethod, Event, HelmFailure, RevisionStatus};

fn no_rollout(case: &mut Case) {
    case.rollout(4).observed = 0;
}

fn warn(case: &mut Case, reason: &str) {
    let reported = event("Warning", reason);
    case.report(4, Event::Cluster { reported });
}

fn missed(case: &mut Case) {
    let reason = "the server forgot where the watch was".to_owned();
    case.report(4, Event::EventsMissed { reason });
}

pub(super) static MUTATIONS: [Mutation; 20] = [
    at(
        2,
        "INS-01",
        |case| {
            let crd = case.crd(2, AIBOMS).clone();
            case.snapshot(1).crds.push(crd);
        },
        |case| case.forget(1),
    ),
    at(
        2,
        "INS-02",
        |case| case.newest(2).revision = 2,
        |case| case.record(2).helm = None,
    ),
    at(
        2,
        "INS-03",
        |case| case.crd(2, AIBOMS).established = false,
        |case| case.forget(2),
    ),
    at(
        2,
        "INS-04",
        |case| {
            let versions = &mut case.crd(2, AIBOMS).versions;
            versions.get_mut("v1alpha1").expect("a version").served = false;
        },
        |case| case.forget(2),
    ),
    at(
        2,
        "INS-05",
        |case| {
            case.crd(2, AIBOMS)
                .stored_versions
                .insert(0, "v1alpha1".to_owned())
        },
        |case| case.forget(2),
    ),
    at(
        2,
        "INS-06",
        |case| case.deployment(2).replicas = 2,
        |case| case.forget(2),
    ),
    at(
        4,
        "UPG-01",
        |case| case.helm(4).failure = Some(HelmFailure::Timeout),
        |case| case.record(4).helm = None,
    ),
    at(
        4,
        "UPG-02",
        |case| case.newest(4).apply_method = Some(ApplyMethod::Csa),
        |case| case.forget(4),
    ),
    at(
        4,
        "UPG-03",
        |case| case.rollout(4).complete_after = None,
        no_rollout,
    ),
    at(
        4,
        "UPG-04",
        |case| {
            let old = case.snapshot(3).pods[0].clone();
            case.snapshot(4).pods.push(old);
        },
        |case| case.forget(4),
    ),
    at(
        4,
        "UPG-05",
        |case| case.rollout(4).longest_without_ready = 0.4,
        no_rollout,
    ),
    at(
        4,
        "UPG-06",
        |case| case.rollout(4).overlap = 75.0,
        no_rollout,
    ),
    at(4, "UPG-07", |case| case.rollout(4).restarts = 1, no_rollout),
    at(
        4,
        "UPG-09",
        |case| case.config(4).uid = "another".to_owned(),
        |case| case.forget(3),
    ),
    at(
        4,
        "UPG-13",
        |case| case.newest(4).status = RevisionStatus::PendingUpgrade,
        |case| case.forget(4),
    ),
    at(4, "EVT-01", |case| warn(case, "BackOff"), missed),
    at(
        4,
        "EVT-02",
        |case| warn(case, "AIBOMControllerConfigDeleted"),
        |case| {
            case.events
                .retain(|entry| !matches!(entry.event, Event::Cluster { .. }))
        },
    ),
    at(
        10,
        "CLN-01",
        |case| {
            case.cleanup()
                .differences
                .push("ClusterRole k8s-aibom is new".to_owned())
        },
        |case| case.record(10).cleanup = None,
    ),
    at(
        10,
        "CLN-02",
        |case| case.cleanup().left.push("Namespace load".to_owned()),
        |case| case.cleanup().deleted.clear(),
    ),
    at(
        10,
        "CLN-05",
        |case| {
            let crd = case.crd(9, AIBOMS).clone();
            case.snapshot(10).crds.push(crd);
        },
        |case| case.forget(10),
    ),
];
