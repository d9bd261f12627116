//! An inventory by its events, and by a scripted watch.

use std::sync::Mutex;

use serde_json::{Value, json};

use super::*;
use crate::observe::scripted::{Answer, target};

fn object(workload: &str, uid: &str, ready: Option<&str>) -> Value {
    let conditions = ready.map(
        |status| json!([{"type": "Synced", "status": "True"}, {"type": "Ready", "status": status}]),
    );
    json!({
        "apiVersion": "aibom.k8saibom.dev/v1beta1", "kind": "AIBOM",
        "metadata": {
            "name": format!("apps-deployment-{workload}"), "namespace": "n", "uid": uid,
            "resourceVersion": "5",
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": workload,
                                 "uid": "w", "controller": true}],
        },
        "status": {"conditions": conditions, "bomDocument": {"inline": {"data": "bm90IHJlYWQ="}}},
    })
}

fn entry(workload: &str, uid: &str, ready: Option<&str>) -> Entry {
    serde_json::from_value(object(workload, uid, ready)).expect("an AIBOM")
}

fn expected() -> Expected {
    ["a", "b"]
        .map(|name| WorkloadName::new("n", "Deployment", name))
        .into_iter()
        .collect()
}

#[test]
fn all_expected_and_nothing_else_make_it_complete() {
    let expected = expected();
    let mut readiness = Readiness::new(&expected);
    readiness.see(Event::Init);
    readiness.see(Event::InitApply(entry("a", "1", Some("True"))));
    readiness.see(Event::InitApply(entry("b", "2", Some("False"))));
    readiness.see(Event::InitApply(entry("stranger", "3", Some("True"))));
    readiness.see(Event::InitDone);
    assert_eq!(
        (readiness.counts(), readiness.is_complete()),
        ((1, 2), false)
    );
    readiness.see(Event::Apply(entry("b", "2", None)));
    assert!(!readiness.is_complete());
    readiness.see(Event::Apply(entry("b", "2", Some("True"))));
    assert!(readiness.is_complete());
    let result = readiness.result(None);
    assert_eq!((result.ready, result.expected), (2, 2));
    assert!(result.missing.is_empty());
}

#[test]
fn what_vanishes_is_missing_unless_another_one_is_there() {
    let expected = expected();
    let mut readiness = Readiness::new(&expected);
    readiness.see(Event::Init);
    readiness.see(Event::InitDone);
    for (workload, uid) in [("a", "1"), ("b", "2"), ("b", "3")] {
        readiness.see(Event::Apply(entry(workload, uid, Some("True"))));
    }
    readiness.see(Event::Delete(entry("b", "2", Some("True"))));
    assert!(readiness.is_complete());
    readiness.see(Event::Delete(entry("b", "3", Some("True"))));
    assert_eq!(readiness.result(None).missing, ["Deployment n/b"]);
    // A new list replaces all that was known.
    readiness.see(Event::Init);
    readiness.see(Event::InitApply(entry("b", "4", Some("True"))));
    assert!(!readiness.is_complete());
    readiness.see(Event::InitDone);
    assert_eq!(readiness.result(None).missing, ["Deployment n/a"]);
}

#[test]
fn nothing_expected_is_complete_after_a_list_and_not_before() {
    let nothing = Expected::default();
    let mut readiness = Readiness::new(&nothing);
    assert!(!readiness.is_complete());
    readiness.see(Event::Init);
    assert!(!readiness.is_complete());
    readiness.see(Event::InitDone);
    assert!(readiness.is_complete());
}

fn served() -> Answer {
    let known = json!([{"name": "aiboms", "kind": "AIBOM", "singularName": "aibom",
                        "namespaced": true, "verbs": ["list", "watch"]}]);
    Answer::json(json!({"groupVersion": "g", "resources": known}))
}

fn list(items: &[Value]) -> Answer {
    Answer::json(json!({
        "apiVersion": "aibom.k8saibom.dev/v1beta1", "kind": "AIBOMList",
        "metadata": {"resourceVersion": "5"}, "items": items,
    }))
}

#[tokio::test(start_paused = true)]
async fn the_moment_is_that_of_the_last_one() {
    let asked_for = Mutex::new(0);
    let (target, _) = target(move |line| {
        if line.contains("watch=true") {
            let event = json!({"type": "MODIFIED", "object": object("b", "2", Some("True"))});
            return Answer::watch(&[event]);
        }
        if line.contains("/aiboms?") {
            let items = [object("a", "1", Some("True")), object("b", "2", None)];
            return list(&items);
        }
        // Not served at first.
        let mut asked = asked_for.lock().expect("no panic elsewhere");
        *asked += 1;
        match *asked {
            1..=4 => Answer::text(404, "404 page not found"),
            _ => served(),
        }
    });
    let seen = Mutex::new(Vec::new());
    let progress = |progress: Progress<'_>| {
        seen.lock().expect("no panic elsewhere").push(progress.done);
    };
    let deadline = Deadline::within(Duration::from_secs(30));
    let result = converged(&target, &expected(), deadline, &progress).await;
    let result = result.expect("converged");
    assert!(result.reached.is_some());
    assert_eq!((result.ready, result.missing.len()), (2, 0));
    let seen = seen.into_inner().expect("no panic elsewhere");
    assert_eq!(seen.last(), Some(&Some((2, 2))));
}

#[tokio::test(start_paused = true)]
async fn the_deadline_leaves_what_was_seen() {
    let (target, _) = target(|line| {
        if line.contains("watch=true") {
            Answer::watch(&[])
        } else if line.contains("/aiboms?") {
            list(&[object("a", "1", Some("True"))])
        } else {
            served()
        }
    });
    let deadline = Deadline::within(Duration::from_secs(3));
    let result = converged(&target, &expected(), deadline, &|_| {}).await;
    let result = result.expect("a result");
    assert_eq!((result.reached, result.ready), (None, 1));
    assert_eq!(result.missing, ["Deployment n/b"]);
}

#[tokio::test(start_paused = true)]
async fn a_refusal_is_no_waiting() {
    let (target, _) = target(|line| match line.contains("/aiboms?") {
        true => Answer::refused(403, "Forbidden"),
        false => served(),
    });
    let deadline = Deadline::within(Duration::from_secs(3));
    let result = converged(&target, &expected(), deadline, &|_| {}).await;
    let error = result.expect_err("no permission");
    assert!(error.hint().is_some(), "{error}");
}
