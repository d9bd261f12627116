//! What does not come up, and what a node of processes does not do.

use aibom_qual::cluster::wait::Look;
use http::{Method, Request};
use http_body_util::BodyExt as _;
use k8s_openapi::api::core::v1::Pod;
use kube::api::LogParams;
use kube::client::Body;
use kube::{Api, Client};
use serde_json::json;

use crate::moves::image_id;
use crate::node::{container, create, event, eventually, holds, namespace, phase, pod, waiting};

/// A controller whose account may do nothing runs and says why it is not ready.
pub(crate) async fn without_rights_nothing_is_ready(client: &Client) {
    let name = "no-rights";
    namespace(client, name).await;
    let pods: Api<Pod> = Api::namespaced(client.clone(), name);
    let object = json!({
        "metadata": {"name": "manager"},
        "spec": {"containers": [{
            "name": "manager",
            "image": image_id("1.3.0"),
            "readinessProbe": {"httpGet": {"path": "/readyz", "port": 8081}, "periodSeconds": 1},
        }]},
    });
    create(&pods, object).await;
    let unhealthy = event(client, name, "manager", "Unhealthy").await;
    let message = unhealthy.message.expect("a message");
    assert!(message.starts_with("Readiness probe failed: "), "{message}");
    eventually("the log to tell of refusals", async || {
        let log = pods.logs("manager", &LogParams::default()).await?;
        Ok(match log.contains("is forbidden") {
            true => Look::Done(()),
            false => Look::NotYet(log),
        })
    })
    .await;
    let seen = pods.get("manager").await.expect("the pod");
    assert_eq!(phase(&seen), "Running");
    assert!(!holds(&seen, "Ready"));
}

pub(crate) async fn root_is_refused_where_it_is_forbidden(client: &Client) {
    let name = "root";
    namespace(client, name).await;
    let pods: Api<Pod> = Api::namespaced(client.clone(), name);
    let object = json!({
        "metadata": {"name": "app"},
        "spec": {
            "securityContext": {"runAsNonRoot": true},
            "containers": [{"name": "app", "image": "example.com/app:v1"}],
        },
    });
    create(&pods, object).await;
    let refused = |pod: &Pod| waiting(pod) == Some("CreateContainerConfigError");
    let refused = pod(&pods, "app", "to be refused", refused).await;
    assert_eq!(phase(&refused), "Pending");
    let state = container(&refused).and_then(|status| status.state.as_ref()?.waiting.clone());
    let message = state.and_then(|state| state.message).expect("a message");
    let words = "container has runAsNonRoot and image will run as root (pod: \"app_root(";
    assert!(message.starts_with(words), "{message}");
    event(client, name, "app", "Failed").await;
}

/// Whoever wants more than a process gives is told so in one sentence.
pub(crate) async fn nothing_runs_inside(client: &Client) {
    let name = "inside";
    namespace(client, name).await;
    let pods: Api<Pod> = Api::namespaced(client.clone(), name);
    let object = json!({
        "metadata": {"name": "app"},
        "spec": {"containers": [{"name": "app", "image": "example.com/app:v1"}]},
    });
    create(&pods, object).await;
    pod(&pods, "app", "to be ready", |pod| holds(pod, "Ready")).await;
    for (verb, protocol, words) in [
        (
            "exec?command=true&stdout=true",
            "v4.channel.k8s.io",
            "the containers of this node are processes of its machine",
        ),
        (
            "attach?stdout=true",
            "v4.channel.k8s.io",
            "the containers of this node are processes of its machine",
        ),
        (
            "portforward",
            "portforward.k8s.io",
            "this node forwards ports over websockets of v4.channel.k8s.io only",
        ),
    ] {
        let request = Request::builder()
            .method(Method::POST)
            .uri(format!("/api/v1/namespaces/{name}/pods/app/{verb}"))
            .header("connection", "Upgrade")
            .header("upgrade", "SPDY/3.1")
            .header("x-stream-protocol-version", protocol)
            .header("content-length", "0")
            .body(Body::empty())
            .expect("a request");
        let response = client.send(request).await.expect("an answer");
        let status = response.status();
        let body = response.into_body().collect().await.expect("a body");
        let body = String::from_utf8_lossy(&body.to_bytes()).into_owned();
        assert!(
            status.is_server_error() || status.is_client_error(),
            "{status}"
        );
        assert!(body.contains(words), "{verb}: {status} {body}");
    }
}
