//! Rollouts, definitions, events and the as-found record against a real API server with its
//! controllers. There is no node: the test itself says which pod is ready.

#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests fail like the tests themselves"
)]

mod support;

use std::sync::Arc;
use std::time::Duration;

use aibom_qual::cluster::churn::{ChurnWatch, built_in_kinds};
use aibom_qual::cluster::client::connect_metered;
use aibom_qual::cluster::events::{EventWatch, Seen};
use aibom_qual::cluster::found::AsFound;
use aibom_qual::cluster::meter::Meter;
use aibom_qual::cluster::rollout::RolloutWatch;
use aibom_qual::cluster::wait::{Deadline, Look, wait_until};
use aibom_qual::cluster::{Removal, crds, delete_namespace, facts, refuse_dying};
use aibom_qual::plane::Plane;
use aibom_qual::plane::event::Silent;
use aibom_qual::record::crd_versions;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Namespace, Pod};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::time::timeout;

const NAMESPACE: &str = "aibom-qual-rollout";
const CRD: &str = "things.rollout.example.com";

fn soon() -> Deadline<'static> {
    Deadline::within(Duration::from_secs(60))
}

fn deployment(image: &str) -> Deployment {
    let labels = json!({"app": "rolled"});
    let deployment = json!({
        "metadata": {"name": "rolled", "labels": labels},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "c", "image": image}]},
            },
        },
    });
    serde_json::from_value(deployment).expect("a Deployment")
}

/// Makes the pod of this image ready, as a node would.
async fn make_ready(client: &Client, image: &str) {
    let pods = Api::<Pod>::namespaced(client.clone(), NAMESPACE);
    let what = format!("the pod of {image}");
    let name = wait_until(what, soon(), async || {
        let all = pods.list(&ListParams::default()).await?;
        let of_image = all.items.into_iter().find(|pod| {
            let spec = pod.spec.as_ref();
            spec.is_some_and(|spec| spec.containers[0].image.as_deref() == Some(image))
        });
        Ok(match of_image.and_then(|pod| pod.metadata.name) {
            Some(name) => Look::Done(name),
            None => Look::NotYet("it is not there".to_owned()),
        })
    });
    let name = name.await.expect("it is made");
    let status = json!({"status": {
        "phase": "Running",
        "conditions": [{"type": "Ready", "status": "True"}, {"type": "ContainersReady", "status": "True"}],
        "containerStatuses": [{
            "name": "c", "image": image, "imageID": "", "ready": true, "started": true, "restartCount": 0,
            "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}},
        }],
    }});
    let (parameters, status) = (PatchParams::default(), Patch::Merge(status));
    let patched = pods.patch_status(&name, &parameters, &status).await;
    patched.expect("it is ready");
}

async fn a_rollout_is_followed_from_the_first_pod_to_the_next_version(client: &Client) {
    let labels = [("app".to_owned(), "rolled".to_owned())];
    let watch = RolloutWatch::start(client, NAMESPACE, &labels).await;
    let watch = watch.expect("a watch");
    let api = Api::<Deployment>::namespaced(client.clone(), NAMESPACE);
    let (old, new) = ("registry.invalid/none:1", "registry.invalid/none:2");
    watch.mark();
    let made = api.create(&PostParams::default(), &deployment(old)).await;
    made.expect("it is made");
    make_ready(client, old).await;
    watch.complete(old, soon()).await.expect("it is complete");

    watch.mark();
    let image =
        json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": new}]}}}});
    let (parameters, image) = (PatchParams::default(), Patch::Strategic(image));
    let changed = api.patch("rolled", &parameters, &image).await;
    changed.expect("it is changed");
    let patience = Deadline::within(Duration::from_secs(3));
    let stall = watch.complete(new, patience).await;
    let stall = stall.expect_err("nobody makes the new pod ready");
    assert!(
        stall.last_seen.contains("2 in all, 1 updated, 1 ready"),
        "{stall}"
    );
    let trouble = stall.trouble.expect("no node takes it");
    assert!(trouble.contains("Unschedulable"), "{trouble}");
    make_ready(client, new).await;
    watch.complete(new, soon()).await.expect("it is complete");
    let facts = watch.finish();
    assert!(
        facts.complete_after.is_some_and(|after| after > 2.0),
        "{facts:?}"
    );
    assert!(
        facts.template_changed && facts.old_pods_left.is_empty(),
        "{facts:?}"
    );
    assert_eq!(facts.longest_without_ready, 0.0, "{facts:?}");
}

fn definition(field: &str) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": CRD},
        "spec": {
            "group": "rollout.example.com", "scope": "Namespaced",
            "names": {"plural": "things", "kind": "Thing", "listKind": "ThingList", "singular": "thing"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {
                    "type": "object", "properties": {field: {"type": "string"}},
                }},
            }],
        },
    })
}

/// As Helm 3 makes definitions: created by the manager `helm`, not applied (`qualification.md` L6).
async fn an_applied_schema_is_the_file_s_and_nothing_else(client: &Client) {
    let api = Api::<CustomResourceDefinition>::all(client.clone());
    let parameters = PostParams {
        field_manager: Some(crds::MANAGER.to_owned()),
        ..PostParams::default()
    };
    let first = serde_json::from_value(definition("before"));
    let made = api.create(&parameters, &first.expect("a definition")).await;
    made.expect("it is made");
    for (field, changed) in [("after", true), ("after", false)] {
        let wanted = definition(field);
        let applied =
            crds::apply(client, std::slice::from_ref(&wanted), crds::MANAGER, soon()).await;
        let applied = applied.expect("it is applied");
        assert_eq!((applied[0].changed, &applied[0].refused), (changed, &None));
        let states = crds::states(client, &[CRD.to_owned()])
            .await
            .expect("states");
        assert_eq!(states[0].versions, crd_versions(&wanted));
        assert!(states[0].established && states[0].managers.contains("helm"));
    }
    let uid = crds::states(client, &[CRD.to_owned()])
        .await
        .expect("states")[0]
        .uid
        .clone();
    let another = crds::delete(client, CRD, "another", soon()).await;
    assert_eq!(another.expect("an answer"), Removal::Absent);
    let removal = crds::delete(client, CRD, &uid, soon()).await;
    assert_eq!(removal.expect("it is gone"), Removal::Deleted);
    assert_eq!(
        crds::states(client, &[CRD.to_owned()]).await,
        Ok(Vec::new())
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_run_says_to_a_real_plane() {
    let world = support::World::new();
    let plane = Plane::start(&world.throw_away(), Arc::new(Silent)).await;
    let plane = plane.expect("a plane");
    let meter = Meter::new();
    let client = connect_metered(&plane.kubeconfig(), None, &meter).await;
    let client = client.expect("a client");

    let server = facts::server(&client).await.expect("facts");
    assert!(server.git_version.starts_with('v') && !server.kube_system_uid.is_empty());
    assert_eq!((server.nodes, server.clock_skew_ms), (0, 0));
    let found = AsFound::take(&client).await.expect("as found");
    let (_events, mut reported) = EventWatch::start(&client).await.expect("a watch");
    let churn = ChurnWatch::start(&client, &built_in_kinds()).await;
    let churn = churn.expect("a watch");

    let namespace = json!({"metadata": {"name": NAMESPACE}});
    let namespace = serde_json::from_value(namespace).expect("a namespace");
    let namespaces = Api::<Namespace>::all(client.clone());
    let made = namespaces.create(&PostParams::default(), &namespace).await;
    let uid = made.expect("it is made").metadata.uid.expect("a UID");
    a_rollout_is_followed_from_the_first_pod_to_the_next_version(&client).await;
    an_applied_schema_is_the_file_s_and_nothing_else(&client).await;

    let first = timeout(Duration::from_secs(10), reported.recv()).await;
    let first = first.expect("in time").expect("an event");
    assert!(matches!(first, Seen::Reported(_)), "{first:?}");
    let changes = churn.counts();
    assert!(
        changes["Pod"] > 0 && changes["Deployment"] > 0,
        "{changes:?}"
    );
    assert_eq!(churn.holes(), Vec::<String>::new());
    let unlike = found.differences(&AsFound::take(&client).await.expect("a look"));
    assert!(
        unlike.contains(&format!("Namespace {NAMESPACE} is new")),
        "{unlike:?}"
    );
    let removal = delete_namespace(&client, NAMESPACE, &uid, soon()).await;
    assert_eq!(removal.expect("it is gone"), Removal::Deleted);
    let names = [NAMESPACE.to_owned()];
    refuse_dying(&client, &[CRD.to_owned()], &names)
        .await
        .expect("nothing is being deleted");
    let left = found
        .settled_differences(&client, Duration::from_secs(30))
        .await;
    assert_eq!(left, Ok(Vec::new()));
    let counts = meter.counts();
    assert!(counts["WATCH"] >= 10 && counts["POST"] >= 3, "{counts:?}");

    drop((churn, client));
    plane.stop().await.expect("the plane stops");
}
