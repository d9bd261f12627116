//! The controller's building blocks against a real API server: what its own metrics say of it.

#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests fail like the tests themselves"
)]

mod support;

use std::convert::Infallible;
use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use aibom_qual::controller::runtime::client::connect;
use aibom_qual::controller::runtime::discovery::Served;
use aibom_qual::controller::runtime::metrics::Metrics;
use aibom_qual::controller::runtime::queue::{Add, Queue};
use aibom_qual::controller::runtime::store::{Informer, ObjectKey};
use aibom_qual::controller::runtime::watch::{Watch, dice};
use aibom_qual::controller::runtime::worker::{Outcome, Reconciler, Worker};
use aibom_qual::plane::Plane;
use aibom_qual::plane::event::Silent;
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod};
use kube::api::{DeleteParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::GroupVersionKind;
use kube::{Api, Client, Config, Resource};
use serde::de::DeserializeOwned;
use serde_json::json;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// Writes into every marked object, once.
#[derive(Clone)]
struct Marker {
    cache: Informer<ConfigMap>,
    client: Client,
    reconciles: Arc<AtomicU64>,
}

impl Reconciler<ObjectKey> for Marker {
    type Error = kube::Error;

    async fn reconcile(&self, key: &ObjectKey) -> Result<Outcome, kube::Error> {
        self.reconciles.fetch_add(1, Ordering::Relaxed);
        let Some(object) = self.cache.get(key) else {
            return Ok(Outcome::Done);
        };
        if is_seen(&object) {
            return Ok(Outcome::Done);
        }
        let mut object = (*object).clone();
        let data = object.data.get_or_insert_default();
        data.insert("seen".to_owned(), "yes".to_owned());
        let api = Api::<ConfigMap>::namespaced(self.client.clone(), &key.namespace);
        match api
            .replace(&key.name, &PostParams::default(), &object)
            .await
        {
            Ok(_) => Ok(Outcome::Done),
            Err(kube::Error::Api(status)) if status.is_conflict() => Ok(Outcome::Requeue),
            Err(error) => Err(error),
        }
    }
}

fn is_seen(object: &ConfigMap) -> bool {
    object.data.iter().flatten().any(|(name, _)| name == "seen")
}

/// Starts an informer in the set; trouble ends it, and with it the set.
fn inform<K>(client: &Client, tasks: &mut JoinSet<Infallible>) -> Informer<K>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
{
    let informer = Informer::new(K::kind(&()).into_owned());
    let watch = Watch::new(Api::<K>::all(client.clone()), K::kind(&()), dice());
    let driven = informer.clone();
    tasks.spawn(async move {
        driven
            .drive(watch, dice(), |trouble| panic!("{trouble:?}"))
            .await
    });
    informer
}

fn requests(metrics: &Metrics, code: &str, method: &str) -> u64 {
    let text = metrics.render().expect("text");
    let start = format!("rest_client_requests_total{{code=\"{code}\",host=\"127.0.0.1:");
    let line = text
        .lines()
        .find(|line| line.starts_with(&start) && line.contains(&format!("method=\"{method}\"")));
    line.and_then(|line| line.rsplit_once(' '))
        .map_or(0, |(_, number)| number.parse().expect("a number"))
}

async fn until(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < Duration::from_secs(20), "{what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_costs_one_request_per_informer_and_two_to_discover() {
    let world = support::World::new();
    let plane = Plane::start(&world.throw_away(), Arc::new(Silent)).await;
    let plane = plane.expect("a plane");
    let file = Kubeconfig::read_from(plane.kubeconfig()).expect("a kubeconfig");
    let config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await;
    let config = config.expect("a config");
    let metrics = Metrics::new().expect("metrics");
    let client = connect(config, "manager/test", Arc::clone(&metrics)).expect("a client");

    let served = Served::discover(&client).await.expect("an answer");
    for (group, version, kind) in [
        ("", "v1", "Pod"),
        ("apps", "v1", "Deployment"),
        ("batch", "v1", "Job"),
    ] {
        let kind = GroupVersionKind::gvk(group, version, kind);
        served.check(&kind).expect("it is served");
    }
    let absent = GroupVersionKind::gvk("example.dev", "v1", "Thing");
    served.check(&absent).expect_err("it is not served");

    let mut tasks = JoinSet::new();
    let cache = inform::<ConfigMap>(&client, &mut tasks);
    let others = [
        inform::<Deployment>(&client, &mut tasks).sync_flag(),
        inform::<StatefulSet>(&client, &mut tasks).sync_flag(),
        inform::<DaemonSet>(&client, &mut tasks).sync_flag(),
        inform::<ReplicaSet>(&client, &mut tasks).sync_flag(),
        inform::<Job>(&client, &mut tasks).sync_flag(),
        inform::<Pod>(&client, &mut tasks).sync_flag(),
        inform::<Namespace>(&client, &mut tasks).sync_flag(),
    ];
    let queue = Queue::new("configmap", &metrics);
    let target = queue.clone();
    cache.subscribe(move |change| {
        let key = ObjectKey::of(change.object());
        if key.name.starts_with("marked") {
            let priority = change.priority();
            let how = Add {
                priority,
                ..Add::default()
            };
            target.add_with(key, how);
        }
    });
    let reconciler = Marker {
        cache: cache.clone(),
        client: client.clone(),
        reconciles: Arc::default(),
    };
    let reconciles = Arc::clone(&reconciler.reconciles);
    let mut worker = Worker::new("configmap", queue, reconciler, &metrics)
        .source(cache.sync_flag())
        .deadline(Duration::from_secs(60));
    for flag in others.clone() {
        worker = worker.source(flag);
    }
    let stop = CancellationToken::new();
    let working = tokio::spawn(worker.run(stop.clone()));
    until("all informers sync", || {
        others.iter().all(|flag| flag.is_synced()) && cache.sync_flag().is_synced()
    })
    .await;
    assert_eq!(requests(&metrics, "200", "GET"), 10);

    let api = Api::<ConfigMap>::default_namespaced(client.clone());
    for name in ["marked-1", "marked-2"] {
        let object =
            serde_json::from_value(json!({"metadata": {"name": name}, "data": {"a": "b"}}));
        let object = object.expect("an object");
        let created = api.create(&PostParams::default(), &object).await;
        created.expect("it is created");
    }
    until("both are written", || requests(&metrics, "200", "PUT") == 2).await;
    // One for the creation and one for the write, unless the queue merges them.
    until("the writes come back", || {
        (2..=4).contains(&reconciles.load(Ordering::Relaxed))
            && cache
                .in_namespace("default")
                .iter()
                .filter(|o| o.data.is_some())
                .count()
                >= 2
    })
    .await;
    let written = api.get("marked-1").await.expect("the object");
    let managers = written.metadata.managed_fields.unwrap_or_default();
    assert!(!managers.is_empty());
    for entry in managers {
        assert_eq!(entry.manager.as_deref(), Some("manager"));
        assert_eq!(entry.operation.as_deref(), Some("Update"));
    }
    api.delete("marked-1", &DeleteParams::default())
        .await
        .expect("it is deleted");
    let key = ObjectKey::new("default", "marked-1");
    until("the deletion is heard of", || cache.get(&key).is_none()).await;
    // The GET of this test itself, and not one more.
    assert_eq!(requests(&metrics, "200", "GET"), 11);
    assert_eq!(requests(&metrics, "409", "PUT"), 0);

    assert_eq!(tasks.try_join_next().map(|ended| ended.is_ok()), None);
    tasks.shutdown().await;
    stop.cancel();
    working.await.expect("no panic").expect("no error");
    plane.stop().await.expect("the plane stops");
}
