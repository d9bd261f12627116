//! Against servers that answer as a test says.

use std::convert::Infallible;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use http::{Method, Response};
use serde_json::{Value, json};

use super::*;
use crate::workloads::Mix;

const LIMIT: Duration = Duration::from_secs(60);

fn plan(count: u32) -> Plan {
    Plan {
        mix: Mix::VllmReplicas0,
        first: 0,
        count,
        seed: 1,
        namespaces: vec!["load".parse().expect("a name")],
        namespace_labels: BTreeMap::from([("opted".to_owned(), "in".to_owned())]),
    }
}

fn load(concurrency: usize) -> Load {
    Load {
        concurrency: NonZeroUsize::new(concurrency).expect("some"),
        rate: None,
        within: LIMIT,
    }
}

fn answer(code: u16, body: &Value) -> Response<Body> {
    let builder = Response::builder().status(code);
    let answer = builder.body(Body::from(body.to_string().into_bytes()));
    answer.expect("an answer")
}

fn refused(code: u16, reason: &str) -> Response<Body> {
    let status = json!({"kind": "Status", "reason": reason, "message": reason, "code": code});
    answer(code, &status)
}

fn later(seconds: u64) -> Response<Body> {
    // As priority and fairness answers: in plain text.
    Response::builder()
        .status(429)
        .header(RETRY_AFTER, seconds)
        .body(Body::from(b"Too many requests".to_vec()))
        .expect("an answer")
}

/// A client whose server makes every namespace, and answers the creation of this object so.
fn client<F>(create: impl Fn(String) -> F + Send + Sync + 'static) -> Client
where
    F: Future<Output = Response<Body>> + Send,
{
    let create = Arc::new(create);
    let service = tower::service_fn(move |request: Request<Body>| {
        let create = Arc::clone(&create);
        async move {
            let (head, body) = request.into_parts();
            assert_eq!(head.method, Method::POST);
            let body = body.collect().await.expect("a body").to_bytes();
            let object: Value = serde_json::from_slice(&body).expect("an object");
            if head.uri.path() == "/api/v1/namespaces" {
                assert_eq!(object["metadata"]["labels"], json!({"opted": "in"}));
                return Ok::<_, Infallible>(answer(201, &object));
            }
            assert_eq!(head.uri.path(), "/apis/apps/v1/namespaces/load/deployments");
            let name = object["metadata"]["name"].as_str().expect("a name");
            Ok(create(name.to_owned()).await)
        }
    });
    Client::new(service, "default")
}

#[tokio::test]
async fn every_object_is_accounted_for_by_name() {
    let client = client(|name| async move {
        match name.as_str() {
            "vllm-00001" => refused(409, "AlreadyExists"),
            "vllm-00002" => refused(403, "Forbidden"),
            "vllm-00003" => answer(502, &json!("bad gateway")),
            _ => answer(201, &json!({})),
        }
    });
    let applied = load(4).apply(&client, &plan(6)).await.expect("applied");
    assert_eq!(applied.created, 3);
    assert_eq!(applied.existing, ["vllm-00001"]);
    let failed: Vec<_> = applied.failed.iter().collect();
    assert!(
        matches!(
            failed[..],
            [(one, Failure::Refused(Fault::Forbidden { .. })), (two, Failure::Refused(Fault::Server { code: 502, .. }))]
                if one == "vllm-00002" && two == "vllm-00003"
        ),
        "{failed:?}"
    );
    assert!(applied.latency.is_some());
    assert_eq!(applied.retries, 0);
}

#[tokio::test(start_paused = true)]
async fn the_server_decides_when_a_request_is_sent_again() {
    let asked = Arc::new(AtomicUsize::new(0));
    let client = client(move |_| {
        let first = asked.fetch_add(1, Ordering::Relaxed) == 0;
        async move {
            if first {
                later(3)
            } else {
                answer(201, &json!({}))
            }
        }
    });
    let applied = load(1).apply(&client, &plan(2)).await.expect("applied");
    assert_eq!((applied.created, applied.retries), (2, 1));
    assert_eq!(applied.took, Duration::from_secs(3));
    // The wait is not the server's slowness.
    let latency = applied.latency.expect("times");
    assert_eq!(latency.p99, Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_429_without_a_time_is_a_failure() {
    let client = client(|_| async { refused(429, "TooManyRequests") });
    let applied = load(1).apply(&client, &plan(1)).await.expect("applied");
    let fault = Fault::TooManyRequests { retry_after: None };
    assert_eq!(applied.failed["vllm-00000"], Failure::Refused(fault));
    assert_eq!(applied.rate(), 0.0);
}

#[tokio::test(start_paused = true)]
async fn so_many_requests_at_the_same_time_and_no_more() {
    let now = Arc::new(AtomicUsize::new(0));
    let most = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&most);
    let client = client(move |_| {
        let (now, most) = (Arc::clone(&now), Arc::clone(&most));
        async move {
            let running = now.fetch_add(1, Ordering::Relaxed) + 1;
            most.fetch_max(running, Ordering::Relaxed);
            sleep(Duration::from_millis(10)).await;
            now.fetch_sub(1, Ordering::Relaxed);
            answer(201, &json!({}))
        }
    });
    let applied = load(4).apply(&client, &plan(40)).await.expect("applied");
    assert_eq!(seen.load(Ordering::Relaxed), 4);
    assert_eq!(applied.took, Duration::from_millis(100));
    assert!((applied.rate() - 400.0).abs() < 1.0, "{}", applied.rate());
}

#[tokio::test(start_paused = true)]
async fn a_rate_is_kept_from_the_first_object_on() {
    let sent = Arc::new(Mutex::new(Vec::new()));
    let (begun, times) = (Instant::now(), Arc::clone(&sent));
    let client = client(move |_| {
        times.lock().expect("a lock").push(begun.elapsed());
        async { answer(201, &json!({})) }
    });
    let paced = Load {
        rate: NonZeroU32::new(10),
        ..load(4)
    };
    paced.apply(&client, &plan(4)).await.expect("applied");
    let sent = sent.lock().expect("a lock").clone();
    assert_eq!(sent, [0, 100, 200, 300].map(Duration::from_millis));
}

#[tokio::test(start_paused = true)]
async fn the_deadline_tells_what_may_be_there_from_what_is_not() {
    let client = client(|name| async move {
        if name != "vllm-00000" {
            sleep(LIMIT * 2).await;
        }
        answer(201, &json!({}))
    });
    let applied = load(2).apply(&client, &plan(5)).await.expect("applied");
    assert_eq!((applied.created, applied.took), (1, LIMIT));
    let failed: Vec<_> = applied.failed.into_values().collect();
    let (unknown, unsent) = (Failure::NoAnswer, Failure::NotSent);
    assert_eq!(failed, [unknown.clone(), unknown, unsent.clone(), unsent]);
}

#[tokio::test]
async fn a_namespace_that_differs_is_not_used() {
    let service = tower::service_fn(|request: Request<Body>| async move {
        Ok::<_, Infallible>(if request.method() == Method::POST {
            refused(409, "AlreadyExists")
        } else {
            answer(
                200,
                &json!({"metadata": {"name": "load", "labels": {"opted": "out"}}}),
            )
        })
    });
    let client = Client::new(service, "default");
    let error = load(1).apply(&client, &plan(1)).await.expect_err("differs");
    assert_eq!(
        error.to_string(),
        "the namespace load exists, but without the label opted=in"
    );
    assert!(error.hint().is_some());
}
