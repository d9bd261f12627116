//! Events (core/v1) about objects: a first one is posted, a repeated one patched with its count.
//!
//! Whoever has something to say does not wait for the server. An event that cannot be written is
//! logged and lost.

use std::collections::HashMap;

use chrono::{DateTime, SecondsFormat, Utc};
use k8s_openapi::api::core::v1::{Event, ObjectReference};
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::json;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// Different events that are remembered for counting.
const REMEMBERED: usize = 4096;
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

/// Takes what happens; clones are handles to the same writer.
#[derive(Clone, Debug)]
pub struct Recorder(UnboundedSender<Happening>);

impl Recorder {
    /// A recorder and the writer of what it records, which has to be [run](Writer::run).
    #[must_use]
    pub fn new(client: Client) -> (Self, Writer) {
        let (sender, receiver) = unbounded_channel();
        let writer = Writer {
            client,
            receiver,
            known: HashMap::new(),
        };
        (Self(sender), writer)
    }

    /// A recorder whose happenings a test hears itself.
    #[cfg(test)]
    pub(in crate::controller) fn heard() -> (Self, UnboundedReceiver<Happening>) {
        let (sender, receiver) = unbounded_channel();
        (Self(sender), receiver)
    }

    /// Records something.
    pub fn record(&self, happening: Happening) {
        // Fails only when the process ends, and then nobody writes any more.
        let _ = self.0.send(happening);
    }
}

/// What makes two events the same.
#[derive(PartialEq, Eq, Hash)]
struct Sameness {
    namespace: String,
    uid: Option<String>,
    kind: Option<String>,
    name: Option<String>,
    severity: Severity,
    reason: &'static str,
    message: String,
}

/// An event on the server.
struct Known {
    name: String,
    count: i32,
}

/// Writes events.
pub struct Writer {
    client: Client,
    receiver: UnboundedReceiver<Happening>,
    known: HashMap<Sameness, Known>,
}

impl Writer {
    /// Writes until every recorder is gone.
    pub async fn run(mut self) {
        while let Some(happening) = self.receiver.recv().await {
            let reason = happening.reason;
            if let Err(error) = self.write(happening).await {
                tracing::error!(logger = "events", reason, %error, "cannot write an event");
            }
        }
    }

    async fn write(&mut self, happening: Happening) -> Result<(), kube::Error> {
        let now = Utc::now();
        let regarding = &happening.regarding;
        let namespace = regarding.namespace.clone().filter(|name| !name.is_empty());
        let namespace = namespace.unwrap_or_else(|| CLUSTER_NAMESPACE.to_owned());
        let api = Api::<Event>::namespaced(self.client.clone(), &namespace);
        let sameness = Sameness {
            namespace: namespace.clone(),
            uid: regarding.uid.clone(),
            kind: regarding.kind.clone(),
            name: regarding.name.clone(),
            severity: happening.severity,
            reason: happening.reason,
            message: happening.message.clone(),
        };
        if let Some(known) = self.known.get_mut(&sameness) {
            known.count = known.count.saturating_add(1);
            let patch = json!({"count": known.count, "lastTimestamp": seconds(now)});
            let patched = api
                .patch(
                    &known.name,
                    &PatchParams::default(),
                    &Patch::Strategic(patch),
                )
                .await;
            match patched {
                Ok(_) => return Ok(()),
                // Events expire; then it is a first one again.
                Err(kube::Error::Api(status)) if status.is_not_found() => {}
                Err(error) => return Err(error),
            }
        }
        let name = format!(
            "{}.{:x}",
            regarding.name.as_deref().unwrap_or_default(),
            now.timestamp_nanos_opt().unwrap_or_default()
        );
        let event = event(&name, &namespace, &happening, now).map_err(kube::Error::SerdeError)?;
        api.create(&PostParams::default(), &event).await?;
        if self.known.len() >= REMEMBERED {
            self.known.clear();
        }
        self.known.insert(sameness, Known { name, count: 1 });
        Ok(())
    }
}

fn seconds(time: DateTime<Utc>) -> String {
    time.to_rfc3339_opts(SecondsFormat::Secs, true)
}

fn event(
    name: &str,
    namespace: &str,
    happening: &Happening,
    now: DateTime<Utc>,
) -> Result<Event, serde_json::Error> {
    serde_json::from_value(json!({
        "metadata": {"name": name, "namespace": namespace},
        "involvedObject": happening.regarding,
        "reason": happening.reason,
        "message": happening.message,
        "source": {"component": happening.component},
        "firstTimestamp": seconds(now),
        "lastTimestamp": seconds(now),
        "count": 1,
        "type": happening.severity.name(),
        "reportingComponent": happening.component,
        "reportingInstance": "",
    }))
}
