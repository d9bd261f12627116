//! Events as a kubelet emits them: one object per thing that happens to a pod, counted when it
//! happens again.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::json;
use tokio::sync::mpsc;

use super::journal::Journal;
use super::time;
use super::uplink::{Lane, Uplink};
use crate::cluster::fault::Fault;

/// Events that wait to be sent. More are lost, as those of any other program that reports too much.
const QUEUE: usize = 4096;
/// Events that may still be counted up; a kubelet remembers as many.
const REMEMBERED: usize = 4096;

/// Whether somebody should look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Normal,
    Warning,
}

impl Kind {
    fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}

/// Something that happened.
#[derive(Clone, Debug)]
struct Note {
    subject: ObjectReference,
    kind: Kind,
    reason: &'static str,
    message: String,
    at: Time,
}

/// What makes two events the same one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    uid: Option<String>,
    part: Option<String>,
    kind: Kind,
    reason: &'static str,
    message: String,
}

/// Takes events; they are sent in order by [`Outbox::send`].
#[derive(Clone, Debug)]
pub(super) struct Recorder {
    queue: mpsc::Sender<Note>,
}

/// The other end of a [`Recorder`].
#[derive(Debug)]
pub(super) struct Outbox {
    queue: mpsc::Receiver<Note>,
    node: String,
}

impl Recorder {
    /// A recorder of the node of this name.
    pub(super) fn new(node: &str) -> (Self, Outbox) {
        let (sender, receiver) = mpsc::channel(QUEUE);
        let outbox = Outbox {
            queue: receiver,
            node: node.to_owned(),
        };
        (Self { queue: sender }, outbox)
    }

    /// Records an event of an object, or of a part of it.
    pub(super) fn event(
        &self,
        subject: ObjectReference,
        kind: Kind,
        reason: &'static str,
        message: String,
    ) {
        let note = Note {
            subject,
            kind,
            reason,
            message,
            at: time::now(),
        };
        // A full queue means that the API server has been away for long.
        let _ = self.queue.try_send(note);
    }
}

/// A pod as the subject of an event.
pub(super) fn pod_reference(pod: &Pod) -> ObjectReference {
    let metadata = &pod.metadata;
    ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("Pod".to_owned()),
        namespace: metadata.namespace.clone(),
        name: metadata.name.clone(),
        uid: metadata.uid.clone(),
        resource_version: metadata.resource_version.clone(),
        field_path: None,
    }
}

impl Outbox {
    /// Sends what is recorded, for ever.
    pub(super) async fn send(mut self, uplink: Arc<Uplink>, journal: Arc<Journal>) {
        let mut tally = Tally::default();
        while let Some(note) = self.queue.recv().await {
            let namespace = note.subject.namespace.clone().unwrap_or_default();
            let api: Api<Event> = Api::namespaced(uplink.client(), &namespace);
            let event = tally.count(&note, &self.node);
            match write(&uplink, &api, event).await {
                // A namespace that is being deleted takes no events, from a kubelet neither.
                Ok(()) | Err(Fault::NamespaceTerminating { .. }) => {}
                Err(fault) => journal.note(&format!("event {} is lost: {fault}", note.reason)),
            }
        }
    }
}

/// Writes a new event, or the new count of a known one that is still there.
async fn write(uplink: &Uplink, api: &Api<Event>, event: Event) -> Result<(), Fault> {
    let name = event.metadata.name.clone().unwrap_or_default();
    if event.count > Some(1) {
        let change = json!({"count": event.count, "lastTimestamp": event.last_timestamp});
        let (params, patch) = (PatchParams::default(), Patch::Merge(change));
        let request = || api.patch(&name, &params, &patch);
        match uplink.persist(Lane::Node, "an event", request).await {
            Ok(_) => return Ok(()),
            // Events vanish after an hour.
            Err(Fault::NotFound { .. }) => {}
            Err(fault) => return Err(fault),
        }
    }
    let params = PostParams::default();
    let request = || api.create(&params, &event);
    match uplink.persist(Lane::Node, "an event", request).await {
        // The answer to the first attempt was lost.
        Ok(_) | Err(Fault::AlreadyExists { .. }) => Ok(()),
        Err(fault) => Err(fault),
    }
}

/// Counts what happens again.
#[derive(Debug, Default)]
struct Tally {
    known: BTreeMap<Key, Known>,
    /// Made so far, for names.
    made: u64,
}

#[derive(Clone, Debug)]
struct Known {
    name: String,
    first: Time,
    count: i32,
}

impl Tally {
    fn count(&mut self, note: &Note, node: &str) -> Event {
        let key = Key {
            uid: note.subject.uid.clone(),
            part: note.subject.field_path.clone(),
            kind: note.kind,
            reason: note.reason,
            message: note.message.clone(),
        };
        if self.known.len() >= REMEMBERED && !self.known.contains_key(&key) {
            self.known.clear();
        }
        self.made += 1;
        let known = self.known.entry(key).or_insert_with(|| Known {
            name: name(&note.subject, self.made),
            first: note.at.clone(),
            count: 0,
        });
        known.count = known.count.saturating_add(1);
        Event {
            metadata: ObjectMeta {
                name: Some(known.name.clone()),
                namespace: note.subject.namespace.clone(),
                ..ObjectMeta::default()
            },
            involved_object: note.subject.clone(),
            type_: Some(note.kind.as_str().to_owned()),
            reason: Some(note.reason.to_owned()),
            message: Some(note.message.clone()),
            source: Some(EventSource {
                component: Some("kubelet".to_owned()),
                host: Some(node.to_owned()),
            }),
            reporting_component: Some("kubelet".to_owned()),
            reporting_instance: Some(node.to_owned()),
            first_timestamp: Some(known.first.clone()),
            last_timestamp: Some(note.at.clone()),
            count: Some(known.count),
            ..Event::default()
        }
    }
}

/// `POD.MOMENT`, as everybody names them; the number keeps those of one moment apart.
fn name(subject: &ObjectReference, number: u64) -> String {
    let micros = chrono::Utc::now().timestamp_micros().unsigned_abs();
    let object = subject.name.as_deref().unwrap_or_default();
    format!("{object}.{:x}", micros.wrapping_add(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(uid: &str, part: Option<&str>, message: &str) -> Note {
        Note {
            subject: ObjectReference {
                name: Some("p".to_owned()),
                namespace: Some("n".to_owned()),
                uid: Some(uid.to_owned()),
                field_path: part.map(str::to_owned),
                ..ObjectReference::default()
            },
            kind: Kind::Warning,
            reason: "Unhealthy",
            message: message.to_owned(),
            at: time::now(),
        }
    }

    #[test]
    fn the_same_again_is_counted_and_anything_else_is_new() {
        let mut tally = Tally::default();
        let first = tally.count(&note("u", None, "500"), "node");
        let again = tally.count(&note("u", None, "500"), "node");
        assert_eq!((first.count, again.count), (Some(1), Some(2)));
        assert_eq!(first.metadata.name, again.metadata.name);
        assert_eq!(first.first_timestamp, again.first_timestamp);
        let mut names = vec![first.metadata.name];
        for other in [
            note("u", None, "timeout"),
            note("u", Some("spec.containers{a}"), "500"),
            note("another", None, "500"),
        ] {
            let event = tally.count(&other, "node");
            assert_eq!(event.count, Some(1));
            names.push(event.metadata.name);
        }
        names.sort();
        names.dedup();
        assert_eq!(names.len(), 4);
    }

    #[test]
    fn an_event_is_the_kubelets() {
        let event = Tally::default().count(&note("u", None, "500"), "node");
        let source = event.source.expect("a source");
        assert_eq!(source.component.as_deref(), Some("kubelet"));
        assert_eq!(source.host.as_deref(), Some("node"));
        assert_eq!(event.type_.as_deref(), Some("Warning"));
        assert_eq!(event.metadata.namespace.as_deref(), Some("n"));
    }

    #[test]
    fn what_is_remembered_has_a_bound() {
        let mut tally = Tally::default();
        for number in 0..=REMEMBERED {
            tally.count(&note("u", None, &number.to_string()), "node");
        }
        assert_eq!(tally.known.len(), 1);
    }
}
