//! Each known kind of failure, provoked for real: the plane says which it is and what to do.

#![allow(clippy::expect_used, reason = "a test fails by panicking")]

mod support;

use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use aibom_qual::plane::event::Silent;
use aibom_qual::plane::tool::Tool;
use aibom_qual::plane::{Plane, PlaneError};
use support::{Finished, World};

fn fails(world: &World, script: &str) -> Finished {
    Finished::of(world.shell(script).output().expect("the shell starts"))
}

#[test]
fn a_chosen_port_that_is_busy_is_exit_code_4() {
    let world = World::new();
    let busy = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let port = busy.local_addr().expect("an address").port().to_string();
    world.run(&["plane", "up", "--port", &port]).expect(
        4,
        &[
            &format!("port {port} on 127.0.0.1, chosen for kube-apiserver, is already in use"),
            "hint: leave out --port",
        ],
    );
    assert_eq!(world.processes(), Vec::<String>::new());
}

#[test]
fn an_unknown_flag_is_named() {
    let world = World::new();
    world
        .run(&[
            "plane",
            "up",
            "--component-arg",
            "kube-apiserver=--no-such-flag",
        ])
        .expect(
            4,
            &[
                "kube-apiserver ended with exit status 1",
                "unknown flag: --no-such-flag",
                "--component-arg",
            ],
        );
}

#[test]
fn too_few_files_are_told_before_anything_starts() {
    let world = World::new();
    fails(&world, "ulimit -n 512; exec $EXE plane up")
        .expect(4, &["may open only 512 files", "ulimit -Hn 4096"]);
    assert_eq!(world.planes(), Vec::<String>::new());
}

#[test]
fn a_full_disk_is_told_as_such() {
    let world = World::new();
    // A mount of one's own needs no privilege inside a user namespace.
    let script = "mkdir small && exec unshare --user --map-root-user --mount sh -ec '
        mount -t tmpfs -o size=4m tmpfs small
        exec $EXE --state-dir small/state plane up'";
    fails(&world, script).expect(
        4,
        &[
            "etcd ended with",
            "no space left on device",
            "hint: free some space",
        ],
    );
}

#[test]
fn proxies_of_the_environment_do_not_reach_the_loopback() {
    let world = World::new();
    let script = "export HTTPS_PROXY=http://127.0.0.1:1 HTTP_PROXY=http://127.0.0.1:1 ALL_PROXY=http://127.0.0.1:1
        export https_proxy=$HTTPS_PROXY http_proxy=$HTTP_PROXY all_proxy=$ALL_PROXY
        $EXE plane up --persistent proxied && $EXE plane status proxied && $EXE plane down proxied --delete";
    let finished = fails(&world, script);
    finished.expect(0, &[]);
    assert!(finished.stdout.contains("ready"), "{}", finished.stdout);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_service_account_is_waited_for_and_named() {
    let world = World::new();
    let mut options = world.throw_away();
    options.component_args.insert(
        Tool::KubeControllerManager,
        vec!["--controllers=*,-serviceaccount-controller".into()],
    );
    // All of it is waited out, but everything else must be ready within it.
    options.timeout = Duration::from_secs(45);
    let error = Plane::start(&options, Arc::new(Silent))
        .await
        .expect_err("no service account");
    let text = error.to_string();
    assert!(matches!(error, PlaneError::NotReady { .. }), "{text}");
    assert!(text.contains("the service account `default`"), "{text}");
    assert!(text.contains("does not exist yet"), "{text}");
    assert!(
        error
            .hint()
            .is_some_and(|hint| hint.contains("kube-controller-manager.log")),
        "{:?}",
        error.hint()
    );
}

/// Two kinds of damage: etcd ends at once over a broken database, but only waits for a leader for ever
/// over a broken log.
#[tokio::test(flavor = "multi_thread")]
async fn damaged_etcd_data_is_recognised() {
    for file in [
        "member/snap/db",
        "member/wal/0000000000000000-0000000000000000.wal",
    ] {
        let world = World::new();
        let mut options = world.persistent("damaged");
        let plane = Plane::start(&options, Arc::new(Silent))
            .await
            .expect("a plane");
        let path = plane.layout().etcd().join(file);
        plane.stop().await.expect("stops");
        let mut bytes = std::fs::read(&path).expect("etcd's data");
        // Both meta pages of the database, and many records of the log.
        for byte in bytes.iter_mut().skip(200).take(20_000) {
            *byte ^= 0x5a;
        }
        bytes
            .iter_mut()
            .take(200)
            .filter(|_| file.ends_with("db"))
            .for_each(|byte| *byte ^= 0x5a);
        std::fs::write(&path, bytes).expect("damaged");
        // Waited out where etcd waits for a leader.
        options.timeout = Duration::from_secs(30);
        let error = Plane::start(&options, Arc::new(Silent))
            .await
            .expect_err("its data is damaged");
        let hint = error.hint().unwrap_or_default();
        assert!(
            hint.contains("etcd cannot use this data"),
            "{file}: {error}\n{hint}"
        );
        assert_eq!(world.processes(), Vec::<String>::new());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_etcd_is_recognised_by_its_clients() {
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::api::{Api, ObjectMeta, PostParams};
    let world = World::new();
    let mut options = world.throw_away();
    options
        .component_args
        .insert(Tool::Etcd, vec!["--quota-backend-bytes=4000000".into()]);
    let plane = Plane::start(&options, Arc::new(Silent))
        .await
        .expect("a plane");
    let api = Api::<ConfigMap>::namespaced(plane.client().await.expect("a client"), "default");
    let text = "x".repeat(500_000);
    let mut error = None;
    for n in 0..50 {
        let big = ConfigMap {
            metadata: ObjectMeta {
                name: Some(format!("big-{n}")),
                ..Default::default()
            },
            data: Some([("text".to_owned(), text.clone())].into()),
            ..Default::default()
        };
        if let Err(refused) = api.create(&PostParams::default(), &big).await {
            error = Some(refused);
            break;
        }
    }
    let error = error.expect("25 MB do not fit into 4 MB");
    let fault = aibom_qual::cluster::fault::diagnose(&error);
    assert!(
        matches!(fault, aibom_qual::cluster::fault::Fault::StorageFull),
        "{fault:?}"
    );
    plane.stop().await.expect("stops");
}

#[tokio::test(flavor = "multi_thread")]
async fn expired_certificates_are_recognised() {
    let world = World::new();
    let mut options = world.throw_away();
    options.pki.now = chrono::Utc::now() - chrono::TimeDelta::days(800);
    // Waited out: the API server itself runs on.
    options.timeout = Duration::from_secs(30);
    let error = Plane::start(&options, Arc::new(Silent))
        .await
        .expect_err("its certificates have expired");
    let text = error.to_string();
    assert!(text.contains("expired"), "{text}");
}
