//! An API server of the tests, which answers as it is told.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use futures_util::{StreamExt as _, stream};
use http::header::DATE;
use http::{Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::{Bytes, Frame};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};

type Told = UnsyncBoxBody<Bytes, Infallible>;

/// What the server answers to one request.
#[derive(Clone, Debug)]
pub(super) struct Answer {
    code: u16,
    date: Option<String>,
    body: String,
    /// Whether the connection stays open after the body, as that of a watch does.
    open: bool,
}

impl Answer {
    pub(super) fn json(value: Value) -> Self {
        Self {
            code: 200,
            date: None,
            body: value.to_string(),
            open: false,
        }
    }

    pub(super) fn refused(code: u16, reason: &str) -> Self {
        let status = json!({
            "apiVersion": "v1", "kind": "Status", "status": "Failure",
            "reason": reason, "message": reason, "code": code,
        });
        Self {
            code,
            ..Self::json(status)
        }
    }

    /// A watch that tells these events and ends.
    pub(super) fn watch(events: &[Value]) -> Self {
        let lines: Vec<String> = events.iter().map(|event| format!("{event}\n")).collect();
        Self {
            body: lines.concat(),
            ..Self::json(Value::Null)
        }
    }

    /// A watch that tells these events and then nothing more.
    pub(super) fn quiet(events: &[Value]) -> Self {
        Self {
            open: true,
            ..Self::watch(events)
        }
    }

    pub(super) fn dated(self, date: &str) -> Self {
        Self {
            date: Some(date.to_owned()),
            ..self
        }
    }

    fn response(self) -> Response<Told> {
        let mut builder = Response::builder().status(self.code);
        if let Some(date) = self.date {
            builder = builder.header(DATE, date);
        }
        let text = Bytes::from(self.body);
        let body = if self.open {
            let first = stream::once(async move { Ok(Frame::data(text)) });
            StreamBody::new(first.chain(stream::pending())).boxed_unsync()
        } else {
            Full::new(text).boxed_unsync()
        };
        builder.body(body).expect("an answer")
    }
}

/// Every request so far.
#[derive(Clone, Default)]
pub(super) struct Asked(Arc<Mutex<Vec<(String, Value)>>>);

impl Asked {
    /// As `METHOD PATH?QUERY`.
    pub(super) fn lines(&self) -> Vec<String> {
        let asked = self.0.lock().expect("no panic elsewhere");
        asked.iter().map(|(line, _)| line.clone()).collect()
    }

    /// The body of one of them; null when it had none.
    pub(super) fn body(&self, index: usize) -> Value {
        self.0.lock().expect("no panic elsewhere")[index].1.clone()
    }
}

/// A client whose server answers by the request's line.
pub(super) fn answering(
    answer: impl Fn(&str) -> Answer + Send + Sync + 'static,
) -> (Client, Asked) {
    let asked = Asked::default();
    let seen = asked.clone();
    let answer = Arc::new(answer);
    let service = tower::service_fn(move |request: Request<Body>| {
        let (seen, answer) = (seen.clone(), Arc::clone(&answer));
        async move {
            let (head, body) = request.into_parts();
            let body = body.collect().await.expect("a body").to_bytes();
            let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
            let line = format!("{} {}", head.method, head.uri);
            let answer = answer(&line);
            let mut all = seen.0.lock().expect("no panic elsewhere");
            all.push((line, body));
            Ok::<_, Infallible>(answer.response())
        }
    });
    (Client::new(service, "default"), asked)
}

/// A client whose server gives these answers in turn, and fails the test when asked once more.
pub(super) fn client(answers: Vec<Answer>) -> (Client, Asked) {
    let answers = Mutex::new(VecDeque::from(answers));
    answering(move |line| {
        let next = answers.lock().expect("no panic elsewhere").pop_front();
        next.unwrap_or_else(|| panic!("one request too many: {line}"))
    })
}
