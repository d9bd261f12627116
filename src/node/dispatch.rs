//! The pods that the scheduler bound to this node: one worker each, by UID, so that a pod and a later
//! one of its name never meet.

use std::collections::{HashMap, HashSet};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use k8s_openapi::api::core::v1::Pod;
use kube::api::Api;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, Event};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::pod::{Control, Kubelet, Worker};

/// How long a pod has to end when the node stops, whatever it asks for.
const STOP_GRACE: Duration = Duration::from_secs(3);
/// How long all of them have, folders included.
const STOP_DEADLINE: Duration = Duration::from_secs(6);
/// What a pod gets that was removed without being asked to end.
const GONE_GRACE: Duration = Duration::from_secs(30);

/// A pod in the hands of its worker, or one whose object is still to vanish.
struct Handed {
    updates: watch::Sender<Arc<Pod>>,
    control: Control,
}

/// Hands pods to workers until the node stops, then ends them all.
pub(super) async fn dispatch(kubelet: Arc<Kubelet>, stop: CancellationToken) {
    let mut workers = JoinSet::new();
    let mut pods = HashMap::new();
    stop.run_until_cancelled(follow(&kubelet, &mut pods, &mut workers))
        .await;
    for pod in pods.values() {
        pod.control.mute();
        pod.control.end(STOP_GRACE);
    }
    let all = async { while workers.join_next().await.is_some() {} };
    if timeout(STOP_DEADLINE, all).await.is_err() {
        kubelet
            .journal
            .note(&format!("{} pods did not end in time", workers.len()));
    }
    // What is left is killed with its worker.
    workers.shutdown().await;
}

async fn follow(
    kubelet: &Arc<Kubelet>,
    pods: &mut HashMap<String, Handed>,
    workers: &mut JoinSet<()>,
) {
    let name = &kubelet.options.name;
    let api: Api<Pod> = Api::all(kubelet.uplink.client());
    let config = watcher::Config::default().fields(&format!("spec.nodeName={name}"));
    let mut events = pin!(watcher::watcher(api, config).default_backoff());
    let mut listed: Option<HashSet<String>> = None;
    loop {
        let event = tokio::select! {
            event = events.next() => event,
            Some(ended) = workers.join_next() => {
                if let Err(error) = ended {
                    kubelet.journal.note(&format!("the worker of a pod failed: {error}"));
                }
                continue;
            }
        };
        match event {
            None => return,
            Some(Ok(Event::Init)) => listed = Some(HashSet::new()),
            Some(Ok(Event::InitApply(pod) | Event::Apply(pod))) => {
                if let (Some(listed), Some(uid)) = (&mut listed, &pod.metadata.uid) {
                    listed.insert(uid.clone());
                }
                apply(kubelet, pods, workers, pod);
            }
            Some(Ok(Event::InitDone)) => {
                let listed = listed.take().unwrap_or_default();
                pods.retain(|uid, pod| {
                    let is_there = listed.contains(uid);
                    if !is_there {
                        vanish(pod);
                    }
                    is_there
                });
            }
            Some(Ok(Event::Delete(pod))) => {
                let uid = pod.metadata.uid.unwrap_or_default();
                if let Some(pod) = pods.remove(&uid) {
                    vanish(&pod);
                }
            }
            Some(Err(error)) => kubelet
                .journal
                .note(&format!("the watch of the pods is to begin anew: {error}")),
        }
    }
}

fn apply(
    kubelet: &Arc<Kubelet>,
    pods: &mut HashMap<String, Handed>,
    workers: &mut JoinSet<()>,
    pod: Pod,
) {
    let Some(uid) = pod.metadata.uid.clone() else {
        return;
    };
    let grace = pod.metadata.deletion_timestamp.as_ref().map(|_| {
        let seconds = pod.metadata.deletion_grace_period_seconds.unwrap_or(0);
        Duration::from_secs(u64::try_from(seconds).unwrap_or(0))
    });
    let pod = Arc::new(pod);
    let handed = pods.entry(uid).or_insert_with(|| {
        let (updates, receiver) = watch::channel(Arc::clone(&pod));
        let control = Control::new();
        let worker = Worker::new(Arc::clone(kubelet), receiver, control.clone());
        workers.spawn(worker.run());
        Handed { updates, control }
    });
    handed.updates.send_replace(pod);
    if let Some(grace) = grace {
        handed.control.end(grace);
    }
}

/// A pod whose object is gone: nothing is left to be reported on.
fn vanish(pod: &Handed) {
    pod.control.mute();
    pod.control.end(GONE_GRACE);
}
