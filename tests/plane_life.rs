//! A real plane from start to stop: what it offers, how it ends, what it leaves.

#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod support;

use std::sync::Arc;
use std::time::{Duration, Instant};

use aibom_qual::host::ports::PortPicker;
use aibom_qual::plane::Plane;
use aibom_qual::plane::event::{Doing, Event, Silent};
use aibom_qual::plane::registry::Registry;
use aibom_qual::plane::state::Phase;
use aibom_qual::plane::tool::Tool;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::{Api, ObjectMeta, PostParams, WatchParams};
use rustix::process::Signal;
use support::{Recorder, World, eventually, signal};

async fn namespaces(client: &kube::Client) -> Vec<String> {
    let list = Api::<Namespace>::all(client.clone())
        .list(&Default::default())
        .await
        .expect("a list");
    list.items
        .into_iter()
        .filter_map(|namespace| namespace.metadata.name)
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn two_planes_side_by_side_do_not_see_each_other() {
    let world = World::new();
    let (a, b) = (world.throw_away(), world.throw_away());
    let (a, b) = tokio::join!(
        Plane::start(&a, Arc::new(Silent)),
        Plane::start(&b, Arc::new(Silent))
    );
    let (a, b) = (a.expect("plane a"), b.expect("plane b"));
    let (of_a, of_b) = (
        a.client().await.expect("client a"),
        b.client().await.expect("client b"),
    );
    let only_here = Namespace {
        metadata: ObjectMeta {
            name: Some("only-in-a".to_owned()),
            ..Default::default()
        },
        ..Default::default()
    };
    Api::all(of_a.clone())
        .create(&PostParams::default(), &only_here)
        .await
        .expect("created");
    assert!(namespaces(&of_a).await.contains(&"only-in-a".to_owned()));
    assert!(!namespaces(&of_b).await.contains(&"only-in-a".to_owned()));
    let (a, b) = tokio::join!(a.stop(), b.stop());
    a.expect("a stops");
    b.expect("b stops");
    assert_eq!(world.processes(), Vec::<String>::new());
    assert_eq!(world.planes(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_throw_away_plane_stops_within_six_seconds_with_open_watches() {
    let world = World::new();
    let plane = Plane::start(&world.throw_away(), Arc::new(Silent))
        .await
        .expect("a plane");
    let client = plane.client().await.expect("a client");
    let api = Api::<ConfigMap>::all(client);
    let mut watches = Vec::new();
    for _ in 0..5 {
        watches.push(Box::pin(
            api.watch(&WatchParams::default(), "0")
                .await
                .expect("a watch"),
        ));
    }
    let begun = Instant::now();
    let report = plane.stop().await.expect("stops");
    let took = begun.elapsed();
    assert!(took < Duration::from_secs(6), "{took:?}: {report:?}");
    assert_eq!(report.components.len(), 4);
    assert!(
        report.components[&Tool::KubeApiserver].killed,
        "an open watch keeps the API server: {report:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_port_taken_by_chance_is_tried_again_on_another_one() {
    let world = World::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a listener");
    let port = taken.local_addr().expect("an address").port();
    let free = PortPicker::new();
    let picker = PortPicker::new();
    // etcd's client port is taken, then the API server's, then those of KCM and scheduler.
    let fresh = || free.next().expect("a free port");
    picker.suggest([port, fresh(), fresh(), fresh(), port, fresh(), port, port]);
    let mut options = world.throw_away();
    options.ports = Arc::new(picker);
    let recorder = Recorder::new();
    let plane = Plane::start(&options, Arc::clone(&recorder) as _)
        .await
        .expect("comes up all the same");
    let mut retried: Vec<Tool> = recorder
        .events()
        .into_iter()
        .filter_map(|event| match event {
            Event::PortRetry { tool, taken, .. } => {
                assert_eq!(taken, port);
                Some(tool)
            }
            _ => None,
        })
        .collect();
    retried.sort_unstable();
    assert_eq!(retried, Tool::PLANE);
    plane.stop().await.expect("stops");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_component_is_reported_within_a_second_and_callers_do_not_hang() {
    let world = World::new();
    let recorder = Recorder::new();
    let plane = Plane::start(&world.throw_away(), Arc::clone(&recorder) as _)
        .await
        .expect("a plane");
    let client = plane.client().await.expect("a client");
    let etcd = plane.state().components[&Tool::Etcd].process.pid;
    let killed = Instant::now();
    signal(etcd, Signal::KILL);
    // A request that would be retried against a dead store for a long time.
    let endless = async {
        loop {
            let _ = Api::<Namespace>::all(client.clone())
                .list(&Default::default())
                .await;
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let error = plane
        .guard::<_>(async {
            let () = endless.await;
        })
        .await
        .expect_err("etcd is dead");
    let reported = killed.elapsed();
    assert!(reported < Duration::from_secs(1), "{reported:?}");
    let text = error.to_string();
    assert!(text.contains("etcd ended with signal 9"), "{text}");
    assert!(
        error.hint().is_some_and(|hint| hint.contains("killed")),
        "{:?}",
        error.hint()
    );
    assert!(
        text.lines().count() > 1,
        "the log's last lines are told: {text}"
    );
    let seen = recorder.first(|event| {
        matches!(
            event,
            Event::ComponentDied {
                tool: Tool::Etcd,
                ..
            }
        )
    });
    assert!(seen.is_some_and(|at| at - killed < Duration::from_secs(1)));
    let registry = Registry::new(world.dirs.planes());
    eventually("the state on disk says so", Duration::from_secs(1), || {
        let (_, state) = registry.load(&plane.name()).expect("the state on disk");
        matches!(state.phase, Phase::Failed { .. })
    });
    let logs = plane.layout().logs();
    plane.stop().await.expect("stops");
    assert_eq!(world.processes(), Vec::<String>::new());
    assert!(
        logs.join("etcd.log").exists(),
        "the log that the message names is kept"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_plane_leaves_nothing() {
    let world = World::new();
    let plane = Plane::start(&world.throw_away(), Arc::new(Silent))
        .await
        .expect("a plane");
    drop(plane);
    assert_eq!(world.processes(), Vec::<String>::new());
    assert_eq!(world.planes(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_that_is_given_up_leaves_nothing() {
    let world = World::new();
    let options = world.throw_away();
    let recorder = Recorder::new();
    let reached = async {
        let begins = |event: &Event| matches!(event, Event::Phase { doing: Doing::Starting(tools) } if tools == &[Tool::KubeApiserver]);
        while recorder.first(begins).is_none() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::select! {
        plane = Plane::start(&options, Arc::clone(&recorder) as _) => panic!("{plane:?}"),
        () = reached => {}
    }
    assert_eq!(world.processes(), Vec::<String>::new());
    assert_eq!(world.planes(), Vec::<String>::new());
}
