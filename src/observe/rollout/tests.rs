//! Which process is asked, and why none is.

use serde_json::{Value, json};

use super::*;

fn deployment(name: &str, observed: i64) -> Value {
    json!({
        "metadata": {"name": name, "uid": "d", "generation": 2},
        "spec": {"selector": {}, "template": {}},
        "status": {"observedGeneration": observed},
    })
}

fn set(hash: &str, revision: &str, owner: &str) -> Value {
    json!({
        "metadata": {
            "name": hash, "labels": {"pod-template-hash": hash},
            "annotations": {"deployment.kubernetes.io/revision": revision},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "d",
                                 "uid": owner, "controller": true}],
        },
        "spec": {"selector": {}},
    })
}

fn pod(name: &str, hash: &str) -> Value {
    json!({
        "metadata": {"name": name, "uid": format!("uid of {name}"),
                     "labels": {"pod-template-hash": hash}},
        "spec": {"containers": [{"name": "manager", "image": "i:1"}]},
        "status": {
            "phase": "Running",
            "conditions": [{"type": "Ready", "status": "True"}],
            "containerStatuses": [{
                "name": "manager", "ready": true, "restartCount": 1, "image": "", "imageID": "",
                "containerID": "c://1", "state": {"running": {}},
            }],
        },
    })
}

fn choose(deployments: &[Value], sets: &[Value], pods: &[Value]) -> Result<Identity, Unready> {
    fn all<T: serde::de::DeserializeOwned>(values: &[Value]) -> Vec<T> {
        let objects = values.iter().cloned().map(serde_json::from_value);
        objects.collect::<Result<_, _>>().expect("objects")
    }
    let candidates = Candidates {
        deployments: all(deployments),
        sets: all(sets),
        pods: all(pods),
    };
    candidates.choose()
}

#[test]
fn the_ready_pod_of_the_newest_template_is_chosen_after_a_rollback_too() {
    // The set of revision 1 came back as revision 3.
    let sets = [
        set("new", "2", "d"),
        set("old", "3", "d"),
        set("other", "9", "x"),
    ];
    let pods = [pod("a", "new"), pod("b", "old"), pod("c", "other")];
    let chosen = choose(&[deployment("d", 2)], &sets, &pods).expect("a pod");
    assert_eq!(
        chosen,
        Identity {
            pod: "b".to_owned(),
            uid: "uid of b".to_owned(),
            container_id: Some("c://1".to_owned()),
            restarts: 1,
        }
    );
}

#[test]
fn a_pod_that_is_about_to_go_is_not_chosen() {
    let mut ending = pod("a", "h");
    ending["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    let stays = pod("b", "h");
    let of = |pods: &[Value]| choose(&[deployment("d", 2)], &[set("h", "1", "d")], pods);
    assert_eq!(of(&[ending.clone(), stays]).expect("a pod").pod, "b");
    let error = of(&[ending]).expect_err("no pod");
    assert_eq!(
        error.to_string(),
        "no pod of the newest template is ready: a is Running and being deleted"
    );
}

#[test]
fn a_container_that_does_not_run_is_not_asked() {
    let mut down = pod("a", "h");
    down["status"]["conditions"] = json!([]);
    down["status"]["containerStatuses"][0]["state"] =
        json!({"waiting": {"reason": "CrashLoopBackOff"}});
    let of = |pods: &[Value]| choose(&[deployment("d", 2)], &[set("h", "1", "d")], pods);
    assert_eq!(
        of(std::slice::from_ref(&down)),
        Err(Unready::NoPod(vec![
            "a is Running and not ready: CrashLoopBackOff".to_owned()
        ]))
    );
    // The condition of a container that just ended may be an old one.
    down["status"]["conditions"] = json!([{"type": "Ready", "status": "True"}]);
    assert!(matches!(of(&[down]), Err(Unready::NoPod(_))));
    let none = of(&[]).expect_err("no pod");
    assert!(none.to_string().ends_with("there is none at all"), "{none}");
}

#[test]
fn what_is_not_clear_is_not_guessed() {
    let one = deployment("d", 2);
    let sets = [set("h", "1", "d")];
    let pods = [pod("a", "h"), pod("b", "h")];
    let cases = [
        (choose(&[], &sets, &pods), Unready::NoDeployment),
        (
            choose(&[one.clone(), deployment("e", 2)], &sets, &pods),
            Unready::Deployments(vec!["d".to_owned(), "e".to_owned()]),
        ),
        (
            choose(&[deployment("d", 1)], &sets, &pods),
            Unready::Unobserved,
        ),
        (
            choose(std::slice::from_ref(&one), &[], &pods),
            Unready::NoReplicaSet,
        ),
        (
            choose(&[one], &sets, &pods),
            Unready::Pods(vec!["a".to_owned(), "b".to_owned()]),
        ),
    ];
    for (chosen, reason) in cases {
        assert_eq!(chosen, Err(reason));
    }
}
