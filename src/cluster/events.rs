//! What a cluster reports in its own events, from now on (EVT-01).
//!
//! A list at the end would not do: events live for an hour, are merged, and are held back when there
//! are many. So they are watched from before the first step.

use std::collections::{HashMap, HashSet};

use k8s_openapi::api::core::v1::Event;
use kube::runtime::watcher::Config;
use kube::{Api, Client};
use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;

use super::fault::Fault;
use super::follow::{Change, Follow};
use super::outage::Outage;
use crate::record::KubernetesEvent;

/// Reports that may wait for their reader; the watch itself waits when there are more.
const WAITING: usize = 1024;

/// What the watch tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen {
    /// The cluster reports something, for the first time or once more.
    Reported(KubernetesEvent),
    /// Reports may be missing, and why.
    Missed(String),
}

/// A watch of the events of all namespaces. It ends when it is dropped.
#[derive(Debug)]
pub struct EventWatch {
    _task: AbortOnDropHandle<()>,
}

impl EventWatch {
    /// Begins. What exists already when this returns is not reported, unless it happens once more;
    /// all that comes later is.
    ///
    /// # Errors
    ///
    /// The [`Fault`] for which the events cannot be listed.
    pub async fn start(client: &Client) -> Result<(Self, mpsc::Receiver<Seen>), Fault> {
        let api = Api::<Event>::all(client.clone());
        let mut follow = Follow::new(api, Config::default(), told);
        let mut reports = Reports::new(follow.first().await?);
        let (sender, receiver) = mpsc::channel(WAITING);
        let task = tokio::spawn(async move {
            let mut outage = Outage::default();
            loop {
                let seen = match follow.next().await {
                    Change::Failed(fault) => outage
                        .failed(&fault)
                        .map(Seen::Missed)
                        .into_iter()
                        .collect(),
                    change => reports.take(change),
                };
                for seen in seen {
                    if sender.send(seen).await.is_err() {
                        return;
                    }
                }
            }
        });
        let watch = Self {
            _task: AbortOnDropHandle::new(task),
        };
        Ok((watch, receiver))
    }
}

/// Which events are known, and how often each had happened.
#[derive(Debug)]
struct Reports {
    counts: HashMap<String, u32>,
}

impl Reports {
    fn new(existing: Vec<KubernetesEvent>) -> Self {
        let known = existing.into_iter().map(|event| (event.uid, event.count));
        Self {
            counts: known.collect(),
        }
    }

    /// What is to be told of a change.
    fn take(&mut self, change: Change<KubernetesEvent>) -> Vec<Seen> {
        match change {
            Change::Applied(event) => self.report(event).into_iter().collect(),
            Change::Deleted(event) => {
                self.counts.remove(&event.uid);
                Vec::new()
            }
            // Servers keep no bookmarks of events, so that a watch which was quiet for some minutes begins
            // again by a list. An event lives for an hour: while none has vanished, the list holds all
            // that happened. Else others may have come and gone.
            Change::Listed(all) => {
                let uids: HashSet<String> = all.iter().map(|event| event.uid.clone()).collect();
                let known = self.counts.len();
                self.counts.retain(|uid, _| uids.contains(uid));
                let missed = "the server had forgotten where the watch of the events ended, and events \
                              that were known had vanished when they were listed again";
                let mut seen = Vec::new();
                if self.counts.len() < known {
                    seen.push(Seen::Missed(missed.to_owned()));
                }
                seen.extend(all.into_iter().filter_map(|event| self.report(event)));
                seen
            }
            Change::Failed(_) => Vec::new(),
        }
    }

    fn report(&mut self, event: KubernetesEvent) -> Option<Seen> {
        let known = self.counts.get_mut(&event.uid);
        match known {
            Some(known) if *known >= event.count => return None,
            Some(known) => *known = event.count,
            None => {
                self.counts.insert(event.uid.clone(), event.count);
            }
        }
        Some(Seen::Reported(event))
    }
}

/// An event in our own words. One that was written through `events.k8s.io` counts in its series and
/// names its component elsewhere.
fn told(event: Event) -> KubernetesEvent {
    let series = event.series.and_then(|series| series.count);
    let count = event.count.max(series).unwrap_or(1).max(1);
    let source = event.source.and_then(|source| source.component);
    let source = source.filter(|component| !component.is_empty());
    let about = event.involved_object;
    KubernetesEvent {
        uid: event.metadata.uid.unwrap_or_default(),
        type_: event.type_.unwrap_or_default(),
        reason: event.reason.unwrap_or_default(),
        message: event.message.unwrap_or_default(),
        component: source.or(event.reporting_component).unwrap_or_default(),
        kind: about.kind.unwrap_or_default(),
        namespace: about.namespace.unwrap_or_default(),
        name: about.name.unwrap_or_default(),
        count: u32::try_from(count).unwrap_or(1),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::cluster::scripted::{Answer, client};

    fn event(uid: &str, count: i32, version: &str) -> Value {
        json!({
            "metadata": {"name": uid, "namespace": "n", "uid": uid, "resourceVersion": version},
            "involvedObject": {"kind": "Pod", "namespace": "n", "name": "p"},
            "type": "Warning", "reason": "Unhealthy", "message": "Readiness probe failed",
            "source": {"component": "kubelet"}, "count": count,
        })
    }

    fn list(events: &[Value], version: &str) -> Answer {
        Answer::json(json!({"metadata": {"resourceVersion": version}, "items": events}))
    }

    fn reported(uid: &str, count: u32) -> (String, u32) {
        (uid.to_owned(), count)
    }

    async fn watched(answers: Vec<Answer>, wanted: usize) -> Vec<Seen> {
        let (client, _) = client(answers);
        let (_watch, mut receiver) = EventWatch::start(&client).await.expect("a watch");
        let mut seen = Vec::new();
        while seen.len() < wanted {
            seen.push(receiver.recv().await.expect("more"));
        }
        seen
    }

    fn short(seen: &[Seen]) -> Vec<(String, u32)> {
        let all = seen.iter().map(|seen| match seen {
            Seen::Reported(event) => reported(&event.uid, event.count),
            Seen::Missed(_) => reported("missed", 0),
        });
        all.collect()
    }

    #[tokio::test(start_paused = true)]
    async fn only_what_happens_from_now_on_is_reported() {
        let seen = watched(
            vec![
                list(&[event("old", 3, "4")], "5"),
                Answer::quiet(&[
                    // Another field of it changed.
                    json!({"type": "MODIFIED", "object": event("old", 3, "6")}),
                    json!({"type": "ADDED", "object": event("new", 1, "7")}),
                    json!({"type": "MODIFIED", "object": event("old", 4, "8")}),
                    json!({"type": "DELETED", "object": event("new", 1, "9")}),
                    json!({"type": "ADDED", "object": event("new", 1, "10")}),
                ]),
            ],
            3,
        )
        .await;
        assert_eq!(
            short(&seen),
            [reported("new", 1), reported("old", 4), reported("new", 1)]
        );
        let Seen::Reported(first) = &seen[0] else {
            panic!("it is reported");
        };
        assert_eq!(
            (first.component.as_str(), first.kind.as_str()),
            ("kubelet", "Pod")
        );
    }

    /// What is reported by a watch that begins again with this list, after one that held `old`.
    async fn again(listed: &[Value], wanted: usize) -> Vec<(String, u32)> {
        let gone = json!({"type": "ERROR", "object": {
            "kind": "Status", "status": "Failure", "reason": "Expired", "message": "", "code": 410,
        }});
        let answers = vec![
            list(&[event("old", 1, "4")], "5"),
            Answer::watch(&[gone]),
            list(listed, "9"),
            Answer::quiet(&[json!({"type": "MODIFIED", "object": event("between", 3, "10")})]),
        ];
        short(&watched(answers, wanted).await)
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_that_begins_again_reports_what_came_in_between() {
        let seen = again(&[event("old", 1, "4"), event("between", 2, "8")], 2).await;
        assert_eq!(seen, [reported("between", 2), reported("between", 3)]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_that_begins_again_says_when_events_have_vanished() {
        let seen = again(&[event("between", 2, "8")], 3).await;
        assert_eq!(
            seen,
            [
                reported("missed", 0),
                reported("between", 2),
                reported("between", 3)
            ]
        );
    }

    #[test]
    fn a_series_counts_and_the_reporting_component_is_named() {
        let event = serde_json::from_value(json!({
            "metadata": {"uid": "u"}, "involvedObject": {},
            "reportingComponent": "scheduler", "source": {}, "series": {"count": 7},
        }));
        let event = told(event.expect("an event"));
        assert_eq!((event.count, event.component.as_str()), (7, "scheduler"));
    }
}
