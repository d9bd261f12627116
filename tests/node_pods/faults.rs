//! Faults that pods ask for.

use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::{ContainerStateTerminated, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::{Api, Client};
use serde_json::json;

use crate::node::{FAULT, container, create, event, gone, holds, namespace, phase, pod, waiting};
use crate::{pods, simple};

async fn heal(pods: &Api<Pod>, name: &str, fault: &str) {
    let change = json!({"metadata": {"annotations": {format!("{FAULT}/{fault}"): null}}});
    let patched = pods
        .patch(name, &PatchParams::default(), &Patch::Merge(change))
        .await;
    patched.expect("patched");
}

pub(crate) async fn an_image_that_cannot_be_pulled_is_tried_again(client: &Client) {
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
    gone(&pods, "other").await;
    assert!(begun.elapsed() < Duration::from_secs(8));
}

pub(crate) async fn a_start_and_an_end_may_be_slow(client: &Client) {
    let name = "slow";
    namespace(client, name).await;
    let pods = pods(client, name);
    let slow = Duration::from_secs(2);
    let faults = [("slow-start", "2s"), ("slow-termination", "2s")];
    let begun = Instant::now();
    create(&pods, simple("app", &faults)).await;
    pod(&pods, "app", "to be ready", |pod| holds(pod, "Ready")).await;
    assert!(begun.elapsed() >= slow);
    let pulled = event(client, name, "app", "Pulled").await;
    let message = pulled.message.expect("a message");
    assert!(
        message.starts_with("Successfully pulled image"),
        "{message}"
    );

    let begun = Instant::now();
    pods.delete("app", &DeleteParams::default())
        .await
        .expect("deleted");
    gone(&pods, "app").await;
    assert!(begun.elapsed() >= slow);
}

pub(crate) async fn a_pod_may_never_be_ready(client: &Client) {
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

/// How the start before the present one of the first container ended.
fn last_end(pod: &Pod) -> Option<&ContainerStateTerminated> {
    container(pod)?.last_state.as_ref()?.terminated.as_ref()
}

fn running_since(pod: &Pod) -> Option<&Time> {
    let running = container(pod)?.state.as_ref()?.running.as_ref()?;
    running.started_at.as_ref()
}

pub(crate) async fn a_crash_is_restarted_at_once_and_then_later(client: &Client) {
    let name = "crash";
    namespace(client, name).await;
    let pods = pods(client, name);
    create(&pods, simple("app", &[("crash-after", "1s")])).await;
    let restarted = async |times: i32| -> Duration {
        let what = format!("to run after restart {times}");
        let again = pod(&pods, "app", &what, |pod| {
            running_since(pod).is_some()
                && container(pod).is_some_and(|app| app.restart_count == times)
        })
        .await;
        let ended = last_end(&again).and_then(|ended| ended.finished_at.as_ref());
        let ended = ended.expect("the end of the start before");
        let started = running_since(&again).expect("it runs");
        let pause = started.0.duration_since(ended.0);
        Duration::try_from(pause).expect("it starts after the end")
    };
    // Whole seconds, rounded down; the machine may have much else to do.
    let pause = restarted(1).await;
    assert!(pause < Duration::from_secs(6), "{pause:?}");
    let backs_off = |pod: &Pod| waiting(pod) == Some("CrashLoopBackOff");
    let waits = pod(&pods, "app", "to wait", backs_off).await;
    assert_eq!(phase(&waits), "Running");
    let app = container(&waits).expect("a container");
    assert_eq!((app.restart_count, app.ready), (1, false));
    let last = last_end(&waits).expect("it has ended");
    assert_eq!(last.exit_code, 137);
    let event = event(client, name, "app", "BackOff").await;
    let message = event.message.expect("a message");
    assert!(
        message.contains("restarting failed container app"),
        "{message}"
    );
    let pause = restarted(2).await;
    assert!(pause >= Duration::from_secs(9), "{pause:?}");
}

pub(crate) async fn an_annotation_that_cannot_be_read_is_told(client: &Client) {
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
