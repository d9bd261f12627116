//! Every vector, byte for byte.

use aibom_qual::controller::detect::{Confidence, Scrape};
use aibom_qual::controller::profile::{self, Profile};
use aibom_qual::controller::workload::Workload;
use aibom_qual::controller::{input_hash, name, sha256};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use crate::fixtures::{self, HEX, V1_4_0, bytes, json_file, object};

/// The releases that a column of the cases is for.
fn releases(column: &str) -> Vec<Profile> {
    match column {
        "1.2.0/1.3.0" => vec![profile::V1_2_0, profile::V1_3_0],
        "1.4.0" => vec![V1_4_0],
        "1.5.1/1.6.x" => vec![profile::V1_5_1, profile::V1_6_0],
        _ => panic!("no release for {column}"),
    }
}

fn text(value: &Value) -> &str {
    value.as_str().expect("is text")
}

fn pre_image(scrape: &Scrape) -> String {
    String::from_utf8(input_hash::pre_image(scrape).expect("encodes")).expect("is UTF-8")
}

#[test]
fn every_case_has_its_name_pre_image_and_hash_under_every_release() {
    let file = json_file("vectors/deployment-cases.json");
    let cases = file["cases"].as_array().expect("cases");
    let (mut compared, mut without) = (0, 0);
    for case in cases {
        let deployment: Deployment = object(case["deployment"].clone());
        let workload = Workload::from(&deployment);
        let found = name::aibom(workload.kind.group, workload.kind.kind, workload.name);
        assert_eq!(found, text(&case["aibomName"]));
        for (column, expected) in case["profiles"].as_object().expect("columns") {
            for profile in releases(column) {
                let at = format!("{} under {}", case["case"], profile.name);
                let scrape = fixtures::scrape(&profile, &workload, &[]);
                assert_eq!(
                    scrape.confidence.as_str(),
                    text(&expected["confidence"]),
                    "{at}"
                );
                let found = scrape.confidence != Confidence::Unresolved;
                assert_eq!(Some(found), expected["aibom"].as_bool(), "{at}");
                if found {
                    assert_eq!(
                        pre_image(&scrape),
                        text(&expected["canonicalInputs"]),
                        "{at}"
                    );
                    let hash = input_hash::of(&scrape).expect("encodes");
                    assert_eq!(hash, text(&expected["inputHash"]), "{at}");
                    compared += 1;
                } else {
                    without += 1;
                }
            }
        }
    }
    println!(
        "{} cases: {compared} pre-images and hashes equal, {without} without an AIBOM",
        cases.len()
    );
    assert_eq!((cases.len(), compared + without), (12, 60));
}

#[test]
fn every_name_is_the_one_expected() {
    let file = json_file("vectors/aibom-names.json");
    let cases = file["cases"].as_array().expect("cases");
    for case in cases {
        let found = name::aibom(
            text(&case["group"]),
            text(&case["kind"]),
            text(&case["name"]),
        );
        assert_eq!(found, text(&case["aibomName"]));
        assert_eq!(Some(found.len() as u64), case["length"].as_u64());
    }
    println!("{} names equal", cases.len());
}

/// The workload of the golden files: everything that inference detection knows, and one running pod.
fn golden() -> (Deployment, Pod) {
    let deployment = object(json!({
        "metadata": {"name": "vllm-llama3", "namespace": "prod-inference", "uid": "abc-123"},
        "spec": {
            "selector": {"matchLabels": {"app": "vllm"}},
            "template": {"spec": {
                "containers": [{
                    "name": "vllm",
                    "image": "vllm/vllm-openai:v0.6.3",
                    "args": ["--model", "meta-llama/Llama-3.1-8B-Instruct"],
                    "env": [{"name": "HF_MODEL_ID", "value": "meta-llama/Llama-3.1-8B-Instruct"}],
                    "volumeMounts": [{"name": "model-store", "mountPath": "/models"}],
                }],
                "volumes": [{
                    "name": "model-store",
                    "persistentVolumeClaim": {"claimName": "llama-weights"},
                }],
            }},
        },
    }));
    let pod = object(json!({"status": {"containerStatuses": [{
        "name": "vllm",
        "image": "docker.io/vllm/vllm-openai:v0.6.3",
        "imageID": format!("docker.io/vllm/vllm-openai@sha256:{HEX}"),
        "ready": true,
        "restartCount": 0,
    }]}}));
    (deployment, pod)
}

#[test]
fn the_golden_workload_has_its_pre_images_and_document() {
    let hashes = json_file("vectors/golden.hashes.json")["golden"].clone();
    let (deployment, pod) = golden();
    let workload = Workload::from(&deployment);
    for profile in profile::ALL {
        let scrape = fixtures::scrape(&profile, &workload, &[&pod]);
        let without = Scrape {
            category: None,
            ..scrape.clone()
        };
        for (scrape, file, hash, length) in [
            (
                &scrape,
                "vectors/golden.canonical-inputs.category-inference.json",
                "inputHash_withCategoryInference",
                "canonicalLength_withCategory",
            ),
            (
                &without,
                "vectors/golden.canonical-inputs.no-category.json",
                "inputHash_fixtureAsIs_noCategory",
                "canonicalLength_noCategory",
            ),
        ] {
            let found = input_hash::pre_image(scrape).expect("encodes");
            assert_eq!(
                String::from_utf8_lossy(&found),
                String::from_utf8_lossy(&bytes(file))
            );
            assert_eq!(Some(found.len() as u64), hashes[length].as_u64());
            assert_eq!(sha256::hex(&found), text(&hashes[hash]));
            println!(
                "{} {hash}: {} bytes, {}",
                profile.name,
                found.len(),
                sha256::hex(&found)
            );

            // The category of the document is that of the controller's purpose, if need be.
            let document =
                fixtures::document(&profile, &workload, scrape, "0.1.0", "2026-05-10T12:00:00Z");
            assert_eq!(
                String::from_utf8_lossy(&document.bytes),
                String::from_utf8_lossy(&bytes("vectors/golden.bom.compact.json"))
            );
            assert_eq!(document.sha256, text(&hashes["bomHash"]));
            println!(
                "{} document: {} bytes, {}",
                profile.name,
                document.bytes.len(),
                document.sha256
            );
        }
    }
}

#[test]
fn the_example_has_its_document_under_three_version_texts() {
    let hashes = json_file("vectors/example.hashes.json");
    let cases = json_file("vectors/deployment-cases.json");
    let mut deployment: Deployment = object(cases["cases"][1]["deployment"].clone());
    deployment.metadata.uid = Some(text(&hashes["uid"]).to_owned());
    let workload = Workload::from(&deployment);
    let at = text(&hashes["buildTimestamp"]);
    for (version, expected) in hashes["byControllerVersion"].as_object().expect("versions") {
        let profile = match version.as_str() {
            "v1.3.0" => profile::V1_3_0,
            "v1.5.1" => profile::V1_5_1,
            _ => profile::V1_6_0,
        };
        let scrape = fixtures::scrape(&profile, &workload, &[]);
        assert_eq!(
            input_hash::of(&scrape).expect("encodes"),
            text(&hashes["inputHash"])
        );
        let document = fixtures::document(&profile, &workload, &scrape, version, at);
        assert_eq!(
            Some(document.bytes.len() as u64),
            expected["bomBytes"].as_u64()
        );
        assert_eq!(document.sha256, text(&expected["bomHash"]));
        if version == "v1.3.0" {
            assert_eq!(
                document.bytes,
                bytes("vectors/example.bom.v1.3.0.compact.json")
            );
        }
        println!(
            "{version}: {} bytes, {}",
            document.bytes.len(),
            document.sha256
        );
    }
}
