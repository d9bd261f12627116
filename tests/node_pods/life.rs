//! Pods from their start to their end.

use std::time::{Duration, Instant};

use aibom_qual::cluster::wait::Look;
use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::{Api, Client};
use serde_json::json;

use crate::node::{container, create, event, eventually, gone, holds, namespace, phase, pod};
use crate::{NODE, SLEEPER, WORKER, pods, simple};

pub(crate) async fn a_ready_pod_has_a_whole_status(client: &Client) {
    let name = "whole";
    namespace(client, name).await;
    let pods = pods(client, name);
    let labels = json!({"app": name});
    let mut object = simple("app", &[]);
    object["metadata"]["labels"] = labels.clone();
    create(&pods, object).await;
    let services: Api<Service> = Api::namespaced(client.clone(), name);
    let service = json!({
        "metadata": {"name": "app"},
        "spec": {"selector": labels, "ports": [{"port": 80}]},
    });
    create(&services, service).await;
    let ready = pod(&pods, "app", "to be ready", |pod| holds(pod, "Ready")).await;
    let status = ready.status.as_ref().expect("a status");
    assert_eq!(phase(&ready), "Running");
    assert_eq!(status.host_ip.as_deref(), Some("127.0.0.1"));
    assert_eq!(status.qos_class.as_deref(), Some("BestEffort"));
    assert_eq!(status.observed_generation, ready.metadata.generation);
    let order: Vec<&str> = status
        .conditions
        .iter()
        .flatten()
        .map(|c| c.type_.as_str())
        .collect();
    assert_eq!(
        order,
        [
            "PodReadyToStartContainers",
            "Initialized",
            "Ready",
            "ContainersReady",
            "PodScheduled",
        ]
    );
    let app = container(&ready).expect("a container");
    assert_eq!(
        (app.ready, app.started, app.restart_count),
        (true, Some(true), 0)
    );
    assert!(
        app.image_id.starts_with("example.com/app@sha256:"),
        "{}",
        app.image_id
    );
    let id = app.container_id.as_deref().expect("an id");
    assert!(id.starts_with("aibom-qual://"), "{id}");
    for reason in ["Pulled", "Created", "Started"] {
        let event = event(client, name, "app", reason).await;
        assert_eq!(event.type_.as_deref(), Some("Normal"));
        let source = event.source.expect("a source");
        assert_eq!(source.component.as_deref(), Some("kubelet"));
        assert_eq!(source.host.as_deref(), Some(NODE));
        let part = event.involved_object.field_path;
        assert_eq!(part.as_deref(), Some("spec.containers{app}"));
    }

    // The API server takes the pod's address for one that a Service may have.
    let slices: Api<EndpointSlice> = Api::namespaced(client.clone(), name);
    eventually("the endpoint of the service", async || {
        let slices = slices.list(&ListParams::default()).await?.items;
        let mut endpoints = slices.iter().flat_map(|slice| slice.endpoints.iter());
        let address = endpoints.find_map(|endpoint| endpoint.addresses.first());
        Ok(if address == status.pod_ip.as_ref() {
            Look::Done(())
        } else {
            Look::NotYet(format!("{address:?}"))
        })
    })
    .await;

    // Whoever contradicts is contradicted.
    let lie = json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}});
    let params = PatchParams::default();
    let lied = pods
        .patch_status("app", &params, &Patch::Strategic(lie))
        .await;
    assert!(!holds(&lied.expect("patched"), "Ready"));
    pod(&pods, "app", "to be ready again", |pod| holds(pod, "Ready")).await;

    let begun = Instant::now();
    pods.delete("app", &DeleteParams::default())
        .await
        .expect("deleted");
    gone(&pods, "app").await;
    let took = begun.elapsed();
    assert!(took < Duration::from_secs(15), "{took:?}");
    event(client, name, "app", "Killing").await;
}

pub(crate) async fn a_job_completes(client: &Client) {
    let name = "job";
    namespace(client, name).await;
    let jobs: Api<Job> = Api::namespaced(client.clone(), name);
    let mut template = simple("unused", &[("completes-after", "1s")]);
    template["spec"]["restartPolicy"] = json!("Never");
    let metadata = json!({"annotations": template["metadata"]["annotations"]});
    template["metadata"] = metadata;
    let job = json!({"metadata": {"name": "train"}, "spec": {"template": template}});
    create(&jobs, job).await;
    eventually("the job", async || {
        let status = jobs.get("train").await?.status.unwrap_or_default();
        Ok(match status.succeeded {
            Some(1) => Look::Done(()),
            _ => Look::NotYet(format!("{status:?}")),
        })
    })
    .await;
    let listed = pods(client, name).list(&ListParams::default()).await;
    let listed = listed.expect("a list").items;
    assert_eq!(phase(&listed[0]), "Succeeded");
    let app = container(&listed[0]).expect("a container");
    let ended = app
        .state
        .as_ref()
        .and_then(|state| state.terminated.as_ref());
    let ended = ended.expect("it has ended");
    assert_eq!(
        (ended.exit_code, ended.reason.as_deref()),
        (0, Some("Completed"))
    );
}

pub(crate) async fn init_containers_come_one_after_another(client: &Client) {
    let name = "init";
    namespace(client, name).await;
    let pods = pods(client, name);
    let mut object = simple("app", &[("completes-after", "1s")]);
    object["spec"]["restartPolicy"] = json!("Never");
    object["spec"]["initContainers"] = json!([
        {"name": "first", "image": WORKER},
        {"name": "second", "image": WORKER},
    ]);
    create(&pods, object).await;
    let done = pod(&pods, "app", "to complete", |pod| phase(pod) == "Succeeded").await;
    let status = done.status.expect("a status");
    let all = status.init_container_statuses.into_iter().flatten();
    let all = all.chain(status.container_statuses.into_iter().flatten());
    let times: Vec<_> = all
        .map(|container| {
            let ended = container.state.and_then(|state| state.terminated);
            let ended = ended.expect("it has ended");
            (
                ended.started_at.expect("a time"),
                ended.finished_at.expect("a time"),
            )
        })
        .collect();
    assert_eq!(times.len(), 3);
    for pair in times.windows(2) {
        assert!(pair[0].1 <= pair[1].0, "{times:?}");
    }
}

/// Its process listens nowhere, so that every probe fails.
pub(crate) async fn a_failing_probe_restarts_a_process(client: &Client) {
    let name = "probes";
    namespace(client, name).await;
    let pods = pods(client, name);
    let probe = json!({"tcpSocket": {"port": 8080}, "periodSeconds": 1, "failureThreshold": 2});
    let object = json!({
        "metadata": {"name": "deaf"},
        "spec": {"containers": [{
            "name": "app",
            "image": SLEEPER,
            "livenessProbe": probe,
            "readinessProbe": probe,
        }]},
    });
    create(&pods, object).await;
    let again = pod(&pods, "deaf", "to be restarted", |pod| {
        container(pod).is_some_and(|app| app.restart_count == 1)
    })
    .await;
    assert!(!holds(&again, "Ready"));
    let app = container(&again).expect("a container");
    let last = app
        .last_state
        .as_ref()
        .and_then(|last| last.terminated.as_ref());
    assert_eq!(last.expect("it has ended").exit_code, 143);
    let killing = event(client, name, "deaf", "Killing").await;
    assert_eq!(
        killing.message.as_deref(),
        Some("Container app failed liveness probe, will be restarted")
    );
    let unhealthy = event(client, name, "deaf", "Unhealthy").await;
    let message = unhealthy.message.expect("a message");
    assert!(
        message.contains("probe failed: dial tcp 127.0.0.1:"),
        "{message}"
    );
}

pub(crate) async fn a_missing_service_account_is_told(client: &Client) {
    let name = "no-account";
    namespace(client, name).await;
    let sets: Api<ReplicaSet> = Api::namespaced(client.clone(), name);
    let labels = json!({"app": name});
    let set = json!({
        "metadata": {"name": name},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "serviceAccountName": "nobody",
                    "containers": [{"name": "app", "image": "example.com/app:v1"}],
                },
            },
        },
    });
    create(&sets, set).await;
    let event = event(client, name, name, "FailedCreate").await;
    let message = event.message.expect("a message");
    assert!(
        message.contains("serviceaccount \"nobody\" not found"),
        "{message}"
    );
}
