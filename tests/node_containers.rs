//! Containers of the virtual node as real processes, with an API server that answers by a table.

#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests fail like the tests themselves"
)]

mod support;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use aibom_qual::host::identity::ProcessIdentity;
use aibom_qual::host::launch::Launcher;
use aibom_qual::host::ports::PortPicker;
use aibom_qual::node::container::{Containers, Finished, Running, Sandbox, StartError};
use aibom_qual::node::image::{CommandTemplate, Image, ImageTable, ImageUser, Pulled, Runtime};
use aibom_qual::node::options::{NodeOptions, ServingFiles};
use http::{Method, Request, Response};
use http_body_util::BodyExt as _;
use k8s_openapi::api::core::v1::{Container, Pod};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use tempfile::TempDir;

const NAMESPACE: &str = "/api/v1/namespaces/models";

/// A node without a cluster.
struct Bench {
    root: TempDir,
    containers: Containers,
    /// Bodies of the token requests.
    requests: Arc<Mutex<Vec<Value>>>,
}

impl Bench {
    /// `objects` by the path of their URL.
    fn new<const N: usize>(objects: [(&str, Value); N]) -> Self {
        let objects = objects.map(|(path, object)| (path.to_owned(), object));
        let requests = Arc::<Mutex<Vec<Value>>>::default();
        let client = api(objects.into(), Arc::clone(&requests));
        let root = tempfile::tempdir().expect("a temporary folder");
        let path = |name: &str| root.path().join(name);
        let options = NodeOptions {
            name: "node".to_owned(),
            server: "https://127.0.0.1:24680".to_owned(),
            server_ca_pem: "the authority\n".to_owned(),
            kubeconfig: path("kubeconfig"),
            serving: ServingFiles {
                cert: path("crt"),
                key: path("key"),
            },
            client_ca_pem: String::new(),
            dir: path("node"),
            launcher: Launcher::new(support::EXE),
            images: ImageTable::default(),
            ports: Arc::new(PortPicker::new()),
            kubelet_version: "v1.36.3".to_owned(),
        };
        Self {
            containers: Containers::new(options, client),
            requests,
            root,
        }
    }

    /// An image whose program is a shell, which reads the script: a file that was written a moment ago
    /// cannot be executed while a child of another test still has it open.
    fn script(&self, text: &str, args: &[&str]) -> Pulled {
        let path = self.root.path().join("script");
        fs::write(&path, text).expect("a script");
        let words = ["/bin/sh", path.to_str().expect("text")];
        command(words.into_iter().chain(args.iter().copied()))
    }

    fn pod_dir(&self) -> PathBuf {
        self.root.path().join("node/u-1")
    }

    async fn prepare(&self, pod: &Pod) -> Sandbox {
        self.containers.prepare(pod).await.expect("a sandbox")
    }
}

/// An API server that knows these objects and gives out tokens.
fn api(objects: BTreeMap<String, Value>, requests: Arc<Mutex<Vec<Value>>>) -> Client {
    let objects = Arc::new(objects);
    let service = tower::service_fn(move |request: Request<Body>| {
        let (objects, requests) = (Arc::clone(&objects), Arc::clone(&requests));
        async move {
            let path = request.uri().path().to_owned();
            let (code, answer) = if request.method() == Method::POST && path.ends_with("/token") {
                let body = request.into_body().collect().await.expect("a body");
                let mut body: Value = serde_json::from_slice(&body.to_bytes()).expect("JSON");
                requests.lock().expect("not poisoned").push(body.clone());
                body["status"] =
                    json!({"token": "the token", "expirationTimestamp": "2030-01-01T00:00:00Z"});
                (201, body)
            } else if let Some(object) = objects.get(&path) {
                (200, object.clone())
            } else {
                let status = json!({
                    "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
                    "reason": "NotFound", "message": format!("{path} not found"), "code": 404,
                });
                (404, status)
            };
            let answer = Response::builder()
                .status(code)
                .body(Body::from(answer.to_string().into_bytes()));
            Ok::<_, Infallible>(answer.expect("an answer"))
        }
    });
    Client::new(service, "default")
}

fn command<'a>(words: impl IntoIterator<Item = &'a str>) -> Pulled {
    let template = CommandTemplate::from_words(words).expect("a command");
    pulled(Runtime::Command(template), ImageUser::Uid(65532))
}

fn pulled(runtime: Runtime, user: ImageUser) -> Pulled {
    Pulled {
        image: Image { runtime, user },
        id: "example.com/manager@sha256:0".to_owned(),
    }
}

fn pause() -> Pulled {
    pulled(Runtime::Pause, ImageUser::Uid(0))
}

/// A pod with one container; both are completed by what is given.
fn pod(container: Value, spec: Value) -> Pod {
    let mut container_object = json!({"name": "manager", "image": "example.com/manager:v1"});
    merge(&mut container_object, container);
    let mut object = json!({
        "metadata": {
            "namespace": "models", "name": "manager-0", "uid": "u-1",
            "labels": {"app": "manager"},
        },
        "spec": {"nodeName": "node", "serviceAccountName": "sa", "containers": [container_object]},
    });
    merge(&mut object["spec"], spec);
    serde_json::from_value(object).expect("a pod")
}

fn merge(object: &mut Value, more: Value) {
    let object = object.as_object_mut().expect("an object");
    let Value::Object(more) = more else {
        panic!("{more} is not an object");
    };
    object.extend(more);
}

fn only(pod: &Pod) -> &Container {
    &pod.spec.as_ref().expect("a spec").containers[0]
}

async fn start(sandbox: &Sandbox, pod: &Pod, pulled: &Pulled, start: u32) -> Running {
    let started = sandbox.start(pod, only(pod), pulled, start).await;
    started.expect("it starts")
}

/// Its end, which is expected within moments.
async fn end(running: &Running) -> Finished {
    let end = tokio::time::timeout(Duration::from_secs(20), running.exited()).await;
    end.expect("it ends")
}

/// The log's lines without times and tags.
fn log(running: &Running) -> Vec<String> {
    let text = fs::read_to_string(running.log()).expect("a log");
    let content = text.lines().map(|line| {
        let (_, content) = line.split_once(" F ").expect("a full line");
        content.to_owned()
    });
    content.collect()
}

async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(20), "{what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn mode(path: &Path) -> u32 {
    let metadata = path.metadata().expect("it exists");
    metadata.permissions().mode() & 0o7777
}

#[tokio::test]
async fn a_process_sees_what_its_pod_says_and_nothing_of_ours() {
    let config = json!({
        "metadata": {"name": "settings"},
        "data": {"MODE": "fast", "level": "3"},
    });
    let secret = json!({"metadata": {"name": "keys"}, "data": {"key": "czNjcmV0"}});
    let node = json!({"metadata": {"name": "node"}, "status": {"allocatable": {"memory": "2Gi"}}});
    let bench = Bench::new([
        (&format!("{NAMESPACE}/configmaps/settings"), config),
        (&format!("{NAMESPACE}/secrets/keys"), secret),
        ("/api/v1/nodes/node", node),
    ]);
    let pod = pod(
        json!({
            "args": ["--metrics-bind-address=:8080", "--probe=0.0.0.0:8081", "$(APP)", "--x=:9999"],
            "ports": [{"containerPort": 8080}],
            "livenessProbe": {"httpGet": {"port": 8081}},
            "command": ["/manager"],
            "envFrom": [
                {"prefix": "C_", "configMapRef": {"name": "settings"}},
                {"configMapRef": {"name": "none", "optional": true}},
            ],
            "env": [
                {"name": "APP", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['app']"}}},
                {"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "keys", "key": "key"}}},
                {"name": "NO", "valueFrom": {"secretKeyRef": {"name": "keys", "key": "no", "optional": true}}},
                {"name": "MEM", "valueFrom": {"resourceFieldRef": {"resource": "limits.memory", "divisor": "1Mi"}}},
                {"name": "ALL", "value": "$(APP) $(C_MODE) $(KUBERNETES_SERVICE_PORT) $(LATER) $$(APP)"},
                {"name": "LATER", "value": "x"},
                {"name": "C_level", "value": "4"},
            ],
        }),
        json!({}),
    );
    let sandbox = bench.prepare(&pod).await;
    let image = bench.script(
        "tr '\\0' '\\n' < /proc/$$/cmdline | head -n 1; pwd; for arg; do echo \"$arg\"; done; env",
        &["--template=127.0.0.1:{port:9999}", "a b"],
    );
    let running = start(&sandbox, &pod, &image, 0).await;
    assert_eq!(end(&running).await.exit_code, 0);

    let folder = bench.pod_dir().join("manager/0");
    let folder = folder.to_str().expect("text");
    let lines = log(&running);
    let ports = running.ports().expect("a process has ports");
    let host = |port| ports.known(port).expect("it was drawn");
    assert_eq!(
        lines[..8],
        [
            format!("{folder}/.bin/manager"),
            folder.to_owned(),
            format!("--template=127.0.0.1:{}", host(9999)),
            "a b".to_owned(),
            format!("--metrics-bind-address=127.0.0.1:{}", host(8080)),
            format!("--probe=127.0.0.1:{}", host(8081)),
            "manager".to_owned(),
            format!("--x=127.0.0.1:{}", host(9999)),
        ]
    );
    let variables = lines[8..]
        .iter()
        .map(|line| line.split_once('=').expect("a variable"));
    let mut variables: BTreeMap<_, _> = variables.collect();
    // The shell's own ones.
    for name in ["PWD", "OLDPWD", "SHLVL", "_"] {
        variables.remove(name);
    }
    assert_eq!(
        variables.remove("PATH"),
        std::env::var("PATH").ok().as_deref()
    );
    let expected = [
        ("ALL", "manager fast 24680 $(LATER) $(APP)"),
        ("APP", "manager"),
        ("C_MODE", "fast"),
        ("C_level", "4"),
        ("HOME", folder),
        ("HOSTNAME", "manager-0"),
        ("KEY", "s3cret"),
        ("KUBERNETES_SERVICE_HOST", "127.0.0.1"),
        ("KUBERNETES_SERVICE_PORT", "24680"),
        ("KUBERNETES_SERVICE_PORT_HTTPS", "24680"),
        ("LATER", "x"),
        ("MEM", "2048"),
        ("TMPDIR", folder),
    ];
    assert_eq!(variables, BTreeMap::from(expected));
    sandbox.remove().await.expect("it is removed");
}

#[tokio::test]
async fn volumes_are_folders_and_files_and_their_paths_are_moved() {
    let config = json!({
        "metadata": {"name": "settings"},
        "data": {"a.yaml": "a: 1\n", "run.sh": "x"},
        "binaryData": {"b": "AAE="},
    });
    let secret = json!({"metadata": {"name": "keys"}, "data": {"tls.key": "czNjcmV0"}});
    let bench = Bench::new([
        (&format!("{NAMESPACE}/configmaps/settings"), config),
        (&format!("{NAMESPACE}/secrets/keys"), secret),
    ]);
    let pod = pod(
        json!({
            "args": ["--config=/etc/app/a.yaml", "/tmp/x"],
            "env": [{"name": "KEYS", "value": "/etc/keys/deep/key"}, {"name": "WHO", "value": "me"}],
            "volumeMounts": [
                {"name": "config", "mountPath": "/etc/app"},
                {"name": "keys", "mountPath": "/etc/keys"},
                {"name": "all", "mountPath": "/all"},
                {"name": "tmp", "mountPath": "/tmp", "subPathExpr": "of-$(WHO)"},
            ],
        }),
        json!({"volumes": [
            {"name": "config", "configMap": {"name": "settings", "items": [
                {"key": "a.yaml", "path": "a.yaml"}, {"key": "run.sh", "path": "bin/run", "mode": 493},
            ]}},
            {"name": "keys", "secret": {"secretName": "keys", "defaultMode": 256, "items": [
                {"key": "tls.key", "path": "deep/key"},
            ]}},
            {"name": "all", "projected": {"sources": [
                {"configMap": {"name": "settings"}},
                {"secret": {"name": "none", "optional": true}},
                {"downwardAPI": {"items": [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]}},
            ]}},
            {"name": "tmp", "emptyDir": {}},
            {"name": "unused", "configMap": {"name": "none"}},
        ]}),
    );
    let sandbox = bench.prepare(&pod).await;
    let image = bench.script(
        "cat ${1#--config=}; echo $2; cat $KEYS; echo; echo $TMPDIR; echo hello > $TMPDIR/x",
        &[],
    );
    let running = start(&sandbox, &pod, &image, 0).await;
    assert_eq!(end(&running).await.exit_code, 0);

    let volumes = bench.pod_dir().join("_volumes");
    let tmp = volumes.join("tmp/of-me");
    let tmp = tmp.to_str().expect("text");
    assert_eq!(log(&running), ["a: 1", &format!("{tmp}/x"), "s3cret", tmp]);
    let read = |path: &str| fs::read(volumes.join(path)).expect("a file");
    assert_eq!(read("tmp/of-me/x"), b"hello\n");
    assert_eq!(read("all/b"), [0, 1]);
    assert_eq!(read("all/labels"), b"app=\"manager\"");
    assert_eq!(mode(&volumes.join("config/a.yaml")), 0o600);
    assert_eq!(mode(&volumes.join("config/bin/run")), 0o700);
    assert_eq!(mode(&volumes.join("keys/deep/key")), 0o400);
    assert_eq!(mode(&bench.pod_dir()), 0o700);
    assert!(!volumes.join("unused").exists());
    // An attempt over what is there already succeeds.
    bench.prepare(&pod).await;
    sandbox.remove().await.expect("it is removed");
    assert!(!bench.pod_dir().exists());
}

#[tokio::test]
async fn a_missing_object_fails_in_the_words_of_a_kubelet() {
    let config = json!({"metadata": {"name": "settings"}, "data": {"a": "1"}});
    let secret = json!({"metadata": {"name": "keys"}, "data": {}});
    let bench = Bench::new([
        (&format!("{NAMESPACE}/configmaps/settings"), config),
        (&format!("{NAMESPACE}/secrets/keys"), secret),
    ]);
    for (source, words) in [
        (
            json!({"configMap": {"name": "none"}}),
            "configmap \"none\" not found",
        ),
        (
            json!({"secret": {"secretName": "none"}}),
            "secret \"none\" not found",
        ),
        (
            json!({"configMap": {"name": "settings", "items": [{"key": "b", "path": "b"}]}}),
            "configmap references non-existent config key: b",
        ),
        (
            json!({"projected": {"sources": [{"secret": {"name": "keys", "items": [{"key": "b", "path": "b"}]}}]}}),
            "references non-existent secret key: b",
        ),
    ] {
        let mut volume = json!({"name": "v"});
        merge(&mut volume, source);
        let pod = pod(
            json!({"volumeMounts": [{"name": "v", "mountPath": "/v"}]}),
            json!({"volumes": [volume]}),
        );
        let error = bench.containers.prepare(&pod).await.expect_err(words);
        assert!(matches!(error, StartError::Volume(_)));
        assert_eq!(
            error.to_string(),
            format!("MountVolume.SetUp failed for volume \"v\" : {words}")
        );
        assert!(!bench.pod_dir().exists());
    }

    for (container, words) in [
        (
            json!({"envFrom": [{"configMapRef": {"name": "none"}}]}),
            "configmap \"none\" not found",
        ),
        (
            json!({"envFrom": [{"secretRef": {"name": "none"}}]}),
            "secret \"none\" not found",
        ),
        (
            json!({"env": [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "b"}}}]}),
            "couldn't find key b in ConfigMap models/settings",
        ),
        (
            json!({"env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "keys", "key": "b"}}}]}),
            "couldn't find key b in Secret models/keys",
        ),
        (
            json!({"securityContext": {"runAsNonRoot": true}}),
            "container has runAsNonRoot and image will run as root (pod: \"manager-0_models(u-1)\", container: \
             manager)",
        ),
    ] {
        let pod = pod(container, json!({}));
        let sandbox = bench.prepare(&pod).await;
        let error = sandbox
            .start(&pod, only(&pod), &pause(), 0)
            .await
            .expect_err(words);
        assert!(matches!(error, StartError::Config(_)));
        assert_eq!(error.to_string(), words);
    }
}

#[tokio::test]
async fn a_container_with_a_token_has_a_kubeconfig_and_others_have_none() {
    let root_ca = json!({"metadata": {"name": "kube-root-ca.crt"}, "data": {"ca.crt": "ca"}});
    let bench = Bench::new([(&format!("{NAMESPACE}/configmaps/kube-root-ca.crt"), root_ca)]);
    let volumes = json!([{"name": "kube-api-access-x", "projected": {"defaultMode": 420, "sources": [
        {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
    ]}}]);
    let at = "/var/run/secrets/kubernetes.io/serviceaccount";
    let pod_with = pod(
        json!({"volumeMounts": [{"name": "kube-api-access-x", "mountPath": at}]}),
        json!({"volumes": volumes}),
    );
    let image = bench.script("echo $KUBECONFIG", &[]);
    let sandbox = bench.prepare(&pod_with).await;
    let running = start(&sandbox, &pod_with, &image, 0).await;
    end(&running).await;

    let path = PathBuf::from(&log(&running)[0]);
    assert_eq!(mode(&path), 0o600);
    let read = kube::config::Kubeconfig::read_from(&path).expect("kube reads it");
    let read = serde_json::to_value(read).expect("it is data");
    assert_eq!(
        read["clusters"][0]["cluster"]["server"],
        "https://127.0.0.1:24680"
    );
    assert_eq!(read["contexts"][0]["context"]["namespace"], "models");
    let token = read["users"][0]["user"]["tokenFile"]
        .as_str()
        .expect("a file");
    assert_eq!(fs::read_to_string(token).expect("a token"), "the token");
    assert_eq!(mode(Path::new(token)), 0o600);
    let requests = bench.requests.lock().expect("not poisoned").clone();
    assert_eq!(requests.len(), 1);
    assert_eq!(
        requests[0]["spec"],
        json!({
            "audiences": [],
            "boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": "manager-0", "uid": "u-1"},
            "expirationSeconds": 3607,
        })
    );
    sandbox.remove().await.expect("it is removed");

    let pod_without = pod(json!({}), json!({"automountServiceAccountToken": false}));
    let sandbox = bench.prepare(&pod_without).await;
    let running = start(&sandbox, &pod_without, &image, 0).await;
    end(&running).await;
    assert_eq!(log(&running), [""]);
}

#[tokio::test]
async fn the_end_comes_after_all_output_and_takes_all_processes_along() {
    let bench = Bench::new([]);
    let pod = pod(json!({}), json!({}));
    let sandbox = bench.prepare(&pod).await;
    let image = bench.script(
        "i=0; while [ $i -lt 2000 ]; do echo line $i; i=$((i+1)); done\n\
         echo trouble >&2; sleep 300 & echo $!; exit 3",
        &[],
    );
    let running = start(&sandbox, &pod, &image, 0).await;
    let finished = end(&running).await;
    // The one that was left had the pipe.
    let drained_for = chrono::Utc::now() - finished.finished_at;
    assert!(drained_for < chrono::Duration::seconds(4), "{drained_for}");
    assert_eq!((finished.exit_code, finished.signal), (3, None));
    assert!(finished.started_at <= finished.finished_at);
    assert_eq!(end(&running).await, finished);
    assert_eq!(running.stop(Duration::ZERO).await, finished);

    let text = fs::read_to_string(running.log()).expect("a log");
    assert_eq!(text.lines().count(), 2002);
    assert_eq!(mode(running.log()), 0o600);
    let first: Vec<&str> = text
        .lines()
        .next()
        .expect("a line")
        .splitn(4, ' ')
        .collect();
    chrono::DateTime::parse_from_rfc3339(first[0]).expect("a time");
    assert_eq!(first[1..], ["stdout", "F", "line 0"]);
    assert!(text.contains(" stderr F trouble\n"));
    let left = log(&running).iter().find_map(|line| line.parse().ok());
    let left = left.expect("a process number");
    until("it ends", || ProcessIdentity::of(left).is_none()).await;
}

#[tokio::test]
async fn a_process_is_asked_to_end_and_then_made_to() {
    let bench = Bench::new([]);
    let pod = pod(json!({}), json!({}));
    let sandbox = bench.prepare(&pod).await;
    let ready = |running: &Running| {
        let path = running.log().to_owned();
        move || fs::metadata(&path).is_ok_and(|log| log.len() > 0)
    };
    let wait = "echo ready; while :; do sleep 0.01; done";
    for (start_number, (trap, code, signal)) in [
        ("trap 'exit 0' TERM", 0, None),
        ("trap 'exit 7' TERM", 7, None),
        ("true", 143, Some(15)),
    ]
    .into_iter()
    .enumerate()
    {
        let image = bench.script(&format!("{trap}; {wait}"), &[]);
        let number = u32::try_from(start_number).expect("a small number");
        let running = start(&sandbox, &pod, &image, number).await;
        until("it runs", ready(&running)).await;
        let finished = running.stop(Duration::from_secs(10)).await;
        assert_eq!(
            (finished.exit_code, finished.signal),
            (code, signal),
            "{trap}"
        );
    }
    let image = bench.script(&format!("trap '' TERM; {wait}"), &[]);
    let running = start(&sandbox, &pod, &image, 3).await;
    until("it runs", ready(&running)).await;
    let finished = running.stop(Duration::from_millis(100)).await;
    assert_eq!((finished.exit_code, finished.signal), (137, Some(9)));
    sandbox.remove().await.expect("it is removed");
}

#[tokio::test]
async fn the_logs_of_the_last_two_starts_are_kept() {
    let bench = Bench::new([]);
    let pod = pod(json!({}), json!({}));
    let sandbox = bench.prepare(&pod).await;
    let image = bench.script("echo start; touch file", &[]);
    let mut ids = Vec::new();
    for number in 0..4 {
        let running = start(&sandbox, &pod, &image, number).await;
        end(&running).await;
        ids.push(running.container_id().to_owned());
    }
    let entries = fs::read_dir(bench.pod_dir().join("manager")).expect("a folder");
    let entries = entries.map(|entry| entry.expect("an entry").file_name());
    let mut names: Vec<_> = entries
        .map(|name| name.into_string().expect("text"))
        .collect();
    names.sort();
    assert_eq!(names, ["2.log", "3", "3.log"]);
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 4);
    assert!(ids.iter().all(|id| id.len() == "aibom-qual://".len() + 64));
}

#[tokio::test]
async fn nothing_outlives_its_owner() {
    let bench = Bench::new([]);
    let pod = pod(json!({}), json!({}));
    let sandbox = bench.prepare(&pod).await;
    let image = bench.script("trap '' TERM; echo $$; while :; do sleep 0.01; done", &[]);
    let process = |running: &Running| {
        let path = running.log().to_owned();
        async move {
            until("it runs", || {
                fs::metadata(&path).is_ok_and(|log| log.len() > 0)
            })
            .await;
            let text = fs::read_to_string(&path).expect("a log");
            let pid = text.trim_end().rsplit(' ').next();
            pid.and_then(|pid| pid.parse().ok())
                .expect("a process number")
        }
    };
    let dropped = start(&sandbox, &pod, &image, 0).await;
    let pid = process(&dropped).await;
    drop(dropped);
    until("it ends", || ProcessIdentity::of(pid).is_none()).await;

    let held = start(&sandbox, &pod, &image, 1).await;
    let pid = process(&held).await;
    sandbox.remove().await.expect("it is removed");
    assert_eq!(ProcessIdentity::of(pid), None);
    assert_eq!(end(&held).await.signal, Some(9));
}

#[tokio::test]
async fn a_container_without_a_process_ends_when_asked_or_when_its_time_has_come() {
    let bench = Bench::new([]);
    let mut pod = pod(json!({}), json!({}));
    let sandbox = bench.prepare(&pod).await;
    let running = start(&sandbox, &pod, &pause(), 0).await;
    assert!(running.ports().is_none());
    assert_eq!(fs::read(running.log()).expect("a log"), b"");
    let lasting = tokio::time::timeout(Duration::from_millis(100), running.exited()).await;
    assert!(lasting.is_err());
    let finished = running.stop(Duration::from_secs(10)).await;
    assert_eq!((finished.exit_code, finished.signal), (0, None));

    let annotate = |pod: &mut Pod, value: &str| {
        let name = "node.aibom-qual.dev/completes-after".to_owned();
        pod.metadata.annotations = Some(BTreeMap::from([(name, value.to_owned())]));
    };
    annotate(&mut pod, "50ms");
    let running = start(&sandbox, &pod, &pause(), 1).await;
    let finished = end(&running).await;
    assert_eq!(finished.exit_code, 0);
    assert!(finished.finished_at - finished.started_at >= chrono::Duration::milliseconds(50));

    for value in ["soon", "-5s"] {
        annotate(&mut pod, value);
        let error = sandbox.start(&pod, only(&pod), &pause(), 2).await;
        let error = error.expect_err("it is no time");
        assert!(matches!(error, StartError::Config(_)));
        assert!(
            error
                .to_string()
                .contains(&format!("{value:?} is not a duration"))
        );
    }
}

#[tokio::test]
async fn a_program_that_is_gone_is_told_at_the_start() {
    let bench = Bench::new([]);
    let pod = pod(json!({}), json!({}));
    let sandbox = bench.prepare(&pod).await;
    let program = bench.root.path().join("program");
    fs::write(&program, "#!/bin/sh\n").expect("a file");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("a mode");
    let image = command([program.to_str().expect("text")]);
    fs::remove_file(&program).expect("it was there");
    let error = sandbox
        .start(&pod, only(&pod), &image, 0)
        .await
        .expect_err("it is gone");
    assert!(matches!(error, StartError::Run(_)));
    let words = format!("cannot execute {}: ", program.display());
    assert!(error.to_string().starts_with(&words), "{error}");
}
