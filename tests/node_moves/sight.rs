//! What a watch of the controller's pods sees, without a gap.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::StreamExt as _;
use k8s_openapi::api::core::v1::Pod;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::node::{container, holds};

/// Rollouts of a controller take ten seconds; a machine with much else to do needs more.
const LIMIT: Duration = Duration::from_secs(120);

/// A watch from the first moment on.
pub(crate) struct Sight {
    seen: watch::Sender<Seen>,
    task: JoinHandle<()>,
}

#[derive(Default)]
struct Seen {
    /// By UID.
    pods: BTreeMap<String, Pod>,
    is_complete: bool,
    /// The fewest that were ready, and the most, since somebody asked for that.
    ready: Option<(usize, usize)>,
}

impl Seen {
    fn count(&mut self) {
        let now = self.pods.values().filter(|pod| serves(pod)).count();
        let (fewest, most) = self.ready.unwrap_or((now, now));
        self.ready = Some((fewest.min(now), most.max(now)));
    }
}

/// Whether a pod is ready and not about to end.
fn serves(pod: &Pod) -> bool {
    holds(pod, "Ready") && pod.metadata.deletion_timestamp.is_none()
}

fn uid(pod: &Pod) -> String {
    pod.metadata.uid.clone().expect("a UID")
}

impl Sight {
    /// Returns when the pods that are there now are known.
    pub(crate) async fn begin(client: &Client, namespace: &str) -> Self {
        let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
        let seen = watch::Sender::new(Seen::default());
        let sender = seen.clone();
        let task = tokio::spawn(async move {
            let mut events = watcher(pods, watcher::Config::default()).boxed();
            let mut listed = BTreeMap::new();
            while let Some(event) = events.next().await {
                // The stream goes on after trouble, with a list.
                let Ok(event) = event else { continue };
                sender.send_modify(|seen| match event {
                    Event::Init => listed.clear(),
                    Event::InitApply(pod) => {
                        listed.insert(uid(&pod), pod);
                    }
                    Event::InitDone => {
                        seen.pods = std::mem::take(&mut listed);
                        seen.is_complete = true;
                        seen.count();
                    }
                    Event::Apply(pod) => {
                        seen.pods.insert(uid(&pod), pod);
                        seen.count();
                    }
                    Event::Delete(pod) => {
                        seen.pods.remove(&uid(&pod));
                        seen.count();
                    }
                });
            }
        });
        let sight = Self { seen, task };
        let mut first = sight.seen.subscribe();
        let complete = timeout(LIMIT, first.wait_for(|seen| seen.is_complete)).await;
        complete.expect("a first list").expect("the watch goes on");
        sight
    }

    /// Waits until the pods fit.
    pub(crate) async fn until<T>(
        &self,
        what: &str,
        mut fits: impl FnMut(&[&Pod]) -> Option<T>,
    ) -> T {
        let mut seen = self.seen.subscribe();
        let mut found = None;
        let waited = timeout(
            LIMIT,
            seen.wait_for(|seen| {
                let pods: Vec<&Pod> = seen.pods.values().collect();
                found = fits(&pods);
                found.is_some()
            }),
        )
        .await
        .is_ok();
        if !waited {
            let now = serde_json::to_string(&self.seen.borrow().pods).unwrap_or_default();
            panic!("{what}: {now}");
        }
        found.expect("it fits")
    }

    /// Waits until one pod alone is there, ready and of this image; its name.
    pub(crate) async fn only(&self, image_id: &str) -> String {
        let what = format!("one ready pod of {image_id}");
        self.until(&what, |pods| match pods {
            [pod] if serves(pod) && container(pod)?.image_id == image_id => {
                pod.metadata.name.clone()
            }
            _ => None,
        })
        .await
    }

    /// Waits until there is a pod beside this one that fits; its name.
    pub(crate) async fn beside(
        &self,
        old: &str,
        what: &str,
        fits: impl Fn(&Pod) -> bool,
    ) -> String {
        self.until(what, |pods| {
            let mut others = pods
                .iter()
                .filter(|pod| pod.metadata.name.as_deref() != Some(old));
            let other = others.find(|pod| fits(pod))?;
            other.metadata.name.clone()
        })
        .await
    }

    /// The fewest and the most pods that were ready at a time since the last call.
    pub(crate) fn ready(&self) -> (usize, usize) {
        let mut counted = (0, 0);
        self.seen.send_modify(|seen| {
            counted = seen.ready.take().unwrap_or_default();
            seen.count();
        });
        counted
    }
}

impl Drop for Sight {
    fn drop(&mut self) {
        self.task.abort();
    }
}
