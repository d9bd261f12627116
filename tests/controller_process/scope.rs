//! What comes into the embedded controller's view and what leaves it, on a real API server: each by
//! the requests it costs.

use std::sync::Arc;

use crate::controller::{Controller, Requests, requests, since, until};
use crate::definitions::{apply, objects};
use crate::proxy::{Proxy, Verb};
use crate::support::World;
use crate::workloads::{
    IMAGE_ONLY, LLAMA, aiboms, complete, create, listed, llama, namespace, opt, settled,
};
use aibom_qual::cluster::client::connect;
use aibom_qual::controller::api::object::{AibomObject, ConfigObject};
use aibom_qual::controller::api::release::{ApiKind, ApiVersion};
use aibom_qual::plane::Plane;
use aibom_qual::plane::event::Silent;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};

const NAMESPACE: &str = "models";
const COUNT: usize = 10;
const ALL: u64 = COUNT as u64;

fn name(index: usize) -> String {
    format!("model-{index}")
}

fn aibom(index: usize) -> String {
    format!("apps-deployment-{}", name(index))
}

struct Scene {
    client: Client,
    proxy: Proxy,
    controller: Controller,
    aiboms: Api<AibomObject>,
}

impl Scene {
    /// What the controller asks until it rests, from before something is done.
    async fn asked(&self, before: &Requests) -> Requests {
        since(before, &self.controller.quiet().await)
    }

    async fn none_left(&self) {
        let look = || async { listed(&self.aiboms).await.len() };
        until("no AIBOM is left", look, |count| *count == 0).await;
    }

    async fn touch(&self, namespace: &str, name: &str) {
        let patch = json!({"metadata": {"annotations": {"touched": "yes"}}});
        self.patch(namespace, name, patch).await;
    }

    async fn patch(&self, namespace: &str, name: &str, patch: Value) {
        let api = Api::<Deployment>::namespaced(self.client.clone(), namespace);
        let parameters = PatchParams::default();
        let patched = api.patch(name, &parameters, &Patch::Strategic(patch)).await;
        patched.expect("it is patched");
    }

    /// Edits the spec of an AIBOM.
    async fn edit(&self, name: &str) {
        let patch = Patch::Merge(json!({"spec": {"bomSpecVersion": "1.5"}}));
        let parameters = PatchParams::default();
        let patched = self.aiboms.patch(name, &parameters, &patch).await;
        patched.expect("it is patched");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_comes_into_view_and_what_leaves_it() {
    let world = World::new();
    let plane = Plane::start(&world.throw_away(), Arc::new(Silent)).await;
    let plane = plane.expect("a plane");
    let client = connect(&plane.kubeconfig()).await.expect("a client");
    apply(&client, "1.3.0").await.expect("they are accepted");
    for name in [NAMESPACE, "other"] {
        namespace(&client, name, false).await;
    }
    for index in 0..COUNT {
        create(&client, NAMESPACE, &llama(&name(index))).await;
    }
    create(&client, "other", &llama("model")).await;
    settled(&client, NAMESPACE).await;
    settled(&client, "other").await;
    let proxy = Proxy::start(client.clone()).await;
    let controller = Controller::start(&world, &proxy.kubeconfig(&world), "1.3.0").await;
    let aiboms = aiboms(&client, ApiVersion::V1Beta1, NAMESPACE);
    let scene = Scene {
        client,
        proxy,
        controller,
        aiboms,
    };

    by_label(&scene).await;
    by_hand(&scene).await;
    by_selector(&scene).await;
    scene.controller.stop();
    plane.stop().await.expect("the plane stops");
}

/// New AIBOMs, which come back as events that may merge with what is queued.
fn assert_made(asked: &Requests, made: u64) {
    assert_eq!(asked["POST 201"], made, "{asked:?}");
    let written = asked["PUT 200"];
    assert!((made..=2 * made).contains(&written), "{asked:?}");
    assert_eq!(asked.len(), 2, "{asked:?}");
}

/// A namespace that opts in, out, and in again.
async fn by_label(scene: &Scene) {
    let before = scene.controller.quiet().await;
    // Nobody has opted in: a start only reads.
    assert_eq!(before, requests([("GET 200", 10)]));
    opt(&scene.client, NAMESPACE, true).await;
    complete(&scene.aiboms, COUNT, LLAMA).await;
    assert_made(&scene.asked(&before).await, ALL);

    let before = scene.controller.requests().await;
    opt(&scene.client, NAMESPACE, false).await;
    scene.none_left().await;
    let asked = scene.asked(&before).await;
    assert_eq!(asked, requests([("DELETE 200", ALL)]));

    let before = scene.controller.requests().await;
    opt(&scene.client, NAMESPACE, true).await;
    complete(&scene.aiboms, COUNT, LLAMA).await;
    assert_made(&scene.asked(&before).await, ALL);
}

/// Deletions and edits by somebody else.
async fn by_hand(scene: &Scene) {
    let before = scene.controller.requests().await;
    let gone = scene.aiboms.get(&aibom(0)).await.expect("it is there");
    let parameters = DeleteParams::default();
    let deleted = scene.aiboms.delete(&aibom(0), &parameters).await;
    deleted.expect("it is deleted");
    let made_anew = |aiboms: &Vec<AibomObject>| {
        let anew = |aibom: &&AibomObject| aibom.metadata.name == gone.metadata.name;
        let anew = aiboms.iter().find(anew);
        anew.is_some_and(|aibom| {
            aibom.metadata.uid != gone.metadata.uid && aibom.status.input_hash == LLAMA
        })
    };
    until("it is back", || listed(&scene.aiboms), made_anew).await;
    assert_made(&scene.asked(&before).await, 1);

    // The garbage collector takes what belongs to a workload.
    let before = scene.controller.requests().await;
    let api = Api::<Deployment>::namespaced(scene.client.clone(), NAMESPACE);
    let deleted = api.delete(&name(1), &parameters).await;
    deleted.expect("it is deleted");
    complete(&scene.aiboms, COUNT - 1, LLAMA).await;
    assert_eq!(scene.asked(&before).await, Requests::new());

    // An edited spec stays as it is until something is built.
    let before = scene.controller.requests().await;
    scene.edit(&aibom(2)).await;
    let asked = scene.asked(&before).await;
    assert_eq!(asked, requests([("PUT 200", 1)]));
    let edited = scene.aiboms.get(&aibom(2)).await.expect("it is there");
    assert_eq!(edited.spec.bom_spec_version, "1.5");
    let mark = scene.proxy.mark();
    let args = json!([{"name": "vllm", "args": null}]);
    let spec = json!({"template": {"spec": {"containers": args}}});
    scene
        .patch(NAMESPACE, &name(2), json!({"spec": spec}))
        .await;
    let look = || async { scene.aiboms.get(&aibom(2)).await.expect("it is there") };
    let rebuilt = |aibom: &AibomObject| aibom.status.input_hash == IMAGE_ONLY;
    let rebuilt = until("it is built anew", look, rebuilt).await;
    assert_eq!(rebuilt.spec.bom_spec_version, "1.6");
    scene.controller.quiet().await;
    let writes = scene.proxy.since(mark).into_iter();
    let writes: Vec<_> = writes.map(|asked| asked.verb).collect();
    // First the object, then its status, and from then on only the status.
    let (first, rest) = writes.split_first().expect("a write");
    assert_eq!(*first, Verb::Update);
    assert!(
        rest.iter().all(|verb| *verb == Verb::UpdateStatus),
        "{rest:?}"
    );
}

/// A selector takes the label's place, but moves no workload before its next event.
async fn by_selector(scene: &Scene) {
    let left = ALL - 1;
    let configs: Api<ConfigObject> = objects(
        &scene.client,
        ApiKind::ControllerConfig,
        ApiVersion::V1Beta1,
    );
    let before = scene.controller.requests().await;
    let object = json!({
        "apiVersion": "aibom.k8saibom.dev/v1beta1",
        "kind": "AIBOMControllerConfig",
        "metadata": {"name": "default"},
        "spec": {"discovery": {"namespaceSelector": {"matchLabels": {"team": "ml"}}}},
    });
    let object: ConfigObject = serde_json::from_value(object).expect("a configuration");
    let created = configs.create(&PostParams::default(), &object).await;
    created.expect("it is created");
    let look = || async { configs.get("default").await.expect("it is there") };
    let is_seen = |config: &ConfigObject| config.status.observed_generation == 1;
    until("it is loaded", look, is_seen).await;
    // Its status, and an event about it.
    let asked = scene.asked(&before).await;
    assert_eq!(asked, requests([("POST 201", 1), ("PUT 200", 1)]));
    assert_eq!(listed(&scene.aiboms).await.len() as u64, left);

    let before = scene.controller.requests().await;
    scene.touch(NAMESPACE, &name(3)).await;
    let look = || async { listed(&scene.aiboms).await.len() as u64 };
    until("its AIBOM goes", look, |count| *count == left - 1).await;
    let asked = scene.asked(&before).await;
    assert_eq!(asked, requests([("DELETE 200", 1)]));

    let before = scene.controller.requests().await;
    let patch = Patch::Merge(json!({"metadata": {"labels": {"team": "ml"}}}));
    let namespaces = Api::<Namespace>::all(scene.client.clone());
    let parameters = PatchParams::default();
    let labelled = namespaces.patch(NAMESPACE, &parameters, &patch).await;
    labelled.expect("it is labelled");
    let look = || async { listed(&scene.aiboms).await.len() as u64 };
    until("its AIBOM is back", look, |count| *count == left).await;
    let asked = scene.asked(&before).await;
    assert_eq!(asked["POST 201"], 1);
    // Those that are there are only refreshed.
    assert!((left..=left + 1).contains(&asked["PUT 200"]), "{asked:?}");
    assert_eq!(asked.len(), 2, "{asked:?}");

    // The empty selector is one of every namespace.
    let patch = Patch::Merge(json!({"spec": {"discovery": {"namespaceSelector": {
        "matchLabels": null,
    }}}}));
    let patched = configs.patch("default", &parameters, &patch).await;
    let generation = patched.expect("it is patched").metadata.generation;
    let look = || async { configs.get("default").await.expect("it is there") };
    let is_seen = |config: &ConfigObject| Some(config.status.observed_generation) == generation;
    until("it is loaded", look, is_seen).await;
    let before = scene.controller.quiet().await;
    scene.touch("other", "model").await;
    let other = aiboms(&scene.client, ApiVersion::V1Beta1, "other");
    complete(&other, 1, LLAMA).await;
    assert_made(&scene.asked(&before).await, 1);
}
