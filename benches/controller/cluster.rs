//! A private plane with the definitions of one release, and what happens to the AIBOMs on it.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::num::NonZeroUsize;
use std::ops::Sub;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use aibom_qual::cluster::client::connect;
use aibom_qual::cluster::crd::established;
use aibom_qual::cluster::wait::Deadline;
use aibom_qual::controller::api::meta::ConditionStatus;
use aibom_qual::controller::api::object::{AibomObject, ConfigObject, resource};
use aibom_qual::controller::api::release::{ApiKind, ApiVersion};
use aibom_qual::host::launch::Launcher;
use aibom_qual::plane::Plane;
use aibom_qual::plane::dirs::Dirs;
use aibom_qual::plane::event::Silent;
use aibom_qual::plane::options::PlaneOptions;
use aibom_qual::workloads::{Applied, Load, Mix, Plan};
use futures_util::StreamExt as _;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::EXE;
use crate::process::{label, samples};

const GROUP: &str = "aibom.k8saibom.dev";
/// Nothing that is waited for takes this long.
const LIMIT: Duration = Duration::from_secs(180);

/// The user's cache, and a state folder of this benchmark's own.
pub(crate) fn dirs(state: Option<PathBuf>) -> Dirs {
    let cache = std::env::var_os("AIBOM_QUAL_CACHE_DIR").map(PathBuf::from);
    Dirs::resolve(cache, state).expect("a cache folder")
}

/// When each AIBOM was written, and when it was first seen ready.
#[derive(Clone, Default)]
pub(crate) struct Board(Arc<Mutex<HashMap<(String, String), Seen>>>);

struct Seen {
    written: Instant,
    ready: Option<Instant>,
}

impl Board {
    /// Forgets everything: what comes from now on counts.
    pub(crate) fn clear(&self) {
        self.0.lock().expect("a lock").clear();
    }

    fn saw(&self, aibom: AibomObject) {
        let now = Instant::now();
        let mut conditions = aibom.status.conditions.iter();
        let is_ready =
            conditions.any(|known| known.type_ == "Ready" && known.status == ConditionStatus::True);
        let key = (
            aibom.metadata.namespace.unwrap_or_default(),
            aibom.metadata.name.unwrap_or_default(),
        );
        let mut all = self.0.lock().expect("a lock");
        let seen = all.entry(key).or_insert(Seen {
            written: now,
            ready: None,
        });
        seen.written = now;
        if is_ready {
            seen.ready.get_or_insert(now);
        }
    }

    /// The last of the moments that `pick` takes from the AIBOMs of a namespace, once there are so
    /// many; else how many there are.
    fn last(
        &self,
        namespace: &str,
        count: u32,
        pick: impl Fn(&Seen) -> Option<Instant>,
    ) -> Result<Instant, usize> {
        let all = self.0.lock().expect("a lock");
        let here = all.iter().filter(|((known, _), _)| known == namespace);
        let moments: Vec<_> = here.filter_map(|(_, seen)| pick(seen)).collect();
        match moments.iter().max() {
            Some(last) if moments.len() == count as usize => Ok(*last),
            _ => Err(moments.len()),
        }
    }
}

/// Requests that the server counted.
#[derive(Clone, Copy)]
pub(crate) struct Written {
    /// Creations of AIBOMs.
    pub(crate) aiboms: u64,
    /// Updates of AIBOMs themselves.
    pub(crate) aibom_objects: u64,
    /// Updates of their statuses.
    pub(crate) aibom_statuses: u64,
    /// Updates of the configuration's status.
    pub(crate) config_statuses: u64,
}

impl Sub for Written {
    type Output = Self;

    fn sub(self, before: Self) -> Self {
        Self {
            aiboms: self.aiboms - before.aiboms,
            aibom_objects: self.aibom_objects - before.aibom_objects,
            aibom_statuses: self.aibom_statuses - before.aibom_statuses,
            config_statuses: self.config_statuses - before.config_statuses,
        }
    }
}

/// When a `kubectl apply` had made its first object, and when it ended.
pub(crate) struct KubectlApply {
    pub(crate) first: Instant,
    pub(crate) ended: Instant,
}

/// A plane under measurement.
pub(crate) struct Cluster {
    plane: Plane,
    client: Client,
    pub(crate) board: Board,
    watch: JoinHandle<()>,
    log: PathBuf,
}

impl Cluster {
    /// A plane with the definitions of this release and a configuration.
    pub(crate) async fn start(work: &Path, release: &str) -> Self {
        let options = PlaneOptions {
            launcher: Launcher::new(EXE),
            ..PlaneOptions::throw_away(dirs(Some(work.join("state"))))
        };
        let plane = Plane::start(&options, Arc::new(Silent)).await;
        let plane = plane.expect("a plane");
        let client = connect(&plane.kubeconfig()).await.expect("a client");
        define(&client, release).await;
        let configs = resource(ApiKind::ControllerConfig, ApiVersion::V1Beta1);
        let configs = Api::<ConfigObject>::all_with(client.clone(), &configs);
        let object = json!({
            "apiVersion": format!("{GROUP}/v1beta1"),
            "kind": ApiKind::ControllerConfig.kind(),
            "metadata": {"name": "default"},
        });
        let object = serde_json::from_value(object).expect("a configuration");
        let created = configs.create(&PostParams::default(), &object).await;
        created.expect("the configuration");

        let board = Board::default();
        let aiboms = resource(ApiKind::Aibom, ApiVersion::V1Beta1);
        let aiboms = Api::<AibomObject>::all_with(client.clone(), &aiboms);
        let to_tell = board.clone();
        let watch = tokio::spawn(async move {
            let events = watcher(aiboms, watcher::Config::default()).applied_objects();
            let mut events = events.default_backoff().boxed();
            while let Some(event) = events.next().await {
                to_tell.saw(event.expect("a watch that does not break"));
            }
        });
        Self {
            plane,
            client,
            board,
            watch,
            log: work.join("controller.log"),
        }
    }

    pub(crate) async fn stop(self) {
        self.watch.abort();
        self.plane.stop().await.expect("the plane stops");
    }

    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.plane.kubeconfig()
    }

    /// Where a controller writes its log.
    pub(crate) fn log(&self) -> PathBuf {
        self.log.clone()
    }

    /// Makes workloads in a namespace that is opted in, as fast as the server takes them.
    pub(crate) async fn load(&self, namespace: &str, count: u32) -> Applied {
        let load = Load {
            concurrency: NonZeroUsize::new(16).expect("some"),
            rate: None,
            within: LIMIT,
        };
        let applied = load.apply(&self.client, &plan(namespace, count)).await;
        let applied = applied.expect("a namespace");
        assert_eq!(applied.created, count, "{applied:?}");
        applied
    }

    /// Makes the namespace only, and writes the workloads into a file for `kubectl apply`.
    pub(crate) async fn write_list(&self, namespace: &str, count: u32, file: &Path) {
        self.load(namespace, 0).await;
        let items: Vec<_> = plan(namespace, count).workloads().collect();
        let list = json!({"apiVersion": "v1", "kind": "List", "items": items});
        fs::write(file, list.to_string()).expect("a file");
    }

    pub(crate) async fn kubectl_apply(&self, kubectl: &Path, list: &Path) -> KubectlApply {
        let mut command = Command::new(kubectl);
        command.arg("--kubeconfig").arg(self.kubeconfig());
        command.args(["apply", "-f"]).arg(list);
        command.env("NO_PROXY", "127.0.0.1").stdout(Stdio::piped());
        let apply = move || {
            let mut kubectl = command.spawn().expect("kubectl starts");
            let mut lines = BufReader::new(kubectl.stdout.take().expect("its output")).lines();
            let first = lines.next().expect("a line").expect("text");
            let began = Instant::now();
            assert!(first.ends_with(" created"), "{first}");
            let rest = lines.filter(|line| line.is_ok()).count();
            assert!(kubectl.wait().expect("it ends").success(), "kubectl failed");
            assert_eq!(rest + 1, crate::LOAD as usize);
            KubectlApply {
                first: began,
                ended: Instant::now(),
            }
        };
        tokio::task::spawn_blocking(apply).await.expect("kubectl")
    }

    /// Waits until the cluster's own controllers have nothing left to do with the Deployments.
    pub(crate) async fn at_rest(&self) {
        let api = Api::<Deployment>::all(self.client.clone());
        let begun = Instant::now();
        let mut last = Vec::new();
        loop {
            let list = api.list(&ListParams::default()).await.expect("a list");
            let is_seen = |object: &Deployment| {
                let status = object.status.as_ref();
                status.and_then(|status| status.observed_generation) == object.metadata.generation
            };
            let all_seen = list.items.iter().all(is_seen);
            let objects = list.items.into_iter();
            let versions: Vec<_> = objects.map(|o| o.metadata.resource_version).collect();
            if all_seen && versions == last {
                return;
            }
            assert!(begun.elapsed() < LIMIT, "the Deployments still change");
            last = versions;
            tokio::time::sleep(Duration::from_secs(3)).await;
        }
    }

    /// When the last of so many AIBOMs became ready.
    pub(crate) async fn all_ready(&self, namespace: &str, count: u32) -> Instant {
        self.last("ready", namespace, count, |seen| seen.ready)
            .await
    }

    /// When the last of so many AIBOMs was written.
    pub(crate) async fn all_written(&self, namespace: &str, count: u32) -> Instant {
        let pick = |seen: &Seen| Some(seen.written);
        self.last("written", namespace, count, pick).await
    }

    async fn last(
        &self,
        what: &str,
        namespace: &str,
        count: u32,
        pick: impl Fn(&Seen) -> Option<Instant>,
    ) -> Instant {
        let begun = Instant::now();
        loop {
            match self.board.last(namespace, count, &pick) {
                Ok(moment) => return moment,
                Err(seen) => assert!(
                    begun.elapsed() < LIMIT,
                    "{seen} of {count} AIBOMs are {what}; the controller's log: {}",
                    fs::read_to_string(&self.log).unwrap_or_default()
                ),
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// What the server has counted so far. There is one server, so that the difference of two counts.
    pub(crate) async fn written(&self) -> Written {
        let request = http::Request::get("/metrics").body(Vec::new());
        let text = self.client.request_text(request.expect("a request")).await;
        let text = text.expect("the server's metrics");
        let mut counted = BTreeMap::new();
        for (labels, value) in samples(&text, "apiserver_request_total") {
            if label(labels, "group") == GROUP {
                let key = ["resource", "subresource", "verb"].map(|name| label(labels, name));
                *counted.entry(key).or_insert(0) += value as u64;
            }
        }
        let count = |resource: ApiKind, subresource: &str, verb: &str| {
            let key = [resource.plural(), subresource, verb].map(str::to_owned);
            counted.get(&key).copied().unwrap_or_default()
        };
        Written {
            aiboms: count(ApiKind::Aibom, "", "POST"),
            aibom_objects: count(ApiKind::Aibom, "", "PUT"),
            aibom_statuses: count(ApiKind::Aibom, "status", "PUT"),
            config_statuses: count(ApiKind::ControllerConfig, "status", "PUT"),
        }
    }
}

fn plan(namespace: &str, count: u32) -> Plan {
    let opted_in = (format!("{GROUP}/enabled"), "true".to_owned());
    Plan {
        mix: Mix::VllmReplicas0,
        first: 0,
        count,
        seed: 1,
        namespaces: vec![namespace.parse().expect("a name")],
        namespace_labels: BTreeMap::from([opted_in]),
    }
}

/// Applies both definitions of a chart on the server's side, as its instructions say.
async fn define(client: &Client, release: &str) {
    let charts = Path::new(env!("CARGO_MANIFEST_DIR")).join("charts");
    let folder = charts.join(release).join("crds");
    let api = Api::<CustomResourceDefinition>::all(client.clone());
    for kind in ApiKind::ALL {
        let file = folder.join(format!("{GROUP}_{}.yaml", kind.plural()));
        let text = fs::read_to_string(file).expect("a definition");
        let object: Value = serde_yaml::from_str(&text).expect("YAML");
        let params = PatchParams::apply("k8s-aibom-crds").force();
        let name = format!("{}.{GROUP}", kind.plural());
        let applied = api.patch(&name, &params, &Patch::Apply(object)).await;
        applied.expect("it is accepted");
        let soon = Deadline::within(Duration::from_secs(60));
        established(client, &name, soon)
            .await
            .expect("it is served");
    }
}
