//! What is sent to the server, and what becomes of it.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex};

use http::{Request, Response};
use http_body_util::BodyExt as _;
use kube::client::Body;
use serde_json::{Value, json};
use tokio::time::Instant;
use tower::BoxError;

use super::*;

/// Method, URI and body of every request.
type Seen = Arc<Mutex<Vec<(String, String, Value)>>>;

/// A server that answers with these codes in turn; 0 is a connection that breaks.
fn server(codes: &[u16]) -> (Client, Seen) {
    let seen = Seen::default();
    let record = Arc::clone(&seen);
    let codes = Arc::new(Mutex::new(VecDeque::from(codes.to_vec())));
    let service = tower::service_fn(move |request: Request<Body>| {
        let (record, codes) = (Arc::clone(&record), Arc::clone(&codes));
        async move {
            let (parts, body) = request.into_parts();
            let body = body.collect().await?.to_bytes();
            let body = serde_json::from_slice(&body).expect("JSON");
            let asked = (parts.method.to_string(), parts.uri.to_string(), body);
            record.lock().expect("a lock").push(asked);
            let code = codes
                .lock()
                .expect("a lock")
                .pop_front()
                .expect("an answer");
            if code == 0 {
                return Err(BoxError::from(io::Error::from(io::ErrorKind::BrokenPipe)));
            }
            let answer = if code < 300 {
                json!({"metadata": {"name": "e"}, "involvedObject": {}})
            } else {
                let reason = if code == 404 { "NotFound" } else { "Forbidden" };
                json!({"kind": "Status", "status": "Failure", "code": code, "reason": reason})
            };
            let answer = Body::from(answer.to_string().into_bytes());
            Ok::<_, BoxError>(Response::builder().status(code).body(answer)?)
        }
    });
    (Client::new(service, "default"), seen)
}

fn happening(message: &str) -> Happening {
    Happening {
        component: "test",
        regarding: ObjectReference {
            kind: Some("Thing".to_owned()),
            name: Some("a".to_owned()),
            ..ObjectReference::default()
        },
        severity: Severity::Warning,
        reason: "Trouble",
        message: message.to_owned(),
    }
}

/// Records these messages, and returns what the server saw when all is written.
async fn written(codes: &[u16], messages: &[&str]) -> Vec<(String, String, Value)> {
    let (client, seen) = server(codes);
    let (recorder, writer) = Recorder::new(client);
    for message in messages {
        recorder.record(happening(message));
    }
    drop(recorder);
    writer.run().await;
    seen.lock().expect("a lock").clone()
}

#[tokio::test]
async fn a_repeated_event_is_patched_and_one_that_expired_is_made_anew() {
    let seen = written(&[201, 200, 404, 201], &["x", "x", "x"]).await;
    let methods: Vec<_> = seen.iter().map(|(method, ..)| method.as_str()).collect();
    assert_eq!(methods, ["POST", "PATCH", "PATCH", "POST"]);
    let (_, uri, first) = &seen[0];
    assert_eq!(uri, "/api/v1/namespaces/default/events?");
    assert_eq!(
        (&first["count"], &first["type"]),
        (&json!(1), &json!("Warning"))
    );
    let (_, uri, patch) = &seen[1];
    let name = first["metadata"]["name"].as_str().expect("a name");
    assert!(uri.contains(&format!("/events/{name}")), "{uri}");
    assert_eq!(
        (&patch["count"], &patch["message"]),
        (&json!(2), &json!("x"))
    );
    let (_, _, anew) = &seen[3];
    assert_eq!(
        (&anew["count"], &anew["metadata"]),
        (&json!(3), &first["metadata"])
    );
}

#[tokio::test]
async fn an_event_has_the_time_at_which_it_was_recorded_and_too_many_are_lost() {
    let (client, seen) = server(&[201]);
    let (recorder, mut writer) = Recorder::new(client);
    for _ in 0..=WAITING {
        recorder.record(happening("x"));
    }
    assert_eq!(writer.receiver.len(), WAITING);
    let mut first = writer.receiver.recv().await.expect("an event");
    assert!((Utc::now() - first.at).num_seconds() < 60);
    first.at -= chrono::TimeDelta::hours(1);
    let at = seconds(first.at);
    let (sender, receiver) = channel(1);
    sender.try_send(first).expect("room");
    drop(sender);
    writer.receiver = receiver;
    writer.run().await;
    let seen = seen.lock().expect("a lock");
    assert_eq!(seen[0].2["firstTimestamp"], json!(at));
}

#[tokio::test(start_paused = true)]
async fn only_a_server_out_of_reach_is_asked_again() {
    let start = Instant::now();
    let seen = written(&[403, 0, 0, 201], &["refused", "late"]).await;
    let messages: Vec<_> = seen.iter().map(|(.., body)| &body["message"]).collect();
    assert_eq!(messages, ["refused", "late", "late", "late"]);
    assert_eq!(start.elapsed(), 2 * RETRY);

    let start = Instant::now();
    let seen = written(&[0; 12], &["lost"]).await;
    assert_eq!(seen.len(), 12);
    assert_eq!(start.elapsed(), 11 * RETRY);
}
