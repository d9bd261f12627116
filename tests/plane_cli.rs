//! `plane up | status | env | down` as a person types them, and what a killed owner leaves.

#![allow(clippy::expect_used, reason = "a test fails by panicking")]

mod support;

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, ObjectMeta, PostParams, WatchParams};
use support::{World, eventually};

async fn client(kubeconfig: &str) -> kube::Client {
    let file = kube::config::Kubeconfig::read_from(kubeconfig).expect("a kubeconfig");
    let mut config = kube::Config::from_custom_kubeconfig(file, &Default::default())
        .await
        .expect("a config");
    config.proxy_url = None;
    kube::Client::try_from(config).expect("a client")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_persistent_plane_survives_its_command_and_its_data_survives_a_restart() {
    let world = World::new();
    world
        .run(&["plane", "up", "--persistent", "demo"])
        .expect(0, &["is ready after"]);
    // Asking again is no error, asking for another version is.
    world
        .run(&["plane", "up", "--persistent", "demo"])
        .expect(0, &["already running"]);
    world
        .run(&[
            "plane",
            "up",
            "--persistent",
            "demo",
            "--kubernetes",
            "1.35.4",
        ])
        .expect(2, &["already running"]);

    let status = world.run(&["plane", "status", "demo"]);
    status.expect(0, &[]);
    for component in [
        "etcd",
        "kube-apiserver",
        "kube-controller-manager",
        "kube-scheduler",
    ] {
        assert!(status.stdout.contains(component), "{}", status.stdout);
    }
    let list: serde_json::Value =
        serde_json::from_str(&world.run(&["plane", "status", "--format", "json"]).stdout)
            .expect("JSON");
    assert_eq!(list[0]["phase"], "ready");

    let env = world.run(&["plane", "env", "demo"]);
    env.expect(0, &[]);
    let kubeconfig = env
        .stdout
        .lines()
        .find_map(|line| line.strip_prefix("export KUBECONFIG="))
        .expect("a line");
    let kubeconfig = kubeconfig.trim_matches('\'').to_owned();
    let copy = world.path("copied-kubeconfig");
    std::fs::copy(&kubeconfig, &copy).expect("copied");

    let api = Api::<ConfigMap>::namespaced(client(&kubeconfig).await, "default");
    let kept = ConfigMap {
        metadata: ObjectMeta {
            name: Some("kept".to_owned()),
            ..Default::default()
        },
        ..Default::default()
    };
    api.create(&PostParams::default(), &kept)
        .await
        .expect("created");
    let _watch = Box::pin(
        api.watch(&WatchParams::default(), "0")
            .await
            .expect("a watch"),
    );

    let begun = Instant::now();
    world
        .run(&["plane", "down", "demo"])
        .expect(0, &["stopped"]);
    let took = begun.elapsed();
    assert!(took < Duration::from_secs(10), "{took:?}");
    assert_eq!(world.processes(), Vec::<String>::new());
    world.run(&["plane", "status", "demo"]).expect(4, &[]);
    world
        .run(&["plane", "env", "demo"])
        .expect(4, &["is stopped", "hint: start it with"]);

    world
        .run(&["plane", "up", "--persistent", "demo"])
        .expect(0, &["is ready after"]);
    // The copy made before the restart still works: same port, same authorities.
    let api = Api::<ConfigMap>::namespaced(client(&copy.to_string_lossy()).await, "default");
    api.get("kept").await.expect("the data is still there");
    world
        .run(&["plane", "down", "demo", "--delete"])
        .expect(0, &[]);
    assert_eq!(world.planes(), Vec::<String>::new());
    assert_eq!(world.strays(), Vec::<String>::new());
}

#[test]
fn a_killed_component_of_a_persistent_plane_ends_it_with_the_reason() {
    let world = World::new();
    world
        .run(&["plane", "up", "--persistent", "fragile"])
        .expect(0, &[]);
    let status: serde_json::Value = serde_json::from_str(
        &world
            .run(&["plane", "status", "fragile", "--format", "json"])
            .stdout,
    )
    .expect("JSON");
    let pid = status["state"]["components"]["kube-scheduler"]["process"]["pid"]
        .as_u64()
        .expect("a pid");
    kill(u32::try_from(pid).expect("a pid"));
    eventually("the plane is failed", Duration::from_secs(5), || {
        world
            .run(&["plane", "status", "fragile"])
            .stdout
            .contains("failed")
    });
    let status = world.run(&["plane", "status", "fragile"]);
    status.expect(4, &[]);
    assert!(
        status.stdout.contains("kube-scheduler ended with signal 9"),
        "{}",
        status.stdout
    );
    eventually("nothing runs", Duration::from_secs(15), || {
        world.processes().is_empty()
    });
    world
        .run(&["plane", "down", "fragile", "--delete"])
        .expect(0, &[]);
}

/// The moments at which the owner is killed, by the line that it has just printed.
const MOMENTS: [&str; 5] = [
    "starting etcd",
    "starting kube-apiserver",
    "starting kube-controller-manager",
    "press Ctrl-C",
    "kube-controller-manager stopped",
];

#[test]
fn a_killed_owner_leaves_no_process_and_no_file_at_any_moment() {
    for moment in MOMENTS {
        let world = World::new();
        let mut owner = world
            .command(&["-v", "plane", "up"])
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the command starts");
        let lines = BufReader::new(owner.stderr.take().expect("its error output")).lines();
        let mut reached = false;
        for line in lines.map_while(Result::ok) {
            if line.contains("press Ctrl-C") && moment != "press Ctrl-C" {
                terminate(owner.id());
            }
            if line.contains(moment) {
                reached = true;
                break;
            }
        }
        assert!(reached, "{moment} was never printed");
        owner.kill().expect("killed");
        owner.wait().expect("reaped");
        // What counts is the state after the next command, whatever it is.
        world.run(&["plane", "status"]).expect(0, &[]);
        assert_eq!(
            world.processes(),
            Vec::<String>::new(),
            "after a kill at: {moment}"
        );
        assert_eq!(
            world.planes(),
            Vec::<String>::new(),
            "after a kill at: {moment}"
        );
        assert_eq!(
            world.strays(),
            Vec::<String>::new(),
            "after a kill at: {moment}"
        );
    }
}

#[test]
fn an_interrupted_start_is_exit_code_130_and_leaves_nothing() {
    let world = World::new();
    let mut owner = world
        .command(&["-v", "plane", "up"])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command starts");
    let lines = BufReader::new(owner.stderr.take().expect("its error output")).lines();
    for line in lines.map_while(Result::ok) {
        if line.contains("starting kube-apiserver") {
            terminate(owner.id());
            break;
        }
    }
    assert_eq!(owner.wait().expect("ends").code(), Some(130));
    assert_eq!(world.processes(), Vec::<String>::new());
    assert_eq!(world.planes(), Vec::<String>::new());
}

#[test]
fn a_bad_name_and_an_unknown_name_are_exit_code_2() {
    let world = World::new();
    world
        .run(&["plane", "up", "--persistent", "Not/A/Name"])
        .expect(2, &["cannot name a plane", "hint:"]);
    world
        .run(&["plane", "status", "nobody"])
        .expect(2, &["there is no plane `nobody`", "hint:"]);
    world
        .run(&["plane", "down", "nobody"])
        .expect(2, &["there is no plane `nobody`"]);
    world
        .run(&["plane", "env"])
        .expect(4, &["no plane is running"]);
}

fn signal(pid: u32, signal: rustix::process::Signal) {
    let pid = i32::try_from(pid)
        .ok()
        .and_then(rustix::process::Pid::from_raw)
        .expect("a process number");
    rustix::process::kill_process(pid, signal).expect("signalled");
}

fn kill(pid: u32) {
    signal(pid, rustix::process::Signal::KILL);
}

fn terminate(pid: u32) {
    signal(pid, rustix::process::Signal::TERM);
}
