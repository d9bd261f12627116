//! A whole snapshot from a scripted server.

use std::future::pending;

use serde_json::{Value, json};

use super::*;
use crate::observe::expected::WorkloadName;
use crate::observe::scripted::{Answer, target};

const GROUP: &str = "aibom.k8saibom.dev";

fn list(items: &[Value]) -> Answer {
    Answer::json(json!({"metadata": {"resourceVersion": "41"}, "items": items}))
}

fn definition(plural: &str) -> Answer {
    Answer::json(json!({
        "metadata": {"name": format!("{plural}.{GROUP}"), "uid": "c", "generation": 1,
                     "resourceVersion": "1"},
        "spec": {
            "group": GROUP, "scope": "Namespaced", "names": {"kind": "K", "plural": plural},
            "versions": [{"name": "v1beta1", "served": true, "storage": true,
                          "schema": {"openAPIV3Schema": {"type": "object"}}}],
        },
        "status": {
            "storedVersions": ["v1beta1"],
            "acceptedNames": {"kind": "K", "plural": plural},
            "conditions": [{"type": "Established", "status": "True",
                            "lastTransitionTime": "2026-01-01T00:00:00Z"},
                           {"type": "NamesAccepted", "status": "True",
                            "lastTransitionTime": "2026-01-01T00:00:00Z"}],
        },
    }))
}

fn resources(plurals: &[&str]) -> Answer {
    let known: Vec<_> = plurals
        .iter()
        .map(|plural| {
            json!({"name": plural, "kind": "K", "singularName": "", "namespaced": true, "verbs": []})
        })
        .collect();
    Answer::json(json!({"groupVersion": "g", "resources": known}))
}

fn workload(name: &str) -> Value {
    json!({"metadata": {"namespace": "load", "name": name, "uid": "w", "generation": 2}})
}

/// A cluster in which all is well.
fn well(line: &str) -> Answer {
    let path = line.trim_start_matches("GET ");
    let path = path.split_once('?').map_or(path, |(path, _)| path);
    match path.trim_start_matches('/').split('/').collect::<Vec<_>>()[..] {
        ["api", "v1", "namespaces", "system", "secrets" | "pods"] => list(&[]),
        ["apis", "apps", "v1", "namespaces", "system", "deployments"] => list(&[json!({
            "metadata": {"name": "d", "uid": "d", "generation": 1},
            "spec": {"selector": {}, "template": {}},
        })]),
        [
            "apis",
            "apiextensions.k8s.io",
            "v1",
            "customresourcedefinitions",
            name,
        ] => definition(name.split('.').next().expect("a plural")),
        ["apis", GROUP, "v1beta1"] => resources(&["aiboms", "aibomcontrollerconfigs"]),
        [
            "apis",
            GROUP,
            "v1beta1",
            "aibomcontrollerconfigs",
            "default",
        ] => Answer::json(json!({
            "metadata": {"uid": "u", "generation": 1}, "spec": {},
        })),
        ["apis", GROUP, "v1beta1", "aiboms"] => list(&[json!({
            "metadata": {"namespace": "load", "name": "a", "uid": "a", "resourceVersion": "40"},
        })]),
        ["apis", "apps", "v1", "namespaces", "load", "deployments"] => {
            list(&[workload("other"), workload("x")])
        }
        _ => Answer::refused(404, "NotFound"),
    }
}

fn expected() -> Expected {
    [WorkloadName::new("load", "Deployment", "x")]
        .into_iter()
        .collect()
}

fn deadline() -> Deadline<'static> {
    Deadline::within(Duration::from_secs(30))
}

#[tokio::test]
async fn all_parts_are_there() {
    let (target, asked) = target(well);
    let snapshot = snapshot(&target, 3, &expected(), None, deadline()).await;
    let snapshot = snapshot.expect("a snapshot");
    assert_eq!(snapshot.step, 3);
    assert_eq!(snapshot.release, None);
    assert_eq!(snapshot.deployment.expect("a Deployment").name, "d");
    assert!(snapshot.config.is_some());
    assert_eq!(snapshot.crds.len(), 2);
    let list = snapshot.aiboms.expect("a list");
    assert_eq!(
        (list.resource_version.as_str(), list.items.len()),
        ("41", 1)
    );
    let names: Vec<_> = snapshot.expected.iter().map(|found| &found.name).collect();
    assert_eq!(names, ["x"]);
    // Nothing but reading, and never from a cache that may be old (MET-12).
    for line in asked.lines() {
        assert!(
            line.starts_with("GET ") && !line.contains("resourceVersion"),
            "{line}"
        );
    }
}

#[tokio::test]
async fn before_an_install_there_is_nothing_and_that_is_no_error() {
    let (target, _) = target(|line| match line.contains("?") {
        true => list(&[]),
        false => Answer::refused(404, "NotFound"),
    });
    let snapshot = snapshot(&target, 1, &Expected::default(), None, deadline()).await;
    let snapshot = snapshot.expect("a snapshot");
    assert_eq!((snapshot.deployment, snapshot.config), (None, None));
    assert!(snapshot.crds.is_empty() && snapshot.aiboms.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_definition_that_is_not_served_is_no_empty_inventory() {
    let (target, _) = target(|line| match line {
        "GET /apis/aibom.k8saibom.dev/v1beta1" => resources(&["aibomcontrollerconfigs"]),
        line => well(line),
    });
    let error = snapshot(&target, 1, &expected(), None, deadline()).await;
    let error = error.expect_err("not served");
    assert_eq!(
        error.to_string(),
        "the definition aiboms.aibom.k8saibom.dev exists, but none of its versions v1beta1, v1alpha1 \
         is served"
    );
    assert!(error.hint().is_some());
}

#[tokio::test(start_paused = true)]
async fn two_deployments_of_one_release_are_not_guessed_between() {
    let (target, _) = target(|line| match line.contains("/system/deployments") {
        true => {
            let one = |name: &str| {
                json!({"metadata": {"name": name, "uid": name},
                                           "spec": {"selector": {}, "template": {}}})
            };
            list(&[one("d"), one("e")])
        }
        false => well(line),
    });
    let error = snapshot(&target, 1, &expected(), None, deadline()).await;
    let error = error.expect_err("two");
    assert_eq!(
        error.to_string(),
        "more than one Deployment is of the release: d, e"
    );
}

#[tokio::test]
async fn a_kind_that_cannot_be_listed_is_named() {
    let (target, _) = target(well);
    let expected: Expected = [WorkloadName::new("load", "Sculpture", "x")]
        .into_iter()
        .collect();
    let error = snapshot(&target, 1, &expected, None, deadline()).await;
    let error = error.expect_err("unknown");
    assert_eq!(
        error.to_string(),
        "no workloads of the kind Sculpture are known"
    );
}

#[tokio::test(start_paused = true)]
async fn the_deadline_names_the_parts_that_are_open() {
    let parts = Parts::default();
    let read = tokio::time::timeout(Duration::from_secs(1), async {
        tokio::join!(
            parts.part("the release", async { Ok(1) }),
            parts.part("the workloads", pending::<Result<(), _>>()),
        )
    });
    read.await.expect_err("never done");
    assert_eq!(
        parts.late(Duration::from_secs(1)).to_string(),
        "waited 1.0 s for a snapshot; last seen: no answer yet about the workloads"
    );
}
