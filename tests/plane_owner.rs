//! What is left when a plane's owner, or one of its processes, ends before its time.

#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod support;

use std::path::Path;
use std::time::{Duration, Instant};

use aibom_qual::cluster::client::connect;
use aibom_qual::plane::registry::Registry;
use aibom_qual::plane::state::PlaneState;
use aibom_qual::plane::tool::Tool;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, ObjectMeta, PostParams};
use rustix::process::Signal;
use support::{World, eventually, signal};

/// The only plane on disk.
fn only_plane(world: &World) -> PlaneState {
    let planes = Registry::new(world.dirs.planes()).list().expect("a list");
    let mut planes = planes.into_iter().map(|(_, state)| state.expect("a state"));
    let only = planes.next().expect("a plane");
    assert!(planes.next().is_none(), "there are more planes");
    only
}

/// The moments at which the owner is killed, by the line that it has just printed.
const MOMENTS: [&str; 6] = [
    "starting etcd",
    "starting kube-apiserver",
    "starting kube-controller-manager",
    "starting the node",
    "press Ctrl-C",
    "kube-controller-manager stopped",
];

#[test]
fn a_killed_owner_leaves_no_process_and_no_file_at_any_moment() {
    for moment in MOMENTS {
        let world = World::new();
        let mut owner = world.spawn(&["-v", "plane", "up"]);
        if moment == "kube-controller-manager stopped" {
            owner.until("press Ctrl-C");
            owner.terminate();
        }
        owner.until(moment);
        owner.kill();
        // What counts is the state after the next command, whatever it is.
        world.run(&["plane", "status"]).expect(0, &[]);
        world.assert_empty(&format!("after a kill at: {moment}"));
    }
}

#[test]
fn an_interrupted_start_is_exit_code_130_and_leaves_nothing() {
    let world = World::new();
    let mut owner = world.spawn(&["-v", "plane", "up"]);
    owner.until("starting kube-apiserver");
    owner.terminate();
    owner.finish().expect(130, &["error: interrupted"]);
    world.assert_empty("after the interruption");
}

#[test]
fn ctrl_c_of_a_ready_plane_is_its_normal_end() {
    let world = World::new();
    let mut owner = world.spawn(&["plane", "up"]);
    owner.until("press Ctrl-C");
    signal(owner.id(), Signal::INT);
    owner.finish().expect(0, &["stopped in"]);
    world.assert_empty("after Ctrl-C");
}

#[test]
fn a_killed_etcd_ends_the_foreground_command_with_the_reason() {
    let world = World::new();
    let mut owner = world.spawn(&["plane", "up"]);
    owner.until("press Ctrl-C");
    let etcd = only_plane(&world).components[&Tool::Etcd].process.pid;
    let killed = Instant::now();
    signal(etcd, Signal::KILL);
    owner.until("etcd ended by itself: signal 9");
    let told = killed.elapsed();
    let finished = owner.finish();
    let ended = killed.elapsed();
    finished.expect(
        4,
        &[
            "error: etcd ended with signal 9",
            "\n  | ",
            "hint: it was killed from outside",
        ],
    );
    assert!(told < Duration::from_secs(1), "{told:?}");
    // A second to notice, and no longer to stop the others than an orderly stop may take.
    assert!(ended < Duration::from_secs(7), "{ended:?}");
    assert_eq!(world.processes(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_persistent_plane_comes_back_with_its_data_after_its_supervisor_was_killed() {
    let world = World::new();
    let up = ["plane", "up", "--persistent", "demo"];
    world.run(&up).expect(0, &[]);
    let before = only_plane(&world);
    let kubeconfig = world.dirs.planes().join("demo/kubeconfig");
    let api = config_maps(&kubeconfig).await;
    let kept = ConfigMap {
        metadata: ObjectMeta {
            name: Some("kept".to_owned()),
            ..Default::default()
        },
        ..Default::default()
    };
    let created = api.create(&PostParams::default(), &kept).await;
    created.expect("created");

    signal(before.owner.pid, Signal::KILL);
    eventually("the supervisor is gone", Duration::from_secs(10), || {
        !before.owner.is_alive()
    });
    let status = world.run(&["plane", "status", "demo"]);
    status.expect(4, &[]);
    for text in ["failed", "ended without stopping it while it was ready"] {
        assert!(status.stdout.contains(text), "{}", status.stdout);
    }
    assert_eq!(world.processes(), Vec::<String>::new());

    world.run(&up).expect(0, &["is ready after"]);
    let after = only_plane(&world);
    assert_eq!(after.port, before.port);
    let api = config_maps(&kubeconfig).await;
    api.get("kept").await.expect("the data is still there");
}

async fn config_maps(kubeconfig: &Path) -> Api<ConfigMap> {
    let client = connect(kubeconfig).await.expect("a client");
    Api::namespaced(client, "default")
}

/// A plane may be on disk, but none that looks as if somebody had it in hand.
#[track_caller]
fn assert_nothing_is_live(world: &World, when: &str) {
    for (_, state) in Registry::new(world.dirs.planes()).list().expect("a list") {
        let state = state.expect("a state");
        assert!(!state.is_live(), "{when}: {state:?}");
        assert!(state.components.is_empty(), "{when}: {state:?}");
    }
}

/// The supervisor is told by nobody that `plane up` is gone.
#[test]
fn an_interrupted_start_of_a_persistent_plane_leaves_no_supervisor() {
    for moment in &MOMENTS[..3] {
        for how in [Signal::TERM, Signal::KILL] {
            let when = format!("after {how:?} at: {moment}");
            let world = World::new();
            let mut up = world.spawn(&["-v", "plane", "up", "--persistent", "demo"]);
            up.until(moment);
            signal(up.id(), how);
            let finished = up.finish();
            assert_eq!(
                finished.code,
                (how == Signal::TERM).then_some(130),
                "{when}"
            );
            world.run(&["plane", "status"]).expect(0, &[]);
            eventually(
                &format!("nothing runs {when}"),
                Duration::from_secs(10),
                || world.processes().is_empty(),
            );
            assert_nothing_is_live(&world, &when);
            assert_eq!(world.strays(), Vec::<String>::new(), "{when}");
        }
    }
}

/// The same while the supervisor has nothing to tell: it waits for a service account that never comes.
#[test]
fn a_supervisor_that_waits_in_silence_notices_that_nobody_listens() {
    let without = "kube-controller-manager=--controllers=*,-serviceaccount-controller";
    for how in [Signal::TERM, Signal::KILL] {
        let world = World::new();
        let args = ["plane", "up", "--persistent", "demo"];
        let mut up = world.spawn(&[&args[..], &["--component-arg", without]].concat());
        // The last two components become ready in any order.
        up.until("kube-apiserver is ready");
        up.until(" is ready");
        up.until(" is ready");
        signal(up.id(), how);
        up.finish();
        world.run(&["plane", "status"]).expect(0, &[]);
        eventually(
            &format!("nothing runs after {how:?}"),
            Duration::from_secs(10),
            || world.processes().is_empty(),
        );
        assert_nothing_is_live(&world, &format!("after {how:?}"));
    }
}
