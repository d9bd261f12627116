//! What an idle `plane up` costs with its node and without: memory and processor time of the command
//! itself, with three pods that have no process. What the plane's components use is not counted.
//!
//! Run with `cargo bench --bench node_idle [-- SECONDS]`; prints a Markdown table beside the goals.
//! `docs/node.md` tells what was measured last.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a report is printed"
)]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a benchmark that cannot run says so by panicking"
)]

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use aibom_qual::cluster::client::connect;
use aibom_qual::plane::registry::Registry;
use k8s_openapi::api::core::v1::{Pod, ServiceAccount};
use kube::Api;
use kube::api::PostParams;
use serde_json::{Value, json};

const EXE: &str = env!("CARGO_BIN_EXE_aibom-qual");

/// Pods of the node that is measured.
const PODS: usize = 3;
/// Time for what the start leaves behind.
const SETTLE: Duration = Duration::from_secs(10);
/// Memory that a node should not exceed, MB.
const MOST_MEMORY: f64 = 20.0;
/// Share of a core that a node should not exceed, per cent.
const MOST_TIME: f64 = 1.0;

fn main() {
    let seconds = std::env::args()
        .skip(1)
        .find_map(|arg| arg.parse().ok())
        .filter(|seconds| *seconds > 0)
        .unwrap_or(60);
    let length = Duration::from_secs(seconds);
    // As the program itself does.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let work = tempfile::tempdir().expect("a temporary folder");
    let state = work.path().join("state");

    println!("| idle for {seconds} s | memory, MB | of it its own, MB | of a core, % |");
    println!("|---|---|---|---|");
    let mut costs = Vec::new();
    for (name, args) in [("`--no-node`", &["--no-node"][..]), ("with a node", &[])] {
        let (mut owner, kubeconfig) = start_plane(&state, args);
        if args.is_empty() {
            let runtime = tokio::runtime::Runtime::new().expect("a runtime");
            runtime.block_on(start_pods(&kubeconfig));
        }
        sleep(SETTLE);
        let pid = owner.0.id();
        let (before, begun) = (processor_time(pid), Instant::now());
        sleep(length);
        let used = processor_time(pid) - before;
        let share = 100.0 * used / begun.elapsed().as_secs_f64();
        let (all, own) = (memory(pid, "VmRSS:"), memory(pid, "RssAnon:"));
        println!("| {name} | {all:.1} | {own:.1} | {share:.2} |");
        costs.push([all, own, share]);
        stop(&mut owner);
    }
    if let [without, with] = costs[..] {
        let [all, own, share] = [0, 1, 2].map(|column| with[column] - without[column]);
        println!("| difference | {all:.1} | {own:.1} | {share:.2} |");
    }
    println!("| its goal | < {MOST_MEMORY:.0} | | < {MOST_TIME:.0} |");
}

/// A `plane up`, which does not outlive a benchmark that gives up.
struct Owner(Child);

impl Drop for Owner {
    fn drop(&mut self) {
        // Fails only when it has ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a throw-away plane; its command and its kubeconfig.
fn start_plane(state: &Path, args: &[&str]) -> (Owner, PathBuf) {
    let owner = Command::new(EXE)
        .args(["--format", "json", "-q", "plane", "up", "--state-dir"])
        .arg(state)
        .args(args)
        .stdout(Stdio::piped())
        .spawn()
        .expect("plane up starts");
    let mut owner = Owner(owner);
    let mut text = String::new();
    for line in BufReader::new(owner.0.stdout.take().expect("its output")).lines() {
        let line = line.expect("a line");
        text.push_str(&line);
        if line == "}" {
            break;
        }
    }
    let plane: Value = serde_json::from_str(&text).expect("the plane's state as JSON");
    let name = plane["name"].as_str().expect("a name");
    let layout = Registry::new(state.join("planes")).layout(name);
    (owner, layout.expect("its folder").kubeconfig())
}

/// Starts the pods and waits until all are ready.
async fn start_pods(kubeconfig: &Path) {
    let client = connect(kubeconfig).await.expect("a client");
    let accounts: Api<ServiceAccount> = Api::default_namespaced(client.clone());
    let pods: Api<Pod> = Api::default_namespaced(client);
    while accounts
        .get_opt("default")
        .await
        .expect("an answer")
        .is_none()
    {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let names: Vec<String> = (0..PODS).map(|number| format!("pause-{number}")).collect();
    for name in &names {
        let pod = json!({
            "metadata": {"name": name},
            "spec": {"containers": [{"name": "pause", "image": "example.com/pause:3.10"}]},
        });
        let pod = serde_json::from_value(pod).expect("a pod");
        let created = pods.create(&PostParams::default(), &pod).await;
        created.expect("created");
    }
    for name in &names {
        while !is_running(&pods.get(name).await.expect("the pod")) {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

fn is_running(pod: &Pod) -> bool {
    let status = pod.status.as_ref();
    status.and_then(|status| status.phase.as_deref()) == Some("Running")
}

/// What the process holds in memory now, MB: in all with `VmRSS:`, without what is in its files with
/// `RssAnon:`.
fn memory(pid: u32, field: &str) -> f64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("its status");
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    let kibibytes = line.and_then(|line| line.trim().strip_suffix(" kB"));
    let kibibytes: f64 = kibibytes.expect("a size").parse().expect("a number");
    kibibytes * 1024.0 / 1e6
}

/// What the process has used of a core, seconds.
fn processor_time(pid: u32) -> f64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).expect("its times");
    // The name before may hold blanks.
    let (_, fields) = stat.rsplit_once(") ").expect("its fields");
    let ticks = fields.split(' ').skip(11).take(2);
    let ticks: f64 = ticks.map(|ticks| ticks.parse::<f64>().expect("it")).sum();
    ticks / rustix::param::clock_ticks_per_second() as f64
}

fn stop(owner: &mut Owner) {
    let pid = i32::try_from(owner.0.id())
        .ok()
        .and_then(rustix::process::Pid::from_raw)
        .expect("a pid");
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("signalled");
    assert!(owner.0.wait().expect("ends").success());
}
