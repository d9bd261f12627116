//! A first start and a restart, by their requests, and how the configuration is told of.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::controller::{Controller, is_ready, until};
use crate::definitions::{apply, objects};
use crate::support::World;
use aibom_qual::cluster::client::connect;
use aibom_qual::controller::api::object::{AibomObject, ConfigObject, resource};
use aibom_qual::controller::api::release::{ApiKind, ApiVersion};
use aibom_qual::plane::Plane;
use aibom_qual::plane::event::Silent;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};

const NAMESPACE: &str = "models";
const COUNT: usize = 20;
/// The input hash of the workload below, which a v1.3.0 process computed.
const INPUT_HASH: &str = "32834bf9730134a2a9e47ce9e822d3e2fe747a9bcf906282b8406a55a1cdb40d";

fn deployment(index: usize) -> Deployment {
    let labels = json!({"app": format!("model-{index}")});
    let object = json!({
        "metadata": {"name": format!("model-{index}")},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{
                    "name": "vllm",
                    "image": "vllm/vllm-openai:v0.6.3",
                    "args": ["--model", "meta-llama/Llama-3.1-8B-Instruct", "--port", "8000"],
                }]},
            },
        },
    });
    serde_json::from_value(object).expect("a deployment")
}

async fn opt_in(client: &Client) {
    let object = json!({
        "metadata": {"name": NAMESPACE, "labels": {"aibom.k8saibom.dev/enabled": "true"}},
    });
    let object = serde_json::from_value(object).expect("a namespace");
    let api = Api::<Namespace>::all(client.clone());
    let created = api.create(&PostParams::default(), &object).await;
    created.expect("the namespace");
}

async fn listed(api: &Api<AibomObject>) -> Vec<AibomObject> {
    api.list(&ListParams::default())
        .await
        .expect("a list")
        .items
}

/// Input hash, document hash and conditions of every AIBOM, by name.
fn contents(aiboms: &[AibomObject]) -> BTreeMap<String, String> {
    let content = |aibom: &AibomObject| {
        let status = &aibom.status;
        format!(
            "{} {} {:?}",
            status.input_hash, status.bom_hash, status.conditions
        )
    };
    let named = aiboms.iter().map(|aibom| {
        let name = aibom.metadata.name.clone().expect("a name");
        (name, content(aibom))
    });
    named.collect()
}

/// A plane that serves the definitions of 1.3.0 and has a namespace that opted in.
async fn opted_in_plane(world: &World) -> (Plane, Client) {
    let plane = Plane::start(&world.throw_away(), Arc::new(Silent)).await;
    let plane = plane.expect("a plane");
    let client = connect(&plane.kubeconfig()).await.expect("a client");
    apply(&client, "1.3.0").await.expect("they are accepted");
    opt_in(&client).await;
    (plane, client)
}

#[tokio::test(flavor = "multi_thread")]
async fn workloads_get_aiboms_which_a_restart_only_refreshes() {
    let world = World::new();
    let (plane, client) = opted_in_plane(&world).await;
    let kind = resource(ApiKind::Aibom, ApiVersion::V1Beta1);
    let aiboms = Api::<AibomObject>::namespaced_with(client.clone(), NAMESPACE, &kind);
    let deployments = Api::<Deployment>::namespaced(client.clone(), NAMESPACE);

    let controller = Controller::strict(&world, &plane.kubeconfig(), "1.3.0");
    until("it is ready", || controller.ready(), is_ready).await;
    for index in 0..COUNT {
        let object = deployment(index);
        let created = deployments.create(&PostParams::default(), &object).await;
        created.expect("a deployment");
    }
    let complete = |aiboms: &Vec<AibomObject>| {
        aiboms.len() == COUNT
            && aiboms
                .iter()
                .all(|aibom| aibom.status.input_hash == INPUT_HASH)
    };
    let before = until("all have their AIBOM", || listed(&aiboms), complete).await;
    for aibom in &before {
        let ready = aibom.status.conditions.first().expect("a condition");
        assert_eq!(
            (ready.type_.as_str(), ready.reason.as_str()),
            ("Ready", "BOMGenerated")
        );
    }
    let first = controller.methods().await;
    eprintln!("{COUNT} new workloads: {first:?}");
    assert_eq!(first["POST"], COUNT as u64);
    assert_eq!(first.get("PATCH"), None);
    controller.stop();

    let controller = Controller::strict(&world, &plane.kubeconfig(), "1.3.0");
    until("it is ready again", || controller.ready(), is_ready).await;
    let enough = |requests: &BTreeMap<String, u64>| requests.get("PUT") >= Some(&(COUNT as u64));
    until("all are refreshed", || controller.methods(), enough).await;
    // A request too many would come soon.
    tokio::time::sleep(Duration::from_secs(3)).await;
    let restart = controller.methods().await;
    eprintln!("restart over {COUNT}: {restart:?}");
    let expected = [("GET".to_owned(), 10), ("PUT".to_owned(), COUNT as u64)];
    assert_eq!(restart, BTreeMap::from(expected));
    let after = listed(&aiboms).await;
    assert_eq!(contents(&after), contents(&before));

    let name = "model-7";
    let deleted = deployments.delete(name, &DeleteParams::default()).await;
    deleted.expect("it is deleted");
    let gone = |aiboms: &Vec<AibomObject>| aiboms.len() == COUNT - 1;
    let left = until("its AIBOM goes", || listed(&aiboms), gone).await;
    let gone = "apps-deployment-model-7";
    assert!(!contents(&left).contains_key(gone), "{:?}", contents(&left));
    let (status, text) = controller.ready().await.expect("an answer");
    assert_eq!((status, text.as_str()), (200, "ok"));
    controller.stop();
    plane.stop().await.expect("the plane stops");
}

/// Reason and message of both conditions.
fn described(config: &ConfigObject) -> [(String, String); 2] {
    ["Ready", "Degraded"].map(|type_| {
        let conditions = &config.status.conditions;
        let condition = conditions.iter().find(|condition| condition.type_ == type_);
        condition.map_or_else(Default::default, |condition| {
            (condition.reason.clone(), condition.message.clone())
        })
    })
}

fn specified(spec: &Value) -> ConfigObject {
    let object = json!({
        "apiVersion": "aibom.k8saibom.dev/v1beta1",
        "kind": "AIBOMControllerConfig",
        "metadata": {"name": "default"},
        "spec": spec,
    });
    serde_json::from_value(object).expect("a configuration")
}

/// Merges this into the spec, and waits until the controller has looked at it.
async fn change(api: &Api<ConfigObject>, spec: Value) -> ConfigObject {
    let patch = Patch::Merge(json!({"spec": spec}));
    let changed = api.patch("default", &PatchParams::default(), &patch).await;
    let generation = changed.expect("it is changed").metadata.generation;
    let look = || async { api.get("default").await.expect("it is there") };
    let is_seen = |config: &ConfigObject| Some(config.status.observed_generation) == generation;
    until("the controller looks at it", look, is_seen).await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_configuration_leaves_the_last_good_one_in_force() {
    let world = World::new();
    let (plane, client) = opted_in_plane(&world).await;
    let kind = resource(ApiKind::Aibom, ApiVersion::V1Beta1);
    let aiboms = Api::<AibomObject>::namespaced_with(client.clone(), NAMESPACE, &kind);
    let deployments = Api::<Deployment>::namespaced(client.clone(), NAMESPACE);
    let configs: Api<ConfigObject> =
        objects(&client, ApiKind::ControllerConfig, ApiVersion::V1Beta1);

    let controller = Controller::strict(&world, &plane.kubeconfig(), "1.3.0");
    until("it is ready", || controller.ready(), is_ready).await;
    let label = "kubernetes.io/metadata.name";
    let good = json!({"discovery": {"namespaceSelector": {"matchLabels": {label: NAMESPACE}}}});
    let object = specified(&good);
    let created = configs.create(&PostParams::default(), &object).await;
    created.expect("it is created");
    let seen = change(
        &configs,
        json!({"bomGeneration": {"inlineThresholdBytes": 4096}}),
    )
    .await;
    let loaded = "Configuration loaded successfully; runtime snapshot is in effect.";
    assert_eq!(
        described(&seen)[0],
        ("ConfigLoaded".to_owned(), loaded.to_owned())
    );
    assert!(seen.status.last_loaded_at.is_some());

    let broken = json!([{"runtime": "bad", "pattern": "(unclosed"}]);
    let broken = json!({"discovery": {"inferenceRuntimeImagePatterns": broken}});
    let seen = change(&configs, broken).await;
    let [ready, degraded] = described(&seen);
    let wanted = "spec.discovery.inferenceRuntimeImagePatterns[0].pattern: Runtime \"bad\" pattern \
                  \"(unclosed\" failed to compile as a Go regexp: error parsing regexp: missing \
                  closing ): `(unclosed`. Anchor the pattern (e.g., ^vllm/.*) and escape regex \
                  metacharacters in literal path segments.";
    assert_eq!(ready, ("ConfigInvalid".to_owned(), wanted.to_owned()));
    let wanted = "Spec is invalid; retaining last-known-good snapshot from generation 2. Edit spec to \
                  clear Ready=False.";
    assert_eq!(
        degraded,
        ("RunningOnLastKnownGood".to_owned(), wanted.to_owned())
    );
    let not_ready = |answer: &Option<(u16, String)>| {
        answer.as_ref().is_some_and(|(status, text)| {
            *status == 500
                && text.contains("[+]cache-sync ok\n[-]config-valid failed: reason withheld\n")
        })
    };
    until("it is not ready", || controller.ready(), not_ready).await;

    // The namespace counts by the selector of the last good configuration, not by its label.
    let patch = Patch::Merge(json!({"metadata": {"labels": {"aibom.k8saibom.dev/enabled": null}}}));
    let namespaces = Api::<Namespace>::all(client.clone());
    let parameters = PatchParams::default();
    let patched = namespaces.patch(NAMESPACE, &parameters, &patch).await;
    patched.expect("it is patched");
    let object = deployment(0);
    let created = deployments.create(&PostParams::default(), &object).await;
    created.expect("a deployment");
    let one = |aiboms: &Vec<AibomObject>| {
        aiboms
            .iter()
            .any(|aibom| !aibom.status.input_hash.is_empty())
    };
    until("it has its AIBOM", || listed(&aiboms), one).await;

    let repaired = json!({"discovery": {"inferenceRuntimeImagePatterns": null}});
    let seen = change(&configs, repaired).await;
    assert_eq!(
        described(&seen).map(|(reason, _)| reason),
        ["ConfigLoaded", "ConfigLoaded"]
    );
    until(
        "it is ready again",
        // The strict check is there, and passes.
        || controller.ready_verbose(),
        |answer| {
            answer.as_ref().is_some_and(|(status, text)| {
                *status == 200 && text.starts_with("[+]cache-sync ok\n[+]config-valid ok\n")
            })
        },
    )
    .await;

    // Without the object the label counts again, at the workload's next event.
    let deleted = configs.delete("default", &DeleteParams::default()).await;
    deleted.expect("it is deleted");
    let patch = Patch::Merge(json!({"metadata": {"annotations": {"touched": "yes"}}}));
    let touch = || async {
        let parameters = PatchParams::default();
        let patched = deployments.patch("model-0", &parameters, &patch).await;
        patched.expect("it is patched");
        tokio::time::sleep(Duration::from_millis(200)).await;
        listed(&aiboms).await
    };
    tokio::time::sleep(Duration::from_secs(1)).await;
    until("its AIBOM goes", touch, Vec::is_empty).await;
    let events = Api::<k8s_openapi::api::core::v1::Event>::namespaced(client.clone(), "default");
    let events = events.list(&ListParams::default()).await.expect("a list");
    let mut reasons: Vec<_> = events
        .items
        .iter()
        .filter(|event| event.involved_object.kind.as_deref() == Some("AIBOMControllerConfig"))
        .filter_map(|event| event.reason.as_deref())
        .collect();
    reasons.sort_unstable();
    let wanted = [
        "ConfigInvalidUsingLastKnownGood",
        "ConfigLoaded",
        "ConfigRecovered",
    ];
    reasons.dedup();
    assert_eq!(reasons, wanted);
    controller.stop();
    plane.stop().await.expect("the plane stops");
}
