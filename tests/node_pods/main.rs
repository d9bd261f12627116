//! Pods on a virtual node of a real control plane: what the scheduler and the controllers see of them.

#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests fail like the tests themselves"
)]
#![allow(clippy::print_stderr, reason = "a run tells its numbers")]

mod faults;
mod life;
#[path = "../support/node.rs"]
mod node;
#[path = "../support/mod.rs"]
mod support;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use aibom_qual::cluster::namespace::gone;
use aibom_qual::cluster::wait::{Deadline, Look};
use aibom_qual::node::Node;
use aibom_qual::node::image::{CommandTemplate, Image, ImageTable, ImageUser, Runtime};
use aibom_qual::plane::Plane;
use aibom_qual::plane::event::Silent;
use aibom_qual::plane::tool::Tool;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Namespace, Node as NodeObject, Pod};
use kube::api::{DeleteParams, ListParams};
use kube::{Api, Client};
use node::{FAULT, create, eventually, holds, namespace, pod};
use serde_json::{Value, json};
use support::World;

const NODE: &str = "node-0";
/// An image with a process that does nothing.
const SLEEPER: &str = "example.com/sleeper:v1";
/// An image that completes by itself, after so long that its end and its start differ in the status,
/// which counts whole seconds.
const WORKER: &str = "example.com/worker:v1";
/// Pods that start at once.
const CROWD: usize = 200;

fn images() -> ImageTable {
    let mut images = ImageTable::default();
    for (name, seconds) in [(SLEEPER, 1000), (WORKER, 2)] {
        let command = format!("/bin/sh -c 'exec sleep {seconds}'");
        let command = CommandTemplate::parse(&command).expect("a command");
        let image = Image {
            runtime: Runtime::Command(command),
            user: ImageUser::Uid(65_532),
        };
        images.insert(name, image);
    }
    images
}

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
    let node = node::start(&plane, NODE, images()).await;
    eprintln!("node ready after {:.2} s", begun.elapsed().as_secs_f64());

    let cases = async {
        a_crowd_starts_and_ends(&client).await;
        tokio::join!(
            life::a_ready_pod_has_a_whole_status(&client),
            life::a_job_completes(&client),
            life::init_containers_come_one_after_another(&client),
            life::a_failing_probe_restarts_a_process(&client),
            life::a_missing_service_account_is_told(&client),
            faults::an_image_that_cannot_be_pulled_is_tried_again(&client),
            faults::a_start_and_an_end_may_be_slow(&client),
            faults::a_pod_may_never_be_ready(&client),
            faults::a_crash_is_restarted_at_once_and_then_later(&client),
            faults::an_annotation_that_cannot_be_read_is_told(&client),
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
