//! Workloads of every plain kind, with pods that really report something, on their way through the
//! releases: which request each move costs, and which hashes it keeps.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::controller::{Controller, Requests, requests, until};
use crate::definitions::{apply, stored};
use crate::proxy::{Proxy, Verb};
use crate::support::World;
use crate::workloads::{aiboms, create, deployment, document, listed, namespace, of_each, settled};
use aibom_qual::cluster::client::connect;
use aibom_qual::controller::api::object::AibomObject;
use aibom_qual::controller::api::release::{ApiKind, ApiVersion};
use aibom_qual::controller::sha256;
use aibom_qual::plane::Plane;
use aibom_qual::plane::event::Silent;
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, StatefulSet};
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, Client};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

const NAMESPACE: &str = "models";
const CRON_JOB: &str = "evaluate";
/// The digest that every pod reports.
const DIGEST: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
/// What is hashed of the Job: `controller.md` C.4 and D.1.
const TRAINING: &str = "{\"scraperName\":\"training.spec\",\"confidence\":\"inferred\",\"components\":[\
     {\"type\":\"application\",\"name\":\"pytorch\",\"evidence\":{\"source\":\"image_pattern\",\
     \"locator\":\"spec.template.spec.containers[0].image\"},\"confidence\":\"inferred\",\"properties\":{\
     \"runtime.name\":\"pytorch\",\"runtime.pattern\":\"^pytorch/pytorch.*\"}}],\"provenance\":[{\
     \"scraperName\":\"training.spec\",\"scraperVersion\":\"0.1.0\",\"scrapeMethod\":\"spec\"}],\
     \"category\":\"training\"}";

/// A name, and an input hash or the hash of a document.
type Hashes = BTreeMap<String, String>;

fn vectors(file: &str) -> Value {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/vectors");
    let text = std::fs::read_to_string(folder.join(file)).expect("the file");
    serde_json::from_str(&text).expect("JSON")
}

fn object<K: DeserializeOwned>(value: Value) -> K {
    serde_json::from_value(value).expect("such an object")
}

/// The pods of the golden vector: everything that is detected, and a digest that only a running
/// container tells.
fn golden() -> Value {
    json!({
        "containers": [{
            "name": "vllm",
            "image": "vllm/vllm-openai:v0.6.3",
            "args": ["--model", "meta-llama/Llama-3.1-8B-Instruct"],
            "env": [{"name": "HF_MODEL_ID", "value": "meta-llama/Llama-3.1-8B-Instruct"}],
            "volumeMounts": [{"name": "model-store", "mountPath": "/models"}],
        }],
        "volumes": [{
            "name": "model-store",
            "persistentVolumeClaim": {"claimName": "llama-weights"},
        }],
    })
}

fn labelled(name: &str, pod: Value) -> Value {
    let labels = json!({"app": name});
    json!({
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": pod},
    })
}

fn once(image: &str) -> Value {
    json!({"restartPolicy": "Never", "containers": [{"name": "main", "image": image}]})
}

/// What a release has to find. No vector tells the hash of the CronJob.
fn expected(profile: &str) -> Hashes {
    let column = match profile {
        "1.2.0" | "1.3.0" => "1.2.0/1.3.0",
        _ => "1.5.1/1.6.x",
    };
    let file = vectors("deployment-cases.json");
    let cases = file["cases"].as_array().expect("cases").iter();
    let found = cases.filter(|case| case["profiles"][column]["aibom"] == true);
    let text = |value: &Value| value.as_str().expect("text").to_owned();
    let mut hashes: Hashes = found
        .map(|case| {
            let name = &case["deployment"]["metadata"]["name"];
            (text(name), text(&case["profiles"][column]["inputHash"]))
        })
        .collect();
    let golden = text(&vectors("golden.hashes.json")["golden"]["inputHash_withCategoryInference"]);
    for name in ["deployed", "stateful", "daemon"] {
        hashes.insert(name.to_owned(), golden.clone());
    }
    // The same without a digest.
    let plain = hashes["vllm-full"].clone();
    hashes.insert("plain".to_owned(), plain.clone());
    // A pod whose labels fit, but which nobody owns, counts in the older releases.
    let strayed = if column == "1.2.0/1.3.0" {
        golden
    } else {
        plain
    };
    hashes.insert("strayed".to_owned(), strayed);
    hashes.insert("train".to_owned(), sha256::hex(TRAINING.as_bytes()));
    hashes
}

/// The plane with everything on it.
struct Cluster {
    client: Client,
    proxy: Proxy,
    kubeconfig: PathBuf,
    world: World,
}

/// A controller, and where its requests begin on the proxy's record.
struct Running {
    controller: Controller,
    begin: usize,
}

impl Cluster {
    async fn start(&self, profile: &str) -> Running {
        let begin = self.proxy.mark();
        let controller = Controller::start(&self.world, &self.kubeconfig, profile).await;
        Running { controller, begin }
    }

    /// The kinds that were listed.
    fn informers(&self, running: &Running) -> BTreeSet<String> {
        let asked = self.proxy.since(running.begin).into_iter();
        let lists = asked.filter(|asked| asked.verb == Verb::StreamList);
        lists.map(|asked| asked.resource).collect()
    }

    async fn aiboms(&self, version: ApiVersion) -> Vec<AibomObject> {
        listed(&aiboms(&self.client, version, NAMESPACE)).await
    }

    /// Waits until every workload has its hash and no other has an AIBOM, and then for rest.
    async fn complete(&self, running: &Running, version: ApiVersion, hashes: &Hashes) -> Requests {
        let look = || async {
            let mut found = input_hashes(&self.aiboms(version).await);
            found.remove(CRON_JOB);
            found
        };
        until("all have their hash", look, |found| found == hashes).await;
        running.controller.quiet().await
    }

    async fn add_cases(&self) {
        for case in vectors("deployment-cases.json")["cases"]
            .as_array()
            .expect("cases")
        {
            let mut value = case["deployment"].clone();
            value["metadata"]["namespace"] = json!(NAMESPACE);
            create(&self.client, NAMESPACE, &object::<Deployment>(value)).await;
        }
        create(&self.client, NAMESPACE, &deployment("plain", 0, golden())).await;
    }

    /// Workloads with pods. The cluster's own controllers make those of the first three; where a
    /// DaemonSet's would be, there is no node.
    async fn add_running(&self) {
        let client = &self.client;
        create(client, NAMESPACE, &deployment("deployed", 1, golden())).await;
        let mut spec = labelled("stateful", golden());
        spec["serviceName"] = json!("stateful");
        spec["replicas"] = json!(1);
        let value = json!({"metadata": {"name": "stateful"}, "spec": spec});
        create(client, NAMESPACE, &object::<StatefulSet>(value)).await;
        let job = json!({"template": {"spec": once("pytorch/pytorch:2.5.1")}});
        let value = json!({"metadata": {"name": "train"}, "spec": job});
        create(client, NAMESPACE, &object::<Job>(value)).await;

        let value = json!({"metadata": {"name": "daemon"}, "spec": labelled("daemon", golden())});
        let daemon = create(client, NAMESPACE, &object::<DaemonSet>(value)).await;
        let owner = json!([{
            "apiVersion": "apps/v1",
            "kind": "DaemonSet",
            "name": "daemon",
            "uid": daemon.metadata.uid,
            "controller": true,
        }]);
        self.add_pod("daemon", owner).await;
        for name in ["deployed", "stateful", "daemon"] {
            self.run_pod(name).await;
        }
        // No event of a pod without an owner leads to a workload: this one has to be there first.
        self.add_pod("strayed", json!([])).await;
        self.run_pod("strayed").await;
        create(client, NAMESPACE, &deployment("strayed", 0, golden())).await;
    }

    async fn add_pod(&self, name: &str, owners: Value) {
        let value = json!({
            "metadata": {"name": name, "labels": {"app": name}, "ownerReferences": owners},
            "spec": golden(),
        });
        create(&self.client, NAMESPACE, &object::<Pod>(value)).await;
    }

    /// Lets the one pod with this label report what it runs.
    async fn run_pod(&self, name: &str) {
        let api = Api::<Pod>::namespaced(self.client.clone(), NAMESPACE);
        let labels = ListParams::default().labels(&format!("app={name}"));
        let look = || async { api.list(&labels).await.expect("a list").items };
        let pods = until("it has a pod", look, |pods| !pods.is_empty()).await;
        let pod = pods[0].metadata.name.as_deref().expect("a name");
        let status = json!({"status": {"containerStatuses": [{
            "name": "vllm",
            "image": "docker.io/vllm/vllm-openai:v0.6.3",
            "imageID": format!("docker.io/vllm/vllm-openai@sha256:{DIGEST}"),
            "ready": true,
            "restartCount": 0,
        }]}});
        let patched = api
            .patch_status(pod, &PatchParams::default(), &Patch::Merge(status))
            .await;
        patched.expect("it is patched");
    }

    /// Puts another release in place of the one that runs. Returns what it asked once it has
    /// refreshed everything.
    async fn replace(
        &self,
        running: Running,
        profile: &str,
        hashes: &Hashes,
    ) -> (Running, Requests) {
        running.controller.stop();
        let running = self.start(profile).await;
        let tracked = u64::try_from(hashes.len()).expect("a number");
        let enough = |requests: &Requests| requests.get("PUT 200") >= Some(&tracked);
        let ask = || running.controller.requests();
        until("all are refreshed", ask, enough).await;
        let asked = self.complete(&running, ApiVersion::V1Beta1, hashes).await;
        assert_eq!(asked, self.proxy.requests(running.begin), "{profile}");
        eprintln!("{profile}: {asked:?}");
        (running, asked)
    }
}

fn input_hashes(aiboms: &[AibomObject]) -> Hashes {
    of_each(aiboms, |aibom| aibom.status.input_hash.clone())
}

/// What must not change where nothing is built anew: both hashes and the conditions.
fn built(aiboms: &[AibomObject]) -> Hashes {
    of_each(aiboms, |aibom| {
        document(aibom);
        let status = &aibom.status;
        format!(
            "{} {} {:?}",
            status.input_hash, status.bom_hash, status.conditions
        )
    })
}

/// The names under which two states differ.
fn differences(before: &Hashes, after: &Hashes) -> Vec<String> {
    let names: BTreeSet<_> = before.keys().chain(after.keys()).collect();
    let differ = names
        .into_iter()
        .filter(|name| before.get(*name) != after.get(*name));
    differ.cloned().collect()
}

fn plain_informers<const N: usize>(more: [&str; N]) -> BTreeSet<String> {
    let plain = [
        "aibomcontrollerconfigs",
        "aiboms",
        "daemonsets",
        "deployments",
        "jobs",
        "namespaces",
        "pods",
        "statefulsets",
    ];
    plain.into_iter().chain(more).map(str::to_owned).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn hashes_survive_every_move_between_releases() {
    let world = World::new();
    let plane = Plane::start(&world.throw_away(), Arc::new(Silent)).await;
    let plane = plane.expect("a plane");
    let client = connect(&plane.kubeconfig()).await.expect("a client");
    apply(&client, "1.2.0").await.expect("they are accepted");
    namespace(&client, NAMESPACE, true).await;
    let proxy = Proxy::start(client.clone()).await;
    let cluster = Cluster {
        kubeconfig: proxy.kubeconfig(&world),
        client,
        proxy,
        world,
    };

    let running = from_the_first_release(&cluster).await;
    let running = to_newer_patterns_and_kinds(&cluster, running).await;
    and_back(&cluster, running).await;
    plane.stop().await.expect("the plane stops");
}

/// 1.2.0, and 1.3.0 over what it left.
async fn from_the_first_release(cluster: &Cluster) -> Running {
    let old = ApiVersion::V1Alpha1;
    let mut hashes = expected("1.2.0");
    let running_ones = ["deployed", "stateful", "daemon", "strayed", "train"];
    let later: Vec<_> = running_ones
        .map(|name| hashes.remove_entry(name).expect("it is expected"))
        .into();
    cluster.add_cases().await;
    settled(&cluster.client, NAMESPACE).await;
    let running = cluster.start("1.2.0").await;
    let asked = cluster.complete(&running, old, &hashes).await;
    // Nothing is owned by a ReplicaSet yet.
    assert_eq!(asked["GET 200"], 10);
    assert_eq!(cluster.informers(&running), plain_informers([]));
    assert_eq!(asked["POST 201"], hashes.len() as u64);

    hashes.extend(later);
    cluster.add_running().await;
    let asked = cluster.complete(&running, old, &hashes).await;
    assert_eq!(asked["GET 200"], 11);
    assert_eq!(
        cluster.informers(&running),
        plain_informers(["replicasets"])
    );
    eprintln!("1.2.0: {asked:?}");
    let before = cluster.aiboms(old).await;
    for aibom in &before {
        let name = aibom.spec.workload_ref.name.as_str();
        if ["deployed", "stateful", "daemon", "strayed"].contains(&name) {
            let document = document(aibom);
            let digest = &document["components"][1]["hashes"][0];
            assert_eq!(
                *digest,
                json!({"alg": "SHA-256", "content": DIGEST}),
                "{name}"
            );
        }
    }

    apply(&cluster.client, "1.3.0").await.expect("accepted");
    let both = ["v1alpha1", "v1beta1"].map(str::to_owned);
    assert_eq!(stored(&cluster.client, ApiKind::Aibom).await, both);
    running.controller.quiet().await;
    assert_eq!(built(&cluster.aiboms(old).await), built(&before));

    let (running, asked) = cluster.replace(running, "1.3.0", &hashes).await;
    let tracked = before.len() as u64;
    assert_eq!(asked, requests([("GET 200", 11), ("PUT 200", tracked)]));
    let after = cluster.aiboms(ApiVersion::V1Beta1).await;
    assert_eq!(built(&after), built(&before));
    running
}

/// 1.5.1 and 1.6.0, each with its own definitions.
async fn to_newer_patterns_and_kinds(cluster: &Cluster, running: Running) -> Running {
    let new = ApiVersion::V1Beta1;
    let before = cluster.aiboms(new).await;
    let tracked = before.len() as u64;
    apply(&cluster.client, "1.5.1").await.expect("accepted");
    let hashes = expected("1.5.1");
    let (running, asked) = cluster.replace(running, "1.5.1", &hashes).await;
    let after = cluster.aiboms(new).await;
    // Two images that are known now, and a pod that nobody owns.
    let changed = differences(&built(&before), &built(&after));
    assert_eq!(changed, ["nim", "strayed", "tgi"]);
    assert_eq!((asked["GET 200"], asked["POST 201"]), (11, 2));
    // A new AIBOM comes back as an event, which may merge with what is queued.
    assert!((tracked + 2..=tracked + 4).contains(&asked["PUT 200"]));
    assert_eq!(asked.len(), 3, "{asked:?}");
    assert_eq!(
        cluster.informers(&running),
        plain_informers(["replicasets"])
    );

    let cron = json!({
        "metadata": {"name": CRON_JOB},
        "spec": {
            "schedule": "0 0 1 1 *",
            "suspend": true,
            "jobTemplate": {"spec": {"template": {"spec": once("eleutherai/lm-eval:0.4.8")}}},
        },
    });
    create(&cluster.client, NAMESPACE, &object::<CronJob>(cron)).await;
    apply(&cluster.client, "1.6.0").await.expect("accepted");
    let (running, asked) = cluster.replace(running, "1.6.0", &hashes).await;
    let before = after;
    let after = cluster.aiboms(new).await;
    assert_eq!(differences(&built(&before), &built(&after)), [CRON_JOB]);
    let tracked = before.len() as u64;
    assert_eq!(asked["POST 201"], 1);
    assert!((tracked + 1..=tracked + 2).contains(&asked["PUT 200"]));
    let more = plain_informers(["cronjobs", "replicasets"]);
    assert_eq!(cluster.informers(&running), more);
    running
}

/// 1.3.0 again, over the definitions of 1.6.0.
async fn and_back(cluster: &Cluster, running: Running) {
    let new = ApiVersion::V1Beta1;
    let before = cluster.aiboms(new).await;
    let (running, asked) = cluster.replace(running, "1.3.0", &expected("1.3.0")).await;
    let after = cluster.aiboms(new).await;
    let changed = differences(&built(&before), &built(&after));
    assert_eq!(changed, ["nim", "strayed", "tgi"]);
    let found = input_hashes(&after);
    assert!(!found.contains_key("nim") && !found.contains_key("tgi"));
    // Whatever this release does not know of, it leaves alone: the AIBOM of the CronJob.
    assert!(found.contains_key(CRON_JOB));
    let tracked = after.len() as u64 - 1;
    let wanted = [("DELETE 200", 2), ("GET 200", 11), ("PUT 200", tracked)];
    assert_eq!(asked, requests(wanted));
    running.controller.stop();
}
