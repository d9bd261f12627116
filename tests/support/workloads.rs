//! Workloads on a real API server, and the AIBOMs that come of them.

#![allow(dead_code, reason = "each test binary uses a part of this")]

use std::collections::BTreeMap;
use std::fmt::Debug;

use aibom_qual::controller::api::object::{AibomObject, resource};
use aibom_qual::controller::api::release::{ApiKind, ApiVersion};
use aibom_qual::controller::sha256;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::controller::until;

/// The label by which a namespace opts in.
pub(crate) const OPT_IN: &str = "aibom.k8saibom.dev/enabled";
/// The input hash of [`llama`], which a v1.3.0 process computed.
pub(crate) const LLAMA: &str = "32834bf9730134a2a9e47ce9e822d3e2fe747a9bcf906282b8406a55a1cdb40d";
/// The input hash of [`llama`] without arguments, which a v1.3.0 process computed.
pub(crate) const IMAGE_ONLY: &str =
    "f28b787ce84d70d8f37bb5a7e57898eb5a2add1fb8975e6e8acb17784535dfd4";

/// The arguments of [`llama`].
pub(crate) fn llama_args() -> Value {
    json!([
        "--model",
        "meta-llama/Llama-3.1-8B-Instruct",
        "--port",
        "8000"
    ])
}

/// A Deployment that serves a model and has no replicas.
pub(crate) fn llama(name: &str) -> Deployment {
    let container = json!({
        "name": "vllm",
        "image": "vllm/vllm-openai:v0.6.3",
        "args": llama_args(),
    });
    deployment(name, 0, json!({"containers": [container]}))
}

/// A Deployment of such pods, which are labelled with its name.
pub(crate) fn deployment(name: &str, replicas: u8, pod: Value) -> Deployment {
    let labels = json!({"app": name});
    let object = json!({
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    });
    serde_json::from_value(object).expect("a deployment")
}

pub(crate) async fn create<K>(client: &Client, namespace: &str, object: &K) -> K
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + Debug
        + DeserializeOwned
        + Serialize,
{
    let api = Api::<K>::namespaced(client.clone(), namespace);
    let created = api.create(&PostParams::default(), object).await;
    created.expect("it is created")
}

/// Makes a namespace, which opts in or not.
pub(crate) async fn namespace(client: &Client, name: &str, opted_in: bool) {
    let value = if opted_in { "true" } else { "false" };
    let object = json!({"metadata": {"name": name, "labels": {OPT_IN: value}}});
    let object = serde_json::from_value(object).expect("a namespace");
    let api = Api::<Namespace>::all(client.clone());
    let created = api.create(&PostParams::default(), &object).await;
    created.expect("the namespace");
}

/// Lets a namespace opt in or out.
pub(crate) async fn opt(client: &Client, name: &str, opted_in: bool) {
    let value = if opted_in { "true" } else { "false" };
    let patch = Patch::Merge(json!({"metadata": {"labels": {OPT_IN: value}}}));
    let api = Api::<Namespace>::all(client.clone());
    let patched = api.patch(name, &PatchParams::default(), &patch).await;
    patched.expect("it is patched");
}

/// Waits until the cluster's own controllers have said all they have to say about its Deployments.
pub(crate) async fn settled(client: &Client, namespace: &str) {
    let api = Api::<Deployment>::namespaced(client.clone(), namespace);
    let look = || async {
        api.list(&ListParams::default())
            .await
            .expect("a list")
            .items
    };
    let is_settled = |deployment: &Deployment| {
        let status = deployment.status.as_ref();
        status.and_then(|status| status.observed_generation) == deployment.metadata.generation
    };
    let all = |deployments: &Vec<Deployment>| deployments.iter().all(is_settled);
    until("the deployments are observed", look, all).await;
}

pub(crate) fn aiboms(client: &Client, version: ApiVersion, namespace: &str) -> Api<AibomObject> {
    let kind = resource(ApiKind::Aibom, version);
    Api::namespaced_with(client.clone(), namespace, &kind)
}

pub(crate) async fn listed(api: &Api<AibomObject>) -> Vec<AibomObject> {
    api.list(&ListParams::default())
        .await
        .expect("a list")
        .items
}

/// Something of every AIBOM, by the name of its workload.
pub(crate) fn of_each<T>(
    aiboms: &[AibomObject],
    what: impl Fn(&AibomObject) -> T,
) -> BTreeMap<String, T> {
    let named = aiboms
        .iter()
        .map(|aibom| (aibom.spec.workload_ref.name.clone(), what(aibom)));
    let map: BTreeMap<_, _> = named.collect();
    assert_eq!(map.len(), aiboms.len(), "workloads with two AIBOMs");
    map
}

/// Waits until there is one AIBOM for each of so many workloads, all with this input hash.
pub(crate) async fn complete(
    api: &Api<AibomObject>,
    count: usize,
    input_hash: &str,
) -> Vec<AibomObject> {
    let have = |aiboms: &Vec<AibomObject>| {
        aiboms.len() == count
            && aiboms
                .iter()
                .all(|aibom| aibom.status.input_hash == input_hash)
    };
    let what = format!("{count} AIBOMs of {input_hash}");
    let look = || async { Brief(listed(api).await) };
    until(&what, look, |brief| have(&brief.0)).await.0
}

/// What a failed wait says of AIBOMs.
struct Brief(Vec<AibomObject>);

impl Debug for Brief {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let hashes = self.0.iter().map(|aibom| {
            let name = &aibom.spec.workload_ref.name;
            format!("{name}: {}", aibom.status.input_hash)
        });
        f.debug_list().entries(hashes).finish()
    }
}

/// The document, whose hash and size have to be those that the status tells.
pub(crate) fn document(aibom: &AibomObject) -> Value {
    let status = &aibom.status;
    let placed = status.bom_document.as_ref().expect("a document");
    let bytes = &placed.inline.as_ref().expect("an inline one").data.0;
    assert_eq!(status.bom_hash, sha256::hex(bytes));
    assert_eq!(status.bom_hash, placed.sha256);
    assert_eq!(usize::try_from(placed.size), Ok(bytes.len()));
    serde_json::from_slice(bytes).expect("JSON")
}

/// Status and reason of a condition.
pub(crate) fn condition(aibom: &AibomObject, type_: &str) -> (String, String) {
    let conditions = &aibom.status.conditions;
    let found = conditions.iter().find(|condition| condition.type_ == type_);
    let found = found.expect("the condition");
    (format!("{:?}", found.status), found.reason.clone())
}
