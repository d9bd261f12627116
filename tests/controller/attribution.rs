//! Whose pods are whose, and which digest counts.

use aibom_qual::controller::detect::component::Source;
use aibom_qual::controller::detect::pods;
use aibom_qual::controller::profile::{PodAttribution, Profile, V1_3_0, V1_5_1};
use aibom_qual::controller::workload::Workload;
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use crate::fixtures::{self, HEX, deployment, object};

fn owned(name: &str, namespace: &str, owner: Option<&str>) -> Value {
    let owners = owner.map(|uid| {
        json!([
            {"apiVersion": "v1", "kind": "Other", "name": "o", "uid": "other"},
            {"apiVersion": "v1", "kind": "Owner", "name": "o", "uid": uid, "controller": true},
        ])
    });
    json!({"metadata": {
        "name": name,
        "namespace": namespace,
        "uid": name,
        "labels": {"app": "web", "more": "x"},
        "ownerReferences": owners,
    }})
}

fn names<'p>(pods: &[&'p Pod]) -> Vec<&'p str> {
    pods.iter()
        .filter_map(|pod| pod.metadata.name.as_deref())
        .collect()
}

#[test]
fn labels_select_pods_and_owners_restrict_them_later() {
    let object: Deployment = deployment(json!({"containers": []}));
    let workload = Workload::from(&object);
    let sets: Vec<ReplicaSet> = [
        owned("mine", "ns", Some("u")),
        owned("foreign", "ns", Some("v")),
        owned("elsewhere", "other", Some("u")),
    ]
    .map(fixtures::object)
    .into();
    let mut pods: Vec<Pod> = [
        owned("a", "ns", Some("mine")),
        owned("b", "ns", Some("foreign")),
        owned("c", "ns", None),
        owned("d", "other", Some("mine")),
        owned("e", "ns", Some("u")),
        owned("f", "ns", Some("mine")),
    ]
    .map(fixtures::object)
    .into();
    pods[5].metadata.labels = None;
    let of = |rule| names(&pods::of_workload(rule, &workload, &pods, &sets));
    assert_eq!(of(PodAttribution::MatchLabels), ["a", "b", "c", "e"]);
    assert_eq!(of(PodAttribution::OwnerChain), ["a"]);

    let set: StatefulSet = object_with_selector(json!({"matchLabels": {"app": "web"}}));
    let workload = Workload::from(&set);
    let of = |rule| names(&pods::of_workload(rule, &workload, &pods, &sets));
    assert_eq!(of(PodAttribution::OwnerChain), ["e"]);
}

fn object_with_selector(selector: Value) -> StatefulSet {
    object(json!({
        "metadata": {"name": "web", "namespace": "ns", "uid": "u"},
        "spec": {"selector": selector, "serviceName": "s", "template": {}},
    }))
}

#[test]
fn a_workload_that_selects_no_label_has_no_pods() {
    let pods: Vec<Pod> = vec![object(owned("a", "ns", Some("u")))];
    let by_expression = json!({"matchExpressions": [{"key": "app", "operator": "Exists"}]});
    for selector in [json!({}), json!({"matchLabels": {}}), by_expression] {
        let set = object_with_selector(selector);
        let workload = Workload::from(&set);
        for rule in [PodAttribution::MatchLabels, PodAttribution::OwnerChain] {
            assert!(pods::of_workload(rule, &workload, &pods, []).is_empty());
        }
    }
}

fn running(field: &str, name: &str, image: &str, id: &str) -> Pod {
    object(json!({"status": {field: [{
        "name": name, "image": image, "imageID": id, "ready": true, "restartCount": 0,
    }]}}))
}

/// The digest found for the first container, and where.
fn digest(profile: &Profile, image: &str, pods: &[Pod]) -> Option<(String, Source, String)> {
    let mut object = deployment(json!({"containers": [{"name": "c", "image": image}]}));
    // A model, or else nothing would be kept.
    object.metadata.annotations =
        Some([("model.k8saibom.dev/x".to_owned(), "m".to_owned())].into());
    let pods: Vec<&Pod> = pods.iter().collect();
    let scrape = fixtures::scrape(profile, &Workload::from(&object), &pods);
    let container = &scrape.components[0];
    let digest = container.digest.as_ref()?;
    let evidence = container.evidence.clone();
    Some((
        digest.as_hex().to_owned(),
        evidence.source,
        evidence.locator,
    ))
}

#[test]
fn the_first_valid_digest_that_runs_is_taken() {
    let other = HEX.replace('0', "f");
    let id = format!("sha256:{HEX}");
    let pods = [
        Pod::default(),
        running("containerStatuses", "other", "", &id),
        running("initContainerStatuses", "c", "", &id),
        running("containerStatuses", "c", "", "sha256:12"),
        running("containerStatuses", "c", "", &format!("nginx@{id}")),
        running(
            "containerStatuses",
            "c",
            "",
            &format!("nginx@sha256:{other}"),
        ),
    ];
    let locator = "status.containerStatuses[name=c].imageID".to_owned();
    let found = digest(&V1_3_0, "nginx:1", &pods);
    assert_eq!(found, Some((HEX.to_owned(), Source::PodStatus, locator)));
    // One in the reference prevails.
    let pinned = digest(&V1_3_0, &format!("nginx@sha256:{other}"), &pods);
    let spec = "spec.template.spec.containers[0].image".to_owned();
    assert_eq!(pinned, Some((other, Source::ImageReference, spec)));
}

#[test]
fn a_digest_of_another_image_counts_until_1_5() {
    let id = format!("sha256:{HEX}");
    let status = |image: &str| [running("containerStatuses", "c", image, &id)];
    for (image, same) in [
        ("docker.io/library/nginx:2", true),
        ("index.docker.io/nginx", true),
        ("", true),
        ("docker.io/acme/nginx:1", false),
        ("sha256:abc", false),
    ] {
        assert!(digest(&V1_3_0, "nginx:1", &status(image)).is_some());
        assert_eq!(
            digest(&V1_5_1, "nginx:1", &status(image)).is_some(),
            same,
            "{image}"
        );
    }
}
