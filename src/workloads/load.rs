//! Puts workloads into a cluster as fast as it takes them, or at a set rate.
//!
//! One POST per object and nothing else. The answers are not read as objects: whoever makes a load
//! for a measurement on the same machine should cost little.

use std::collections::BTreeMap;
use std::num::{NonZeroU32, NonZeroUsize};
use std::pin::pin;
use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, Request, StatusCode};
use http_body_util::BodyExt as _;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::PostParams;
use kube::client::Body;
use kube::core::Status;
use kube::{Api, Client, Resource as _};
use tokio::time::{Instant, sleep, sleep_until, timeout_at};

use super::plan::{DnsLabel, Plan};
use super::result::{Applied, Failure, Latency};
use crate::cluster::fault::{Fault, diagnose, from_status};

/// A load cannot begin. What becomes of single objects is part of the [result](Applied).
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The namespace cannot be made.
    #[error("cannot create the namespace {name}")]
    Namespace {
        /// The namespace.
        name: DnsLabel,
        /// Why not.
        source: Box<Fault>,
    },
    /// The namespace is there, without a label that the plan wants.
    #[error("the namespace {name} exists, but without the label {label}")]
    NotLabelled {
        /// The namespace.
        name: DnsLabel,
        /// The label, as `KEY=VALUE`.
        label: String,
    },
    /// The namespace took all of the time.
    #[error("the namespace {name} was not created within {} s", within.as_secs_f64())]
    Late {
        /// The namespace.
        name: DnsLabel,
        /// The time allowed.
        within: Duration,
    },
}

impl LoadError {
    /// The one thing to do about it, if there is one.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Namespace { source, .. } => source.hint(),
            Self::NotLabelled { name, label } => Some(format!(
                "take another namespace, or label this one: kubectl label namespace {name} {label}"
            )),
            Self::Late { .. } => Some("check that the API server answers".to_owned()),
        }
    }
}

/// How a plan is applied.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Requests that may be on their way at the same time.
    pub concurrency: NonZeroUsize,
    /// Objects per second; as fast as the server answers when [`None`].
    pub rate: Option<NonZeroU32>,
    /// For all of it.
    pub within: Duration,
}

/// What became of one object.
enum Outcome {
    Created(Duration),
    Existing,
    Failed(Failure),
}

/// The answer to one request.
enum Answer {
    Created,
    Existing,
    /// To be sent again after this time.
    Later(Duration),
}

impl Load {
    /// Makes the namespaces, where they are not there, and then the workloads.
    ///
    /// An object that exists is left as it is. A request is repeated only when the server asks for it:
    /// after a 429, when it has said how long to wait.
    ///
    /// # Errors
    ///
    /// [`LoadError`] when a namespace cannot be made, or is there and differs.
    pub async fn apply(&self, client: &Client, plan: &Plan) -> Result<Applied, LoadError> {
        let deadline = Instant::now() + self.within;
        for (name, object) in plan.namespaces.iter().zip(plan.namespace_objects()) {
            let prepared = timeout_at(deadline, prepare(client, name, &object)).await;
            prepared.map_err(|_| LoadError::Late {
                name: name.clone(),
                within: self.within,
            })??;
        }

        let begun = Instant::now();
        let objects = stream::iter(plan.workloads().zip(0_u32..));
        let paced = objects.then(|(object, index)| async move {
            if let Some(rate) = self.rate {
                let turn = begun + Duration::from_secs(index.into()) / rate.get();
                sleep_until(turn.min(deadline)).await;
            }
            object
        });
        let answers = paced
            .map(|object| create(client, object, deadline))
            .buffer_unordered(self.concurrency.get());
        let mut answers = pin!(answers);

        let mut applied = Applied::default();
        let mut times = Vec::new();
        while let Some((name, outcome, retries)) = answers.next().await {
            applied.retries += retries;
            match outcome {
                Outcome::Created(time) => {
                    applied.created += 1;
                    times.push(time);
                }
                Outcome::Existing => applied.existing.push(name),
                Outcome::Failed(failure) => {
                    applied.failed.insert(name, failure);
                }
            }
        }
        applied.took = begun.elapsed();
        applied.latency = Latency::of(times);
        applied.existing.sort_unstable();
        Ok(applied)
    }
}

/// Makes a namespace, or sees that it is as it should be.
async fn prepare(client: &Client, name: &DnsLabel, object: &Namespace) -> Result<(), LoadError> {
    let api = Api::<Namespace>::all(client.clone());
    let failed = |fault| LoadError::Namespace {
        name: name.clone(),
        source: Box::new(fault),
    };
    let created = api.create(&PostParams::default(), object).await;
    match created.map_err(|error| diagnose(&error)) {
        Ok(_) => return Ok(()),
        Err(Fault::AlreadyExists { .. }) => {}
        Err(fault) => return Err(failed(fault)),
    }
    let found = api.get(name.as_str()).await;
    let found = found.map_err(|error| failed(diagnose(&error)))?;
    let labels: BTreeMap<_, _> = found.metadata.labels.unwrap_or_default();
    let mut wanted = object.metadata.labels.iter().flatten();
    match wanted.find(|(key, value)| labels.get(*key) != Some(*value)) {
        None => Ok(()),
        Some((key, value)) => Err(LoadError::NotLabelled {
            name: name.clone(),
            label: format!("{key}={value}"),
        }),
    }
}

/// Makes one object: its name, what became of it, and how often it was sent again.
async fn create(client: &Client, object: Deployment, deadline: Instant) -> (String, Outcome, u32) {
    let name = object.metadata.name.clone().unwrap_or_default();
    let url = Deployment::url_path(&(), object.metadata.namespace.as_deref());
    let body = match serde_json::to_vec(&object) {
        Ok(body) => body,
        Err(error) => {
            let fault = Fault::Other(error.to_string());
            return (name, Outcome::Failed(fault.into()), 0);
        }
    };
    let mut retries = 0;
    let outcome = loop {
        let begun = Instant::now();
        if begun >= deadline {
            break Outcome::Failed(Failure::NotSent);
        }
        match timeout_at(deadline, send(client, &url, body.clone())).await {
            Err(_) => break Outcome::Failed(Failure::NoAnswer),
            Ok(Ok(Answer::Created)) => break Outcome::Created(begun.elapsed()),
            Ok(Ok(Answer::Existing)) => break Outcome::Existing,
            Ok(Ok(Answer::Later(after))) => {
                retries += 1;
                if timeout_at(deadline, sleep(after)).await.is_err() {
                    let retry_after = Some(after);
                    let fault = Fault::TooManyRequests { retry_after };
                    break Outcome::Failed(fault.into());
                }
            }
            Ok(Err(fault)) => break Outcome::Failed(fault.into()),
        }
    };
    (name, outcome, retries)
}

/// Sends one request and reads the whole answer, so that its connection can be used again.
async fn send(client: &Client, url: &str, body: Vec<u8>) -> Result<Answer, Fault> {
    let request = Request::post(url)
        .header(CONTENT_TYPE, "application/json")
        .body(Body::from(body))
        .map_err(|error| Fault::Other(error.to_string()))?;
    let answer = client.send(request).await;
    let answer = answer.map_err(|error| diagnose(&error))?;
    let (head, body) = answer.into_parts();
    let body = body.collect().await.map_err(|error| diagnose(&error))?;
    if head.status.is_success() {
        return Ok(Answer::Created);
    }
    if head.status == StatusCode::TOO_MANY_REQUESTS
        && let Some(after) = retry_after(&head.headers)
    {
        return Ok(Answer::Later(after));
    }
    match from_status(&described(head.status, &body.to_bytes())) {
        Fault::AlreadyExists { .. } => Ok(Answer::Existing),
        fault => Err(fault),
    }
}

/// How long the server asks to wait, if it says so in whole seconds.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds = headers.get(RETRY_AFTER)?.to_str().ok()?.parse().ok()?;
    Some(Duration::from_secs(seconds))
}

/// The server's own description of a failure, or one made of what there is instead.
fn described(code: StatusCode, body: &[u8]) -> Status {
    serde_json::from_slice(body).unwrap_or_else(|_| {
        let text = String::from_utf8_lossy(body);
        Status::failure(text.trim(), "").with_code(code.as_u16())
    })
}

#[cfg(test)]
mod tests;
