//! The rules, on changes as a cluster tells them; and the whole watch against a scripted server.

use serde_json::{Value, json};

use super::words::STALL;
use super::*;
use crate::cluster::scripted::{Answer, answering};

fn at(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn template(image: &str) -> Value {
    json!({
        "metadata": {"labels": {"app": "k"}},
        "spec": {"containers": [{"name": "manager", "image": image}]},
    })
}

/// A Deployment of this generation, observed, with these counts: in all, updated, ready.
fn deployment(image: &str, generation: i64, counts: [i32; 3]) -> Value {
    let [all, updated, ready] = counts;
    json!({
        "metadata": {"name": "k", "uid": "d", "generation": generation, "resourceVersion": "5"},
        "spec": {"replicas": 1, "selector": {}, "template": template(image)},
        "status": {
            "observedGeneration": generation, "replicas": all, "updatedReplicas": updated,
            "readyReplicas": ready, "availableReplicas": ready,
        },
    })
}

fn owner(uid: &str) -> Value {
    json!([{"apiVersion": "apps/v1", "kind": "K", "name": uid, "uid": uid, "controller": true}])
}

fn set(uid: &str, image: &str) -> Value {
    let mut template = template(image);
    template["metadata"]["labels"]["pod-template-hash"] = json!(uid);
    json!({
        "metadata": {"name": uid, "uid": uid, "ownerReferences": owner("d"), "resourceVersion": "5"},
        "spec": {"selector": {}, "template": template},
    })
}

/// A pod of a set, named after it, with its container in this state.
fn pod(set: &str, image: &str, ready: bool, state: &Value) -> Value {
    json!({
        "metadata": {
            "name": format!("k-{set}"), "uid": format!("p-{set}"), "ownerReferences": owner(set),
            "labels": {"pod-template-hash": set}, "resourceVersion": "5",
        },
        "spec": {"containers": [{"name": "manager", "image": image}]},
        "status": {
            "phase": "Running",
            "conditions": [{"type": "Ready", "status": if ready { "True" } else { "False" }}],
            "containerStatuses": [{
                "name": "manager", "image": image, "imageID": "", "ready": ready, "restartCount": 0,
                "state": state,
            }],
        },
    })
}

fn running(set: &str, image: &str, ready: bool) -> Value {
    pod(set, image, ready, &json!({"running": {}}))
}

fn terminating(mut pod: Value) -> Value {
    pod["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    pod
}

fn read<K: serde::de::DeserializeOwned>(value: Value) -> K {
    serde_json::from_value(value).expect("an object")
}

/// A rollout with the changes of a test in short.
#[derive(Default)]
struct Story(Rollout);

impl Story {
    /// Version `old` runs and is complete; helm begins at 10 s.
    fn running() -> Self {
        let mut story = Self::default();
        story.deployment(1, deployment("i:old", 1, [1, 1, 1]));
        story.set(1, set("old", "i:old"));
        story.pod(1, running("old", "i:old", true));
        story.0.mark(at(10));
        story
    }

    fn deployment(&mut self, seconds: u64, value: Value) {
        let target = Target::from(read::<Deployment>(value));
        let seen = Seen::Deployments(Change::Applied(target));
        self.0.take(at(seconds), seen);
    }

    fn set(&mut self, seconds: u64, value: Value) {
        let set = Set::from(read::<ReplicaSet>(value));
        self.0.take(at(seconds), Seen::Sets(Change::Applied(set)));
    }

    fn pod(&mut self, seconds: u64, value: Value) {
        let member = Member::from(read::<Pod>(value));
        self.0
            .take(at(seconds), Seen::Pods(Change::Applied(member)));
    }

    fn pod_gone(&mut self, seconds: u64, value: Value) {
        let member = Member::from(read::<Pod>(value));
        self.0
            .take(at(seconds), Seen::Pods(Change::Deleted(member)));
    }

    fn warn(&mut self, seconds: u64, about: &str, reason: &str, message: &str) {
        let event = json!({
            "metadata": {}, "involvedObject": {"uid": about}, "reason": reason, "message": message,
        });
        let warning = Warning::from(read::<Event>(event));
        let seen = Seen::Warnings(Change::Applied(warning));
        self.0.take(at(seconds), seen);
    }

    fn accept(&mut self, image: &str) {
        assert_eq!(self.0.obstacle(image, None), None);
        self.0.accept();
    }

    /// The new version is made, and its pod runs from 12 s on without being ready.
    fn upgrade(&mut self) {
        self.deployment(11, deployment("i:new", 2, [1, 0, 1]));
        self.set(11, set("new", "i:new"));
        self.pod(
            11,
            pod(
                "new",
                "i:new",
                false,
                &json!({"waiting": {"reason": "ContainerCreating"}}),
            ),
        );
        self.deployment(12, deployment("i:new", 2, [2, 1, 1]));
        self.pod(12, running("new", "i:new", false));
    }
}

#[test]
fn a_rolling_update_is_never_without_a_ready_pod() {
    let mut story = Story::running();
    story.upgrade();
    assert!(story.0.obstacle("i:new", None).is_some());
    story.pod(22, running("new", "i:new", true));
    story.deployment(22, deployment("i:new", 2, [1, 1, 1]));
    story.pod(23, terminating(running("old", "i:old", true)));
    let left = story.0.obstacle("i:new", None).expect("the old one");
    assert_eq!(left, "old pods are left: k-old");
    story.pod_gone(24, running("old", "i:old", true));
    story.accept("i:new");
    let facts = story.0.facts(at(60));
    assert_eq!(facts.complete_after, Some(14.0));
    assert_eq!(facts.longest_without_ready, 0.0);
    // From 12 s to 24 s both processes ran.
    assert_eq!(facts.overlap, 12.0);
    assert!(facts.template_changed);
    assert_eq!(facts.old_pods_left, Vec::<String>::new());
    assert_eq!((facts.restarts, facts.trouble), (0, None));
    assert!(facts.observed > 5, "{}", facts.observed);
}

#[test]
fn what_was_complete_before_is_no_upgrade() {
    let story = Story::running();
    let missing = story.0.obstacle("i:new", None);
    assert_eq!(missing.as_deref(), Some("the image is i:old and not i:new"));
    // The same image does not help when the server is already further than the watch.
    let floor = Floor {
        uid: "d".to_owned(),
        generation: 2,
    };
    let missing = story.0.obstacle("i:old", Some(&floor));
    let expected = "generation 2 of the Deployment has not reached the watch";
    assert_eq!(missing.as_deref(), Some(expected));
    let facts = story.0.facts(at(20));
    assert_eq!(
        (facts.complete_after, facts.template_changed),
        (None, false)
    );
    assert_eq!(facts.observed, 2);
}

#[test]
fn a_move_that_changes_no_template_is_complete_at_once() {
    let mut story = Story::running();
    story.deployment(11, deployment("i:old", 1, [1, 1, 1]));
    story.accept("i:old");
    let facts = story.0.facts(at(20));
    assert_eq!(facts.complete_after, Some(0.0));
    assert!(!facts.template_changed);
}

#[test]
fn the_longest_time_without_a_ready_pod_is_in_one_piece() {
    let mut story = Story::running();
    story.pod(12, running("old", "i:old", false));
    story.pod(15, running("old", "i:old", true));
    // Ready, but about to end: nothing is sent there any more.
    story.pod(20, terminating(running("old", "i:old", true)));
    story.pod_gone(21, running("old", "i:old", true));
    story.pod(22, running("new", "i:new", true));
    assert_eq!(story.0.facts(at(60)).longest_without_ready, 3.0);
    story.pod(50, running("new", "i:new", false));
    assert_eq!(story.0.facts(at(60)).longest_without_ready, 10.0);
}

#[test]
fn an_install_is_without_a_ready_pod_from_helm_s_start_on() {
    let mut story = Story::default();
    story.0.mark(at(10));
    story.deployment(11, deployment("i:new", 1, [1, 1, 0]));
    story.set(11, set("new", "i:new"));
    story.pod(12, running("new", "i:new", false));
    story.pod(20, running("new", "i:new", true));
    story.deployment(21, deployment("i:new", 1, [1, 1, 1]));
    story.accept("i:new");
    let facts = story.0.facts(at(30));
    assert_eq!(facts.longest_without_ready, 10.0);
    assert_eq!((facts.complete_after, facts.overlap), (Some(11.0), 0.0));
    assert!(facts.template_changed);
}

#[test]
fn the_way_back_leads_to_the_replica_set_of_before() {
    let mut story = Story::running();
    story.upgrade();
    story.pod(22, running("new", "i:new", true));
    story.pod_gone(23, running("old", "i:old", true));
    story.deployment(23, deployment("i:new", 2, [1, 1, 1]));
    story.0.mark(at(100));
    story.deployment(101, deployment("i:old", 3, [2, 1, 1]));
    story.pod(102, running("old", "i:old", true));
    assert_eq!(story.0.facts(at(103)).old_pods_left, ["k-new"]);
    story.pod_gone(103, running("new", "i:new", true));
    story.deployment(103, deployment("i:old", 3, [1, 1, 1]));
    story.accept("i:old");
    let facts = story.0.facts(at(110));
    assert_eq!((facts.complete_after, facts.overlap), (Some(3.0), 1.0));
    assert!(facts.template_changed);
}

#[test]
fn a_stall_is_told_by_its_own_rule_long_before_the_deployment_does() {
    let mut story = Story::running();
    story.upgrade();
    story.warn(
        22,
        "p-new",
        "Unhealthy",
        "Readiness probe failed: HTTP probe failed with statuscode: 500",
    );
    // The pod has been there since 11 s.
    assert_eq!(story.0.stall(at(11) + STALL - at(1)), None);
    let stall = story.0.stall(at(51)).expect("a stall");
    assert_eq!(
        stall,
        "the new pod k-new has not been ready for 40 s while the old pod k-old serves, with 2 pods \
         where 1 is wanted"
    );
    let facts = story.0.facts(at(51));
    assert_eq!(
        facts.trouble.as_deref(),
        Some("k-new: Unhealthy: Readiness probe failed: HTTP probe failed with statuscode: 500")
    );
    assert_eq!(facts.old_pods_left, ["k-old"]);
    assert_eq!((facts.overlap, facts.longest_without_ready), (39.0, 0.0));
    assert!(
        facts
            .last_seen
            .starts_with("Deployment k: 1 wanted, 2 in all, 1 updated, 1 ready"),
        "{}",
        facts.last_seen
    );
    assert!(facts.last_seen.contains("new pod k-new Running, not ready"));
}

#[test]
fn an_outage_is_no_stall() {
    let mut story = Story::running();
    story.upgrade();
    story.pod_gone(13, running("old", "i:old", true));
    assert_eq!(story.0.stall(at(100)), None);
    assert_eq!(story.0.facts(at(100)).longest_without_ready, 87.0);
}

#[test]
fn a_crash_is_told_with_its_exit_code_and_counts_as_no_overlap() {
    let mut story = Story::running();
    story.upgrade();
    let mut crashed = pod(
        "new",
        "i:new",
        false,
        &json!({"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s"}}),
    );
    let status = &mut crashed["status"]["containerStatuses"][0];
    status["restartCount"] = json!(2);
    status["lastState"] = json!({"terminated": {"exitCode": 1, "reason": "Error"}});
    story.pod(15, crashed);
    let facts = story.0.facts(at(40));
    assert_eq!(facts.restarts, 2);
    assert_eq!(
        facts.trouble.as_deref(),
        Some("k-new: CrashLoopBackOff: back-off 10s; ended with Error (exit 1)")
    );
    assert_eq!(facts.overlap, 3.0);
}

#[test]
fn a_pod_that_cannot_be_made_is_told_by_its_replica_set() {
    let mut story = Story::running();
    story.deployment(11, deployment("i:new", 2, [1, 0, 1]));
    story.set(11, set("new", "i:new"));
    story.warn(12, "new", "FailedCreate", "exceeded quota: none");
    let facts = story.0.facts(at(40));
    assert_eq!(
        facts.trouble.as_deref(),
        Some("FailedCreate: exceeded quota: none")
    );
}

#[test]
fn a_probe_that_failed_before_the_pod_was_ready_is_no_trouble() {
    let mut story = Story::running();
    story.upgrade();
    story.warn(13, "p-new", "Unhealthy", "Readiness probe failed");
    story.pod(22, running("new", "i:new", true));
    assert_eq!(story.0.trouble(), None);
}

#[test]
fn a_pod_that_has_ended_for_good_is_not_left() {
    let mut story = Story::running();
    story.upgrade();
    let mut evicted = running("old", "i:old", false);
    evicted["status"]["phase"] = json!("Failed");
    story.pod(20, evicted);
    story.pod(22, running("new", "i:new", true));
    story.deployment(22, deployment("i:new", 2, [1, 1, 1]));
    story.accept("i:new");
    assert_eq!(story.0.facts(at(30)).old_pods_left, Vec::<String>::new());
}

#[test]
fn a_watch_that_begins_again_forgets_what_is_gone_and_says_that_it_failed() {
    let mut story = Story::running();
    story.upgrade();
    let fault = Fault::Expired {
        message: "too old".to_owned(),
    };
    story.0.take(at(13), Seen::Pods(Change::Failed(fault)));
    let listed = vec![Member::from(read::<Pod>(running("new", "i:new", true)))];
    story.0.take(at(14), Seen::Pods(Change::Listed(listed)));
    let facts = story.0.facts(at(20));
    assert_eq!(facts.old_pods_left, Vec::<String>::new());
    assert!(
        facts.last_seen.contains("failures of a watch: 1"),
        "{}",
        facts.last_seen
    );
}

#[test]
fn the_error_says_stalled_or_late() {
    let late = RolloutStall {
        stalled: None,
        waited: at(40),
        last_seen: "there is no Deployment".to_owned(),
        trouble: None,
    };
    assert_eq!(
        late.to_string(),
        "the rollout was not complete (waited 40.0 s); last seen: there is no Deployment"
    );
    let stalled = RolloutStall {
        stalled: Some("the new pod is not ready".to_owned()),
        trouble: Some("k-new: Unhealthy".to_owned()),
        ..late.clone()
    };
    assert_eq!(
        stalled.to_string(),
        "the rollout is STALLED, the new pod is not ready (waited 40.0 s); last seen: there is no \
         Deployment; trouble: k-new: Unhealthy"
    );
    assert_ne!(late.hint(), stalled.hint());
}

/// A server where version `old` runs, and whose watches tell these events of Deployments and pods.
fn server(deployments: Vec<Value>, pods: Vec<Value>) -> kube::Client {
    let events = |values: &[Value]| -> Vec<Value> {
        let events = values.iter();
        events
            .map(|object| json!({"type": "MODIFIED", "object": object}))
            .collect()
    };
    let (deployments, pods) = (events(&deployments), events(&pods));
    let (client, _) = answering(move |line| {
        let watch = line.contains("watch=true");
        let (listed, told): (Value, &[Value]) = if line.contains("/deployments?") {
            (deployment("i:old", 1, [1, 1, 1]), &deployments)
        } else if line.contains("/replicasets?") {
            (set("old", "i:old"), &[])
        } else if line.contains("/pods?") {
            (running("old", "i:old", true), &pods)
        } else {
            (Value::Null, &[])
        };
        if watch {
            return Answer::quiet(told);
        }
        let items: Vec<Value> = Some(listed)
            .filter(|object| !object.is_null())
            .into_iter()
            .collect();
        Answer::json(json!({"metadata": {"resourceVersion": "5"}, "items": items}))
    });
    client
}

fn labels() -> Vec<(String, String)> {
    vec![("app".to_owned(), "k".to_owned())]
}

#[tokio::test(start_paused = true)]
async fn the_watch_waits_for_the_image_and_tells_what_it_saw() {
    let back = [
        running("old", "i:old", false),
        running("old", "i:old", true),
    ];
    let client = server(Vec::new(), back.to_vec());
    let watch = RolloutWatch::start(&client, "n", &labels()).await;
    let watch = watch.expect("a watch");
    watch.mark();
    let deadline = Deadline::within(at(5));
    watch
        .complete("i:old", deadline)
        .await
        .expect("it is there");
    let stall = watch.complete("i:new", deadline).await;
    let stall = stall.expect_err("it does not come");
    assert_eq!((stall.stalled, stall.waited), (None, at(5)));
    assert!(
        stall
            .last_seen
            .starts_with("the image is i:old and not i:new; Deployment k:"),
        "{}",
        stall.last_seen
    );
    let facts = watch.finish();
    assert!(facts.observed >= 2, "{}", facts.observed);
    assert!(!facts.template_changed);
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_is_not_allowed_fails_at_once() {
    let (client, _) = answering(|_| Answer::refused(403, "Forbidden"));
    let watch = RolloutWatch::start(&client, "n", &labels()).await;
    let fault = watch.expect_err("no permission");
    assert!(matches!(fault, Fault::Forbidden { .. }), "{fault:?}");
}

/// The engine runs in tasks; a lock held across a pause would forbid that.
#[test]
fn what_the_room_does_can_be_spawned() {
    use crate::cluster::{churn, crds, events, facts, found, namespace};

    fn assert_send<T: Send>(_: fn(kube::Client) -> T) {}
    assert_send(|client| async move {
        let watch = RolloutWatch::start(&client, "n", &labels()).await?;
        let completed = watch.complete("i", Deadline::within(at(1))).await;
        completed.map_err(|stall| Fault::Other(stall.to_string()))
    });
    assert_send(|client| async move {
        let deadline = Deadline::within(at(1));
        crds::apply(&client, &[Value::Null], crds::MANAGER, deadline).await?;
        crds::delete(&client, "c", "u", deadline).await?;
        namespace::delete_namespace(&client, "n", "u", deadline).await?;
        facts::server(&client).await?;
        found::AsFound::take(&client).await?;
        events::EventWatch::start(&client).await?;
        churn::ChurnWatch::start(&client, &churn::built_in_kinds()).await?;
        Ok::<_, Fault>(())
    });
}
