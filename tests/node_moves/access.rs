//! Metrics and logs of a pod, by way of the API server and the node.

use std::time::Duration;

use aibom_qual::error_chain::chain;
use chrono::DateTime;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::LogParams;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::{sleep, timeout};

const METRICS: u16 = 8080;

/// Asks a pod's process for its metrics; since when that process runs, as seconds of Unix time.
pub(crate) async fn scrape(pods: &Api<Pod>, name: &str) -> Result<f64, String> {
    let asked = timeout(Duration::from_secs(30), try_scrape(pods, name)).await;
    asked
        .map_err(|_| "no answer within 30 s".to_owned())
        .flatten()
}

async fn try_scrape(pods: &Api<Pod>, name: &str) -> Result<f64, String> {
    let words = |error: std::io::Error| error.to_string();
    let forward = pods.portforward(name, &[METRICS]).await;
    let mut forward = forward.map_err(|error| chain(&error))?;
    let mut stream = forward.take_stream(METRICS).ok_or("no stream")?;
    let request = b"GET /metrics HTTP/1.0\r\n\r\n";
    stream.write_all(request).await.map_err(words)?;
    let mut text = String::new();
    stream.read_to_string(&mut text).await.map_err(words)?;
    drop(stream);
    let (head, body) = text
        .split_once("\r\n\r\n")
        .ok_or_else(|| format!("no answer: {text:?}"))?;
    if !head.contains(" 200 OK\r\n") {
        return Err(head.to_owned());
    }
    let whole = format!("content-length: {}", body.len());
    if !head.to_ascii_lowercase().contains(&whole) {
        return Err(format!("a part of {} bytes: {head}", body.len()));
    }
    let started = body
        .lines()
        .find_map(|line| line.strip_prefix("process_start_time_seconds "));
    let started = started.ok_or_else(|| format!("no start time: {body}"))?;
    started.parse().map_err(|_| started.to_owned())
}

/// Fails unless the pod is about to end or has ended.
async fn assert_ending(pods: &Api<Pod>, name: &str, why: &str) {
    let pod = pods.get_opt(name).await.expect("an answer");
    let is_ending = pod.is_none_or(|pod| pod.metadata.deletion_timestamp.is_some());
    assert!(is_ending, "{name} lives on: {why}");
}

/// Asks again and again until the pod ends, and for nothing less; how often there was an answer.
pub(crate) async fn scrape_to_the_end(pods: &Api<Pod>, name: &str) -> usize {
    let mut answers = 0;
    loop {
        match scrape(pods, name).await {
            Ok(_) => answers += 1,
            Err(why) => {
                assert_ending(pods, name, &why).await;
                return answers;
            }
        }
    }
}

/// Keeps one connection busy, which a server that hears nothing would close; it ends with the pod and
/// for nothing less.
pub(crate) async fn hold_to_the_end(pods: &Api<Pod>, name: &str) {
    let forward = pods.portforward(name, &[METRICS]).await;
    let mut forward = forward.expect("a forward");
    let stream = forward.take_stream(METRICS).expect("a stream");
    let (mut answers, mut requests) = tokio::io::split(stream);
    let ask = async {
        let request = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n";
        // The answers tell when it is over.
        while requests.write_all(request).await.is_ok() {
            sleep(Duration::from_secs(1)).await;
        }
        std::future::pending::<()>().await;
    };
    let mut nowhere = tokio::io::sink();
    tokio::select! {
        // However it ends.
        _ = tokio::io::copy(&mut answers, &mut nowhere) => {}
        () = ask => {}
    }
    assert_ending(pods, name, "the connection ended").await;
}

/// The log of a running container that was started once, in all the ways there are.
pub(crate) async fn read_log(pods: &Api<Pod>, name: &str) {
    let whole = pods.logs(name, &LogParams::default()).await;
    let whole = whole.expect("a log");
    assert!(whole.contains("starting server"), "{name}: {whole}");
    let params = LogParams {
        tail_lines: Some(2),
        timestamps: true,
        ..LogParams::default()
    };
    let tail = pods.logs(name, &params).await.expect("a log");
    assert_eq!(tail.lines().count(), 2, "{tail}");
    for line in tail.lines() {
        let (time, text) = line.split_once(' ').expect("a time");
        DateTime::parse_from_rfc3339(time).unwrap_or_else(|error| panic!("{time}: {error}"));
        assert!(text.starts_with('{'), "{text}");
    }
    let params = LogParams {
        previous: true,
        ..LogParams::default()
    };
    let refused = pods
        .logs(name, &params)
        .await
        .expect_err("no earlier start");
    let said = chain(&refused);
    assert!(said.contains("previous terminated container"), "{said}");
}
