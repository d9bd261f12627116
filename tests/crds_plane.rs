//! The custom resource definitions of the charts against a real API server.

#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests fail like the tests themselves"
)]

#[path = "support/definitions.rs"]
mod definitions;
#[path = "support/helm.rs"]
mod helm;
mod support;

use std::sync::Arc;

use aibom_qual::cluster::client::connect;
use aibom_qual::cluster::fault::{Fault, diagnose};
use aibom_qual::controller::api::aibom::{AibomSpec, AibomStatus, WorkloadReference};
use aibom_qual::controller::api::config::{
    AibomControllerConfigSpec, BomGeneration, Discovery, Verification,
};
use aibom_qual::controller::api::meta::{Condition, ConditionStatus, Timestamp};
use aibom_qual::controller::api::object::{AibomObject, ConfigObject, resource};
use aibom_qual::controller::api::release::{ApiKind, ApiVersion};
use aibom_qual::plane::Plane;
use aibom_qual::plane::event::Silent;
use definitions::{apply, clear, documented, name, objects, stored};
use helm::CHARTS;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{DeleteParams, PostParams};
use kube::core::{ApiResource, DynamicObject};
use kube::{Api, Client};
use serde_json::{Value, json};
use support::World;

fn aibom(name: &str) -> AibomObject {
    AibomObject {
        api_version: "aibom.k8saibom.dev/v1beta1".to_owned(),
        kind: "AIBOM".to_owned(),
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            ..ObjectMeta::default()
        },
        spec: AibomSpec {
            workload_ref: WorkloadReference {
                api_version: "apps/v1".to_owned(),
                kind: "Deployment".to_owned(),
                name: "vllm".to_owned(),
            },
            bom_format: "CycloneDX".to_owned(),
            bom_spec_version: "1.6".to_owned(),
        },
        status: AibomStatus::default(),
    }
}

fn config(spec: AibomControllerConfigSpec) -> ConfigObject {
    ConfigObject {
        api_version: "aibom.k8saibom.dev/v1beta1".to_owned(),
        kind: "AIBOMControllerConfig".to_owned(),
        metadata: ObjectMeta {
            name: Some("default".to_owned()),
            ..ObjectMeta::default()
        },
        spec,
        ..ConfigObject::default()
    }
}

/// What the server says of a definition is what the file says, field by field.
async fn the_server_keeps_every_definition(client: &Client) {
    // Untyped, so that nothing is lost in the reading.
    let definition = ApiResource::erase::<CustomResourceDefinition>(&());
    let raw: Api<DynamicObject> = Api::all_with(client.clone(), &definition);
    for version in CHARTS {
        clear(client).await;
        apply(client, version).await.expect("they are accepted");
        for kind in ApiKind::ALL {
            let crd = raw.get(&name(kind)).await.expect("it is there");
            let mut served = crd.data["spec"].clone();
            let fields = served.as_object_mut().expect("an object");
            let conversion = fields.remove("conversion");
            assert_eq!(conversion, Some(json!({"strategy": "None"})));
            let file = documented(version, kind)["spec"].take();
            assert_eq!(served, file, "{version} {}", name(kind));
            let wanted = if version == "1.2.0" {
                "v1alpha1"
            } else {
                "v1beta1"
            };
            assert_eq!(stored(client, kind).await, [wanted], "{version}");
        }
    }
}

async fn an_upgrade_of_the_definitions_cannot_be_taken_back(client: &Client) {
    clear(client).await;
    for version in CHARTS {
        apply(client, version).await.expect("they are accepted");
    }
    for kind in ApiKind::ALL {
        assert_eq!(stored(client, kind).await, ["v1alpha1", "v1beta1"]);
    }
    for version in ["1.5.1", "1.3.0"] {
        apply(client, version).await.expect("they are accepted");
    }
    let refused = apply(client, "1.2.0").await.expect_err("v1beta1 is stored");
    let said = refused.to_string();
    assert!(
        said.contains(
            "status.storedVersions[1]: Invalid value: \"v1beta1\": missing from spec.versions"
        ),
        "{said}"
    );
}

async fn an_aibom_is_checked(client: &Client) {
    let beta: Api<AibomObject> = objects(client, ApiKind::Aibom, ApiVersion::V1Beta1);
    let created = beta.create(&PostParams::default(), &aibom("one")).await;
    let mut one = created.expect("it is accepted");
    assert_eq!(one.status, AibomStatus::default());

    one.status = AibomStatus {
        conditions: vec![Condition {
            last_transition_time: Timestamp::new(chrono::Utc::now()),
            message: String::new(),
            observed_generation: 0,
            reason: "BOMGenerated".to_owned(),
            status: ConditionStatus::True,
            type_: "Ready".to_owned(),
        }],
        input_hash: "0".repeat(64),
        observed_generation: 3,
        ..AibomStatus::default()
    };
    let written = beta
        .replace_status("one", &PostParams::default(), &one)
        .await
        .expect("the status is accepted");
    assert_eq!(written.status, one.status);
    // The other version shows the same object.
    let alpha: Api<AibomObject> = objects(client, ApiKind::Aibom, ApiVersion::V1Alpha1);
    let seen = alpha.get("one").await.expect("it is served");
    assert_eq!(seen.api_version, "aibom.k8saibom.dev/v1alpha1");
    assert_eq!((&seen.spec, &seen.status), (&one.spec, &one.status));

    let mut moved = written.clone();
    moved.spec.workload_ref.name = "other".to_owned();
    let refused = beta.replace("one", &PostParams::default(), &moved).await;
    let said = refused.expect_err("it is immutable").to_string();
    assert!(said.contains("workloadRef is immutable"), "{said}");

    let mut repeated = written.clone();
    repeated.status.conditions = vec![repeated.status.conditions[0].clone(); 2];
    let refused = beta
        .replace_status("one", &PostParams::default(), &repeated)
        .await;
    let said = refused.expect_err("a type occurs once").to_string();
    assert!(said.contains("Duplicate value"), "{said}");

    for (what, spoil) in [
        (
            "spec.bomFormat",
            (|a| a.spec.bom_format = "SPDX".to_owned()) as fn(&mut AibomObject),
        ),
        ("spec.bomSpecVersion", |a| {
            a.spec.bom_spec_version = "1".to_owned()
        }),
        ("spec.workloadRef.name", |a| {
            a.spec.workload_ref.name.clear()
        }),
        ("spec.workloadRef.kind", |a| {
            a.spec.workload_ref.kind = "K".repeat(65)
        }),
    ] {
        let mut bad = aibom("bad");
        spoil(&mut bad);
        let refused = beta.create(&PostParams::default(), &bad).await;
        let refused = refused.expect_err(what);
        assert!(
            matches!(diagnose(&refused), Fault::Rejected { .. }),
            "{refused}"
        );
        assert!(refused.to_string().contains(what), "{refused}");
    }
    beta.delete("one", &DeleteParams::default())
        .await
        .expect("it is deleted");
}

/// Creates a configuration, returns what the server made of it and deletes it.
async fn taken(client: &Client, version: ApiVersion, object: Value) -> ConfigObject {
    let raw: Api<DynamicObject> = Api::all_with(
        client.clone(),
        &resource(ApiKind::ControllerConfig, version),
    );
    let object = serde_json::from_value(object).expect("an object");
    let created = raw.create(&PostParams::default(), &object).await;
    created.expect("it is accepted");
    let api: Api<ConfigObject> = objects(client, ApiKind::ControllerConfig, version);
    let seen = api.get("default").await.expect("it is there");
    let deleted = api.delete("default", &DeleteParams::default()).await;
    deleted.expect("it is deleted");
    seen
}

async fn a_configuration_gets_its_defaults(client: &Client) {
    apply(client, "1.6.0").await.expect("they are accepted");
    let beta = ApiVersion::V1Beta1;
    let written = |spec: Value| {
        json!({
            "apiVersion": "aibom.k8saibom.dev/v1beta1",
            "kind": "AIBOMControllerConfig",
            "metadata": {"name": "default"},
            "spec": spec,
        })
    };
    let mut bare = written(Value::Null);
    bare.as_object_mut().expect("an object").remove("spec");
    for nothing in [bare, written(json!({}))] {
        let seen = taken(client, beta, nothing).await;
        assert_eq!(seen.spec, AibomControllerConfigSpec::default());
    }
    let parents = json!({"bomGeneration": {}, "logging": {}, "verification": {}});
    let seen = taken(client, beta, written(parents.clone())).await;
    // Our types have the same defaults as the schema.
    let ours: AibomControllerConfigSpec = serde_json::from_value(parents).expect("a spec");
    assert_eq!(seen.spec, ours);
    assert_eq!(seen.spec.bom_generation, Some(BomGeneration::default()));
    let verification: Verification = seen.spec.verification.expect("it was given");
    assert_eq!(verification.trust_root_mode, "public");
    assert_eq!(verification.per_claim_timeout_seconds, 10);
    assert_eq!(verification.cache_ttl_minutes, 1440);

    let api: Api<ConfigObject> = objects(client, ApiKind::ControllerConfig, beta);
    let bad = config(AibomControllerConfigSpec {
        bom_generation: Some(BomGeneration {
            inline_threshold_bytes: 1023,
            ..BomGeneration::default()
        }),
        ..AibomControllerConfigSpec::default()
    });
    let refused = api.create(&PostParams::default(), &bad).await;
    let said = refused.expect_err("it is too small").to_string();
    assert!(
        said.contains("spec.bomGeneration.inlineThresholdBytes"),
        "{said}"
    );
}

/// What a release lacks is dropped in silence, which is what its successor looks for.
async fn a_field_that_a_release_lacks_is_pruned(client: &Client) {
    let spec = AibomControllerConfigSpec {
        discovery: Some(Discovery {
            workload_kinds: vec!["apps/Deployment".to_owned()],
            ..Discovery::default()
        }),
        verification: serde_json::from_value(json!({"enabled": true})).expect("verification"),
        ..AibomControllerConfigSpec::default()
    };
    for (release, verification, kinds) in [
        ("1.3.0", false, [0, 0]),
        ("1.5.1", true, [0, 0]),
        ("1.6.0", true, [0, 1]),
    ] {
        clear(client).await;
        apply(client, release).await.expect("they are accepted");
        for (version, kinds) in [ApiVersion::V1Alpha1, ApiVersion::V1Beta1]
            .into_iter()
            .zip(kinds)
        {
            let mut object = config(spec.clone());
            object.api_version = format!("aibom.k8saibom.dev/{version}");
            let object = serde_json::to_value(object).expect("JSON");
            let seen = taken(client, version, object).await.spec;
            let what = format!("{release} {version}");
            assert_eq!(seen.verification.is_some(), verification, "{what}");
            let discovery = seen.discovery.expect("the rest is kept");
            assert_eq!(discovery.workload_kinds.len(), kinds, "{what}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_definitions_on_a_real_plane() {
    let world = World::new();
    let plane = Plane::start(&world.throw_away(), Arc::new(Silent)).await;
    let plane = plane.expect("a plane");
    let client = connect(&plane.kubeconfig()).await.expect("a client");
    // All of it changes the same definitions, so one goes after the other.
    the_server_keeps_every_definition(&client).await;
    an_upgrade_of_the_definitions_cannot_be_taken_back(&client).await;
    an_aibom_is_checked(&client).await;
    a_configuration_gets_its_defaults(&client).await;
    a_field_that_a_release_lacks_is_pruned(&client).await;
    drop(client);
    plane.stop().await.expect("the plane stops");
}
