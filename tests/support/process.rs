//! The embedded controller as a process that a test may see fail.

#![allow(dead_code, reason = "each test binary uses a part of this")]

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::support::{Finished, Owner, World, free_address};

/// A controller that runs beside the test.
pub(crate) struct Process {
    pub(crate) owner: Owner,
    metrics: String,
    health: String,
}

impl Process {
    /// Starts one with more arguments, in the environment of this pod: its namespace and name.
    pub(crate) fn start(
        world: &World,
        kubeconfig: &Path,
        profile: &str,
        arguments: &[&str],
        pod: Option<(&str, &str)>,
    ) -> Self {
        let [metrics, health] = [free_address(), free_address()];
        let mut command = world.command(&["controller", "--profile", profile]);
        command
            .arg("--kubeconfig")
            .arg(kubeconfig)
            .args(["--metrics-bind-address", &metrics])
            .args(["--health-probe-bind-address", &health])
            .args(arguments)
            .env_remove("POD_NAMESPACE")
            .env_remove("POD_NAME");
        if let Some((namespace, name)) = pod {
            command
                .env("POD_NAMESPACE", namespace)
                .env("POD_NAME", name);
        }
        Self {
            owner: Owner::spawn(command),
            metrics,
            health,
        }
    }

    /// Status and body of an answer of the health server; [`None`] while nobody listens.
    pub(crate) async fn health(&self, path: &str) -> Option<(u16, String)> {
        get(&format!("http://{}{path}", self.health)).await
    }

    /// Every series by its whole text; none while nobody listens.
    pub(crate) async fn series(&self) -> BTreeMap<String, f64> {
        let answer = get(&format!("http://{}/metrics", self.metrics)).await;
        let text = answer.map(|(_, text)| text).unwrap_or_default();
        text.lines()
            .filter(|line| !line.starts_with('#'))
            .map(|line| {
                let (series, value) = line.rsplit_once(' ').expect("a series and its value");
                (series.to_owned(), value.parse().expect("a number"))
            })
            .collect()
    }

    /// Requests by method, all codes together.
    pub(crate) async fn requests(&self) -> BTreeMap<String, u64> {
        let mut requests = BTreeMap::new();
        for (series, value) in self.series().await {
            if series.starts_with("rest_client_requests_total{") {
                let (_, rest) = series.split_once("method=\"").expect("a method");
                let (method, _) = rest.split_once('"').expect("its end");
                *requests.entry(method.to_owned()).or_default() += value as u64;
            }
        }
        requests
    }

    /// Ends it with a signal, after which its exit code has to be 0. Returns its log.
    pub(crate) fn stop(mut self) -> String {
        self.owner.terminate();
        self.owner.finish().expect(0, &[]).stderr.clone()
    }

    /// Waits for its end.
    pub(crate) fn ended(mut self) -> Finished {
        self.owner.finish()
    }
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
        let waited = begun.elapsed();
        assert!(waited < Duration::from_secs(60), "{what}; last: {answer:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
