//! The embedded controller with the rights of its chart's ClusterRole on a real API server, and
//! without one of them: status writes are denied, told of, and made up for where that is possible.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::controller::{Controller, Scrape, requests, until};
use crate::definitions::apply;
use crate::helm::{Helm, both, find};
use crate::support::World;
use crate::workloads::{
    IMAGE_ONLY, LLAMA, aiboms, complete, condition, create, listed, llama, namespace,
};
use aibom_qual::cluster::client::connect;
use aibom_qual::controller::api::object::AibomObject;
use aibom_qual::controller::api::release::ApiVersion;
use aibom_qual::plane::Plane;
use aibom_qual::plane::event::Silent;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::authorization::v1::SubjectAccessReview;
use k8s_openapi::api::core::v1::{Event, Pod, ServiceAccount};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};

const SYSTEM: &str = "k8s-aibom-system";
const ACCOUNT: &str = "k8s-aibom";
const POD: &str = "k8s-aibom-7d9f";
const KNOWN: &str = "known";
const LATE: &str = "late";
const DENIED: &str = "aiboms/status";

struct Cluster {
    client: Client,
    helm: Helm,
}

impl Cluster {
    /// Applies an object of a chart on the server's side.
    async fn apply<K>(api: Api<K>, object: &Value)
    where
        K: Clone + serde::de::DeserializeOwned + std::fmt::Debug,
    {
        let name = object["metadata"]["name"].as_str().expect("a name");
        let parameters = PatchParams::apply("test").force();
        let applied = api.patch(name, &parameters, &Patch::Apply(object)).await;
        applied.expect("it is applied");
    }

    /// The account and its binding, as the chart has them.
    async fn account(&self) {
        let objects = self.helm.render("1.3.0", &[]);
        let account = find(&objects, "ServiceAccount k8s-aibom-system/k8s-aibom");
        Self::apply(
            Api::<ServiceAccount>::namespaced(self.client.clone(), SYSTEM),
            account,
        )
        .await;
        let binding = find(&objects, "ClusterRoleBinding k8s-aibom");
        Self::apply(Api::<ClusterRoleBinding>::all(self.client.clone()), binding).await;
    }

    /// Grants what a chart's ClusterRole does, or all but the status of AIBOMs, and waits until the
    /// server has heard of it.
    async fn grant(&self, chart: &str, with_status: bool) {
        let objects = self.helm.render(chart, &[]);
        let mut role = find(&objects, "ClusterRole k8s-aibom").clone();
        if !with_status {
            let rules = role["rules"].as_array_mut().expect("rules");
            let all = rules.len();
            rules.retain(|rule| rule["resources"] != json!([DENIED]));
            assert_eq!(rules.len(), all - 1, "the rule for {DENIED}");
        }
        Self::apply(Api::<ClusterRole>::all(self.client.clone()), &role).await;
        let review: SubjectAccessReview = serde_json::from_value(json!({
            "spec": {
                "user": format!("system:serviceaccount:{SYSTEM}:{ACCOUNT}"),
                "resourceAttributes": {
                    "group": "aibom.k8saibom.dev",
                    "resource": "aiboms",
                    "subresource": "status",
                    "namespace": KNOWN,
                    "verb": "update",
                },
            },
        }))
        .expect("a review");
        let api = Api::<SubjectAccessReview>::all(self.client.clone());
        let ask = || async {
            let answer = api.create(&PostParams::default(), &review).await;
            answer
                .expect("an answer")
                .status
                .expect("a verdict")
                .allowed
        };
        until("the server knows", ask, |allowed| *allowed == with_status).await;
    }

    /// A kubeconfig with a token of the account.
    async fn kubeconfig(&self, world: &World, administrator: &Path) -> PathBuf {
        let api = Api::<ServiceAccount>::namespaced(self.client.clone(), SYSTEM);
        let request = serde_json::from_value(json!({"spec": {"audiences": []}}));
        let request = request.expect("a request");
        let parameters = PostParams::default();
        let answer = api
            .create_token_request(ACCOUNT, &parameters, &request)
            .await;
        let token = answer.expect("a token").status.expect("one").token;
        let text = std::fs::read_to_string(administrator).expect("the kubeconfig");
        let mut file: Value = serde_yaml::from_str(&text).expect("YAML");
        file["users"][0]["user"] = json!({"token": token});
        let path = world.path("account.kubeconfig");
        std::fs::write(&path, file.to_string()).expect("it is written");
        path
    }

    /// The pod that the controller believes to run in.
    async fn pod(&self) {
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {"name": POD},
            "spec": {
                "serviceAccountName": ACCOUNT,
                "containers": [{"name": "manager", "image": "manager"}],
            },
        }))
        .expect("a pod");
        create(&self.client, SYSTEM, &pod).await;
    }

    fn aiboms(&self, namespace: &str) -> Api<AibomObject> {
        aiboms(&self.client, ApiVersion::V1Beta1, namespace)
    }

    /// Everything told about an object of this kind.
    async fn events(&self, namespace: &str, kind: &str) -> Vec<Event> {
        let api = namespaced::<Event>(&self.client, namespace);
        let events = api.list(&ListParams::default()).await.expect("a list");
        let mut events = events.items;
        events.retain(|event| event.involved_object.kind.as_deref() == Some(kind));
        events
    }
}

fn namespaced<K>(client: &Client, namespace: &str) -> Api<K>
where
    K: kube::Resource<DynamicType = (), Scope = NamespaceResourceScope>,
{
    Api::namespaced(client.clone(), namespace)
}

fn failures(scrape: &Scrape, namespace: &str) -> u64 {
    let labels = [("namespace", namespace), ("kind", "Deployment")];
    scrape.sum("aibom_status_persist_failures_total", &labels)
}

#[tokio::test(flavor = "multi_thread")]
async fn denied_status_writes_are_told_and_made_up_for() {
    let world = World::new();
    let plane = Plane::start(&world.throw_away(), Arc::new(Silent)).await;
    let plane = plane.expect("a plane");
    let client = connect(&plane.kubeconfig()).await.expect("a client");
    apply(&client, "1.6.0").await.expect("they are accepted");
    let [_, helm] = both(&world).await;
    let cluster = Cluster { client, helm };
    namespace(&cluster.client, SYSTEM, false).await;
    namespace(&cluster.client, KNOWN, true).await;
    namespace(&cluster.client, LATE, true).await;
    cluster.account().await;
    cluster.grant("1.3.0", true).await;
    cluster.pod().await;
    let kubeconfig = cluster.kubeconfig(&world, &plane.kubeconfig()).await;

    let variables = [("POD_NAME", POD), ("POD_NAMESPACE", SYSTEM)];
    let controller = Controller::start_as(&world, &kubeconfig, "1.3.0", &variables).await;
    a_start_is_told_to_the_pod(&cluster, &controller).await;
    an_edit_waits_for_the_right(&cluster, &controller).await;
    controller.stop();
    a_new_aibom_stays_without_status(&cluster, &world, &kubeconfig).await;
    plane.stop().await.expect("the plane stops");
}

async fn a_start_is_told_to_the_pod(cluster: &Cluster, controller: &Controller) {
    let asked = controller.quiet().await;
    assert_eq!(asked, requests([("GET 200", 10), ("POST 201", 2)]));
    let events = cluster.events(SYSTEM, "Pod").await;
    let ours = events.iter().filter(|event| {
        let component = event
            .source
            .as_ref()
            .and_then(|source| source.component.as_deref());
        component.is_some_and(|name| name.starts_with("k8s-aibom"))
    });
    let mut told: Vec<_> = ours
        .map(|event| {
            let about = &event.involved_object;
            assert_eq!(about.name.as_deref(), Some(POD));
            assert_eq!(about.namespace.as_deref(), Some(SYSTEM));
            assert_eq!(event.count, Some(1));
            (
                event.type_.clone().unwrap_or_default(),
                event.reason.clone().unwrap_or_default(),
            )
        })
        .collect();
    told.sort();
    let wanted = [
        ("Normal", "ControllerStarting"),
        ("Warning", "AIBOMControllerConfigMissing"),
    ];
    assert_eq!(told, wanted.map(|(a, b)| (a.to_owned(), b.to_owned())));
}

/// The AIBOM of a workload that is edited meanwhile stays as it was, is told of under a growing count,
/// and follows by itself once it may.
async fn an_edit_waits_for_the_right(cluster: &Cluster, controller: &Controller) {
    create(&cluster.client, KNOWN, &llama("model")).await;
    let api = cluster.aiboms(KNOWN);
    complete(&api, 1, LLAMA).await;
    controller.quiet().await;
    cluster.grant("1.3.0", false).await;

    let args = json!([{"name": "vllm", "args": null}]);
    let patch = Patch::Strategic(json!({"spec": {"template": {"spec": {"containers": args}}}}));
    let deployments = namespaced::<Deployment>(&cluster.client, KNOWN);
    let parameters = PatchParams::default();
    let edited = deployments.patch("model", &parameters, &patch).await;
    let generation = edited.expect("it is edited").metadata.generation;
    assert_eq!(generation, Some(2));
    let told = || cluster.events(KNOWN, "AIBOM");
    let count =
        |events: &Vec<Event>| -> i32 { events.iter().filter_map(|event| event.count).sum() };
    let events = until("it is told again", told, |events| count(events) >= 6).await;
    assert_eq!(events.len(), 1, "{events:?}");
    let event = &events[0];
    assert_eq!(event.type_.as_deref(), Some("Warning"));
    assert_eq!(event.reason.as_deref(), Some("AIBOMStatusPersistFailed"));
    assert_eq!(
        event.involved_object.name.as_deref(),
        Some("apps-deployment-model")
    );
    let message = event.message.as_deref().unwrap_or_default();
    assert!(
        message.starts_with("failed to persist AIBOM status: "),
        "{message}"
    );
    assert!(message.contains("forbidden"), "{message}");
    let component = event
        .source
        .as_ref()
        .and_then(|source| source.component.as_deref());
    assert_eq!(component, Some("k8s-aibom"));
    let [aibom] = &listed(&api).await[..] else {
        panic!("one AIBOM");
    };
    let ready = condition(aibom, "Ready");
    assert_eq!(ready, ("True".to_owned(), "BOMGenerated".to_owned()));
    assert_eq!(aibom.status.input_hash, LLAMA);
    assert_eq!(aibom.status.observed_generation, 1);

    // A new workload meanwhile: its AIBOM is made, its status is tried once.
    create(&cluster.client, LATE, &llama("model")).await;
    let late = cluster.aiboms(LATE);
    let look = || async { listed(&late).await.len() };
    until("it has an AIBOM", look, |count| *count == 1).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(failures(&controller.scrape().await, LATE), 1);

    cluster.grant("1.3.0", true).await;
    let [aibom] = &complete(&api, 1, IMAGE_ONLY).await[..] else {
        panic!("one AIBOM");
    };
    assert_eq!(aibom.status.observed_generation, 2);
    let asked = controller.quiet().await;
    let scrape = controller.scrape().await;
    eprintln!("denied: {asked:?}");
    let failed = failures(&scrape, KNOWN);
    assert_eq!(asked["PUT 403"], failed + 1);
    let counted = count(&cluster.events(KNOWN, "AIBOM").await);
    assert_eq!(u64::try_from(counted), Ok(failed));
    assert_eq!(count(&cluster.events(LATE, "AIBOM").await), 1);
    assert_without_status(&late).await;
}

async fn assert_without_status(api: &Api<AibomObject>) {
    let [aibom] = &listed(api).await[..] else {
        panic!("one AIBOM");
    };
    assert_eq!(aibom.status, Default::default());
}

/// The right is back, but up to 1.5.1 nobody looks at that AIBOM again, over restarts as well; 1.6.0
/// does. Deleting it helps in every release.
async fn a_new_aibom_stays_without_status(cluster: &Cluster, world: &World, kubeconfig: &Path) {
    let late = cluster.aiboms(LATE);
    for (profile, reads) in [("1.3.0", 10), ("1.5.1", 11)] {
        let controller = Controller::start(world, kubeconfig, profile).await;
        let refreshed = |asked: &crate::controller::Requests| asked.contains_key("PUT 200");
        until("one is refreshed", || controller.requests(), refreshed).await;
        // Nothing but the other AIBOM is written, and without a pod nothing is told.
        let asked = controller.quiet().await;
        let wanted = requests([("GET 200", reads), ("PUT 200", 1)]);
        assert_eq!(asked, wanted, "{profile}");
        assert_without_status(&late).await;
        controller.stop();
    }

    cluster.grant("1.6.0", true).await;
    let controller = Controller::start(world, kubeconfig, "1.6.0").await;
    let looks = || async {
        let labels = [("controller", "deployment"), ("result", "requeue_after")];
        let scrape = controller.scrape().await;
        scrape.sum("controller_runtime_reconcile_total", &labels)
    };
    until("it is looked at again", looks, |looks| *looks >= 2).await;
    let name = "apps-deployment-model";
    let deleted = late.delete(name, &DeleteParams::default()).await;
    deleted.expect("it is deleted");
    complete(&late, 1, LLAMA).await;
    controller.stop();
}
