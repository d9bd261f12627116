//! An API server of the tests, which answers as it is told.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use futures_util::{StreamExt as _, stream};
use http::{Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::{Bytes, Frame};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};

use super::target::Target;
use crate::subject::K8S_AIBOM;

/// What the server answers to one request.
#[derive(Clone, Debug)]
pub(super) struct Answer {
    code: u16,
    body: String,
    /// Whether the connection stays open after the body, as that of a watch does.
    open: bool,
}

impl Answer {
    pub(super) fn text(code: u16, body: impl Into<String>) -> Self {
        Self {
            code,
            body: body.into(),
            open: false,
        }
    }

    pub(super) fn json(value: Value) -> Self {
        Self::text(200, value.to_string())
    }

    pub(super) fn refused(code: u16, reason: &str) -> Self {
        let status = json!({
            "apiVersion": "v1", "kind": "Status", "status": "Failure",
            "reason": reason, "message": reason, "code": code,
            // As the server offers it beside a 410: never to be taken.
            "metadata": {"continue": "inconsistent"},
        });
        Self::text(code, status.to_string())
    }

    /// A watch that tells these events and then nothing more.
    pub(super) fn watch(events: &[Value]) -> Self {
        let lines: Vec<String> = events.iter().map(|event| format!("{event}\n")).collect();
        Self {
            open: true,
            ..Self::text(200, lines.concat())
        }
    }

    fn response(self) -> Response<UnsyncBoxBody<Bytes, Infallible>> {
        let told = Frame::data(Bytes::from(self.body));
        let told = stream::once(async move { Ok(told) });
        let body = if self.open {
            StreamBody::new(told.chain(stream::pending())).boxed_unsync()
        } else {
            StreamBody::new(told).boxed_unsync()
        };
        let answer = Response::builder().status(self.code).body(body);
        answer.expect("an answer")
    }
}

/// Every request so far.
#[derive(Clone, Default)]
pub(super) struct Asked(Arc<Mutex<Vec<(String, String)>>>);

impl Asked {
    /// As `METHOD PATH?QUERY`.
    pub(super) fn lines(&self) -> Vec<String> {
        let asked = self.0.lock().expect("no panic elsewhere");
        asked.iter().map(|(line, _)| line.clone()).collect()
    }

    /// The forms that were asked for.
    pub(super) fn forms(&self) -> Vec<String> {
        let asked = self.0.lock().expect("no panic elsewhere");
        asked.iter().map(|(_, accept)| accept.clone()).collect()
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
            let line = format!("{} {}", request.method(), request.uri());
            let accept = request.headers().get(http::header::ACCEPT);
            let accept = accept.map(|form| form.to_str().expect("a form").to_owned());
            let answer = answer(&line);
            let mut all = seen.0.lock().expect("no panic elsewhere");
            all.push((line, accept.unwrap_or_default()));
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

/// An installation on such a server.
pub(super) fn target(answer: impl Fn(&str) -> Answer + Send + Sync + 'static) -> (Target, Asked) {
    let (client, asked) = answering(answer);
    let target = Target {
        client,
        subject: &K8S_AIBOM,
        release: "r".to_owned(),
        namespace: "system".to_owned(),
    };
    (target, asked)
}
