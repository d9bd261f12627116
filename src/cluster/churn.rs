//! How often other objects change in a window: what the controller's reconciles may be due to (MET-06).
//!
//! Only metadata is asked for, and nothing of it is kept.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::future::try_join_all;
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::core::{ApiResource, DynamicObject, PartialObjectMeta};
use kube::runtime::watcher::Config;
use kube::{Api, Client};
use tokio::task::JoinSet;

use super::fault::Fault;
use super::follow::{Change, Follow};
use super::outage::Outage;

/// Pods, namespaces and the kinds of workload that every cluster serves. Kinds that a definition adds
/// are the caller's to name.
#[must_use]
pub fn built_in_kinds() -> Vec<ApiResource> {
    vec![
        ApiResource::erase::<Pod>(&()),
        ApiResource::erase::<Namespace>(&()),
        ApiResource::erase::<Deployment>(&()),
        ApiResource::erase::<ReplicaSet>(&()),
        ApiResource::erase::<StatefulSet>(&()),
        ApiResource::erase::<DaemonSet>(&()),
        ApiResource::erase::<Job>(&()),
        ApiResource::erase::<CronJob>(&()),
    ]
}

/// A watch of the objects of some kinds in all namespaces. It ends when it is dropped.
#[derive(Debug)]
pub struct ChurnWatch {
    seen: Arc<Mutex<Seen>>,
    _tasks: JoinSet<()>,
}

#[derive(Debug, Default)]
struct Seen {
    counts: BTreeMap<String, u64>,
    holes: Vec<String>,
}

impl ChurnWatch {
    /// Begins. Every change after this returns counts. A kind that the server does not serve has no
    /// objects that could change, and stays out.
    ///
    /// # Errors
    ///
    /// The [`Fault`] for which a kind cannot be listed.
    pub async fn start(client: &Client, kinds: &[ApiResource]) -> Result<Self, Fault> {
        let begin = kinds.iter().map(|kind| begin(client, kind));
        let begun = try_join_all(begin).await?;
        let seen = Arc::new(Mutex::new(Seen::default()));
        let mut tasks = JoinSet::new();
        for (kind, mut follow) in begun.into_iter().flatten() {
            lock(&seen).counts.insert(kind.clone(), 0);
            let seen = Arc::clone(&seen);
            tasks.spawn(async move {
                let mut outage = Outage::default();
                loop {
                    let change = follow.next().await;
                    lock(&seen).take(&kind, &change, &mut outage);
                }
            });
        }
        Ok(Self {
            seen,
            _tasks: tasks,
        })
    }

    /// Changes so far, by kind: objects made, changed or deleted. Every kind that is watched is there.
    #[must_use]
    pub fn counts(&self) -> BTreeMap<String, u64> {
        lock(&self.seen).counts.clone()
    }

    /// Why changes may be missing from the counts; empty when none are.
    #[must_use]
    pub fn holes(&self) -> Vec<String> {
        lock(&self.seen).holes.clone()
    }
}

async fn begin(client: &Client, kind: &ApiResource) -> Result<Option<(String, Follow<()>)>, Fault> {
    let api = Api::<PartialObjectMeta<DynamicObject>>::all_with(client.clone(), kind);
    let mut follow = Follow::new(api, Config::default(), |_| ());
    match follow.first().await {
        Ok(_) => Ok(Some((kind.kind.clone(), follow))),
        Err(Fault::NoSuchResource) => Ok(None),
        Err(fault) => Err(fault),
    }
}

impl Seen {
    fn take(&mut self, kind: &str, change: &Change<()>, outage: &mut Outage) {
        let hole = match change {
            Change::Applied(()) | Change::Deleted(()) => {
                if let Some(count) = self.counts.get_mut(kind) {
                    *count += 1;
                }
                return;
            }
            Change::Listed(_) => Some("the server had forgotten where the watch ended".to_owned()),
            Change::Failed(fault) => outage.failed(fault),
        };
        self.holes
            .extend(hole.map(|hole| format!("{kind}: {hole}")));
    }
}

/// A count is complete at every moment, so that a panic elsewhere cannot spoil it.
fn lock(seen: &Mutex<Seen>) -> MutexGuard<'_, Seen> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::{Value, json};
    use tokio::time::sleep;

    use super::*;
    use crate::cluster::scripted::{Answer, answering};

    fn pod(name: &str, version: &str) -> Value {
        json!({"metadata": {"name": name, "resourceVersion": version}})
    }

    #[tokio::test(start_paused = true)]
    async fn changes_are_counted_by_kind_and_what_was_there_is_none() {
        let (client, asked) = answering(|line| {
            if line.contains("/apis/absent.example.com/") {
                return Answer::refused(404, "Failed to parse error data");
            }
            let pods = line.contains("/pods?");
            if !line.contains("watch=true") {
                let items = if pods {
                    json!([pod("a", "1")])
                } else {
                    json!([])
                };
                return Answer::json(json!({"metadata": {"resourceVersion": "5"}, "items": items}));
            }
            if !pods {
                return Answer::quiet(&[]);
            }
            Answer::quiet(&[
                json!({"type": "ADDED", "object": pod("b", "6")}),
                json!({"type": "MODIFIED", "object": pod("a", "7")}),
                json!({"type": "DELETED", "object": pod("a", "8")}),
            ])
        });
        let mut kinds = vec![
            ApiResource::erase::<Pod>(&()),
            ApiResource::erase::<Namespace>(&()),
        ];
        kinds.push(ApiResource {
            group: "absent.example.com".to_owned(),
            version: "v1".to_owned(),
            api_version: "absent.example.com/v1".to_owned(),
            kind: "Thing".to_owned(),
            plural: "things".to_owned(),
        });
        let watch = ChurnWatch::start(&client, &kinds).await.expect("a watch");
        sleep(Duration::from_secs(1)).await;
        let expected = [("Namespace".to_owned(), 0), ("Pod".to_owned(), 3)];
        assert_eq!(watch.counts(), BTreeMap::from(expected));
        assert_eq!(watch.holes(), Vec::<String>::new());
        assert!(asked.lines().len() >= 5);
    }

    #[test]
    fn a_list_in_the_middle_is_a_hole() {
        let mut seen = Seen::default();
        let mut outage = Outage::default();
        seen.counts.insert("Pod".to_owned(), 2);
        seen.take("Pod", &Change::Listed(vec![(), ()]), &mut outage);
        seen.take(
            "Pod",
            &Change::Failed(Fault::ConnectionRefused),
            &mut outage,
        );
        assert_eq!(seen.counts["Pod"], 2);
        assert_eq!(seen.holes.len(), 1);
        assert!(seen.holes[0].starts_with("Pod: "), "{:?}", seen.holes);
    }
}
