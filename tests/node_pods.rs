//! Pods on a virtual node of a real control plane: what the scheduler and the controllers see of them.

#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests fail like the tests themselves"
)]
#![allow(clippy::print_stderr, reason = "a run tells its numbers")]

#[path = "support/node.rs"]
mod node;
mod support;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use aibom_qual::cluster::namespace::gone;
use aibom_qual::cluster::wait::{Deadline, Look};
use aibom_qual::node::Node;
use aibom_qual::node::image::ImageTable;
use aibom_qual::plane::Plane;
use aibom_qual::plane::event::Silent;
use aibom_qual::plane::tool::Tool;
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Namespace, Node as NodeObject, Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::{Api, Client};
use node::{FAULT, container, create, event, eventually, holds, namespace, phase, pod, waiting};
use serde_json::{Value, json};
use support::World;

const NODE: &str = "node-0";
/// Pods that start at once.
const CROWD: usize = 200;

fn pods(client: &Client, namespace: &str) -> Api<Pod> {
    Api::namespaced(client.clone(), namespace)
}

/// A pod of one container, with faults.
fn simple(name: &str, faults: &[(&str, &str)]) -> Value {
    let annotations: serde_json::Map<String, Value> = faults
        .iter()
        .map(|(fault, value)| (format!("{FAULT}/{fault}"), json!(value)))
        .collect();
    json!({
        "metadata": {"name": name, "annotations": annotations},
        "spec": {"containers": [{"name": "app", "image": "example.com/app:v1"}]},
    })
}

async fn heal(pods: &Api<Pod>, name: &str, fault: &str) {
    let change = json!({"metadata": {"annotations": {format!("{FAULT}/{fault}"): null}}});
    let patched = pods
        .patch(name, &PatchParams::default(), &Patch::Merge(change))
        .await;
    patched.expect("patched");
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_live_as_on_a_real_node() {
    let world = World::new();
    let mut options = world.throw_away();
    // A node counts as lost after 14 s instead of 50 s, which is more than one heartbeat.
    let impatient = [
        "--node-monitor-grace-period=14s",
        "--node-monitor-period=1s",
    ];
    let impatient = impatient.map(str::to_owned).to_vec();
    let kcm = Tool::KubeControllerManager;
    options.component_args.insert(kcm, impatient);
    let plane = Plane::start(&options, Arc::new(Silent)).await;
    let plane = plane.expect("a plane");
    let client = plane.client().await.expect("a client");
    let begun = Instant::now();
    let node = node::start(&plane, NODE, ImageTable::default()).await;
    eprintln!("node ready after {:.2} s", begun.elapsed().as_secs_f64());

    let cases = async {
        a_crowd_starts_and_ends(&client).await;
        tokio::join!(
            a_ready_pod_has_a_whole_status(&client),
            a_job_completes(&client),
            init_containers_come_one_after_another(&client),
            a_missing_service_account_is_told(&client),
            an_image_that_cannot_be_pulled_is_tried_again(&client),
            a_pod_may_never_be_ready(&client),
            a_crash_is_restarted_at_once_and_then_later(&client),
            an_annotation_that_cannot_be_read_is_told(&client),
        );
        a_silent_node_is_lost_and_comes_back(&client, &node).await;
    };
    tokio::select! {
        () = cases => {}
        error = node.failed() => panic!("{error}"),
    }
    let begun = Instant::now();
    node.stop().await;
    eprintln!("node stopped after {:.2} s", begun.elapsed().as_secs_f64());
    plane.stop().await.expect("stopped");
    world.assert_empty("at the end");
}

async fn a_crowd_starts_and_ends(client: &Client) {
    let name = "crowd";
    namespace(client, name).await;
    let labels = json!({"app": name});
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), name);
    let begun = Instant::now();
    let deployment = json!({
        "metadata": {"name": name},
        "spec": {
            "replicas": CROWD,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "pause", "image": "example.com/pause:3.10"}]},
            },
        },
    });
    create(&deployments, deployment).await;
    eventually("the crowd", async || {
        let status = deployments.get(name).await?.status.unwrap_or_default();
        let ready = status.ready_replicas.unwrap_or(0);
        Ok(if usize::try_from(ready) == Ok(CROWD) {
            Look::Done(())
        } else {
            Look::NotYet(format!("{ready} are ready"))
        })
    })
    .await;
    let up = begun.elapsed();
    let listed = pods(client, name).list(&ListParams::default()).await;
    let addresses: BTreeSet<String> = listed
        .expect("a list")
        .into_iter()
        .filter_map(|pod| pod.status?.pod_ip)
        .collect();
    assert_eq!(addresses.len(), CROWD);

    let begun = Instant::now();
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let deleted = namespaces.delete(name, &DeleteParams::default()).await;
    deleted.expect("deleted");
    let deadline = Deadline::within(Duration::from_secs(120));
    gone(client, name, deadline).await.expect("it vanishes");
    let down = begun.elapsed();
    eprintln!(
        "{CROWD} pods: ready after {:.1} s, namespace gone after {:.1} s",
        up.as_secs_f64(),
        down.as_secs_f64()
    );
    // Generous: the machine may have much else to do.
    assert!(up < Duration::from_secs(60), "{up:?}");
    assert!(down < Duration::from_secs(90), "{down:?}");
}

async fn a_ready_pod_has_a_whole_status(client: &Client) {
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
    eventually("the end of the pod", async || {
        Ok(match pods.get_opt("app").await? {
            None => Look::Done(()),
            Some(pod) => Look::NotYet(format!("{:?}", pod.metadata.deletion_timestamp)),
        })
    })
    .await;
    let took = begun.elapsed();
    assert!(took < Duration::from_secs(15), "{took:?}");
    event(client, name, "app", "Killing").await;
}

async fn a_job_completes(client: &Client) {
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

async fn init_containers_come_one_after_another(client: &Client) {
    let name = "init";
    namespace(client, name).await;
    let pods = pods(client, name);
    let mut object = simple("app", &[("completes-after", "1s")]);
    object["spec"]["restartPolicy"] = json!("Never");
    object["spec"]["initContainers"] = json!([
        {"name": "first", "image": "example.com/first:v1"},
        {"name": "second", "image": "example.com/second:v1"},
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

async fn a_missing_service_account_is_told(client: &Client) {
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

async fn an_image_that_cannot_be_pulled_is_tried_again(client: &Client) {
    let name = "image";
    namespace(client, name).await;
    let pods = pods(client, name);
    create(&pods, simple("app", &[("image-pull", "fail")])).await;
    pod(&pods, "app", "to fail", |pod| {
        waiting(pod) == Some("ErrImagePull")
    })
    .await;
    let backs_off = |pod: &Pod| waiting(pod) == Some("ImagePullBackOff");
    let waits = pod(&pods, "app", "to wait", backs_off).await;
    assert_eq!(phase(&waits), "Pending");
    event(client, name, "app", "Failed").await;
    event(client, name, "app", "BackOff").await;
    heal(&pods, "app", "image-pull").await;
    pod(&pods, "app", "to run", |pod| holds(pod, "Ready")).await;

    // One that waits in vain is deleted at once.
    create(&pods, simple("other", &[("image-pull", "fail")])).await;
    pod(&pods, "other", "to wait", backs_off).await;
    pods.delete("other", &DeleteParams::default())
        .await
        .expect("deleted");
    let begun = Instant::now();
    eventually("the end of the pod", async || {
        Ok(match pods.get_opt("other").await? {
            None => Look::Done(()),
            Some(_) => Look::NotYet("it is there".to_owned()),
        })
    })
    .await;
    assert!(begun.elapsed() < Duration::from_secs(8));
}

async fn a_pod_may_never_be_ready(client: &Client) {
    let name = "never-ready";
    namespace(client, name).await;
    let pods = pods(client, name);
    create(&pods, simple("app", &[("never-ready", "true")])).await;
    let running = pod(&pods, "app", "to run", |pod| phase(pod) == "Running").await;
    assert!(!holds(&running, "Ready"));
    let event = event(client, name, "app", "Unhealthy").await;
    assert_eq!(event.type_.as_deref(), Some("Warning"));
    heal(&pods, "app", "never-ready").await;
    pod(&pods, "app", "to be ready", |pod| holds(pod, "Ready")).await;
}

async fn a_crash_is_restarted_at_once_and_then_later(client: &Client) {
    let name = "crash";
    namespace(client, name).await;
    let pods = pods(client, name);
    create(&pods, simple("app", &[("crash-after", "1s")])).await;
    let backs_off = |pod: &Pod| waiting(pod) == Some("CrashLoopBackOff");
    let waits = pod(&pods, "app", "to wait", backs_off).await;
    assert_eq!(phase(&waits), "Running");
    let app = container(&waits).expect("a container");
    assert_eq!((app.restart_count, app.ready), (1, false));
    let last = app
        .last_state
        .as_ref()
        .and_then(|last| last.terminated.as_ref());
    assert_eq!(last.expect("it has ended").exit_code, 137);
    let event = event(client, name, "app", "BackOff").await;
    let message = event.message.expect("a message");
    assert!(
        message.contains("restarting failed container app"),
        "{message}"
    );
}

async fn an_annotation_that_cannot_be_read_is_told(client: &Client) {
    let name = "unreadable";
    namespace(client, name).await;
    let pods = pods(client, name);
    create(&pods, simple("app", &[("slow-start", "soon")])).await;
    pod(&pods, "app", "to be ready", |pod| holds(pod, "Ready")).await;
    let event = event(client, name, "app", "UnknownFault").await;
    let message = event.message.expect("a message");
    assert!(
        message.contains("slow-start=\"soon\" is ignored"),
        "{message}"
    );
}

async fn a_silent_node_is_lost_and_comes_back(client: &Client, node: &Node) {
    let name = "silence";
    namespace(client, name).await;
    let pods = pods(client, name);
    create(&pods, simple("app", &[])).await;
    pod(&pods, "app", "to be ready", |pod| holds(pod, "Ready")).await;
    let nodes: Api<NodeObject> = Api::all(client.clone());
    let wait_for = async |status: &str| {
        eventually(&format!("the node to be {status}"), async || {
            let node = nodes.get(NODE).await?;
            let conditions = node.status.and_then(|status| status.conditions);
            let mut ready = conditions
                .into_iter()
                .flatten()
                .filter(|c| c.type_ == "Ready");
            let ready = ready.next().map(|condition| condition.status);
            Ok(if ready.as_deref() == Some(status) {
                Look::Done(())
            } else {
                Look::NotYet(format!("{ready:?}"))
            })
        })
        .await;
    };
    node.silence(Duration::from_secs(25));
    wait_for("Unknown").await;
    pod(&pods, "app", "to be unready", |pod| !holds(pod, "Ready")).await;
    let begun = Instant::now();
    wait_for("True").await;
    pod(&pods, "app", "to be ready again", |pod| holds(pod, "Ready")).await;
    eprintln!(
        "node and pod back after {:.1} s",
        begun.elapsed().as_secs_f64()
    );
}
