//! Programs of this machine for images, as `--runtime` gives them.

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use kube::api::DeleteParams;
use kube::{Api, Client};
use serde_json::json;

use crate::access::{read_log, scrape};
use crate::node::{container, create, holds, namespace, pod, waiting};
use crate::support::EXE;

const OWN: &str = "example.com/own:v1.3.0";
const ENDS: &str = "example.com/ends";

/// The arguments of `plane up`.
pub(crate) fn args() -> Vec<String> {
    let own = "controller --profile 1.3.0 --metrics-bind-address 127.0.0.1:{port:8080} \
               --health-probe-bind-address 127.0.0.1:{port:8081}";
    vec![
        "--runtime".to_owned(),
        format!("{OWN}='{EXE}' {own}"),
        "--runtime".to_owned(),
        format!("{ENDS}=sh -c 'exit 3'"),
    ]
}

/// What the node has of itself behind an image may also be named by path.
pub(crate) async fn a_program_may_stand_for_any_image(client: &Client) {
    let name = "by-path";
    namespace(client, name).await;
    let bindings: Api<ClusterRoleBinding> = Api::all(client.clone());
    let binding = json!({
        "metadata": {"name": name},
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "ClusterRole",
            "name": "cluster-admin",
        },
        "subjects": [{"kind": "ServiceAccount", "name": "default", "namespace": name}],
    });
    create(&bindings, binding).await;
    let pods: Api<Pod> = Api::namespaced(client.clone(), name);
    let object = json!({
        "metadata": {"name": "own"},
        "spec": {"containers": [{
            "name": "own",
            "image": OWN,
            "readinessProbe": {"httpGet": {"path": "/readyz", "port": 8081}, "periodSeconds": 1},
        }]},
    });
    create(&pods, object).await;
    let ready = pod(&pods, "own", "to be ready", |pod| holds(pod, "Ready")).await;
    let id = &container(&ready).expect("a container").image_id;
    assert!(id.starts_with("example.com/own@sha256:"), "{id}");
    scrape(&pods, "own").await.expect("metrics");
    read_log(&pods, "own").await;
    let deleted = pods.delete("own", &DeleteParams::default()).await;
    deleted.expect("deleted");
}

pub(crate) async fn a_program_that_ends_is_told(client: &Client) {
    let name = "ends";
    namespace(client, name).await;
    let pods: Api<Pod> = Api::namespaced(client.clone(), name);
    let object = json!({
        "metadata": {"name": "app"},
        "spec": {"containers": [{"name": "app", "image": format!("{ENDS}:v1")}]},
    });
    create(&pods, object).await;
    let backs_off = |pod: &Pod| waiting(pod) == Some("CrashLoopBackOff");
    let waits = pod(&pods, "app", "to wait", backs_off).await;
    let app = container(&waits).expect("a container");
    let last = app.last_state.as_ref();
    let last = last.and_then(|last| last.terminated.as_ref());
    let last = last.expect("it has ended");
    assert_eq!((last.exit_code, last.reason.as_deref()), (3, Some("Error")));
    assert_eq!((app.restart_count, app.ready), (1, false));
}
