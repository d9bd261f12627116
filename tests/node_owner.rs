//! What is left of a node's pods when their owner ends, in order or not.

#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests fail like the tests themselves"
)]

#[path = "support/node.rs"]
mod node;
mod support;

use std::fs;
use std::path::Path;
use std::time::Duration;

use aibom_qual::cluster::client::connect;
use aibom_qual::plane::registry::Registry;
use aibom_qual::plane::state::PlaneState;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use node::{container, create, holds, pod};
use serde_json::json;
use support::{World, eventually};

/// What a pod's process is in the end, told apart from any other by its number.
const SLEEP: &str = "sleep 86123";

/// Command lines of all processes that are a pod's.
fn sleepers() -> Vec<String> {
    let processes = fs::read_dir("/proc").expect("/proc").flatten();
    let lines = processes.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
    let lines = lines.map(|line| String::from_utf8_lossy(&line).replace('\0', " "));
    lines.filter(|line| line.trim_end() == SLEEP).collect()
}

fn only_plane(world: &World) -> PlaneState {
    let planes = Registry::new(world.dirs.planes()).list().expect("a list");
    let mut planes = planes.into_iter().map(|(_, state)| state.expect("a state"));
    planes.next().expect("a plane")
}

async fn start_pod(kubeconfig: &Path) -> Api<Pod> {
    let client = connect(kubeconfig).await.expect("a client");
    let pods: Api<Pod> = Api::namespaced(client, "default");
    let object = json!({
        "metadata": {"name": "sleeper"},
        "spec": {"containers": [{"name": "app", "image": "example.com/sleeper:v1"}]},
    });
    create(&pods, object).await;
    pod(&pods, "sleeper", "to be ready", |pod| holds(pod, "Ready")).await;
    pods
}

/// One test after another: both look at all processes of the machine.
#[tokio::test(flavor = "multi_thread")]
async fn no_process_of_a_pod_outlives_its_owner() {
    a_killed_owner_takes_its_pods_with_it().await;
    a_persistent_plane_starts_its_pods_anew().await;
}

async fn a_killed_owner_takes_its_pods_with_it() {
    let world = World::new();
    let runtime = format!("example.com/sleeper=/bin/sh -c 'exec {SLEEP}'");
    let mut owner = world.spawn(&["plane", "up", "--runtime", &runtime]);
    owner.until("press Ctrl-C");
    let plane = only_plane(&world);
    let kubeconfig = world.dirs.planes().join(&plane.name).join("kubeconfig");
    start_pod(&kubeconfig).await;
    assert_eq!(sleepers().len(), 1);
    owner.kill();
    eventually("the pod's process ends", Duration::from_secs(5), || {
        sleepers().is_empty()
    });
    world.run(&["plane", "status"]).expect(0, &[]);
    world.assert_empty("after the owner was killed");
}

async fn a_persistent_plane_starts_its_pods_anew() {
    let world = World::new();
    let runtime = format!("example.com/sleeper=/bin/sh -c 'exec {SLEEP}'");
    let up = ["plane", "up", "--persistent", "demo", "--runtime", &runtime];
    world.run(&up).expect(0, &["node aibom-qual-node is ready"]);
    world.run(&up).expect(0, &["already running"]);
    world
        .run(&up[..4])
        .expect(2, &["already running, with other runtimes of its node"]);
    world
        .run(&[&up[..4], &["--no-node"]].concat())
        .expect(2, &["already running, with a node"]);
    let status = world.run(&["plane", "status", "demo"]);
    let shown = "node         aibom-qual-node (kubelet port ";
    assert!(status.stdout.contains(shown), "{}", status.stdout);
    let env = world.run(&["plane", "env", "demo"]);
    let shown = "export AIBOM_QUAL_NODE='aibom-qual-node'";
    assert!(env.stdout.contains(shown), "{}", env.stdout);

    let kubeconfig = world.dirs.planes().join("demo/kubeconfig");
    let pods = start_pod(&kubeconfig).await;
    world
        .run(&["plane", "down", "demo"])
        .expect(0, &["stopped"]);
    assert_eq!(sleepers(), Vec::<String>::new());
    world.run(&up).expect(0, &["node aibom-qual-node is ready"]);
    let again =
        |pod: &Pod| holds(pod, "Ready") && container(pod).is_some_and(|app| app.restart_count == 1);
    let again = pod(&pods, "sleeper", "to run again", again).await;
    let app = container(&again).expect("a container");
    let last = app
        .last_state
        .as_ref()
        .and_then(|last| last.terminated.as_ref());
    let last = last.expect("it was lost");
    assert_eq!(
        (last.exit_code, last.reason.as_deref()),
        (255, Some("Unknown"))
    );
    world
        .run(&["plane", "down", "demo", "--delete"])
        .expect(0, &["stopped"]);
    assert_eq!(sleepers(), Vec::<String>::new());
}
