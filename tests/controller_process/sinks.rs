//! Webhooks of the embedded controller, as a process against a real API server.

use std::net::TcpListener;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

use crate::definitions::{apply, objects};
use crate::http::{Answer, Posted, Server};
use crate::support::{Owner, World};
use aibom_qual::cluster::client::connect;
use aibom_qual::controller::api::aibom::AibomStatus;
use aibom_qual::controller::api::object::{AibomObject, ConfigObject, resource};
use aibom_qual::controller::api::release::{ApiKind, ApiVersion};
use aibom_qual::controller::sha256;
use aibom_qual::plane::Plane;
use aibom_qual::plane::event::Silent;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

const NAMESPACE: &str = "models";
/// Where the controller looks for Secrets when nothing names its namespace.
const OWN_NAMESPACE: &str = "k8s-aibom-system";
const TOKEN: &str = "s3cr3t-token-of-the-test";
/// Longer than the minute after which 1.6.0 tries again.
const LIMIT: Duration = Duration::from_secs(90);

fn object<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("such an object")
}

/// Asks until the answer fits.
async fn until<T: std::fmt::Debug, F: Future<Output = T>>(
    what: &str,
    mut ask: impl FnMut() -> F,
    fits: impl Fn(&T) -> bool,
) -> T {
    let begun = Instant::now();
    loop {
        let answer = ask().await;
        if fits(&answer) {
            return answer;
        }
        assert!(begun.elapsed() < LIMIT, "{what}: {answer:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// A controller that runs beside the test, and may post to it.
struct Controller {
    process: Owner,
    metrics: String,
}

impl Controller {
    fn start(world: &World, kubeconfig: &Path, profile: &str) -> Self {
        // An address of this machine that nothing uses now.
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let metrics = listener.local_addr().expect("its address").to_string();
        drop(listener);
        let kubeconfig = kubeconfig.display().to_string();
        let mut command = world.command(&[
            "controller",
            "--profile",
            profile,
            "--kubeconfig",
            &kubeconfig,
            "--metrics-bind-address",
            &metrics,
            "--health-probe-bind-address",
            "0",
        ]);
        command
            .env("AIBOM_DISABLE_SSRF_CHECKS", "true")
            .env_remove("POD_NAMESPACE")
            .env_remove("POD_NAME");
        Self {
            process: Owner::spawn(command),
            metrics,
        }
    }

    /// The series of failed deliveries.
    async fn failures(&self) -> Vec<String> {
        let client = reqwest::Client::builder().no_proxy().build();
        let url = format!("http://{}/metrics", self.metrics);
        let answer = client.expect("a client").get(url).send().await;
        let text = answer.expect("an answer").text().await.expect("metrics");
        let family = "aibom_external_sink_emit_failures_total{";
        let series = text.lines().filter(|line| line.starts_with(family));
        series.map(str::to_owned).collect()
    }

    /// Ends it. What it logged holds no token.
    fn stop(mut self) {
        self.process.terminate();
        let finished = self.process.finish();
        finished.expect(0, &["\"msg\":\"starting server\""]);
        assert!(!finished.stderr.contains(TOKEN), "{}", finished.stderr);
    }
}

/// The cluster, and what the webhook on loopback does with the next documents.
struct Scene {
    client: Client,
    aiboms: Api<AibomObject>,
    configs: Api<ConfigObject>,
    server: Server,
    status: Arc<AtomicU16>,
}

impl Scene {
    async fn new(plane: &Plane) -> Self {
        let client = connect(&plane.kubeconfig()).await.expect("a client");
        apply(&client, "1.6.0").await.expect("they are accepted");
        let namespaces = Api::<Namespace>::all(client.clone());
        let opted_in = json!({"aibom.k8saibom.dev/enabled": "true"});
        for (name, labels) in [(NAMESPACE, opted_in), (OWN_NAMESPACE, json!({}))] {
            let namespace = object(json!({"metadata": {"name": name, "labels": labels}}));
            let created = namespaces.create(&PostParams::default(), &namespace).await;
            created.expect("a namespace");
        }
        let kind = resource(ApiKind::Aibom, ApiVersion::V1Beta1);
        let status = Arc::new(AtomicU16::new(200));
        let answered = Arc::clone(&status);
        Self {
            aiboms: Api::namespaced_with(client.clone(), NAMESPACE, &kind),
            configs: objects(&client, ApiKind::ControllerConfig, ApiVersion::V1Beta1),
            server: Server::start(move |_| Answer::status(answered.load(Ordering::Relaxed))).await,
            status,
            client,
        }
    }

    fn answer(&self, status: u16) {
        self.status.store(status, Ordering::Relaxed);
    }

    /// What was posted about this workload.
    fn posted(&self, name: &str) -> Vec<Posted> {
        let mut posted = self.server.posted();
        posted.retain(|posted| posted.header("X-Aibom-Workload-Name") == Some(name));
        posted
    }

    async fn deploy(&self, name: &str) {
        let labels = json!({"app": name});
        let deployment = object(json!({
            "metadata": {"name": name},
            "spec": {
                "replicas": 0,
                "selector": {"matchLabels": labels},
                "template": {
                    "metadata": {"labels": labels},
                    "spec": {"containers": [{
                        "name": "vllm",
                        "image": "vllm/vllm-openai:v0.6.3",
                        "args": ["--model", "meta-llama/Llama-3.1-8B-Instruct"],
                    }]},
                },
            },
        }));
        let api = Api::<Deployment>::namespaced(self.client.clone(), NAMESPACE);
        let created = api.create(&PostParams::default(), &deployment).await;
        created.expect("a deployment");
    }

    /// The status of a workload's AIBOM, once it fits.
    async fn aibom(&self, name: &str, fits: impl Fn(&AibomStatus) -> bool) -> AibomStatus {
        let name = format!("apps-deployment-{name}");
        let look = || async {
            let found = self.aiboms.get_opt(&name).await.expect("an answer");
            found.map(|aibom| aibom.status).unwrap_or_default()
        };
        let written = |status: &AibomStatus| status.last_reconciled.is_some() && fits(status);
        until(&name, look, written).await
    }

    /// The status of a workload's AIBOM once nothing more is posted about it. As long as there is no
    /// input hash, each event leads to another delivery, that of the AIBOM's own creation included.
    async fn quiet(&self, name: &str) -> AibomStatus {
        loop {
            let is_of_last = |status: &AibomStatus| {
                let last = self.posted(name).pop();
                last.is_some_and(|last| sha256::hex(&last.body) == status.bom_hash)
            };
            let status = self.aibom(name, is_of_last).await;
            let before = self.posted(name).len();
            tokio::time::sleep(Duration::from_secs(8)).await;
            if self.posted(name).len() == before {
                return status;
            }
        }
    }

    /// Merges this into the configuration's spec, and returns `Ready` when the controller has looked.
    async fn configure(&self, spec: Value) -> (String, String) {
        let patch = Patch::Merge(json!({"spec": spec}));
        let parameters = PatchParams::default();
        let changed = self.configs.patch("default", &parameters, &patch).await;
        let generation = changed.expect("it is changed").metadata.generation;
        self.ready(generation).await
    }

    /// Reason and message of the configuration's `Ready`, for this generation.
    async fn ready(&self, generation: Option<i64>) -> (String, String) {
        let look = || async { self.configs.get("default").await.expect("it is there") };
        let seen = |config: &ConfigObject| Some(config.status.observed_generation) == generation;
        let config = until("the controller looks at it", look, seen).await;
        let mut conditions = config.status.conditions.into_iter();
        let ready = conditions.find(|condition| condition.type_ == "Ready");
        let ready = ready.expect("a condition");
        (ready.reason, ready.message)
    }
}

/// Status, reason and message of a condition.
fn condition(status: &AibomStatus, type_: &str) -> (String, String, String) {
    let mut conditions = status.conditions.iter();
    let found = conditions.find(|condition| condition.type_ == type_);
    let found = found.expect("a condition");
    (
        format!("{:?}", found.status),
        found.reason.clone(),
        found.message.clone(),
    )
}

fn told(status: &str, reason: &str, message: &str) -> (String, String, String) {
    (status.to_owned(), reason.to_owned(), message.to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn documents_reach_a_webhook_and_a_failing_one_is_told_and_tried_as_the_release_does() {
    let world = World::new();
    let plane = Plane::start(&world.throw_away(), Arc::new(Silent)).await;
    let plane = plane.expect("a plane");
    let scene = Scene::new(&plane).await;
    let endpoint = scene.server.url().to_string();

    // A Secret that is missing makes the configuration invalid until it is looked at again.
    let auth = json!({"bearerToken": {"secretRef": {"name": "hook", "key": "token"}}});
    let webhook = json!({"endpoint": endpoint, "auth": auth});
    let config = object(json!({
        "apiVersion": "aibom.k8saibom.dev/v1beta1",
        "kind": "AIBOMControllerConfig",
        "metadata": {"name": "default"},
        "spec": {"sinks": [{"name": "c", "type": "Webhook", "webhook": webhook}]},
    }));
    let created = scene.configs.create(&PostParams::default(), &config).await;
    let generation = created.expect("it is created").metadata.generation;
    let controller = Controller::start(&world, &plane.kubeconfig(), "1.3.0");
    let missing = "spec.sinks[name=c].webhook.auth.bearerToken.secretRef: Sink \"c\" (Type=Webhook) \
                   webhook.auth.bearerToken.secretRef: Secret \"hook\" not found in namespace \
                   \"k8s-aibom-system\". Create the Secret or update \
                   webhook.auth.bearerToken.secretRef.name.";
    assert_eq!(
        scene.ready(generation).await,
        ("ConfigInvalid".to_owned(), missing.to_owned())
    );
    let secrets = Api::<Secret>::namespaced(scene.client.clone(), OWN_NAMESPACE);
    let secret = object(json!({"metadata": {"name": "hook"}, "stringData": {"token": TOKEN}}));
    let created = secrets.create(&PostParams::default(), &secret).await;
    created.expect("a Secret");
    let edit = json!({"bomGeneration": {"inlineThresholdBytes": 1024}});
    assert_eq!(scene.configure(edit).await.0, "ConfigLoaded");

    // The exact bytes arrive; they are too many to be kept in the status as well.
    scene.deploy("good").await;
    let good = scene.aibom("good", |_| true).await;
    let [posted] = scene.posted("good").try_into().expect("one request");
    assert_eq!(sha256::hex(&posted.body), good.bom_hash);
    let hash = format!("sha256:{}", good.bom_hash);
    assert_eq!(posted.header("X-Aibom-Document-Hash"), Some(hash.as_str()));
    let token = format!("Bearer {TOKEN}");
    assert_eq!(posted.header("Authorization"), Some(token.as_str()));
    let document = serde_json::to_value(&good.bom_document).expect("JSON");
    assert_eq!(document["size"], posted.body.len());
    assert_eq!(document["inline"], Value::Null);
    assert_eq!(
        document["external"],
        json!({"sink": "webhook", "url": endpoint, "writeOnly": true})
    );
    let synced = told("True", "AllSinksOK", "all sinks updated");
    assert_eq!(condition(&good, "Synced"), synced);

    // A failing webhook is told, and nothing else fails.
    scene.answer(503);
    scene.deploy("bad").await;
    let bad = scene.aibom("bad", |_| true).await;
    let failures = format!(
        "external sink failures: webhook (webhook sink: POST {endpoint} returned HTTP 503 (empty \
         body))"
    );
    let failed = told("True", "OneOrMoreSinksDown", &failures);
    assert_eq!(condition(&bad, "SinkFailed"), failed);
    let not_synced = told("False", "OneOrMoreSinksDown", &failures);
    assert_eq!(condition(&bad, "Synced"), not_synced);
    let ready = told("True", "BOMGenerated", "BOM generated successfully");
    assert_eq!(condition(&bad, "Ready"), ready);
    assert_eq!(bad.input_hash, good.input_hash);
    let document = serde_json::to_value(&bad.bom_document).expect("JSON");
    assert_eq!(document["truncated"], true);
    assert_eq!(scene.posted("bad").len(), 4);
    assert_eq!(
        controller.failures().await,
        [
            "aibom_external_sink_emit_failures_total{kind=\"Deployment\",namespace=\"models\",\
             sink=\"webhook\"} 1"
        ]
    );
    controller.stop();

    // A restart only refreshes what has an input hash. Times have whole seconds.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let before = scene.server.posted().len();
    let controller = Controller::start(&world, &plane.kubeconfig(), "1.3.0");
    for (name, old) in [("good", &good), ("bad", &bad)] {
        let refreshed = |status: &AibomStatus| status.last_reconciled > old.last_reconciled;
        let new = scene.aibom(name, refreshed).await;
        assert_eq!(new.conditions, old.conditions);
    }
    assert_eq!(scene.server.posted().len(), before);
    controller.stop();

    // Releases since 1.5.1 send no credentials in clear text.
    let controller = Controller::start(&world, &plane.kubeconfig(), "1.6.0");
    let edit = json!({"bomGeneration": {"inlineThresholdBytes": 262_144}});
    let (reason, message) = scene.configure(edit).await;
    assert_eq!(reason, "ConfigInvalid");
    let field = "spec.sinks[name=c].webhook.endpoint: ";
    assert!(message.starts_with(field), "{message}");
    let webhook = json!({"endpoint": endpoint});
    let sinks = json!([{"name": "c", "type": "Webhook", "webhook": webhook}]);
    assert_eq!(
        scene.configure(json!({"sinks": sinks})).await.0,
        "ConfigLoaded"
    );

    // 1.6.0 forgets the input hash of what a sink did not take, and tries again by itself.
    scene.deploy("late").await;
    let late = scene.quiet("late").await;
    assert_eq!(condition(&late, "SinkFailed"), failed);
    assert_eq!(late.input_hash, "");
    let attempts = scene.posted("late").len();
    assert_eq!(attempts % 4, 0, "{attempts}");
    scene.answer(200);
    let begun = Instant::now();
    let recovered = |status: &AibomStatus| !status.input_hash.is_empty();
    let late = scene.aibom("late", recovered).await;
    let waited = begun.elapsed();
    assert!(waited > Duration::from_secs(30), "{waited:?}");
    assert_eq!(late.input_hash, good.input_hash);
    assert_eq!(condition(&late, "Synced"), synced);
    let posted = scene.posted("late");
    assert_eq!(posted.len(), attempts + 1);
    let last = posted.last().expect("requests");
    assert_eq!(sha256::hex(&last.body), late.bom_hash);
    assert_eq!(last.header("Authorization"), None);
    controller.stop();
    plane.stop().await.expect("the plane stops");
}
