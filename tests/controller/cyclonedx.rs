//! Documents against the official JSON schema of CycloneDX 1.6.

use std::sync::LazyLock;

use aibom_qual::controller::profile::{self, V1_6_0};
use aibom_qual::controller::workload::Workload;
use jsonschema::{Registry, Validator};
use k8s_openapi::api::apps::v1::Deployment;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::fixtures::{self, bytes, deployment, json_file};

const AT: &str = "2026-10-09T12:00:00Z";

/// The validator of documents. It finds its references in the repository and fetches nothing.
static VALIDATOR: LazyLock<Validator> = LazyLock::new(|| {
    let file = |name: &str| {
        json_file(&format!(
            "third-party/cyclonedx/{name}.SNAPSHOT.schema.json"
        ))
    };
    let at = |name: &str| format!("http://cyclonedx.org/schema/{name}.SNAPSHOT.schema.json");
    let registry = Registry::new()
        .add(at("spdx"), file("spdx"))
        .and_then(|registry| registry.add(at("jsf-0.82"), file("jsf-0.82")))
        .and_then(|registry| registry.prepare())
        .expect("the schemas that it refers to are known");
    jsonschema::options()
        .with_registry(&registry)
        .offline()
        .should_validate_formats(true)
        .build(&file("bom-1.6"))
        .expect("is a schema")
});

fn check(document: &[u8]) -> Result<(), String> {
    let json: Value = serde_json::from_slice(document).map_err(|error| error.to_string())?;
    let errors: Vec<_> = VALIDATOR
        .iter_errors(&json)
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect();
    if errors.is_empty() {
        Ok(())
    } else {
        Err(errors.join("\n"))
    }
}

#[test]
fn every_document_of_the_vectors_is_valid() {
    let mut valid = 0;
    for file in [
        "vectors/golden.bom.compact.json",
        "vectors/example.bom.v1.3.0.compact.json",
    ] {
        check(&bytes(file)).expect("is valid");
        valid += 1;
    }
    let cases = json_file("vectors/deployment-cases.json");
    for case in cases["cases"].as_array().expect("cases") {
        let object: Deployment = fixtures::object(case["deployment"].clone());
        let workload = Workload::from(&object);
        for profile in profile::ALL {
            let scrape = fixtures::scrape(&profile, &workload, &[]);
            let document = fixtures::document(&profile, &workload, &scrape, profile.version, AT);
            check(&document.bytes).expect("is valid");
            valid += 1;
        }
    }
    println!("{valid} documents are valid CycloneDX 1.6");
}

#[test]
fn the_schema_does_refuse_what_is_wrong() {
    let mut document: Value =
        serde_json::from_slice(&bytes("vectors/golden.bom.compact.json")).expect("is JSON");
    document["components"][1]["hashes"][0]["alg"] = json!("SHA-255");
    assert!(check(document.to_string().as_bytes()).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn a_document_is_valid_whatever_the_workload_says(
        image in "[a-z]{1,8}(/[a-z]{1,8})?(:[a-zA-Z0-9._-]{1,12})?",
        model in any::<String>(),
        path in any::<String>(),
        annotation in any::<String>(),
    ) {
            let mut object = deployment(json!({"containers": [{
            "name": "c",
            "image": format!("vllm/{image}"),
            "args": ["--model", model],
            "env": [{"name": "MODEL_NAME", "value": model}, {"name": "OPENAI_API_KEY", "value": "x"}],
            "volumeMounts": [{"name": "v", "mountPath": format!("/models/{path}")}],
        }]}));
        object.metadata.annotations =
            Some([("model.k8saibom.dev/source".to_owned(), annotation)].into());
        let workload = Workload::from(&object);
        let scrape = fixtures::scrape(&V1_6_0, &workload, &[]);
        let document = fixtures::document(&V1_6_0, &workload, &scrape, "v1.6.0", AT);
        prop_assert_eq!(check(&document.bytes), Ok(()));
        prop_assert_eq!(document.bytes.last(), Some(&b'\n'));
    }
}
