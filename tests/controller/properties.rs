//! What the input hash depends on, and what it does not.

use std::collections::BTreeMap;

use aibom_qual::controller::detect::component::{Evidence, Source};
use aibom_qual::controller::detect::image::Digest;
use aibom_qual::controller::detect::{Category, ComponentType, Confidence, Provenance, Scrape};
use aibom_qual::controller::input_hash;
use aibom_qual::controller::profile::{Profile, V1_3_0, V1_6_0};
use aibom_qual::controller::workload::Workload;
use k8s_openapi::api::apps::v1::Deployment;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use crate::fixtures::{self, HEX, object};

/// Writes JSON with the keys of every object in an order that `seed` decides.
fn shuffled(value: &Value, seed: u64) -> String {
    match value {
        Value::Object(map) => {
            let mut keys: Vec<_> = map.keys().collect();
            keys.sort_by_key(|key| {
                let mix = |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
                key.bytes().fold(seed, mix)
            });
            let pairs: Vec<_> = keys
                .iter()
                .map(|key| format!("{}:{}", json!(key), shuffled(&map[*key], seed)))
                .collect();
            format!("{{{}}}", pairs.join(","))
        }
        Value::Array(items) => {
            let items: Vec<_> = items.iter().map(|item| shuffled(item, seed)).collect();
            format!("[{}]", items.join(","))
        }
        scalar => scalar.to_string(),
    }
}

/// A Deployment in which every rule of detection finds something.
fn manifest(annotations: &BTreeMap<String, String>) -> Value {
    let models: Map<String, Value> = annotations
        .iter()
        .map(|(key, value)| (format!("model.k8saibom.dev/{key}"), json!(value)))
        .collect();
    json!({
        "metadata": {"name": "web", "namespace": "ns", "annotations": models, "labels": {"a": "b"}},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": {"app": "web", "tier": "x"}},
            "template": {
                "metadata": {"annotations": models, "labels": {"app": "web"}},
                "spec": {
                    "initContainers": [{"name": "load", "image": "loader:1"}],
                    "containers": [{
                        "name": "vllm",
                        "image": format!("vllm/vllm-openai:v0.6.3@sha256:{HEX}"),
                        "args": ["--model", "m", "--model-id=n"],
                        "env": [
                            {"name": "HF_MODEL_ID", "value": "e"},
                            {"name": "OPENAI_API_KEY", "value": "k"},
                        ],
                        "volumeMounts": [{"name": "w", "mountPath": "/weights"}],
                    }, {"name": "db", "image": "qdrant/qdrant:1"}],
                    "volumes": [{"name": "w", "hostPath": {"path": "/data"}}],
                },
            },
        },
    })
}

fn scrape(profile: &Profile, text: &str) -> Scrape {
    let object: Deployment = serde_json::from_str(text).expect("is a Deployment");
    fixtures::scrape(profile, &Workload::from(&object), &[])
}

fn hash(scrape: &Scrape) -> String {
    input_hash::of(scrape).expect("encodes")
}

fn annotations() -> impl Strategy<Value = BTreeMap<String, String>> {
    proptest::collection::btree_map("[a-z]{1,6}", any::<String>(), 0..6)
}

proptest! {
    #[test]
    fn the_order_of_keys_does_not_matter(map in annotations(), seed in any::<u64>()) {
        let manifest = manifest(&map);
        for profile in [V1_3_0, V1_6_0] {
            let plain = scrape(&profile, &manifest.to_string());
            let other = scrape(&profile, &shuffled(&manifest, seed));
            prop_assert_eq!(hash(&plain), hash(&other));
        }
    }

    #[test]
    fn any_single_extracted_field_matters(
        map in annotations(),
        change in any::<prop::sample::Index>(),
        at in any::<prop::sample::Index>(),
        extra in "[a-z]{1,4}",
    ) {
        let before = scrape(&V1_6_0, &manifest(&map).to_string());
        let mut after = before.clone();
        let index = at.index(before.components.len());
        CHANGES[change.index(CHANGES.len())](&mut after, index, &extra);
        prop_assert_ne!(&before, &after);
        prop_assert_ne!(hash(&before), hash(&after));
    }
}

/// Each changes one field, of the component at an index where it is one of a component.
const CHANGES: &[fn(&mut Scrape, usize, &str)] = &[
    |scrape, _, _| scrape.scraper_name = "other",
    |scrape, _, _| scrape.confidence = Confidence::Declared,
    |scrape, _, _| scrape.category = None,
    |scrape, _, _| scrape.category = Some(Category::Agent),
    |scrape, _, _| scrape.truncated_components += 1,
    |scrape, _, extra| scrape.absorb([("Job", extra)]),
    |scrape, _, _| scrape.provenance.clear(),
    |scrape, _, _| scrape.provenance[0].scraper_name = "other",
    |scrape, _, _| scrape.provenance[0].scraper_version = "other",
    |scrape, _, _| scrape.provenance[0].scrape_method = "other",
    |scrape, _, _| {
        let again: Provenance = scrape.provenance[0];
        scrape.provenance.push(again);
    },
    |scrape, i, _| drop(scrape.components.remove(i)),
    |scrape, i, _| scrape.components.push(scrape.components[i].clone()),
    |scrape, i, _| {
        scrape.components[i].component_type = match scrape.components[i].component_type {
            ComponentType::Data => ComponentType::Application,
            _ => ComponentType::Data,
        }
    },
    |scrape, i, extra| scrape.components[i].name.push_str(extra),
    |scrape, i, extra| scrape.components[i].version.push_str(extra),
    |scrape, i, _| {
        let component = &mut scrape.components[i];
        component.digest = match component.digest.take() {
            Some(_) => None,
            None => Digest::parse(&format!("sha256:{HEX}")),
        }
    },
    |scrape, i, _| {
        let evidence: &mut Evidence = &mut scrape.components[i].evidence;
        evidence.source = match evidence.source {
            Source::CrdField => Source::EnvVar,
            _ => Source::CrdField,
        }
    },
    |scrape, i, extra| scrape.components[i].evidence.locator.push_str(extra),
    |scrape, i, _| {
        scrape.components[i].confidence = match scrape.components[i].confidence {
            Confidence::Declared => Confidence::Inferred,
            _ => Confidence::Declared,
        }
    },
    |scrape, i, _| {
        // An empty value counts as well.
        scrape.components[i].properties.insert("new", String::new());
    },
    |scrape, i, extra| {
        let properties = &mut scrape.components[i].properties;
        match properties.first_entry() {
            Some(mut first) => first.get_mut().push_str(extra),
            None => drop(properties.insert("new", extra.to_owned())),
        }
    },
];

/// Changes of the manifest that reach the hash, each a pointer and a new value.
#[test]
fn what_a_manifest_says_about_its_containers_matters() {
    let before = manifest(&BTreeMap::from([("family".to_owned(), "llama".to_owned())]));
    let hash_of = |value: &Value| hash(&scrape(&V1_3_0, &value.to_string()));
    let pod = "/spec/template/spec";
    let changes = [
        ("/containers/0/name", json!("x")),
        ("/containers/0/image", json!("vllm/vllm-openai:v0.6.4")),
        ("/containers/0/args/0", json!("--model-name")),
        ("/containers/0/args/1", json!("other")),
        ("/containers/0/args/2", json!("--model-id=other")),
        ("/containers/0/env/0/value", json!("other")),
        ("/containers/0/env/0/name", json!("MODEL_NAME")),
        ("/containers/0/env/1/name", json!("COHERE_API_KEY")),
        ("/containers/0/volumeMounts/0/mountPath", json!("/models")),
        ("/containers/1/image", json!("qdrant/qdrant:2")),
        ("/initContainers/0/image", json!("loader:2")),
        ("/volumes/0/hostPath/path", json!("/other")),
    ];
    for (pointer, value) in changes {
        let mut after = before.clone();
        *after
            .pointer_mut(&format!("{pod}{pointer}"))
            .expect(pointer) = value;
        assert_ne!(hash_of(&before), hash_of(&after), "{pointer}");
    }
    let mut swapped = before.clone();
    let containers = &mut swapped["spec"]["template"]["spec"]["containers"];
    containers.as_array_mut().expect("containers").swap(0, 1);
    assert_ne!(hash_of(&before), hash_of(&swapped));
}

#[test]
fn what_a_manifest_says_about_the_object_does_not() {
    let before = manifest(&BTreeMap::new());
    let hash_of = |value: &Value| hash(&scrape(&V1_3_0, &value.to_string()));
    let changes = [
        ("/metadata/name", json!("other")),
        ("/metadata/namespace", json!("other")),
        ("/metadata/labels", json!({"new": "label"})),
        (
            "/metadata/annotations",
            json!({"other.dev/family": "llama"}),
        ),
        ("/spec/replicas", json!(3)),
        ("/spec/template/metadata/labels/app", json!("other")),
        (
            "/spec/template/spec/containers/0/env/1/value",
            json!("other key"),
        ),
        (
            "/spec/template/spec/initContainers/0",
            json!({
                "name": "load",
                "image": "loader:1",
                "args": ["--model", "x"],
                "env": [{"name": "HF_MODEL_ID", "value": "x"}],
            }),
        ),
    ];
    for (pointer, value) in changes {
        let mut after = before.clone();
        *after.pointer_mut(pointer).expect(pointer) = value;
        assert_eq!(hash_of(&before), hash_of(&after), "{pointer}");
    }
    let object: Deployment = object(before);
    let mut scrape = fixtures::scrape(&V1_3_0, &Workload::from(&object), &[]);
    let without = hash(&scrape);
    scrape
        .errors
        .push(aibom_qual::controller::detect::component::ExtractionError {
            source: "env_var".to_owned(),
        });
    assert_eq!(without, hash(&scrape));
}
