//! Third-party kinds, roll-up and the allow-list of the embedded controller against a real API server.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::controller::{Controller, is_ready, until};
use crate::definitions::{apply, definitions, soon};
use crate::support::World;
use aibom_qual::cluster::client::connect;
use aibom_qual::cluster::crd::established;
use aibom_qual::controller::api::object::{AibomObject, ConfigObject, resource};
use aibom_qual::controller::api::release::{ApiKind, ApiVersion};
use aibom_qual::plane::Plane;
use aibom_qual::plane::event::Silent;
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::core::v1::{Event, Namespace};
use kube::api::{DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::ApiResource;
use kube::{Api, Client};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

const NAMESPACE: &str = "models";
const DEPLOYMENT: &str = "apps-deployment-plain";
const CRON_JOB: &str = "batch-cronjob-nightly";
const JOB: &str = "batch-job-nightly-1";
const STATEFUL_SET: &str = "apps-statefulset-ring-0";
const LEADER_WORKER_SET: &str = "leaderworkerset-x-k8s-io-leaderworkerset-ring";
const INFERENCE_SERVICE: &str = "serving-kserve-io-inferenceservice-llama";

/// What the test looks at.
struct Cluster {
    client: Client,
    aiboms: Api<AibomObject>,
    configs: Api<ConfigObject>,
}

impl Cluster {
    /// The definitions of 1.6.0 and of two third-party kinds, and a namespace that opted in.
    async fn prepare(client: Client) -> Self {
        apply(&client, "1.6.0").await.expect("they are accepted");
        for plural in ["leaderworkersets", "inferenceservices"] {
            define(&client, plural).await;
        }
        let labels = json!({"aibom.k8saibom.dev/enabled": "true"});
        let namespace = json!({"metadata": {"name": NAMESPACE, "labels": labels}});
        create::<Namespace>(&Api::all(client.clone()), namespace).await;
        let [aiboms, configs] = [ApiKind::Aibom, ApiKind::ControllerConfig]
            .map(|kind| resource(kind, ApiVersion::V1Beta1));
        Self {
            aiboms: Api::namespaced_with(client.clone(), NAMESPACE, &aiboms),
            configs: Api::all_with(client.clone(), &configs),
            client,
        }
    }

    /// Creates an object of a third-party kind and returns its UID.
    async fn create_custom(&self, kind: &ApiResource, object: Value) -> String {
        let api = Api::<DynamicObject>::namespaced_with(self.client.clone(), NAMESPACE, kind);
        create(&api, object).await.metadata.uid.expect("a UID")
    }

    async fn listed(&self) -> Vec<AibomObject> {
        let list = self.aiboms.list(&ListParams::default()).await;
        list.expect("a list").items
    }

    /// Names of the AIBOMs that have their document.
    async fn complete(&self) -> BTreeSet<String> {
        let aiboms = self.listed().await;
        let complete = aiboms
            .into_iter()
            .filter(|aibom| !aibom.status.input_hash.is_empty());
        complete.filter_map(|aibom| aibom.metadata.name).collect()
    }

    /// Waits until exactly these AIBOMs are there and complete.
    async fn reported(&self, what: &str, names: &[&str]) {
        let wanted: BTreeSet<_> = names.iter().map(|name| (*name).to_owned()).collect();
        until(what, || self.complete(), |found| *found == wanted).await;
    }

    /// Hashes by name.
    async fn hashes(&self) -> BTreeMap<String, [String; 2]> {
        let aiboms = self.listed().await.into_iter();
        let hashes = aiboms.map(|aibom| {
            let status = aibom.status;
            let name = aibom.metadata.name.expect("a name");
            (name, [status.input_hash, status.bom_hash])
        });
        hashes.collect()
    }

    /// The workloads that a document says are reported with it.
    async fn owned(&self, name: &str) -> Vec<String> {
        let aibom = self.aiboms.get(name).await.expect("it is there");
        let document = aibom.status.bom_document.expect("a document");
        let inline = document.inline.expect("it is inside");
        let document: Value = serde_json::from_slice(&inline.data.0).expect("JSON");
        let properties = document["metadata"]["properties"].as_array();
        let owned = properties.expect("properties").iter().filter(|property| {
            let name = property["name"].as_str().expect("a name");
            name.starts_with("aibom.rollup.owned.")
        });
        owned
            .map(|property| property["value"].as_str().expect("a value").to_owned())
            .collect()
    }

    /// Merges this into the configuration's spec.
    async fn configure(&self, spec: Value) {
        let patch = Patch::Merge(json!({"spec": spec}));
        let parameters = PatchParams::default();
        let changed = self.configs.patch("default", &parameters, &patch).await;
        changed.expect("it is changed");
    }

    /// Status, reason and message of a condition of the configuration, once the reason is this.
    async fn condition(&self, type_: &str, reason: &str) -> [String; 3] {
        let look = || async {
            let config = self.configs.get("default").await.expect("it is there");
            let conditions = config.status.conditions.into_iter();
            let mut conditions = conditions.filter(|condition| condition.type_ == type_);
            conditions.next().map(|condition| {
                let status = format!("{:?}", condition.status);
                [status, condition.reason, condition.message]
            })
        };
        let fits = |found: &Option<[String; 3]>| found.as_ref().is_some_and(|c| c[1] == reason);
        let found = until(&format!("{type_} is {reason}"), look, fits).await;
        found.expect("a condition")
    }

    /// Makes the conversion of LeaderWorkerSets a webhook that nobody answers, or removes it, and
    /// waits until that shows.
    async fn convert(&self, is_broken: bool) {
        let conversion = if is_broken {
            json!({"strategy": "Webhook", "webhook": {
                "clientConfig": {"url": "https://127.0.0.1:1/convert"},
                "conversionReviewVersions": ["v1"],
            }})
        } else {
            json!({"strategy": "None", "webhook": null})
        };
        let patch = Patch::Merge(json!({"spec": {"conversion": conversion}}));
        let api = definitions(&self.client);
        let name = "leaderworkersets.leaderworkerset.x-k8s.io";
        let patched = api.patch(name, &PatchParams::default(), &patch).await;
        patched.expect("it is accepted");
        let api = Api::<DynamicObject>::all_with(self.client.clone(), &leader_worker_sets());
        let look = || async { api.list(&ListParams::default().limit(1)).await.is_err() };
        until("the conversion changes", look, |fails| *fails == is_broken).await;
    }

    /// Reasons of the events about the configuration.
    async fn told(&self) -> BTreeSet<String> {
        let events = Api::<Event>::namespaced(self.client.clone(), "default");
        let events = events.list(&ListParams::default()).await.expect("a list");
        let about = events
            .items
            .into_iter()
            .filter(|event| event.involved_object.kind.as_deref() == Some("AIBOMControllerConfig"));
        about.filter_map(|event| event.reason).collect()
    }
}

async fn define(client: &Client, plural: &str) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/definitions");
    let text = std::fs::read_to_string(folder.join(format!("{plural}.yaml"))).expect("the file");
    let object: Value = serde_yaml::from_str(&text).expect("YAML");
    let created = create(&definitions(client), object).await;
    let name = created.metadata.name.expect("a name");
    established(client, &name, soon()).await.expect("it is");
}

async fn create<K>(api: &Api<K>, object: Value) -> K
where
    K: Clone + std::fmt::Debug + Serialize + DeserializeOwned,
{
    let object: K = serde_json::from_value(object).expect("an object");
    let created = api.create(&PostParams::default(), &object).await;
    created.expect("it is created")
}

fn leader_worker_sets() -> ApiResource {
    custom("leaderworkerset.x-k8s.io", "v1", "LeaderWorkerSet")
}

fn custom(group: &str, version: &str, kind: &str) -> ApiResource {
    ApiResource {
        group: group.to_owned(),
        version: version.to_owned(),
        api_version: format!("{group}/{version}"),
        kind: kind.to_owned(),
        plural: format!("{}s", kind.to_lowercase()),
    }
}

fn pods(image: &str) -> Value {
    json!({
        "metadata": {"labels": {"app": "a"}},
        "spec": {"restartPolicy": "Always", "containers": [{"name": "main", "image": image}]},
    })
}

fn batch() -> Value {
    let mut template = pods("pytorch/pytorch:2.4.0");
    template["spec"]["restartPolicy"] = json!("Never");
    json!({"suspend": true, "template": template})
}

fn owner(api_version: &str, kind: &str, name: &str, uid: &str) -> Value {
    json!([{
        "apiVersion": api_version, "kind": kind, "name": name, "uid": uid, "controller": true,
    }])
}

/// One workload of each sort: alone, owned by a CronJob, owned by a LeaderWorkerSet, and KServe's.
async fn workloads(cluster: &Cluster) {
    let client = &cluster.client;
    let served = json!({
        "replicas": 0,
        "selector": {"matchLabels": {"app": "a"}},
        "template": pods("vllm/vllm-openai:v0.6.3"),
    });
    let plain = json!({"metadata": {"name": "plain"}, "spec": served});
    create::<Deployment>(&Api::namespaced(client.clone(), NAMESPACE), plain).await;

    let nightly = json!({"metadata": {"name": "nightly"}, "spec": {
        "schedule": "0 0 1 1 *", "suspend": true, "jobTemplate": {"spec": batch()},
    }});
    let nightly = create::<CronJob>(&Api::namespaced(client.clone(), NAMESPACE), nightly).await;
    let uid = nightly.metadata.uid.expect("a UID");
    let owners = owner("batch/v1", "CronJob", "nightly", &uid);
    let job =
        json!({"metadata": {"name": "nightly-1", "ownerReferences": owners}, "spec": batch()});
    create::<Job>(&Api::namespaced(client.clone(), NAMESPACE), job).await;

    let ring = json!({
        "apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet",
        "metadata": {"name": "ring"},
        "spec": {"leaderWorkerTemplate": {"workerTemplate": pods("vllm/vllm-openai:v0.6.3")}},
    });
    let uid = cluster.create_custom(&leader_worker_sets(), ring).await;
    let owners = owner(
        "leaderworkerset.x-k8s.io/v1",
        "LeaderWorkerSet",
        "ring",
        &uid,
    );
    let mut served = served;
    served["serviceName"] = json!("ring");
    let set = json!({"metadata": {"name": "ring-0", "ownerReferences": owners}, "spec": served});
    create::<StatefulSet>(&Api::namespaced(client.clone(), NAMESPACE), set).await;

    let llama = json!({
        "apiVersion": "serving.kserve.io/v1beta1", "kind": "InferenceService",
        "metadata": {"name": "llama"},
        "spec": {"predictor": {"model": {
            "modelFormat": {"name": "vllm"}, "storageUri": "hf://meta-llama/Llama-3.1-8B",
        }}},
    });
    let kind = custom("serving.kserve.io", "v1beta1", "InferenceService");
    cluster.create_custom(&kind, llama).await;
}

/// Up to 1.5.1 every workload stands for itself, InferenceServices are the only third-party kind, and
/// each look at one of them is a request.
async fn before_1_6(world: &World, plane: &Plane, cluster: &Cluster) {
    let each = [DEPLOYMENT, JOB, STATEFUL_SET, INFERENCE_SERVICE];
    let controller = Controller::strict(world, &plane.kubeconfig(), "1.3.0");
    until("it is ready", || controller.ready(), is_ready).await;
    cluster.reported("1.3.0 reports each", &each).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let looks = controller.sum_of("controller_runtime_reconcile_total", "inferenceservice");
    let looks = looks.await.expect("the controller of InferenceServices");
    let requests = controller.methods().await;
    eprintln!("1.3.0 with {looks} looks at an InferenceService: {requests:?}");
    assert!(looks > 0);
    assert_eq!(requests["GET"], 12 + looks);
    controller.stop();

    let controller = Controller::strict(world, &plane.kubeconfig(), "1.5.1");
    until("it is ready", || controller.ready(), is_ready).await;
    let refreshed = |requests: &BTreeMap<String, u64>| requests.get("PUT") >= Some(&4);
    until("all are refreshed", || controller.methods(), refreshed).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    cluster.reported("1.5.1 reports the same", &each).await;
    controller.stop();
}

/// A definition that cannot be served is told and stops nothing else; once it can, it is noticed.
async fn broken_definition(controller: &Controller, cluster: &Cluster) {
    let [status, _, message] = cluster
        .condition("Degraded", "ThirdPartyWatchUnhealthy")
        .await;
    eprintln!("{message}");
    assert_eq!(status, "True");
    assert!(message.contains("leaderworkerset.x-k8s.io/LeaderWorkerSet ("));
    assert!(message.contains("conversion webhook"), "{message}");
    assert_eq!(cluster.condition("Ready", "ConfigLoaded").await[0], "True");
    // Nobody can tell whose the StatefulSet is.
    let others = [DEPLOYMENT, CRON_JOB, STATEFUL_SET, INFERENCE_SERVICE];
    cluster.reported("the others are reported", &others).await;
    assert_eq!(cluster.owned(CRON_JOB).await, ["Job/nightly-1"]);
    let health = |kind| controller.sum_of("aibom_watch_healthy", kind);
    assert_eq!(health("LeaderWorkerSet").await, Some(0));
    assert_eq!(health("InferenceService").await, Some(1));
    assert_eq!(health("NIMService").await, None);
    let errors = controller.sum_of("aibom_watch_errors_total", "LeaderWorkerSet");
    assert!(errors.await >= Some(1));
    let outcome = |outcome| controller.sum_of("aibom_workload_reconcile_outcomes_total", outcome);
    assert!(outcome("rolled_up").await >= Some(1));
    assert!(outcome("rollup_unresolved").await >= Some(1));
    assert!(is_ready(&controller.ready().await));

    cluster.convert(false).await;
    let [status, ..] = cluster.condition("Degraded", "ConfigLoaded").await;
    assert_eq!(status, "False");
    let all = [DEPLOYMENT, CRON_JOB, LEADER_WORKER_SET, INFERENCE_SERVICE];
    cluster.reported("everything is reported once", &all).await;
    let owned = || cluster.owned(LEADER_WORKER_SET);
    let names_the_set = |owned: &Vec<String>| *owned == ["StatefulSet/ring-0"];
    until("it names its StatefulSet", owned, names_the_set).await;
    assert_eq!(health("LeaderWorkerSet").await, Some(1));
    let told = |told: &BTreeSet<String>| {
        ["WatchUnhealthy", "WatchRecovered"]
            .iter()
            .all(|reason| told.contains(*reason))
    };
    until("both are told", || cluster.told(), told).await;
}

/// The allow-list acts at once and both ways, and is checked.
async fn allow_list(controller: &Controller, cluster: &Cluster) {
    let named = json!({"workloadKinds": ["apps/Deployment", "batch/Job"]});
    cluster.configure(json!({"discovery": named})).await;
    // Nobody reports the Job's owner any more.
    cluster
        .reported("only what is allowed is reported", &[DEPLOYMENT, JOB])
        .await;
    let outcomes = "aibom_workload_reconcile_outcomes_total";
    let refused = controller.sum_of(outcomes, "kind_not_allowed").await;
    assert!(refused >= Some(3), "{refused:?}");
    let told = |told: &BTreeSet<String>| told.contains("WatchDisabled");
    until("it is told", || cluster.told(), told).await;

    let wrong = json!({"workloadKinds": ["apps/Deployments"]});
    cluster.configure(json!({"discovery": wrong})).await;
    let [_, _, message] = cluster.condition("Ready", "ConfigInvalid").await;
    let wanted = "spec.discovery.workloadKinds[0]: \"apps/Deployments\" is not a kind";
    assert!(message.starts_with(wanted), "{message}");

    cluster
        .configure(json!({"discovery": {"workloadKinds": null}}))
        .await;
    let all = [DEPLOYMENT, CRON_JOB, LEADER_WORKER_SET, INFERENCE_SERVICE];
    cluster.reported("everything is reported again", &all).await;
    let owned = || cluster.owned(CRON_JOB);
    let names_the_job = |owned: &Vec<String>| *owned == ["Job/nightly-1"];
    until("it names its Job", owned, names_the_job).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn kinds_come_and_go_and_owners_report_what_they_own() {
    let world = World::new();
    let plane = Plane::start(&world.throw_away(), Arc::new(Silent)).await;
    let plane = plane.expect("a plane");
    let client = connect(&plane.kubeconfig()).await.expect("a client");
    let cluster = Cluster::prepare(client).await;
    workloads(&cluster).await;
    before_1_6(&world, &plane, &cluster).await;

    let config = json!({
        "apiVersion": "aibom.k8saibom.dev/v1beta1", "kind": "AIBOMControllerConfig",
        "metadata": {"name": "default"}, "spec": {"bomGeneration": {}},
    });
    create(&cluster.configs, config).await;
    cluster.convert(true).await;
    let controller = Controller::strict(&world, &plane.kubeconfig(), "1.6.0");
    until("it is ready", || controller.ready(), is_ready).await;
    broken_definition(&controller, &cluster).await;
    allow_list(&controller, &cluster).await;
    controller.stop();

    // A restart finds everything as it was.
    let before = cluster.hashes().await;
    let controller = Controller::strict(&world, &plane.kubeconfig(), "1.6.0");
    until("it is ready again", || controller.ready(), is_ready).await;
    let enough = |requests: &BTreeMap<String, u64>| requests.get("PUT") >= Some(&5);
    until("all are refreshed", || controller.methods(), enough).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    let requests = controller.methods().await;
    eprintln!("restart of 1.6.0 over 4: {requests:?}");
    assert_eq!((requests["PUT"], requests.get("DELETE")), (5, None));
    assert_eq!(cluster.hashes().await, before);
    controller.stop();
    plane.stop().await.expect("the plane stops");
}
