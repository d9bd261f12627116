//! From the text of an AIBOM to its state.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

use super::*;
use crate::observe::scripted::{Answer, client};
use crate::record::sha256_hex;

fn document(name: &str, timestamp: &str) -> String {
    let document = json!({
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1,
        "metadata": {"timestamp": timestamp, "component": {"name": name}},
    });
    format!("{document}\n")
}

fn object(index: u32) -> Value {
    let name = format!("vllm-{index:05}");
    let document = document(&name, "2026-01-02T03:04:05Z");
    let hash = sha256_hex(document.as_bytes());
    json!({
        "apiVersion": "aibom.k8saibom.dev/v1beta1", "kind": "AIBOM",
        "metadata": {
            "name": format!("apps-deployment-{name}"), "namespace": "load",
            "uid": format!("uid-{index}"), "resourceVersion": "12", "generation": 1,
            "ownerReferences": [
                {"apiVersion": "v1", "kind": "Other", "name": "o", "uid": "x"},
                {"apiVersion": "apps/v1", "kind": "Deployment", "name": name, "uid": "w",
                 "controller": true, "blockOwnerDeletion": true},
            ],
        },
        "spec": {"bomFormat": "CycloneDX", "bomSpecVersion": "1.6", "workloadRef": {}},
        "status": {
            "conditions": [
                {"type": "Ready", "status": "True", "reason": "BOMGenerated", "message": "",
                 "lastTransitionTime": "2026-01-02T03:04:05Z"},
                {"type": "Synced", "status": "True", "reason": "CRDStatusOnly", "message": "",
                 "lastTransitionTime": "2026-01-02T03:04:05Z"},
            ],
            "bomDocument": {
                "format": "CycloneDX", "specVersion": "1.6", "sha256": hash,
                "size": document.len(), "inline": {"data": STANDARD.encode(&document)},
            },
            "lastReconciled": "2026-01-02T03:04:06Z", "bomHash": hash, "inputHash": "ab",
            "observedGeneration": 3,
        },
    })
}

#[test]
fn a_state_holds_what_is_stored_and_what_is_recomputed() {
    let text = object(7).to_string();
    let state = aibom(&text).expect("a state");
    assert_eq!(state.key(), ("load", "apps-deployment-vllm-00007"));
    assert_eq!(state.bytes, text.len() as u64);
    let owner = state.owner.expect("an owner");
    assert_eq!(
        (owner.kind.as_str(), owner.uid.as_str()),
        ("Deployment", "w")
    );
    assert_eq!(state.ready, Some(ConditionStatus::True));
    assert_eq!(state.observed_generation, Some(3));
    let DocumentState::Inline {
        sha256,
        stated_sha256,
        bytes,
        stated_bytes,
        ..
    } = state.document
    else {
        panic!("{:?}", state.document);
    };
    assert_eq!(Some(&sha256), state.bom_hash.as_ref());
    assert_eq!((Some(sha256), Some(bytes)), (stated_sha256, stated_bytes));
}

#[test]
fn one_without_a_status_has_nothing_to_say() {
    let mut bare = object(1);
    bare["status"].take();
    bare["metadata"]["ownerReferences"].take();
    let state = aibom(&bare.to_string()).expect("a state");
    assert_eq!(state.owner, None);
    assert_eq!((state.input_hash, state.ready), (None, None));
    assert_eq!(state.document, DocumentState::Absent);
    let mut failed = object(1);
    failed["status"]["inputHash"] = json!("");
    let state = aibom(&failed.to_string()).expect("a state");
    assert_eq!(state.input_hash, None);
}

#[test]
fn the_hash_of_conditions_knows_transition_times_but_no_order() {
    let hash = |object: &Value| {
        aibom(&object.to_string())
            .expect("a state")
            .conditions_sha256
    };
    let one = object(1);
    let mut other = object(1);
    let conditions = other["status"]["conditions"].as_array_mut();
    conditions.expect("conditions").reverse();
    assert_eq!(hash(&one), hash(&other));
    other["status"]["conditions"][0]["lastTransitionTime"] = json!("2026-01-02T03:04:09Z");
    assert_ne!(hash(&one), hash(&other));
}

#[test]
fn what_is_no_aibom_is_an_error() {
    for text in ["{}", "[]", "{\"metadata\": {\"name\": \"n\"}}"] {
        assert!(aibom(text).is_err(), "{text}");
        assert!(walk(text).is_err(), "{text}");
    }
}

#[tokio::test]
async fn a_list_is_sorted_and_keeps_no_document() {
    let items: Vec<Value> = (0..1_002).rev().map(object).collect();
    let (first, second) = items.split_at(500);
    let page = |token: &str, items: &[Value]| {
        Answer::json(json!({
            "items": items, "metadata": {"resourceVersion": "99", "continue": token},
        }))
    };
    let (client, _) = client(vec![page("t", first), page("", second)]);
    let resource = ApiResource {
        group: "g".to_owned(),
        version: "v1".to_owned(),
        api_version: "g/v1".to_owned(),
        kind: "AIBOM".to_owned(),
        plural: "aiboms".to_owned(),
    };
    let list = inventory(&client, &resource).await.expect("a list");
    assert_eq!((list.items.len(), list.pages), (1_002, 2));
    assert_eq!(list.resource_version, "99");
    assert!(
        list.items
            .is_sorted_by_key(|item| (item.namespace.clone(), item.name.clone()))
    );
    let held = serde_json::to_string(&list.items).expect("JSON").len();
    assert!(held / list.items.len() < 900, "{held} bytes");
}

#[test]
fn a_walk_counts_from_the_second_in_which_the_process_began() {
    let since: DateTime<Utc> = "2026-01-02T03:04:06.900Z".parse().expect("a time");
    let expected: Expected = [1, 2, 3, 4]
        .map(|index| WorkloadName::new("load", "Deployment", format!("vllm-0000{index}")))
        .into_iter()
        .collect();
    let walk_of = |index: u32, last: Option<&str>| {
        let mut object = object(index);
        object["status"]["lastReconciled"] = json!(last);
        walk(&object.to_string())
            .expect("a walk")
            .expect("an owner")
    };
    let walks = Walks(BTreeMap::from([
        walk_of(1, Some("2026-01-02T03:04:06Z")),
        walk_of(2, Some("2026-01-02T03:04:05Z")),
        walk_of(3, None),
        // Nobody expects it.
        walk_of(9, None),
    ]));
    assert_eq!(
        walks.missing(&expected, since),
        [
            "Deployment load/vllm-00002",
            "Deployment load/vllm-00003 (never reconciled)",
            "Deployment load/vllm-00004 (no AIBOM)",
        ]
    );
}
