//! What the virtual node's containers need of a real API server, as the node's identity.

#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests fail like the tests themselves"
)]

mod support;

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use aibom_qual::cluster::client::connect;
use aibom_qual::cluster::wait::{Deadline, Look, wait_until};
use aibom_qual::host::launch::Launcher;
use aibom_qual::host::ports::PortPicker;
use aibom_qual::node::container::Containers;
use aibom_qual::node::image::{CommandTemplate, Image, ImageTable, ImageUser, Pulled, Runtime};
use aibom_qual::node::options::{NodeOptions, ServingFiles};
use aibom_qual::plane::Plane;
use aibom_qual::plane::event::Silent;
use http::{HeaderValue, Request};
use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod, Secret, ServiceAccount};
use kube::api::PostParams;
use kube::client::{Body, ClientBuilder};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tower::util::MapRequestLayer;

const NODE: &str = "local";

/// The administrator's client in the clothes of the node.
async fn as_node(file: Kubeconfig) -> Client {
    let config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await;
    let builder = ClientBuilder::try_from(config.expect("a config")).expect("a client");
    let dress = MapRequestLayer::new(|mut request: Request<Body>| {
        let headers = request.headers_mut();
        let user = HeaderValue::from_static("system:node:local");
        headers.insert("impersonate-user", user);
        for group in ["system:nodes", "system:authenticated"] {
            headers.append("impersonate-group", HeaderValue::from_static(group));
        }
        request
    });
    builder.with_layer(&dress).build()
}

async fn create<K>(api: Api<K>, object: Value) -> K
where
    K: kube::Resource + Clone + DeserializeOwned + Serialize + std::fmt::Debug,
{
    let object = serde_json::from_value(object).expect("an object");
    let created = api.create(&PostParams::default(), &object).await;
    created.expect("it is created")
}

/// Waits for what the controller manager makes in every namespace.
async fn settled(client: &Client) {
    let accounts = Api::<ServiceAccount>::default_namespaced(client.clone());
    let configs = Api::<ConfigMap>::default_namespaced(client.clone());
    let soon = Deadline::within(Duration::from_secs(60));
    wait_until("the service account and its authority", soon, async || {
        let account = accounts.get_opt("default").await?.is_some();
        let authority = configs.get_opt("kube-root-ca.crt").await?.is_some();
        Ok(match account && authority {
            true => Look::Done(()),
            false => Look::NotYet(format!("account: {account}, authority: {authority}")),
        })
    })
    .await
    .expect("they appear");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bound_pod_gets_its_volumes_and_acts_as_its_service_account() {
    let world = support::World::new();
    let plane = Plane::start(&world.throw_away(), Arc::new(Silent)).await;
    let plane = plane.expect("a plane");
    let admin = connect(&plane.kubeconfig()).await.expect("a client");
    settled(&admin).await;
    create(
        Api::<Node>::all(admin.clone()),
        json!({"metadata": {"name": NODE}}),
    )
    .await;
    let secret = json!({"metadata": {"name": "keys"}, "stringData": {"key": "s3cret"}});
    create(Api::<Secret>::default_namespaced(admin.clone()), secret).await;
    let pod = json!({
        "metadata": {"name": "manager"},
        "spec": {
            "nodeName": NODE,
            "containers": [{
                "name": "manager", "image": "example.com/manager:v1",
                "env": [{"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "keys", "key": "key"}}}],
            }],
        },
    });
    let pods = Api::<Pod>::default_namespaced(admin.clone());
    let pod = create(pods, pod).await;

    let file = Kubeconfig::read_from(plane.kubeconfig()).expect("a kubeconfig");
    let cluster = file.clusters[0].cluster.clone().expect("a cluster");
    let cluster = serde_json::to_value(cluster).expect("data");
    let text = |name: &str| cluster[name].as_str().expect("text").to_owned();
    let authority: k8s_openapi::ByteString =
        serde_json::from_value(cluster["certificate-authority-data"].clone()).expect("base64");
    let options = NodeOptions {
        name: NODE.to_owned(),
        server: text("server"),
        server_ca_pem: String::from_utf8(authority.0).expect("PEM"),
        kubeconfig: plane.kubeconfig(),
        serving: ServingFiles {
            cert: world.path("crt"),
            key: world.path("key"),
        },
        client_ca_pem: String::new(),
        dir: world.path("node"),
        launcher: Launcher::new(support::EXE),
        images: ImageTable::default(),
        ports: Arc::new(PortPicker::new()),
        kubelet_version: "v1.36.3".to_owned(),
    };
    let containers = Containers::new(options, as_node(file).await);
    let sandbox = containers.prepare(&pod).await.expect("a sandbox");
    let script = "echo $KUBECONFIG; echo $KEY";
    let template = CommandTemplate::from_words(["/bin/sh", "-c", script]).expect("a command");
    let pulled = Pulled {
        image: Image {
            runtime: Runtime::Command(template),
            user: ImageUser::Uid(65532),
        },
        id: String::new(),
    };
    let container = &pod.spec.as_ref().expect("a spec").containers[0];
    let running = sandbox.start(&pod, container, &pulled, 0).await;
    let running = running.expect("it starts");
    assert_eq!(running.exited().await.exit_code, 0);
    let log = fs::read_to_string(running.log()).expect("a log");
    let lines: Vec<&str> = log
        .lines()
        .filter_map(|line| line.rsplit(' ').next())
        .collect();
    assert_eq!(lines[1..], ["s3cret"]);

    let pods_own = connect(lines[0].as_ref()).await.expect("a client");
    let review = Api::<SelfSubjectReview>::all(pods_own);
    let review = create(review, json!({"metadata": {}})).await;
    let user = review
        .status
        .and_then(|status| status.user_info)
        .expect("a user");
    assert_eq!(
        user.username.as_deref(),
        Some("system:serviceaccount:default:default")
    );
    let bound_to = &user.extra.expect("more")["authentication.kubernetes.io/pod-uid"];
    assert_eq!(Some(&bound_to[0]), pod.metadata.uid.as_ref());

    sandbox.remove().await.expect("it is removed");
    plane.stop().await.expect("the plane stops");
}
