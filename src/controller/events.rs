//! Events (core/v1) about objects: a first one is posted, a repeated one patched with its count.
//!
//! What is written is decided as client-go does, in `correlate`. Whoever has something to say does not
//! wait for the server. An event that the server refuses is logged and lost; one that does not reach the
//! server is tried again.

mod correlate;

use std::time::Duration;

use chrono::{DateTime, SecondsFormat, Utc};
use k8s_openapi::api::core::v1::{Event, ObjectReference};
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::json;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::time::sleep;

use self::correlate::{Correlator, Entry};
use crate::error_chain::chain;

/// How often an event is sent to a server that cannot be reached.
const ATTEMPTS: u32 = 12;
/// The time between two of them.
const RETRY: Duration = Duration::from_secs(10);
/// How many events wait for the server at most; as many as in client-go.
const WAITING: usize = 1000;
/// Events about cluster-scoped objects are kept here.
const CLUSTER_NAMESPACE: &str = "default";

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Severity {
    /// It is not.
    Normal,
    /// Somebody should look.
    Warning,
}

impl Severity {
    const fn name(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}

/// Something that happened.
#[derive(Clone, Debug)]
pub struct Happening {
    /// Who says so.
    pub component: &'static str,
    /// The object that it happened to.
    pub regarding: ObjectReference,
    /// How bad it is.
    pub severity: Severity,
    /// What it was, in one word.
    pub reason: &'static str,
    /// What it was, for people.
    pub message: String,
}

/// What happened, and when.
#[derive(Debug)]
pub(in crate::controller) struct Recorded {
    pub(in crate::controller) happening: Happening,
    at: DateTime<Utc>,
}

/// Takes what happens; clones are handles to the same writer.
#[derive(Clone, Debug)]
pub struct Recorder(Sender<Recorded>);

impl Recorder {
    /// A recorder and the writer of what it records, which has to be [run](Writer::run).
    #[must_use]
    pub fn new(client: Client) -> (Self, Writer) {
        let (sender, receiver) = channel(WAITING);
        let writer = Writer {
            client,
            receiver,
            correlator: Correlator::new(),
        };
        (Self(sender), writer)
    }

    /// A recorder whose happenings a test hears itself.
    #[cfg(test)]
    pub(in crate::controller) fn heard() -> (Self, Receiver<Recorded>) {
        let (sender, receiver) = channel(WAITING);
        (Self(sender), receiver)
    }

    /// Records something as of now. It is lost when too much waits for the server already.
    pub fn record(&self, happening: Happening) {
        let regarding = &happening.regarding;
        tracing::debug!(
            logger = "events",
            r#type = happening.severity.name(),
            kind = regarding.kind,
            namespace = regarding.namespace,
            name = regarding.name,
            reason = happening.reason,
            "{}",
            happening.message
        );
        let reason = happening.reason;
        let at = Utc::now();
        if let Err(TrySendError::Full(_)) = self.0.try_send(Recorded { happening, at }) {
            tracing::error!(
                logger = "events",
                reason,
                "too many events wait; this one is lost"
            );
        }
        // When the channel is closed the process ends, and nobody writes any more.
    }
}

/// Writes events.
pub struct Writer {
    client: Client,
    receiver: Receiver<Recorded>,
    correlator: Correlator,
}

impl Writer {
    /// Writes until every recorder is gone.
    pub async fn run(mut self) {
        while let Some(Recorded { happening, at }) = self.receiver.recv().await {
            if let Some(entry) = self.correlator.correlate(&happening, at) {
                self.write(&happening, &entry).await;
            }
        }
    }

    /// Writes an entry, unless the server refuses it or stays out of reach.
    async fn write(&self, happening: &Happening, entry: &Entry) {
        let reason = happening.reason;
        for attempt in 1..=ATTEMPTS {
            let Err(error) = self.send(happening, entry).await else {
                return;
            };
            let is_final = matches!(
                error,
                kube::Error::Api(_) | kube::Error::SerdeError(_) | kube::Error::BuildRequest(_)
            );
            let error = chain(&error);
            if is_final || attempt == ATTEMPTS {
                tracing::error!(logger = "events", reason, error, "cannot write an event");
                return;
            }
            tracing::error!(
                logger = "events",
                reason,
                error,
                "cannot write an event yet"
            );
            sleep(RETRY).await;
        }
    }

    async fn send(&self, happening: &Happening, entry: &Entry) -> Result<(), kube::Error> {
        let regarding = &happening.regarding;
        let namespace = regarding.namespace.as_deref();
        let namespace = namespace.filter(|name| !name.is_empty());
        let namespace = namespace.unwrap_or(CLUSTER_NAMESPACE);
        let api = Api::<Event>::namespaced(self.client.clone(), namespace);
        if entry.count > 1 {
            let patch = Patch::Strategic(json!({
                "count": entry.count,
                "lastTimestamp": seconds(entry.last),
                "message": entry.message,
            }));
            let parameters = PatchParams::default();
            match api.patch(&entry.name, &parameters, &patch).await {
                Ok(_) => return Ok(()),
                // Events expire; then it is made anew, with its count.
                Err(kube::Error::Api(status)) if status.is_not_found() => {}
                Err(error) => return Err(error),
            }
        }
        let event = event(namespace, happening, entry).map_err(kube::Error::SerdeError)?;
        api.create(&PostParams::default(), &event).await?;
        Ok(())
    }
}

fn seconds(time: DateTime<Utc>) -> String {
    time.to_rfc3339_opts(SecondsFormat::Secs, true)
}

fn event(
    namespace: &str,
    happening: &Happening,
    entry: &Entry,
) -> Result<Event, serde_json::Error> {
    // An event that stands for others does not repeat who reports it.
    let reporting = if entry.is_combined {
        ""
    } else {
        happening.component
    };
    serde_json::from_value(json!({
        "metadata": {"name": entry.name, "namespace": namespace},
        "involvedObject": happening.regarding,
        "reason": happening.reason,
        "message": entry.message,
        "source": {"component": happening.component},
        "firstTimestamp": seconds(entry.first),
        "lastTimestamp": seconds(entry.last),
        "count": entry.count,
        "type": happening.severity.name(),
        "reportingComponent": reporting,
        "reportingInstance": "",
    }))
}

#[cfg(test)]
mod tests;
