//! The embedded controller as a process beside a test, and what its own metrics say of it.

#![allow(dead_code, reason = "each test binary uses a part of this")]

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::support::{Owner, World, free_address};

/// Requests by method and code, such as `PUT 409`.
pub(crate) type Requests = BTreeMap<String, u64>;

/// A controller that runs beside the test.
pub(crate) struct Controller {
    process: Owner,
    metrics: String,
    health: String,
}

impl Controller {
    /// Starts one that does not know of a pod around it, and waits until it is ready.
    pub(crate) async fn start(world: &World, kubeconfig: &Path, profile: &str) -> Self {
        Self::start_as(world, kubeconfig, profile, &[]).await
    }

    /// The same with these variables.
    pub(crate) async fn start_as(
        world: &World,
        kubeconfig: &Path,
        profile: &str,
        variables: &[(&str, &str)],
    ) -> Self {
        let controller = Self::launch(world, kubeconfig, profile, &[], variables);
        until("it is ready", || controller.ready(), is_ready).await;
        controller
    }

    /// Starts one with these arguments and variables besides, and waits for nothing.
    pub(crate) fn launch(
        world: &World,
        kubeconfig: &Path,
        profile: &str,
        args: &[&str],
        variables: &[(&str, &str)],
    ) -> Self {
        let [metrics, health] = [free_address(), free_address()];
        let mut command = world.command(&["controller", "--profile", profile]);
        command
            .arg("--kubeconfig")
            .arg(kubeconfig)
            .args(["--metrics-bind-address", &metrics])
            .args(["--health-probe-bind-address", &health])
            .args(args)
            .env_remove("POD_NAME")
            .env_remove("POD_NAMESPACE")
            .envs(variables.iter().copied());
        Self {
            process: Owner::spawn(command),
            metrics,
            health,
        }
    }

    /// Starts one that is ready only with a valid configuration, and waits for nothing.
    pub(crate) fn strict(world: &World, kubeconfig: &Path, profile: &str) -> Self {
        Self::launch(
            world,
            kubeconfig,
            profile,
            &["--strict-config-readiness"],
            &[],
        )
    }

    /// Status and body of `/readyz`; [`None`] while nobody listens.
    pub(crate) async fn ready(&self) -> Option<(u16, String)> {
        get(&format!("http://{}/readyz", self.health)).await
    }

    /// The same with the word of every check.
    pub(crate) async fn ready_verbose(&self) -> Option<(u16, String)> {
        get(&format!("http://{}/readyz?verbose", self.health)).await
    }

    pub(crate) async fn scrape(&self) -> Scrape {
        let answer = get(&format!("http://{}/metrics", self.metrics)).await;
        let (_, text) = answer.expect("the controller serves its metrics");
        Scrape::read(&text)
    }

    /// Every request since its start.
    pub(crate) async fn requests(&self) -> Requests {
        self.scrape().await.requests()
    }

    /// The same by method, all codes together.
    pub(crate) async fn methods(&self) -> BTreeMap<String, u64> {
        self.scrape().await.methods()
    }

    /// The sum of the series of this name that have this value in one of their labels, if there is
    /// one.
    pub(crate) async fn sum_of(&self, name: &str, label_value: &str) -> Option<u64> {
        self.scrape().await.sum_of(name, label_value)
    }

    /// Waits until it has sent nothing for a second, and returns what it sent since its start.
    pub(crate) async fn quiet(&self) -> Requests {
        let begun = Instant::now();
        let mut last = self.requests().await;
        let mut since = Instant::now();
        while since.elapsed() < Duration::from_secs(1) {
            tokio::time::sleep(Duration::from_millis(100)).await;
            let now = self.requests().await;
            if now != last {
                (last, since) = (now, Instant::now());
            }
            assert!(
                begun.elapsed() < Duration::from_secs(60),
                "it never rests: {last:?}"
            );
        }
        last
    }

    /// Ends it as a kubelet would; it has to end well. Returns its log.
    pub(crate) fn stop(mut self) -> String {
        self.process.terminate();
        let finished = self.process.finish();
        finished.expect(0, &["\"msg\":\"starting server\""]);
        let log = finished.stderr;
        assert!(!log.contains("panic"), "{log}");
        log
    }
}

/// Whether the answer of `/readyz` is the good one.
pub(crate) fn is_ready(answer: &Option<(u16, String)>) -> bool {
    *answer == Some((200, "ok".to_owned()))
}

/// Requests that came after `before`.
pub(crate) fn since(before: &Requests, after: &Requests) -> Requests {
    let mut difference = after.clone();
    for (key, count) in before {
        let left = difference.get_mut(key).expect("counters do not vanish");
        *left = left.checked_sub(*count).expect("counters do not fall");
    }
    difference.retain(|_, count| *count > 0);
    difference
}

/// Requests as a test expects them.
pub(crate) fn requests<const N: usize>(expected: [(&str, u64); N]) -> Requests {
    let owned = expected.map(|(key, count)| (key.to_owned(), count));
    owned.into_iter().collect()
}

/// One look at the metrics.
pub(crate) struct Scrape(Vec<Sample>);

struct Sample {
    name: String,
    labels: BTreeMap<String, String>,
    value: f64,
}

impl Scrape {
    fn read(text: &str) -> Self {
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        Self(lines.map(Sample::read).collect())
    }

    /// The sum of all series of this name with at least these labels.
    pub(crate) fn sum(&self, name: &str, labels: &[(&str, &str)]) -> u64 {
        let fitting = self.0.iter().filter(|sample| sample.fits(name, labels));
        fitting.map(|sample| sample.value).sum::<f64>() as u64
    }

    /// The sum of all series of this name that have this value in one of their labels, if there is one.
    pub(crate) fn sum_of(&self, name: &str, label_value: &str) -> Option<u64> {
        let has = |sample: &&Sample| {
            sample.name == name && sample.labels.values().any(|value| value == label_value)
        };
        let values = self.0.iter().filter(has).map(|sample| sample.value);
        values
            .reduce(|sum, value| sum + value)
            .map(|sum| sum as u64)
    }

    /// Requests by method, all codes together.
    pub(crate) fn methods(&self) -> BTreeMap<String, u64> {
        let mut methods = BTreeMap::new();
        for (key, count) in self.requests() {
            let (method, _) = key.split_once(' ').expect("method and code");
            *methods.entry(method.to_owned()).or_default() += count;
        }
        methods
    }

    pub(crate) fn requests(&self) -> Requests {
        let mut requests = Requests::new();
        for sample in &self.0 {
            if sample.name == "rest_client_requests_total" {
                let key = format!("{} {}", sample.labels["method"], sample.labels["code"]);
                *requests.entry(key).or_default() += sample.value as u64;
            }
        }
        requests
    }
}

impl Sample {
    fn fits(&self, name: &str, labels: &[(&str, &str)]) -> bool {
        let has =
            |(label, value): &(&str, &str)| self.labels.get(*label).is_some_and(|has| has == value);
        self.name == name && labels.iter().all(has)
    }

    fn read(line: &str) -> Self {
        let (series, value) = line.rsplit_once(' ').expect("a sample");
        let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
        let labels = labels.trim_end_matches('}').split("\",");
        let labels = labels.filter_map(|label| label.split_once("=\""));
        Self {
            name: name.to_owned(),
            labels: labels
                .map(|(name, value)| (name.to_owned(), value.trim_end_matches('"').to_owned()))
                .collect(),
            value: value.parse().expect("a number"),
        }
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
        assert!(
            begun.elapsed() < Duration::from_secs(60),
            "{what}; last: {answer:?}"
        );
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
