//! An API server for tests that answers by a script and keeps what it was asked.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use futures_util::StreamExt;
use futures_util::stream;
use http::{Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Bytes, Frame};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use tokio::time::{Duration, Instant, sleep};
use tower::{BoxError, Service};

pub(in crate::controller) type AnswerBody = UnsyncBoxBody<Bytes, BoxError>;

/// One piece of a watch's answer.
#[derive(Debug, Clone)]
pub(in crate::controller) enum Part {
    Event(Value),
    Wait(Duration),
    /// The connection breaks.
    Break,
    /// The connection stays open and silent.
    Hang,
}

/// What the server answers.
#[derive(Debug, Clone)]
pub(in crate::controller) enum Answer {
    Whole {
        code: u16,
        retry_after: Option<u64>,
        body: String,
    },
    Stream(Vec<Part>),
    Refused,
    Reset,
}

impl Answer {
    pub(in crate::controller) fn json(code: u16, body: &Value) -> Self {
        Self::Whole {
            code,
            retry_after: None,
            body: body.to_string(),
        }
    }

    pub(in crate::controller) fn status(code: u16, reason: &str) -> Self {
        Self::json(code, &status(code, reason))
    }

    pub(in crate::controller) fn retry_after(self, seconds: u64) -> Self {
        match self {
            Self::Whole { code, body, .. } => Self::Whole {
                code,
                body,
                retry_after: Some(seconds),
            },
            other => other,
        }
    }

    pub(in crate::controller) fn list(
        version: u32,
        continue_token: &str,
        objects: &[Value],
    ) -> Self {
        Self::json(
            200,
            &json!({
                "apiVersion": "v1",
                "kind": "ConfigMapList",
                "metadata": {"resourceVersion": version.to_string(), "continue": continue_token},
                "items": objects,
            }),
        )
    }

    pub(in crate::controller) fn watch(parts: impl IntoIterator<Item = Part>) -> Self {
        Self::Stream(parts.into_iter().collect())
    }

    pub(in crate::controller) fn refused() -> Self {
        Self::Refused
    }

    pub(super) fn reset() -> Self {
        Self::Reset
    }
}

pub(in crate::controller) fn status(code: u16, reason: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Status",
        "status": "Failure",
        "reason": reason,
        "message": reason,
        "code": code,
    })
}

pub(in crate::controller) fn object(name: &str, version: u32) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"namespace": "a", "name": name, "resourceVersion": version.to_string()},
    })
}

pub(in crate::controller) fn event(kind: &str, object: Value) -> Part {
    Part::Event(json!({"type": kind, "object": object}))
}

pub(in crate::controller) fn bookmark(version: u32, initial_events_end: bool) -> Part {
    let annotations = if initial_events_end {
        json!({"k8s.io/initial-events-end": "true"})
    } else {
        json!({})
    };
    event(
        "BOOKMARK",
        json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"resourceVersion": version.to_string(), "annotations": annotations},
        }),
    )
}

/// A request as it came in.
#[derive(Debug, Clone)]
pub(in crate::controller) struct Seen {
    pub(in crate::controller) at: Instant,
    pub(in crate::controller) uri: String,
    pub(in crate::controller) body: String,
}

impl Seen {
    /// The value of a query parameter.
    pub(in crate::controller) fn parameter(&self, name: &str) -> Option<&str> {
        let (_, query) = self.uri.split_once('?')?;
        let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
        pairs.find_map(|(key, value)| (key == name).then_some(value))
    }
}

/// The script and the record.
#[derive(Clone)]
pub(in crate::controller) struct Script {
    answers: Arc<Mutex<VecDeque<Answer>>>,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl Script {
    /// After the last answer, requests wait for ever.
    pub(in crate::controller) fn new(answers: impl IntoIterator<Item = Answer>) -> Self {
        Self {
            answers: Arc::new(Mutex::new(answers.into_iter().collect())),
            seen: Arc::default(),
        }
    }

    pub(in crate::controller) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().expect("no panic").clone()
    }

    pub(in crate::controller) fn service(&self) -> Scripted {
        Scripted(self.clone())
    }

    pub(in crate::controller) fn client(&self) -> Client {
        Client::new(self.service(), "default")
    }
}

pub(in crate::controller) struct Scripted(Script);

impl Service<Request<Body>> for Scripted {
    type Response = Response<AnswerBody>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let script = self.0.clone();
        Box::pin(async move {
            let at = Instant::now();
            let uri = request.uri().to_string();
            let body = request.into_body().collect().await?.to_bytes();
            let body = String::from_utf8_lossy(&body).into_owned();
            let seen = Seen { at, uri, body };
            script.seen.lock().expect("no panic").push(seen);
            let answer = script.answers.lock().expect("no panic").pop_front();
            match answer {
                Some(answer) => respond(answer),
                None => std::future::pending().await,
            }
        })
    }
}

pub(in crate::controller) fn respond(answer: Answer) -> Result<Response<AnswerBody>, BoxError> {
    match answer {
        Answer::Whole {
            code,
            retry_after,
            body,
        } => {
            let mut response = Response::builder().status(code);
            if let Some(seconds) = retry_after {
                response = response.header(http::header::RETRY_AFTER, seconds);
            }
            let body = Full::new(Bytes::from(body)).map_err(|never: Infallible| match never {});
            Ok(response.body(body.boxed_unsync())?)
        }
        Answer::Stream(parts) => {
            let frames = stream::iter(parts).filter_map(|part| async move {
                match part {
                    Part::Event(event) => Some(Ok(Frame::data(Bytes::from(format!("{event}\n"))))),
                    Part::Wait(time) => {
                        sleep(time).await;
                        None
                    }
                    Part::Break => {
                        let reset = io::Error::from(io::ErrorKind::ConnectionReset);
                        Some(Err(BoxError::from(reset)))
                    }
                    Part::Hang => std::future::pending().await,
                }
            });
            Ok(Response::new(StreamBody::new(frames).boxed_unsync()))
        }
        Answer::Refused => Err(io::Error::from(io::ErrorKind::ConnectionRefused).into()),
        Answer::Reset => Err(io::Error::from(io::ErrorKind::ConnectionReset).into()),
    }
}
