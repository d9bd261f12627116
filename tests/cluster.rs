//! The cluster room against a real API server with its controllers.

#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests fail like the tests themselves"
)]

mod support;

use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use aibom_qual::cluster::client::connect;
use aibom_qual::cluster::crd::{CrdError, established};
use aibom_qual::cluster::fault::{Fault, diagnose};
use aibom_qual::cluster::namespace::gone;
use aibom_qual::cluster::wait::{Deadline, Look, WaitError, wait_until};
use aibom_qual::plane::Plane;
use aibom_qual::plane::event::Silent;
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, DynamicObject};
use kube::{Api, Client, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

const FINALIZER: &str = "aibom-qual.example/stuck";

fn soon() -> Deadline<'static> {
    Deadline::within(Duration::from_secs(30))
}

/// A name that no other test of this or another run uses.
fn unique(stem: &str) -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("{stem}-{}-{number}", std::process::id())
}

async fn create<K>(api: &Api<K>, object: Value) -> K
where
    K: Resource + Clone + DeserializeOwned + Serialize + Debug,
{
    let object = serde_json::from_value(object).expect("an object");
    let created = api.create(&PostParams::default(), &object).await;
    created.expect("the object is created")
}

async fn create_namespace(client: &Client) -> String {
    let name = unique("aibom-qual-test");
    let api = Api::<Namespace>::all(client.clone());
    create(&api, json!({"metadata": {"name": name}})).await;
    name
}

async fn delete_namespace(client: &Client, name: &str) {
    let api = Api::<Namespace>::all(client.clone());
    let deleted = api.delete(name, &DeleteParams::default()).await;
    deleted.expect("the namespace is being deleted");
}

fn definition(group: &str, plural: &str, kind: &str) -> Value {
    json!({
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": plural, "kind": kind},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object"}},
            }],
        },
    })
}

async fn namespaces_are_listed(client: Client) {
    let api = Api::<Namespace>::all(client);
    let list = api.list(&ListParams::default()).await.expect("a list");
    let names: Vec<_> = list
        .iter()
        .filter_map(|n| n.metadata.name.as_deref())
        .collect();
    for expected in ["default", "kube-system", "kube-node-lease"] {
        assert!(names.contains(&expected), "{expected} in {names:?}");
    }
}

async fn a_deployment_gets_its_replica_set_and_pod(client: Client) {
    let namespace = create_namespace(&client).await;
    let labels = json!({"app": "test"});
    let deployment = json!({
        "metadata": {"name": "test"},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "c", "image": "registry.invalid/none:1"}]},
            },
        },
    });
    let api = Api::<Deployment>::namespaced(client.clone(), &namespace);
    create(&api, deployment).await;
    let sets = Api::<ReplicaSet>::namespaced(client.clone(), &namespace);
    let pods = Api::<Pod>::namespaced(client.clone(), &namespace);
    let owners = wait_until("the pod of the Deployment", soon(), async || {
        let all = ListParams::default();
        let (sets, pods) = (sets.list(&all).await?.items, pods.list(&all).await?.items);
        let (Some(set), Some(pod)) = (sets.first(), pods.first()) else {
            let (sets, pods) = (sets.len(), pods.len());
            return Ok(Look::NotYet(format!("{sets} ReplicaSets, {pods} pods")));
        };
        let owner = pod.metadata.owner_references.iter().flatten().next();
        Ok(Look::Done((
            owner.map(|owner| owner.uid.clone()),
            set.metadata.uid.clone(),
        )))
    })
    .await
    .expect("the pod appears");
    assert!(owners.0.is_some());
    assert_eq!(owners.0, owners.1);
    delete_namespace(&client, &namespace).await;
    gone(&client, &namespace, soon())
        .await
        .expect("it vanishes");
}

async fn a_deleted_namespace_vanishes(client: Client) {
    let namespace = create_namespace(&client).await;
    delete_namespace(&client, &namespace).await;
    gone(&client, &namespace, soon())
        .await
        .expect("it vanishes");
    // What has vanished already is not waited for.
    let at_once = Deadline::within(Duration::from_secs(2));
    gone(&client, &namespace, at_once)
        .await
        .expect("it is gone");
}

async fn a_stuck_namespace_names_its_finalizer(client: Client) {
    let namespace = create_namespace(&client).await;
    let api = Api::<ConfigMap>::namespaced(client.clone(), &namespace);
    let object = json!({"metadata": {"name": "stuck", "finalizers": [FINALIZER]}});
    create(&api, object).await;
    delete_namespace(&client, &namespace).await;
    let patience = Deadline::within(Duration::from_secs(8));
    let error = gone(&client, &namespace, patience).await;
    let WaitError::NamespaceStuck { remains: last, .. } = error.expect_err("it is stuck") else {
        panic!("it could be waited for");
    };
    assert!(last.contains("configmaps"), "{last}");
    assert!(last.contains(FINALIZER), "{last}");
    let free = json!({"metadata": {"finalizers": null}});
    let patched = api
        .patch("stuck", &PatchParams::default(), &Patch::Merge(free))
        .await;
    patched.expect("the finalizer is removed");
    gone(&client, &namespace, soon())
        .await
        .expect("it vanishes");
}

async fn an_established_definition_can_be_used(client: Client) {
    let group = format!("{}.example.com", unique("g"));
    let api = Api::<CustomResourceDefinition>::all(client.clone());
    create(&api, definition(&group, "things", "Thing")).await;
    let name = format!("things.{group}");
    established(&client, &name, soon())
        .await
        .expect("it can be used");
    let objects = Api::<DynamicObject>::namespaced_with(
        client.clone(),
        "default",
        &ApiResource {
            group: group.clone(),
            version: "v1".to_owned(),
            api_version: format!("{group}/v1"),
            kind: "Thing".to_owned(),
            plural: "things".to_owned(),
        },
    );
    let thing = json!({
        "apiVersion": format!("{group}/v1"), "kind": "Thing", "metadata": {"name": "one"},
    });
    create(&objects, thing).await;
    let deleted = api.delete(&name, &DeleteParams::default()).await;
    deleted.expect("the definition is being deleted");
}

async fn a_definition_with_a_taken_name_is_told_so(client: Client) {
    let group = format!("{}.example.com", unique("g"));
    let api = Api::<CustomResourceDefinition>::all(client.clone());
    create(&api, definition(&group, "things", "Thing")).await;
    let first = format!("things.{group}");
    established(&client, &first, soon())
        .await
        .expect("it can be used");
    create(&api, definition(&group, "objects", "Thing")).await;
    let second = format!("objects.{group}");
    let patience = Deadline::within(Duration::from_secs(4));
    let error = established(&client, &second, patience).await;
    let CrdError::NotEstablished { name, source } = error.expect_err("its kind is taken") else {
        panic!("it is not served either");
    };
    assert_eq!(name, second);
    let text = source.to_string();
    assert!(text.contains("NamesAccepted is False"), "{text}");
    assert!(text.contains("is already in use"), "{text}");
    for name in [first, second] {
        let deleted = api.delete(&name, &DeleteParams::default()).await;
        deleted.expect("the definition is being deleted");
    }
}

async fn a_definition_that_does_not_exist_is_told_so(client: Client) {
    let patience = Deadline::within(Duration::from_secs(1));
    let error = established(&client, "absent.example.com", patience).await;
    let CrdError::NotEstablished { source, .. } = error.expect_err("it is absent") else {
        panic!("it is not served either");
    };
    assert!(source.to_string().ends_with("last seen: it does not exist"));
}

async fn refusals_of_a_real_server_are_told_apart(client: Client) {
    let default = Api::<ConfigMap>::namespaced(client.clone(), "default");
    let absent = default.get("absent").await.expect_err("it is absent");
    assert_eq!(
        diagnose(&absent),
        Fault::NotFound {
            kind: "configmaps".to_owned(),
            name: "absent".to_owned()
        }
    );
    for (group, plural) in [("absent.example.com", "things"), ("apps", "things")] {
        let resource = ApiResource {
            group: group.to_owned(),
            version: "v1".to_owned(),
            api_version: format!("{group}/v1"),
            kind: "Thing".to_owned(),
            plural: plural.to_owned(),
        };
        let api = Api::<DynamicObject>::all_with(client.clone(), &resource);
        let error = api.list(&ListParams::default()).await;
        let fault = diagnose(&error.expect_err("nobody serves it"));
        assert_eq!(fault, Fault::NoSuchResource, "{group}");
    }
    let exists = Api::<Namespace>::all(client.clone());
    let object = serde_json::from_value(json!({"metadata": {"name": "default"}}));
    let error = exists
        .create(&PostParams::default(), &object.expect("an object"))
        .await;
    assert!(matches!(
        diagnose(&error.expect_err("it exists")),
        Fault::AlreadyExists { .. }
    ));
    let pods = Api::<Pod>::namespaced(client, "default");
    let post = async |spec: Value| {
        let pod = json!({"metadata": {"name": "test"}, "spec": spec});
        let pod = serde_json::from_value(pod).expect("a pod");
        let error = pods.create(&PostParams::default(), &pod).await;
        diagnose(&error.expect_err("it is refused"))
    };
    let fault = post(json!({"containers": []})).await;
    assert!(matches!(fault, Fault::Rejected { .. }), "{fault:?}");
    let container = json!({"name": "c", "image": "registry.invalid/none:1"});
    let fault = post(json!({"serviceAccountName": "absent", "containers": [container]})).await;
    assert!(
        matches!(fault, Fault::ServiceAccountNotReady { .. }),
        "{fault:?}"
    );
}

/// Runs all of these functions against one plane, each as a task of its own, and tells which failed.
macro_rules! against_one_plane {
    ($($case:ident),* $(,)?) => {
        #[tokio::test(flavor = "multi_thread")]
        async fn the_room_against_a_real_plane() {
            let world = support::World::new();
            let plane = Plane::start(&world.throw_away(), Arc::new(Silent)).await;
            let plane = plane.expect("a plane");
            let client = connect(&plane.kubeconfig()).await.expect("a client");
            let cases = [$((stringify!($case), tokio::spawn($case(client.clone())))),*];
            let mut failed = Vec::new();
            for (name, case) in cases {
                // The panic's message is on the test's output already.
                if case.await.is_err() {
                    failed.push(name);
                }
            }
            drop(client);
            plane.stop().await.expect("the plane stops");
            assert_eq!(failed, Vec::<&str>::new());
        }
    };
}

against_one_plane![
    namespaces_are_listed,
    a_deployment_gets_its_replica_set_and_pod,
    a_deleted_namespace_vanishes,
    a_stuck_namespace_names_its_finalizer,
    an_established_definition_can_be_used,
    a_definition_with_a_taken_name_is_told_so,
    a_definition_that_does_not_exist_is_told_so,
    refusals_of_a_real_server_are_told_apart,
];
