//! A node beside a plane of a test, and what one asks about its pods.

#![allow(dead_code, reason = "each test binary uses a part of this")]

use std::sync::Arc;
use std::time::Duration;

use aibom_qual::cluster::wait::{Deadline, Look, wait_until};
use aibom_qual::host::launch::Launcher;
use aibom_qual::host::ports::PortPicker;
use aibom_qual::node::Node;
use aibom_qual::node::image::ImageTable;
use aibom_qual::node::options::{NodeOptions, ServingFiles};
use aibom_qual::plane::Plane;
use k8s_openapi::api::core::v1::{ContainerState, ContainerStatus, Event, Namespace, Pod};
use kube::api::{ListParams, PostParams};
use kube::{Api, Client};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::support::EXE;

/// Prefix of the annotations that a node reads.
pub(crate) const FAULT: &str = "node.aibom-qual.dev";

/// Starts a node of this plane.
pub(crate) async fn start(plane: &Plane, name: &str, images: ImageTable) -> Node {
    let identity = plane.node_identity(name).expect("an identity");
    let log = identity.log.clone();
    let options = NodeOptions {
        name: identity.name,
        server: identity.server,
        server_ca_pem: identity.server_ca_pem,
        kubeconfig: identity.kubeconfig,
        serving: ServingFiles {
            cert: identity.serving_cert,
            key: identity.serving_key,
        },
        client_ca_pem: identity.client_ca_pem,
        dir: identity.dir,
        launcher: Launcher::new(EXE),
        images,
        ports: Arc::new(PortPicker::new()),
        kubelet_version: identity.kubelet_version,
    };
    Node::start(options, &log).await.expect("a node")
}

/// Makes an object out of JSON.
pub(crate) async fn create<K>(api: &Api<K>, object: Value) -> K
where
    K: Clone + DeserializeOwned + Serialize + std::fmt::Debug,
{
    let object: K = serde_json::from_value(object).expect("an object");
    let created = api.create(&PostParams::default(), &object).await;
    created.expect("created")
}

/// Makes a namespace and waits until pods can be made in it.
pub(crate) async fn namespace(client: &Client, name: &str) {
    use k8s_openapi::api::core::v1::ServiceAccount;
    let all: Api<Namespace> = Api::all(client.clone());
    create(&all, json!({"metadata": {"name": name}})).await;
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), name);
    eventually(&format!("the service account of {name}"), async || {
        let account = accounts.get_opt("default").await?;
        Ok(match account {
            Some(_) => Look::Done(()),
            None => Look::NotYet("it does not exist".to_owned()),
        })
    })
    .await;
}

/// Waits at most a minute; fails the test with the last state seen.
pub(crate) async fn eventually<T>(
    what: &str,
    ask: impl AsyncFn() -> Result<Look<T>, kube::Error>,
) -> T {
    let ask = &ask;
    let deadline = Deadline::within(Duration::from_secs(90));
    let found = wait_until(what, deadline, || ask()).await;
    found.unwrap_or_else(|error| panic!("{error}"))
}

/// Waits until a pod's status fits.
pub(crate) async fn pod(
    pods: &Api<Pod>,
    name: &str,
    what: &str,
    fits: impl Fn(&Pod) -> bool,
) -> Pod {
    eventually(&format!("{name} {what}"), async || {
        let pod = pods.get(name).await?;
        Ok(if fits(&pod) {
            Look::Done(pod)
        } else {
            Look::NotYet(serde_json::to_string(&pod.status).unwrap_or_default())
        })
    })
    .await
}

/// Waits until a pod's object has vanished.
pub(crate) async fn gone(pods: &Api<Pod>, name: &str) {
    eventually(&format!("the end of {name}"), async || {
        Ok(match pods.get_opt(name).await? {
            None => Look::Done(()),
            Some(pod) => Look::NotYet(serde_json::to_string(&pod.status).unwrap_or_default()),
        })
    })
    .await;
}

/// The status of the first container that is none of init.
pub(crate) fn container(pod: &Pod) -> Option<&ContainerStatus> {
    pod.status.as_ref()?.container_statuses.as_ref()?.first()
}

/// Why the first container waits.
pub(crate) fn waiting(pod: &Pod) -> Option<&str> {
    let state: &ContainerState = container(pod)?.state.as_ref()?;
    state.waiting.as_ref()?.reason.as_deref()
}

pub(crate) fn phase(pod: &Pod) -> &str {
    let status = pod.status.as_ref();
    let phase = status.and_then(|status| status.phase.as_deref());
    phase.unwrap_or_default()
}

/// Whether a condition of a pod is `True`.
pub(crate) fn holds(pod: &Pod, kind: &str) -> bool {
    let conditions = pod
        .status
        .iter()
        .flat_map(|s| s.conditions.iter().flatten());
    let mut of_kind = conditions.filter(|condition| condition.type_ == kind);
    of_kind
        .next()
        .is_some_and(|condition| condition.status == "True")
}

/// Waits for an event on an object of this name.
pub(crate) async fn event(client: &Client, namespace: &str, name: &str, reason: &str) -> Event {
    let events: Api<Event> = Api::namespaced(client.clone(), namespace);
    let fields = format!("involvedObject.name={name},reason={reason}");
    eventually(&format!("the event {reason} on {name}"), async || {
        let list = events.list(&ListParams::default().fields(&fields)).await?;
        Ok(match list.items.into_iter().next() {
            Some(event) => Look::Done(event),
            None => Look::NotYet("there is none".to_owned()),
        })
    })
    .await
}
