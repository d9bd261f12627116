//! The loader against a real API server.

#![allow(clippy::expect_used, reason = "a test fails by panicking")]

mod support;

use std::collections::BTreeMap;
use std::num::{NonZeroU32, NonZeroUsize};
use std::sync::Arc;
use std::time::Duration;

use aibom_qual::cluster::client::connect;
use aibom_qual::plane::Plane;
use aibom_qual::plane::event::Silent;
use aibom_qual::workloads::{Load, LoadError, Mix, Plan};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use kube::api::ListParams;
use support::World;

const COUNT: u32 = 40;

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_is_applied_once() {
    let world = World::new();
    let plane = Plane::start(&world.throw_away(), Arc::new(Silent)).await;
    let plane = plane.expect("a plane");
    let client = connect(&plane.kubeconfig()).await.expect("a client");
    let labels = BTreeMap::from([("opted".to_owned(), "in".to_owned())]);
    let plan = Plan {
        mix: Mix::VllmReplicas0,
        first: 0,
        count: COUNT,
        seed: 3,
        namespaces: vec!["load".parse().expect("a name")],
        namespace_labels: labels.clone(),
    };
    let load = Load {
        concurrency: NonZeroUsize::new(8).expect("some"),
        rate: None,
        within: Duration::from_secs(60),
    };

    let applied = load.apply(&client, &plan).await.expect("applied");
    assert_eq!(applied.created, COUNT, "{applied:?}");
    assert!(applied.existing.is_empty() && applied.failed.is_empty());
    let latency = applied.latency.expect("times");
    assert!(latency.p50 <= latency.p99 && latency.p99 <= applied.took);
    let namespaces = Api::<Namespace>::all(client.clone());
    let namespace = namespaces.get("load").await.expect("the namespace");
    let found = namespace.metadata.labels.expect("labels");
    assert_eq!(found["opted"], "in");

    // Once more, and ten more: what is there stays.
    let more = Plan {
        count: COUNT + 10,
        ..plan.clone()
    };
    let paced = Load {
        rate: NonZeroU32::new(500),
        ..load
    };
    let applied = paced.apply(&client, &more).await.expect("applied");
    assert_eq!(applied.created, 10, "{applied:?}");
    let names = plan.workloads().filter_map(|object| object.metadata.name);
    assert_eq!(applied.existing, names.collect::<Vec<_>>());
    assert!(applied.took >= Duration::from_secs(49) / 500, "{applied:?}");

    let deployments = Api::<Deployment>::namespaced(client.clone(), "load");
    let list = deployments.list(&ListParams::default()).await;
    let objects = list.expect("a list").items;
    assert_eq!(objects.len(), 50);
    for (object, planned) in objects.iter().zip(more.workloads()) {
        assert_eq!(object.metadata.name, planned.metadata.name);
        let spec = object.spec.as_ref().expect("a spec");
        assert_eq!(spec.replicas, Some(0));
    }

    let other = Plan {
        namespaces: vec!["default".parse().expect("a name")],
        ..plan
    };
    let error = load.apply(&client, &other).await.expect_err("not opted in");
    assert!(matches!(error, LoadError::NotLabelled { .. }), "{error}");
    plane.stop().await.expect("the plane stops");
}
