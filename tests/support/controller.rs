//! A controller that runs beside the test, and what it says of itself.

#![allow(dead_code, reason = "each test binary uses a part of this")]

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::support::{Owner, World};

/// A controller that runs beside the test.
pub(crate) struct Controller {
    process: Owner,
    metrics: String,
    health: String,
}

impl Controller {
    pub(crate) fn start(world: &World, kubeconfig: &Path, profile: &str) -> Self {
        let [metrics, health] = [free_address(), free_address()];
        let kubeconfig = kubeconfig.display().to_string();
        let process = world.spawn(&[
            "controller",
            "--profile",
            profile,
            "--kubeconfig",
            &kubeconfig,
            "--metrics-bind-address",
            &metrics,
            "--health-probe-bind-address",
            &health,
            "--strict-config-readiness",
        ]);
        Self {
            process,
            metrics,
            health,
        }
    }

    /// Status and body of `/readyz`; [`None`] while nobody listens.
    pub(crate) async fn ready(&self) -> Option<(u16, String)> {
        get(&format!("http://{}/readyz", self.health)).await
    }

    /// The same with the word of every check.
    pub(crate) async fn ready_verbose(&self) -> Option<(u16, String)> {
        get(&format!("http://{}/readyz?verbose", self.health)).await
    }

    /// The series of a family: its labels as they are printed, and its value.
    pub(crate) async fn series(&self, family: &str) -> Vec<(String, f64)> {
        let text = get(&format!("http://{}/metrics", self.metrics)).await;
        let (_, text) = text.expect("metrics");
        let lines = text.lines().filter_map(|line| {
            let labels = line.strip_prefix(family)?.strip_prefix('{')?;
            let (labels, value) = labels.rsplit_once("} ")?;
            Some((labels.to_owned(), value.parse().expect("a number")))
        });
        lines.collect()
    }

    /// The sum of the series of a family that have this label.
    pub(crate) async fn sum(&self, family: &str, label: &str) -> Option<f64> {
        let series = self.series(family).await;
        let with = series.iter().filter(|(labels, _)| labels.contains(label));
        with.map(|(_, value)| *value)
            .reduce(|sum, value| sum + value)
    }

    /// Requests by method, all codes together.
    pub(crate) async fn requests(&self) -> BTreeMap<String, u64> {
        let mut requests = BTreeMap::new();
        for (labels, value) in self.series("rest_client_requests_total").await {
            let (_, rest) = labels.split_once("method=\"").expect("a method");
            let (method, _) = rest.split_once('"').expect("its end");
            *requests.entry(method.to_owned()).or_default() += value as u64;
        }
        requests
    }

    pub(crate) fn stop(mut self) {
        self.process.terminate();
        self.process
            .finish()
            .expect(0, &["\"msg\":\"starting server\""]);
    }
}

pub(crate) fn is_ready(answer: &Option<(u16, String)>) -> bool {
    *answer == Some((200, "ok".to_owned()))
}

/// An address of this machine that nothing uses now.
fn free_address() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("its address").to_string()
}

async fn get(url: &str) -> Option<(u16, String)> {
    let client = reqwest::Client::builder()
        .no_proxy()
        .build()
        .expect("a client");
    let response = client.get(url).send().await.ok()?;
    let status = response.status().as_u16();
    Some((status, response.text().await.ok()?))
}

/// Asks until the answer fits; fails the test after a minute.
pub(crate) async fn until<T: std::fmt::Debug, F: Future<Output = T>>(
    what: &str,
    mut ask: impl FnMut() -> F,
    fits: impl Fn(&T) -> bool,
) -> T {
    let begun = Instant::now();
    loop {
        let answer = ask().await;
        if fits(&answer) {
            return answer;
        }
        assert!(
            begun.elapsed() < Duration::from_secs(60),
            "{what}: {answer:?}"
        );
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
