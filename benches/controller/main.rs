//! What the embedded controller costs, by its own metrics, on a private control plane.
//!
//! A round takes each of [`PROFILES`] on a plane of its own through a cold start over workloads that
//! are there already, a restart over the same ones, and a time in which nothing happens. With the last
//! of them it goes on: workloads come while the controller runs, from `kubectl apply` (if there is a
//! kubectl of the plane's version) and from this crate's own loader.
//!
//! Run with `cargo bench --bench controller [-- ROUNDS]`; prints a Markdown table. Counts are exact:
//! one that differs fails the command. Times, CPU and memory are printed beside their goals only.
//! `docs/controller-cost.md` tells what was measured last.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a report is printed"
)]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a benchmark that cannot run says so by panicking"
)]

mod cluster;
mod figures;
mod process;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use aibom_qual::host::launch::Launcher;
use aibom_qual::plane::binaries::{
    self, Availability, DEFAULT_KUBERNETES, Environment, Request, Sources,
};
use aibom_qual::plane::tool::Tool;

use cluster::{Cluster, Written};
use figures::Figures;
use process::Controller;

const EXE: &str = env!("CARGO_BIN_EXE_aibom-qual");
/// Each with the requests that its start reads with: the second has one more informer, that of
/// ReplicaSets.
const PROFILES: [(&str, u64); 2] = [("1.3.0", 10), ("1.5.1", 11)];
/// Workloads that are there before the controller.
const TRACKED: u32 = 1009;
/// Workloads that come while it runs.
const LOAD: u32 = 1001;
/// How long nothing may happen.
const QUIET: Duration = Duration::from_secs(120);

#[tokio::main]
async fn main() -> ExitCode {
    rustls::crypto::ring::default_provider()
        .install_default()
        .expect("the only TLS library");
    let rounds: usize = std::env::args()
        .skip(1)
        .find_map(|arg| arg.parse().ok())
        .filter(|rounds| *rounds > 0)
        .unwrap_or(3);
    let work = tempfile::tempdir().expect("a temporary folder");
    let kubectl = kubectl().await;
    if kubectl.is_none() {
        eprintln!("no kubectl {DEFAULT_KUBERNETES}: get it with `plane install --only kubectl`");
    }
    let mut figures = Figures::default();
    println!("load average before: {}", load_average());
    for round in 1..=rounds {
        for (index, (profile, gets)) in PROFILES.into_iter().enumerate() {
            eprintln!("round {round}, profile {profile}");
            let cluster = Cluster::start(work.path(), profile).await;
            cluster.load("tracked", TRACKED).await;
            cluster.at_rest().await;
            cold(&cluster, profile, gets, &mut figures).await;
            let controller = restart(&cluster, profile, gets, &mut figures).await;
            quiet(&controller, profile, &mut figures).await;
            if index == PROFILES.len() - 1 {
                if let Some(kubectl) = &kubectl {
                    from_kubectl(&cluster, kubectl, work.path(), &mut figures).await;
                }
                from_loader(&cluster, &mut figures).await;
                let sample = controller.sample().await;
                figures.note(
                    profile,
                    "RSS with all loads, MB",
                    None,
                    sample.resident_mb(),
                );
            }
            controller.stop();
            cluster.stop().await;
        }
    }
    println!("load average after: {}", load_average());
    figures.print(rounds)
}

/// The kubectl of the plane's version, if it is there already.
async fn kubectl() -> Option<PathBuf> {
    let request = Request {
        tools: vec![Tool::Kubectl],
        kubernetes: DEFAULT_KUBERNETES,
        explicit: None,
        sources: Sources::new(Environment::from_process()),
    };
    let dirs = cluster::dirs(None);
    let located = binaries::locate(&dirs, &Launcher::new(EXE), &request).await;
    match located.into_iter().next()?.availability {
        Availability::Found(binary) => Some(binary.path),
        Availability::Obtainable(_) | Availability::Refused(_) => None,
    }
}

fn load_average() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').take(3).collect::<Vec<_>>().join(" ")
}

/// The first start over workloads that are there.
async fn cold(cluster: &Cluster, profile: &str, gets: u64, figures: &mut Figures) {
    let n = u64::from(TRACKED);
    cluster.board.clear();
    let before = cluster.written().await;
    let begun = Instant::now();
    let controller = Controller::start(cluster, profile);
    let ready = cluster.all_ready("tracked", TRACKED).await;
    let sample = controller.settled().await;
    let made = cluster.written().await - before;
    let mut row = |what: &str, value| figures.note(profile, what, None, value);
    row("cold: s to the last Ready", (ready - begun).as_secs_f64());
    row("cold: PUT", sample.requests("PUT") as f64);
    row("cold: reconciles", sample.reconciles as f64);
    row("cold: CPU-s", sample.cpu_seconds);
    row("cold: RSS, MB", sample.resident_mb());
    let mut check =
        |what: &str, wanted: u64, seen: u64| figures.exactly(profile, what, wanted, seen);
    check("cold: GET", gets, sample.requests("GET"));
    // One of them is the event that the configuration was loaded.
    check("cold: POST", n + 1, sample.requests("POST"));
    check("cold: POST of AIBOMs, by the server", n, made.aiboms);
    check("cold: PUT of AIBOMs, by the server", 0, made.aibom_objects);
    check("cold: other requests", 0, sample.others());
    // A full status each, and at most one refresh after it, for the AIBOM's own creation.
    let puts = sample.requests("PUT");
    figures.within(profile, "cold: PUT", n + 1, 2 * n + 1, puts);
    controller.stop();
}

/// A start over workloads that have their AIBOM. The controller goes on running.
async fn restart(cluster: &Cluster, profile: &str, gets: u64, figures: &mut Figures) -> Controller {
    let n = u64::from(TRACKED);
    cluster.board.clear();
    let before = cluster.written().await;
    let begun = Instant::now();
    let controller = Controller::start(cluster, profile);
    let refreshed = cluster.all_written("tracked", TRACKED).await;
    let sample = controller.settled().await;
    let Written {
        aiboms,
        aibom_objects,
        aibom_statuses,
        config_statuses,
    } = cluster.written().await - before;
    let took = (refreshed - begun).as_secs_f64();
    figures.note(profile, "restart: s to the last status", None, took);
    figures.note(
        profile,
        "restart: CPU-s until settled",
        Some(1.0),
        sample.cpu_seconds,
    );
    figures.note(
        profile,
        "restart: RSS, MB",
        Some(60.0),
        sample.resident_mb(),
    );
    let peak = controller.peak_mb();
    figures.note(profile, "restart: peak RSS, MB", None, peak);
    let mut check =
        |what: &str, wanted: u64, seen: u64| figures.exactly(profile, what, wanted, seen);
    check("restart: GET", gets, sample.requests("GET"));
    check("restart: PUT", n + 1, sample.requests("PUT"));
    check("restart: POST (an event)", 1, sample.requests("POST"));
    check("restart: other requests", 0, sample.others());
    check("restart: refused requests", 0, sample.refused());
    check("restart: POST of AIBOMs, by the server", 0, aiboms);
    check("restart: PUT of AIBOMs, by the server", 0, aibom_objects);
    check(
        "restart: PUT of AIBOM statuses, by the server",
        n,
        aibom_statuses,
    );
    check(
        "restart: PUT of the configuration's status, by the server",
        1,
        config_statuses,
    );
    controller
}

/// Nothing happens, and the controller does nothing.
async fn quiet(controller: &Controller, profile: &str, figures: &mut Figures) {
    let before = controller.sample().await;
    tokio::time::sleep(QUIET).await;
    let after = controller.sample().await;
    let writes = after.writes() - before.writes();
    figures.exactly(profile, "120 s of quiet: writes", 0, writes);
    let reconciles = after.reconciles - before.reconciles;
    figures.exactly(profile, "120 s of quiet: reconciles", 0, reconciles);
    let cpu = (after.cpu_seconds - before.cpu_seconds) / QUIET.as_secs_f64() * 1000.0;
    figures.note(
        profile,
        "120 s of quiet: CPU, thousandths of a core",
        None,
        cpu,
    );
    let gets = after.requests("GET") - before.requests("GET");
    figures.note(profile, "120 s of quiet: GET", None, gets as f64);
}

/// A list of workloads by `kubectl apply`, while the controller runs.
async fn from_kubectl(cluster: &Cluster, kubectl: &Path, work: &Path, figures: &mut Figures) {
    let profile = PROFILES[PROFILES.len() - 1].0;
    let list = work.join("load.json");
    cluster.write_list("kubectl", LOAD, &list).await;
    cluster.board.clear();
    let applied = cluster.kubectl_apply(kubectl, &list).await;
    let ready = cluster.all_ready("kubectl", LOAD).await;
    let mut row = |what: &str, goal, value: Duration| {
        figures.note(profile, what, goal, value.as_secs_f64());
    };
    row(
        "load by kubectl: s of kubectl itself",
        None,
        applied.ended - applied.first,
    );
    row(
        "load by kubectl: s from the first create to the last Ready",
        Some(27.0),
        ready - applied.first,
    );
}

/// The same number of workloads by the loader of this crate.
async fn from_loader(cluster: &Cluster, figures: &mut Figures) {
    let profile = PROFILES[PROFILES.len() - 1].0;
    cluster.board.clear();
    let begun = Instant::now();
    let applied = cluster.load("loader", LOAD).await;
    let ready = cluster.all_ready("loader", LOAD).await;
    let latency = applied.latency.expect("some were made");
    let mut row = |what: &str, goal, value| figures.note(profile, what, goal, value);
    row(
        "load by loader: s of the loader itself",
        None,
        applied.took.as_secs_f64(),
    );
    row("load by loader: creates per second", None, applied.rate());
    row(
        "load by loader: p50 of a create, ms",
        None,
        latency.p50.as_secs_f64() * 1000.0,
    );
    row(
        "load by loader: p99 of a create, ms",
        None,
        latency.p99.as_secs_f64() * 1000.0,
    );
    row(
        "load by loader: s from the first create to the last Ready",
        Some(18.0),
        (ready - begun).as_secs_f64(),
    );
}
