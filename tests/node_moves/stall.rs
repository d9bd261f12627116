//! A controller on definitions that are older than itself.

use std::time::{Duration, Instant};

use aibom_qual::cluster::wait::Look;
use aibom_qual::controller::api::object::{AibomObject, resource};
use aibom_qual::controller::api::release::{ApiKind, ApiVersion};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::api::LogParams;
use kube::{Api, Client};
use serde_json::json;

use crate::NAMESPACE;
use crate::cluster::Release;
use crate::definitions::apply;
use crate::moves::image_id;
use crate::node::{container, create, event, eventually, holds, phase};
use crate::sight::Sight;

/// Upgrades to 1.3.0 without its definitions.
pub(crate) async fn on_older_definitions(client: &Client, helm: Release) {
    let pods: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    let sight = Sight::begin(client, NAMESPACE).await;
    helm.install("1.2.0", &["--wait"]).await;
    let old = sight.only(&image_id("1.2.0")).await;
    sight.ready();

    helm.upgrade("1.3.0", &[]).await;
    let runs = |pod: &Pod| phase(pod) == "Running";
    let new = sight.beside(&old, "a new pod that runs", runs).await;
    let begun = Instant::now();
    the_rollout_stands_still(client).await;
    a_workload_gets_its_aibom(client).await;
    let unhealthy = event(client, NAMESPACE, &new, "Unhealthy").await;
    let message = unhealthy.message.expect("a message");
    let words = "Readiness probe failed: HTTP probe failed with statuscode: 500";
    assert_eq!(message, words);

    // It gives up when its caches are not there after two minutes.
    let restarted = |pod: &Pod| container(pod).is_some_and(|status| status.restart_count == 1);
    let what = "a new pod that was started again";
    assert_eq!(sight.beside(&old, what, restarted).await, new);
    let took = begun.elapsed();
    eprintln!("started again after {:.1} s", took.as_secs_f64());
    let two_minutes = Duration::from_secs(115)..Duration::from_secs(140);
    assert!(two_minutes.contains(&took), "{took:?}");
    let seen = pods.get(&new).await.expect("the pod");
    assert!(!holds(&seen, "Ready"));
    let last = container(&seen).and_then(|status| status.last_state.as_ref()?.terminated.as_ref());
    assert_eq!(last.expect("it has ended").exit_code, 1);
    let params = LogParams {
        previous: true,
        ..LogParams::default()
    };
    let before = pods.logs(&new, &params).await.expect("the log before");
    assert!(
        before.contains("timed out waiting for cache to be synced"),
        "{before}"
    );

    apply(client, "1.3.0").await.expect("they are accepted");
    let begun = Instant::now();
    assert_eq!(sight.only(&image_id("1.3.0")).await, new);
    eprintln!(
        "complete {:.1} s after the definitions came",
        begun.elapsed().as_secs_f64()
    );
    let seen = pods.get(&new).await.expect("the pod");
    let restarts = container(&seen).map(|status| status.restart_count);
    assert_eq!(restarts, Some(1), "it was not started again for that");
    assert_eq!(sight.ready(), (1, 2));
}

async fn the_rollout_stands_still(client: &Client) {
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), NAMESPACE);
    eventually("a rollout that stands still", async || {
        let status = deployments.get("k8s-aibom").await?.status;
        let status = status.unwrap_or_default();
        let counts = [
            status.replicas,
            status.updated_replicas,
            status.ready_replicas,
            status.available_replicas,
            status.unavailable_replicas,
        ];
        Ok(if counts == [2, 1, 1, 1, 1].map(Some) {
            Look::Done(())
        } else {
            Look::NotYet(format!("{counts:?}"))
        })
    })
    .await;
}

/// The old controller works on.
async fn a_workload_gets_its_aibom(client: &Client) {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let labels = json!({"aibom.k8saibom.dev/enabled": "true"});
    let namespace = json!({"metadata": {"name": "models", "labels": labels}});
    create(&namespaces, namespace).await;
    let labels = json!({"app": "model"});
    let workload = json!({
        "metadata": {"name": "model"},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "vllm", "image": "vllm/vllm-openai:v0.6.3"}]},
            },
        },
    });
    let workloads: Api<Deployment> = Api::namespaced(client.clone(), "models");
    create(&workloads, workload).await;
    let kind = resource(ApiKind::Aibom, ApiVersion::V1Alpha1);
    let aiboms: Api<AibomObject> = Api::namespaced_with(client.clone(), "models", &kind);
    eventually("an AIBOM", async || {
        let aibom = aiboms.get_opt("apps-deployment-model").await?;
        Ok(match aibom {
            Some(aibom) if !aibom.status.bom_hash.is_empty() => Look::Done(()),
            other => Look::NotYet(format!("{other:?}")),
        })
    })
    .await;
}
