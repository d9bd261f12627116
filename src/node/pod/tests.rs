use std::convert::Infallible;
use std::path::Path;

use http::{Method, Request, Response};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::*;
use crate::host::launch::Launcher;
use crate::host::ports::PortPicker;
use crate::node::image::ImageTable;
use crate::node::options::ServingFiles;
use crate::node::status::State;

/// The worker of this pod, beside an API server that answers by method and path.
fn worker(
    dir: &Path,
    pod: Pod,
    answer: impl Fn(&Method, &str) -> (u16, Value) + Clone + Send + 'static,
) -> (Worker, Control, watch::Sender<Arc<Pod>>) {
    let service = tower::service_fn(move |request: Request<Body>| {
        let (code, body) = answer(request.method(), request.uri().path());
        async move {
            // Time for an order to arrive in the meantime.
            sleep(Duration::from_millis(20)).await;
            let answer = Response::builder().status(code);
            let answer = answer.body(Body::from(body.to_string().into_bytes()));
            Ok::<_, Infallible>(answer.expect("an answer"))
        }
    });
    let client = Client::new(service, "default");
    let journal = Arc::new(Journal::open(&dir.join("log")).expect("a log"));
    let options = NodeOptions {
        name: "node".to_owned(),
        server: "https://127.0.0.1:24680".to_owned(),
        server_ca_pem: String::new(),
        kubeconfig: dir.join("kubeconfig"),
        serving: ServingFiles {
            cert: dir.join("crt"),
            key: dir.join("key"),
        },
        client_ca_pem: String::new(),
        dir: dir.join("node"),
        launcher: Launcher::current(),
        images: ImageTable::default(),
        ports: Arc::new(PortPicker::new()),
        kubelet_version: "v1.36.3".to_owned(),
    };
    let kubelet = Kubelet {
        containers: Containers::new(options.clone(), client.clone()),
        options,
        uplink: Arc::new(Uplink::new(client, Arc::clone(&journal))),
        journal,
        recorder: Recorder::new("node").0,
        pods: Pods::default(),
        addresses: Addresses::default(),
    };
    let (updates, receiver) = watch::channel(Arc::new(pod));
    let control = Control::new();
    let worker = Worker::new(Arc::new(kubelet), receiver, control.clone());
    (worker, control, updates)
}

fn pod(spec: Value, phase: &str) -> Pod {
    let pod = json!({
        "metadata": {"namespace": "models", "name": "app", "uid": "u-1"},
        "spec": spec,
        "status": {"phase": phase},
    });
    serde_json::from_value(pod).expect("a pod")
}

fn failure(code: u16, reason: &str, message: &str) -> (u16, Value) {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "reason": reason, "message": message, "code": code,
    });
    (code, status)
}

fn folder() -> TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

#[tokio::test]
async fn the_deletion_is_not_given_up() {
    let folder = folder();
    let object = pod(json!({"containers": []}), "Succeeded");
    let served = serde_json::to_value(&object).expect("JSON");
    let asked = Arc::new(Mutex::new(0));
    let count = Arc::clone(&asked);
    let answer = move |method: &Method, _: &str| {
        assert_eq!(method, Method::DELETE);
        let mut asked = count.lock().expect("not poisoned");
        *asked += 1;
        match *asked {
            1 => failure(403, "Forbidden", "not yet"),
            2 => failure(409, "Conflict", "the object has been modified"),
            _ => (200, served.clone()),
        }
    };
    let (worker, control, _updates) = worker(folder.path(), object, answer);
    control.end(Duration::ZERO);
    worker.run().await;
    assert_eq!(*asked.lock().expect("not poisoned"), 3);
}

#[tokio::test]
async fn nothing_is_left_of_a_pod_that_ends_while_its_volumes_are_made() {
    let folder = folder();
    let spec = json!({
        "containers": [{
            "name": "app", "image": "example.com/app:v1",
            "volumeMounts": [{"name": "key", "mountPath": "/key"}],
        }],
        "volumes": [{"name": "key", "secret": {"secretName": "key"}}],
    });
    let object = pod(spec, "Pending");
    let served = serde_json::to_value(&object).expect("JSON");
    let (tell, mut asked) = watch::channel(false);
    let answer = move |_: &Method, path: &str| {
        if path.ends_with("/secrets/key") {
            tell.send_replace(true);
            return (
                200,
                json!({"metadata": {"name": "key"}, "data": {"k": "djE="}}),
            );
        }
        (200, served.clone())
    };
    let (worker, control, _updates) = worker(folder.path(), object, answer);
    let end = async {
        asked.wait_for(|asked| *asked).await.expect("it asks");
        control.mute();
        control.end(Duration::ZERO);
    };
    tokio::join!(worker.run(), end);
    let pods = std::fs::read_dir(folder.path().join("node")).expect("the node's folder");
    assert_eq!(pods.count(), 0);
}

#[tokio::test]
async fn a_name_that_is_none_stays_the_reason() {
    let folder = folder();
    let spec = json!({"containers": [{"name": "app", "image": "Not A Name"}]});
    let object = pod(spec, "Pending");
    let served = serde_json::to_value(&object).expect("JSON");
    let (worker, control, _updates) = worker(folder.path(), object, move |_: &Method, _: &str| {
        (200, served.clone())
    });
    let mut records = worker.record.subscribe();
    let look = async {
        let reason = |record: &Record| match &record.main[0].state {
            State::Waiting { reason, .. } => *reason,
            state => panic!("{state:?}"),
        };
        let refused = records.wait_for(|record| reason(record) == "InvalidImageName");
        refused.await.expect("a worker");
        let backs_off = records.wait_for(|record| reason(record) == "ImagePullBackOff");
        let backs_off = tokio::time::timeout(Duration::from_secs(2), backs_off).await;
        assert!(backs_off.is_err());
        control.mute();
        control.end(Duration::ZERO);
    };
    tokio::join!(worker.run(), look);
}
