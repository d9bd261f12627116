use std::net::Ipv4Addr;

use k8s_openapi::api::core::v1::ContainerStateTerminated;
use k8s_openapi::jiff::Timestamp;

use super::*;

fn second(second: i64) -> Time {
    Time(Timestamp::from_second(second).expect("a moment"))
}

fn pod(spec: Value) -> Pod {
    let mut pod: Pod = serde_json::from_value(json!({
        "metadata": {"name": "p", "namespace": "n", "uid": "u", "generation": 3},
        "spec": spec,
        "status": {"phase": "Pending", "qosClass": "Burstable"},
    }))
    .expect("a pod");
    let policy = &mut pod.spec.as_mut().expect("a spec").restart_policy;
    policy.get_or_insert("Always".to_owned());
    pod
}

fn one_container() -> Pod {
    pod(json!({"containers": [{"name": "manager", "image": "registry/manager:v1"}]}))
}

fn ended(exit_code: i32) -> State {
    State::Terminated(ContainerStateTerminated {
        exit_code,
        ..Default::default()
    })
}

fn began(container: &mut ContainerRecord, state: State) {
    container.id = Some("aibom-qual://1".to_owned());
    container.ready = matches!(state, State::Running(_));
    container.started = container.ready;
    container.state = state;
}

fn prepared(pod: &Pod) -> Record {
    let mut record = Record::take(pod, &second(1));
    record.address = Some(Ipv4Addr::new(198, 18, 0, 1));
    record
}

/// `TYPE=STATUS REASON: MESSAGE` of every condition.
fn conditions(status: &PodStatus) -> Vec<String> {
    let text = |condition: &PodCondition| {
        let mut text = format!("{}={}", condition.type_, condition.status);
        for (before, part) in [(" ", &condition.reason), (": ", &condition.message)] {
            if let Some(part) = part {
                text += &format!("{before}{part}");
            }
        }
        text
    };
    status.conditions.iter().flatten().map(text).collect()
}

#[test]
fn a_pod_that_was_just_taken_waits() {
    let pod = one_container();
    let record = Record::take(&pod, &second(1));
    let status = compose(&pod, &record, &[], &second(2));
    assert_eq!(status.phase.as_deref(), Some("Pending"));
    assert_eq!(status.observed_generation, Some(3));
    assert_eq!(status.qos_class.as_deref(), Some("Burstable"));
    assert_eq!(status.pod_ip, None);
    let unready = "False ContainersNotReady: containers with unready status: [manager]";
    assert_eq!(
        conditions(&status),
        [
            "PodReadyToStartContainers=False".to_owned(),
            "Initialized=True".to_owned(),
            format!("Ready={unready}"),
            format!("ContainersReady={unready}"),
            "PodScheduled=True".to_owned(),
        ]
    );
    let container = &status.container_statuses.expect("containers")[0];
    let waiting = container.state.as_ref().and_then(|s| s.waiting.as_ref());
    let reason = waiting.and_then(|waiting| waiting.reason.as_deref());
    assert_eq!(reason, Some("ContainerCreating"));
    assert_eq!((container.started, container.ready), (Some(false), false));
}

#[test]
fn a_ready_pod_says_so_without_reasons() {
    let pod = one_container();
    let mut record = prepared(&pod);
    began(&mut record.main[0], State::Running(second(5)));
    let status = compose(&pod, &record, &[], &second(6));
    assert_eq!(status.phase.as_deref(), Some("Running"));
    assert_eq!(status.pod_ip.as_deref(), Some("198.18.0.1"));
    let all = ["PodReadyToStartContainers", "Initialized", "Ready"];
    let all = all.iter().chain(&["ContainersReady", "PodScheduled"]);
    let all: Vec<String> = all.map(|kind| format!("{kind}=True")).collect();
    assert_eq!(conditions(&status), all);
}

#[test]
fn a_condition_keeps_its_time_until_it_changes() {
    let pod = one_container();
    let mut record = prepared(&pod);
    let first = compose(&pod, &record, &[], &second(2))
        .conditions
        .expect("them");
    began(&mut record.main[0], State::Running(second(5)));
    let status = compose(&pod, &record, &first, &second(6));
    let times: Vec<i64> = status
        .conditions
        .iter()
        .flatten()
        .filter_map(|c| Some(c.last_transition_time.as_ref()?.0.as_second()))
        .collect();
    assert_eq!(times, [2, 2, 6, 6, 2]);
}

#[test]
fn init_containers_hold_the_others_back() {
    let pod = pod(json!({
        "initContainers": [{"name": "a", "image": "i"}, {"name": "b", "image": "i"}],
        "containers": [{"name": "main", "image": "i"}],
    }));
    let mut record = prepared(&pod);
    began(&mut record.init[0], ended(0));
    let status = compose(&pod, &record, &[], &second(2));
    assert_eq!(status.phase.as_deref(), Some("Pending"));
    assert_eq!(
        conditions(&status)[1],
        "Initialized=False ContainersNotInitialized: containers with incomplete status: [b]"
    );
    let main = &status.container_statuses.expect("containers")[0];
    let waiting = main.state.as_ref().and_then(|s| s.waiting.as_ref());
    let reason = waiting.and_then(|waiting| waiting.reason.as_deref());
    assert_eq!(reason, Some("PodInitializing"));

    began(&mut record.init[1], ended(0));
    let status = compose(&pod, &record, &[], &second(2));
    assert_eq!(conditions(&status)[1], "Initialized=True");
}

#[test]
fn a_job_that_ended_well_is_completed() {
    let mut pod = one_container();
    pod.spec.as_mut().expect("a spec").restart_policy = Some("Never".to_owned());
    let mut record = prepared(&pod);
    began(&mut record.main[0], ended(0));
    record.over = true;
    let status = compose(&pod, &record, &[], &second(2));
    assert_eq!(status.phase.as_deref(), Some("Succeeded"));
    assert_eq!(
        conditions(&status),
        [
            "PodReadyToStartContainers=False",
            "Initialized=True PodCompleted",
            "Ready=False PodCompleted",
            "ContainersReady=False PodCompleted",
            "PodScheduled=True",
        ]
    );
    began(&mut record.main[0], ended(1));
    let status = compose(&pod, &record, &[], &second(2));
    assert_eq!(status.phase.as_deref(), Some("Failed"));
    assert_eq!(conditions(&status)[2], "Ready=False PodFailed");
}

#[test]
fn phases_follow_from_states_and_policy() {
    use RestartPolicy::{Always, Never, OnFailure};
    let pod = pod(json!({
        "initContainers": [{"name": "init", "image": "i"}],
        "containers": [{"name": "a", "image": "i"}, {"name": "b", "image": "i"}],
    }));
    let running = || State::Running(second(5));
    let phase = |init: State, a: State, b: State, policy| {
        let mut record = prepared(&pod);
        began(&mut record.init[0], init);
        began(&mut record.main[0], a);
        began(&mut record.main[1], b);
        Phase::of(&record, policy)
    };
    assert_eq!(
        phase(ended(0), running(), running(), Always),
        Phase::Running
    );
    assert_eq!(phase(ended(0), running(), ended(1), Never), Phase::Running);
    assert_eq!(phase(ended(0), ended(0), ended(0), Always), Phase::Running);
    assert_eq!(
        phase(ended(0), ended(0), ended(0), OnFailure),
        Phase::Succeeded
    );
    assert_eq!(
        phase(ended(0), ended(0), ended(1), OnFailure),
        Phase::Running
    );
    assert_eq!(phase(ended(0), ended(0), ended(1), Never), Phase::Failed);
    assert_eq!(phase(ended(1), ended(0), ended(0), Never), Phase::Failed);
    let waiting = || State::waiting("ContainerCreating");
    assert_eq!(
        phase(ended(0), running(), waiting(), Always),
        Phase::Pending
    );

    let mut record = prepared(&pod);
    began(&mut record.init[0], ended(0));
    began(&mut record.main[0], running());
    began(&mut record.main[1], State::waiting("CrashLoopBackOff"));
    record.main[1].last = Some(ContainerStateTerminated::default());
    assert_eq!(Phase::of(&record, Always), Phase::Running);
}

#[test]
fn a_closed_pod_accounts_for_every_container() {
    let pod = pod(json!({
        "containers": [{"name": "ran", "image": "i"}, {"name": "never", "image": "i"}],
    }));
    let mut record = prepared(&pod);
    began(&mut record.main[0], ended(0));
    record.close();
    let status = compose(&pod, &record, &[], &second(2));
    assert_eq!(status.phase.as_deref(), Some("Failed"));
    let never = &status.container_statuses.expect("containers")[1];
    let unseen = never.state.as_ref().and_then(|s| s.terminated.as_ref());
    assert_eq!(unseen.map(|unseen| unseen.exit_code), Some(137));

    let pod = one_container();
    let mut record = prepared(&pod);
    began(&mut record.main[0], ended(0));
    record.close();
    assert_eq!(Phase::of(&record, RestartPolicy::Always), Phase::Succeeded);
}

#[test]
fn a_pod_of_an_earlier_life_lost_its_processes() {
    let mut pod = one_container();
    let running: PodStatus = serde_json::from_value(json!({
        "startTime": "1970-01-01T00:00:07Z",
        "containerStatuses": [{
            "name": "manager", "image": "i", "imageID": "i@sha256:1", "ready": true,
            "restartCount": 2, "containerID": "aibom-qual://0",
            "state": {"running": {"startedAt": "1970-01-01T00:00:08Z"}},
        }],
    }))
    .expect("a status");
    pod.status = Some(running);
    let record = Record::take(&pod, &second(100));
    assert_eq!(record.taken, second(7));
    let manager = &record.main[0];
    assert_eq!((manager.restarts, manager.ready), (2, false));
    let State::Terminated(ended) = &manager.state else {
        panic!("{:?}", manager.state);
    };
    assert_eq!(
        (ended.exit_code, ended.finished_at.clone()),
        (255, Some(second(100)))
    );
}

#[test]
fn a_container_that_cannot_be_run_ends_where_it_is_not_tried_again() {
    let pod = pod(json!({
        "restartPolicy": "Never",
        "initContainers": [{"name": "init", "image": "i"}],
        "containers": [{"name": "manager", "image": "i"}],
    }));
    for (policy, phase, exit_code) in [
        (RestartPolicy::Always, Phase::Pending, None),
        (RestartPolicy::Never, Phase::Failed, Some(128)),
    ] {
        let mut record = prepared(&pod);
        let start_error = ContainerStateTerminated {
            exit_code: 128,
            message: Some("cannot start it".to_owned()),
            ..Default::default()
        };
        record.init[0].fail_to_run(start_error, policy.of_init());
        assert_eq!(record.init[0].exit_code(), exit_code);
        assert_eq!(Phase::of(&record, policy), phase);
    }
}

#[test]
fn what_an_earlier_life_left_is_started_again_by_the_policy_alone() {
    let mut pod = pod(json!({
        "initContainers": [{"name": "init", "image": "i"}],
        "containers": [{"name": "lost", "image": "i"}, {"name": "done", "image": "i"}],
    }));
    let container = |name: &str, state: Value| {
        json!({
            "name": name, "image": "i", "imageID": "i@sha256:1", "ready": false,
            "restartCount": 0, "containerID": "aibom-qual://0", "state": state,
        })
    };
    let completed = || json!({"terminated": {"exitCode": 0}});
    let running = json!({"running": {"startedAt": "1970-01-01T00:00:08Z"}});
    let status = json!({
        "initContainerStatuses": [container("init", completed())],
        "containerStatuses": [container("lost", running), container("done", completed())],
    });
    pod.status = Some(serde_json::from_value(status).expect("a status"));
    let record = Record::take(&pod, &second(100));
    for (policy, lost, done) in [
        (RestartPolicy::Always, None, None),
        (RestartPolicy::OnFailure, None, Some(0)),
        (RestartPolicy::Never, Some(255), Some(0)),
    ] {
        let init = record.init[0].ended_for_good(policy.of_init());
        assert_eq!(init, Some(0), "{policy:?}");
        let main = [&record.main[0], &record.main[1]].map(|main| main.ended_for_good(policy));
        assert_eq!(main, [lost, done], "{policy:?}");
    }
}

#[test]
fn a_pod_may_be_kept_from_ever_being_ready() {
    let mut pod = one_container();
    let mut record = prepared(&pod);
    began(&mut record.main[0], State::Running(second(5)));
    let fault = (
        "node.aibom-qual.dev/never-ready".to_owned(),
        "true".to_owned(),
    );
    pod.metadata.annotations = Some([fault].into());
    let status = compose(&pod, &record, &[], &second(6));
    assert!(conditions(&status)[2].starts_with("Ready=False ContainersNotReady"));
    assert!(!status.container_statuses.expect("containers")[0].ready);
}

#[test]
fn a_readiness_gate_is_waited_for() {
    let mut pod = pod(json!({
        "containers": [{"name": "a", "image": "i"}],
        "readinessGates": [{"conditionType": "example.com/ok"}],
    }));
    let mut record = prepared(&pod);
    began(&mut record.main[0], State::Running(second(5)));
    let status = compose(&pod, &record, &[], &second(6));
    assert_eq!(
        conditions(&status)[2..4],
        [
            "Ready=False ReadinessGatesNotReady: corresponding condition of pod readiness gate \
             \"example.com/ok\" does not exist.",
            "ContainersReady=True",
        ]
    );
    let gate = PodCondition {
        type_: "example.com/ok".to_owned(),
        status: "True".to_owned(),
        ..Default::default()
    };
    pod.status.as_mut().expect("a status").conditions = Some(vec![gate]);
    let status = compose(&pod, &record, &[], &second(6));
    assert_eq!(conditions(&status)[2], "Ready=True");
}

#[test]
fn a_patch_clears_what_is_no_longer_said_and_names_the_pod() {
    let pod = one_container();
    let mut record = prepared(&pod);
    began(&mut record.main[0], State::Running(second(5)));
    let status = compose(&pod, &record, &[], &second(6));
    let patch = patch("u", &status).expect("JSON");
    assert_eq!(patch["metadata"]["uid"], "u");
    let ready = &patch["status"]["conditions"][2];
    assert_eq!(
        (&ready["reason"], &ready["message"]),
        (&Value::Null, &Value::Null)
    );
    assert!(
        ready
            .as_object()
            .expect("an object")
            .contains_key("message")
    );
    let order = &patch["status"]["$setElementOrder/conditions"];
    assert_eq!(order[0]["type"], "PodReadyToStartContainers");
    assert_eq!(
        patch["status"]["podIPs"],
        json!([{"$patch": "replace"}, {"ip": "198.18.0.1"}])
    );
}

#[test]
fn only_what_the_node_owns_is_compared() {
    let pod = one_container();
    let record = prepared(&pod);
    let status = compose(&pod, &record, &[], &second(6));
    let mut served = status.clone();
    served.conditions.as_mut().expect("them").insert(
        0,
        PodCondition {
            type_: "DisruptionTarget".to_owned(),
            ..Default::default()
        },
    );
    served.nominated_node_name = Some("another".to_owned());
    assert_eq!(owned(&served), status);
}
