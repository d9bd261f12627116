//! The controller as a child process, and what its metrics say.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::EXE;
use crate::cluster::Cluster;

/// For this long nothing may move before the controller counts as settled.
const STILL: Duration = Duration::from_secs(5);
/// No start takes this long to settle.
const LIMIT: Duration = Duration::from_secs(120);

/// A running controller, killed when it is dropped.
pub(crate) struct Controller {
    process: Child,
    metrics: String,
    log: PathBuf,
    http: reqwest::Client,
}

/// One look at the metrics.
pub(crate) struct Sample {
    /// By method and code.
    requests: BTreeMap<(String, String), u64>,
    pub(crate) reconciles: u64,
    pub(crate) cpu_seconds: f64,
    resident_bytes: f64,
}

impl Controller {
    pub(crate) fn start(cluster: &Cluster, profile: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let metrics = listener.local_addr().expect("its address").to_string();
        drop(listener);
        let log = cluster.log();
        let errors = File::create(&log).expect("a log");
        let mut command = Command::new(EXE);
        // Without a pod there is one event per start, and not two.
        for name in ["POD_NAME", "POD_NAMESPACE"] {
            command.env_remove(name);
        }
        let process = command
            .args(["controller", "--profile", profile, "--kubeconfig"])
            .arg(cluster.kubeconfig())
            .args(["--metrics-bind-address", &metrics])
            .args(["--health-probe-bind-address", "0"])
            .stdin(Stdio::null())
            .stderr(errors)
            .spawn()
            .expect("the controller starts");
        let http = reqwest::Client::builder().no_proxy().build();
        Self {
            process,
            metrics,
            log,
            http: http.expect("a client"),
        }
    }

    /// What the metrics say now.
    pub(crate) async fn sample(&self) -> Sample {
        let url = format!("http://{}/metrics", self.metrics);
        let answer = self.http.get(url).send().await;
        let answer = answer.unwrap_or_else(|error| {
            let log = fs::read_to_string(&self.log).unwrap_or_default();
            panic!("no metrics: {error}\n{log}")
        });
        Sample::read(&answer.text().await.expect("text"))
    }

    /// Waits until nothing has moved for a while; the sample is that from the beginning of this time.
    pub(crate) async fn settled(&self) -> Sample {
        let begun = Instant::now();
        let mut last = self.sample().await;
        loop {
            tokio::time::sleep(STILL).await;
            let next = self.sample().await;
            let moved = (next.writes(), next.reconciles) != (last.writes(), last.reconciles);
            if !moved {
                return last;
            }
            assert!(
                begun.elapsed() < LIMIT,
                "not settled: {} writes, {} reconciles",
                next.writes(),
                next.reconciles
            );
            last = next;
        }
    }

    /// The most memory that the process has had so far.
    pub(crate) fn peak_mb(&self) -> f64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.process.id()));
        let status = status.expect("its status");
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = line.and_then(|line| line.trim().strip_suffix(" kB"));
        kib.and_then(|kib| kib.parse::<f64>().ok()).expect("a size") * 1024.0 / 1e6
    }

    /// Stops it as a cluster would.
    pub(crate) fn stop(mut self) {
        let pid = i32::try_from(self.process.id())
            .ok()
            .and_then(Pid::from_raw);
        kill_process(pid.expect("a pid"), Signal::TERM).expect("signalled");
        assert!(self.process.wait().expect("it ends").success());
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        // Fails only when it has ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Sample {
    fn read(text: &str) -> Self {
        let mut requests = BTreeMap::new();
        for (labels, value) in samples(text, "rest_client_requests_total") {
            let key = (label(labels, "method"), label(labels, "code"));
            *requests.entry(key).or_default() += value as u64;
        }
        let sum = |name| samples(text, name).map(|(_, value)| value).sum::<f64>();
        Self {
            requests,
            reconciles: sum("controller_runtime_reconcile_total") as u64,
            cpu_seconds: sum("process_cpu_seconds_total"),
            resident_bytes: sum("process_resident_memory_bytes"),
        }
    }

    fn count(&self, fits: impl Fn(&str, &str) -> bool) -> u64 {
        let requests = self.requests.iter();
        let fitting = requests.filter(|((method, code), _)| fits(method, code));
        fitting.map(|(_, count)| count).sum()
    }

    /// Requests with this method, whatever became of them.
    pub(crate) fn requests(&self, method: &str) -> u64 {
        self.count(|known, _| known == method)
    }

    /// Requests that are neither GET, POST nor PUT.
    pub(crate) fn others(&self) -> u64 {
        self.count(|method, _| !matches!(method, "GET" | "POST" | "PUT"))
    }

    pub(crate) fn writes(&self) -> u64 {
        self.count(|method, _| method != "GET")
    }

    pub(crate) fn refused(&self) -> u64 {
        self.count(|_, code| !code.starts_with('2'))
    }

    pub(crate) fn resident_mb(&self) -> f64 {
        self.resident_bytes / 1e6
    }
}

/// Labels, which may be none, and value of each sample of a family.
pub(crate) fn samples<'a>(text: &'a str, name: &'a str) -> impl Iterator<Item = (&'a str, f64)> {
    text.lines().filter_map(move |line| {
        let rest = line.strip_prefix(name)?;
        let (labels, value) = rest.rsplit_once(' ')?;
        let named = labels.is_empty() || labels.starts_with('{');
        named.then(|| (labels, value.parse().expect("a number")))
    })
}

/// The value of a label; empty when it is not there.
pub(crate) fn label(labels: &str, name: &str) -> String {
    let mut parts = labels.trim_matches(['{', '}']).split(',');
    let value = parts.find_map(|part| part.strip_prefix(name)?.strip_prefix("=\""));
    value.unwrap_or_default().trim_end_matches('"').to_owned()
}
