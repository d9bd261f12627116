//! `plane up | status | env | down` as a person types them.

#![allow(clippy::expect_used, reason = "a test fails by panicking")]

mod support;

use std::path::Path;
use std::time::{Duration, Instant};

use aibom_qual::cluster::client::connect;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, ObjectMeta, PostParams, WatchParams};
use rustix::process::Signal;
use support::{World, eventually, signal};

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

    let api = Api::<ConfigMap>::namespaced(
        connect(Path::new(&kubeconfig)).await.expect("a client"),
        "default",
    );
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
    // The supervisor lets go of the plane before it ends itself.
    eventually("nothing runs", Duration::from_secs(5), || {
        world.processes().is_empty()
    });
    world.run(&["plane", "status", "demo"]).expect(4, &[]);
    world
        .run(&["plane", "env", "demo"])
        .expect(4, &["is stopped", "hint: start it with"]);

    world
        .run(&["plane", "up", "--persistent", "demo"])
        .expect(0, &["is ready after"]);
    // The copy made before the restart still works: same port, same authorities.
    let api = Api::<ConfigMap>::namespaced(connect(&copy).await.expect("a client"), "default");
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
    signal(u32::try_from(pid).expect("a pid"), Signal::KILL);
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
