//! A node without a cluster, and what the tests ask of its containers.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use aibom_qual::host::launch::Launcher;
use aibom_qual::host::ports::PortPicker;
use aibom_qual::node::container::{Containers, Finished, Running, Sandbox};
use aibom_qual::node::image::{CommandTemplate, Image, ImageTable, ImageUser, Pulled, Runtime};
use aibom_qual::node::options::{NodeOptions, ServingFiles};
use http::{Method, Request, Response};
use http_body_util::BodyExt as _;
use k8s_openapi::api::core::v1::{Container, Pod};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support;

pub(crate) const NAMESPACE: &str = "/api/v1/namespaces/models";

/// A node without a cluster.
pub(crate) struct Bench {
    pub(crate) root: TempDir,
    pub(crate) containers: Containers,
    /// Bodies of the token requests.
    pub(crate) requests: Arc<Mutex<Vec<Value>>>,
}

impl Bench {
    /// `objects` by the path of their URL.
    pub(crate) fn new<const N: usize>(objects: [(&str, Value); N]) -> Self {
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
    pub(crate) fn script(&self, text: &str, args: &[&str]) -> Pulled {
        let path = self.root.path().join("script");
        fs::write(&path, text).expect("a script");
        let words = ["/bin/sh", path.to_str().expect("text")];
        command(words.into_iter().chain(args.iter().copied()))
    }

    pub(crate) fn pod_dir(&self) -> PathBuf {
        self.root.path().join("node/u-1")
    }

    pub(crate) async fn prepare(&self, pod: &Pod) -> Sandbox {
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

pub(crate) fn command<'a>(words: impl IntoIterator<Item = &'a str>) -> Pulled {
    let template = CommandTemplate::from_words(words).expect("a command");
    pulled(Runtime::Command(template), ImageUser::Uid(65532))
}

fn pulled(runtime: Runtime, user: ImageUser) -> Pulled {
    Pulled {
        image: Image { runtime, user },
        id: "example.com/manager@sha256:0".to_owned(),
    }
}

pub(crate) fn pause() -> Pulled {
    pulled(Runtime::Pause, ImageUser::Uid(0))
}

/// A pod with one container; both are completed by what is given.
pub(crate) fn pod(container: Value, spec: Value) -> Pod {
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

pub(crate) fn merge(object: &mut Value, more: Value) {
    let object = object.as_object_mut().expect("an object");
    let Value::Object(more) = more else {
        panic!("{more} is not an object");
    };
    object.extend(more);
}

pub(crate) fn only(pod: &Pod) -> &Container {
    &pod.spec.as_ref().expect("a spec").containers[0]
}

pub(crate) async fn start(sandbox: &Sandbox, pod: &Pod, pulled: &Pulled, start: u32) -> Running {
    let started = sandbox.start(pod, only(pod), pulled, start).await;
    started.expect("it starts")
}

/// Its end, which is expected within moments.
pub(crate) async fn end(running: &Running) -> Finished {
    let end = tokio::time::timeout(Duration::from_secs(20), running.exited()).await;
    end.expect("it ends")
}

/// The log's lines without times and tags.
pub(crate) fn log(running: &Running) -> Vec<String> {
    let text = fs::read_to_string(running.log()).expect("a log");
    let content = text.lines().map(|line| {
        let (_, content) = line.split_once(" F ").expect("a full line");
        content.to_owned()
    });
    content.collect()
}

pub(crate) async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(20), "{what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

pub(crate) fn mode(path: &Path) -> u32 {
    let metadata = path.metadata().expect("it exists");
    metadata.permissions().mode() & 0o7777
}
