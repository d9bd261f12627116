//! The cold start of a plane (binaries present) beside that of a bare shell script which starts the
//! same four processes with the same flags, in turn, in one run.
//!
//! The flags are read from the processes of a running plane, so that they cannot drift apart. The
//! script finds its certificates made, its binaries unchecked; `plane up` makes the former and hashes
//! the latter within its time. Both are timed from the start of the process to the `default` service
//! account.
//!
//! Run with `cargo bench --bench cold_start [-- PAIRS]`; prints a Markdown table, and fails when the
//! median of the ratios exceeds [`MOST`]. `docs/cold-start.md` tells what was measured last.

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
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

const EXE: &str = env!("CARGO_BIN_EXE_aibom-qual");
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/bare-plane.sh");

/// The largest ratio that is still "about as fast as the components themselves".
const MOST: f64 = 1.15;

fn main() -> ExitCode {
    let pairs: usize = std::env::args()
        .skip(1)
        .find_map(|arg| arg.parse().ok())
        .filter(|pairs| *pairs > 0)
        .unwrap_or(9);
    let work = tempfile::tempdir().expect("a temporary folder");
    let state = work.path().join("state");
    let recipe = work.path().join("recipe");

    // Also the warm-up, and the occasion to provision the binaries.
    let (_, mut owner, plane) = start_plane(&state);
    copy_recipe(&plane, &recipe);
    stop(&mut owner);
    start_script(&recipe);

    let mut rows = Vec::new();
    for pair in 1..=pairs {
        let (ours, mut owner, _) = start_plane(&state);
        stop(&mut owner);
        let bare = start_script(&recipe);
        eprintln!(
            "pair {pair}: plane up {:.2} s, script {:.2} s",
            ours.as_secs_f64(),
            bare.as_secs_f64()
        );
        rows.push((ours.as_secs_f64(), bare.as_secs_f64()));
    }
    let ratio = report(&rows);
    if ratio > MOST {
        eprintln!("the median ratio {ratio:.3} exceeds {MOST}");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

/// Starts a throw-away plane; the time until it says where it is.
fn start_plane(state: &Path) -> (Duration, Owner, Value) {
    let begun = Instant::now();
    let owner = Command::new(EXE)
        .args([
            "--format",
            "json",
            "-q",
            "plane",
            "up",
            "--no-node",
            "--state-dir",
        ])
        .arg(state)
        .stdout(Stdio::piped())
        .spawn()
        .expect("plane up starts");
    let mut owner = Owner(owner);
    let mut text = String::new();
    let mut took = None;
    for line in BufReader::new(owner.0.stdout.take().expect("its output")).lines() {
        took.get_or_insert_with(|| begun.elapsed());
        let line = line.expect("a line");
        text.push_str(&line);
        if line == "}" {
            break;
        }
    }
    let plane = serde_json::from_str(&text).expect("the plane's state as JSON");
    (took.expect("the plane came up"), owner, plane)
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

fn stop(owner: &mut Owner) {
    let pid = i32::try_from(owner.0.id())
        .ok()
        .and_then(rustix::process::Pid::from_raw)
        .expect("a pid");
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("signalled");
    assert!(owner.0.wait().expect("ends").success());
}

/// Copies certificates and command lines of a running plane, with the folder's path replaced.
fn copy_recipe(plane: &Value, recipe: &Path) {
    fs::create_dir_all(recipe).expect("a folder");
    let components = &plane["components"];
    let log = components["etcd"]["log"].as_str().expect("a log");
    let root = Path::new(log)
        .parent()
        .and_then(Path::parent)
        .expect("the plane's folder")
        .to_owned();
    let (from, to) = (root.display().to_string(), recipe.display().to_string());
    fs::create_dir_all(recipe.join("pki")).expect("a folder");
    for entry in fs::read_dir(root.join("pki"))
        .expect("the certificates")
        .flatten()
    {
        fs::copy(entry.path(), recipe.join("pki").join(entry.file_name())).expect("copied");
    }
    for (name, component) in [
        ("ETCD", "etcd"),
        ("APISERVER", "kube-apiserver"),
        ("KCM", "kube-controller-manager"),
        ("SCHEDULER", "kube-scheduler"),
    ] {
        let pid = components[component]["process"]["pid"]
            .as_u64()
            .expect("a pid");
        let line = fs::read(format!("/proc/{pid}/cmdline")).expect("a command line");
        let line = String::from_utf8(line).expect("text").replace(&from, &to);
        fs::write(
            recipe.join(name),
            line.trim_end_matches('\0').replace('\0', "\n") + "\n",
        )
        .expect("written");
    }
    let port = |component: &str| components[component]["port"].as_u64().expect("a port");
    fs::write(
        recipe.join("etcd-url"),
        format!("http://127.0.0.1:{}", port("etcd")),
    )
    .expect("written");
    fs::write(
        recipe.join("api-url"),
        format!("https://127.0.0.1:{}", port("kube-apiserver")),
    )
    .expect("written");
    for (name, file) in [
        ("ca", "server-ca.crt"),
        ("cert", "admin.crt"),
        ("key", "admin.key"),
    ] {
        fs::copy(root.join("pki").join(file), recipe.join(name)).expect("copied");
    }
}

fn start_script(recipe: &Path) -> Duration {
    let _ = fs::remove_dir_all(recipe.join("etcd"));
    let begun = Instant::now();
    let mut script = Command::new("bash")
        .arg(SCRIPT)
        .arg(recipe)
        .stdout(Stdio::piped())
        .spawn()
        .expect("bash starts");
    let mut line = String::new();
    BufReader::new(script.stdout.take().expect("its output"))
        .read_line(&mut line)
        .expect("a line");
    let took = begun.elapsed();
    assert_eq!(
        line,
        "ready\n",
        "the script's plane did not come up; its logs are in {}",
        recipe.display()
    );
    assert!(script.wait().expect("ends").success());
    took
}

/// Prints the table; the median of the ratios.
fn report(rows: &[(f64, f64)]) -> f64 {
    let figures = |values: Vec<f64>| {
        let mut values = values;
        values.sort_by(f64::total_cmp);
        (
            values[0],
            values[values.len() / 2],
            values[values.len() - 1],
        )
    };
    let (ours, bare, ratio) = (
        figures(rows.iter().map(|row| row.0).collect()),
        figures(rows.iter().map(|row| row.1).collect()),
        figures(rows.iter().map(|row| row.0 / row.1).collect()),
    );
    println!(
        "| {} pairs | min | median | max |\n|---|---|---|---|",
        rows.len()
    );
    println!(
        "| `plane up`, s | {:.2} | {:.2} | {:.2} |",
        ours.0, ours.1, ours.2
    );
    println!(
        "| bare script, s | {:.2} | {:.2} | {:.2} |",
        bare.0, bare.1, bare.2
    );
    println!(
        "| ratio, pair by pair | {:.3} | {:.3} | {:.3} |",
        ratio.0, ratio.1, ratio.2
    );
    ratio.1
}
