//! Programs that are there already.

use std::fs;
use std::time::Duration;

use aibom_qual::plane::binaries::{
    Availability, BinaryError, Obtainable, Origin, Problem, Reason, Source, locate,
};
use aibom_qual::plane::tool::Tool;
use semver::Version;

use crate::BUILDS;
use crate::programs::{World, launcher, program, skipped, write_program};
use crate::support::Recorder;

/// How long a program may be silent; the ones that do answer must make it on a busy machine.
const SILENCE: Duration = Duration::from_secs(5);

#[tokio::test]
async fn assets_come_before_path_and_path_before_the_cache() {
    let mut world = World::new(&[Tool::Etcd]);
    write_program(&world.path("assets/etcd"), program(Tool::Etcd, "3.6.15"));
    write_program(&world.path("one/etcd"), program(Tool::Etcd, "3.6.2"));
    let environment = &mut world.request.sources.environment;
    environment.path = Some(world.root.path().join("one").into());
    environment.kubebuilder_assets = Some(world.root.path().join("assets"));

    let binaries = world.ensure(&Recorder::default()).await.unwrap();
    let etcd = binaries.get(Tool::Etcd).unwrap();
    assert_eq!(etcd.origin, Origin::KubebuilderAssets);

    world.request.sources.environment.kubebuilder_assets = None;
    let binaries = world.ensure(&Recorder::default()).await.unwrap();
    let etcd = binaries.get(Tool::Etcd).unwrap();
    assert_eq!(etcd.origin, Origin::SearchPath);
    assert_eq!(etcd.version, Version::new(3, 6, 2));
    assert!(!world.path("cache").exists(), "a search writes nothing");
}

#[tokio::test]
async fn what_does_not_fit_is_passed_over_aloud() {
    let mut world = World::new(&[Tool::KubeScheduler]);
    let scheduler = |version| program(Tool::KubeScheduler, version);
    write_program(&world.path("assets/kube-scheduler"), scheduler("1.36.2"));
    write_program(
        &world.path("silent/kube-scheduler"),
        "#!/bin/sh\nsleep 60\n",
    );
    write_program(
        &world.path("foreign/kube-scheduler"),
        b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x02\0\xf3\0",
    );
    fs::create_dir(world.path("plain")).unwrap();
    fs::write(world.path("plain/kube-scheduler"), scheduler("1.36.3")).unwrap();
    write_program(&world.path("good/kube-scheduler"), scheduler("1.36.3"));
    let path = ["silent", "foreign", "plain", "good"].map(|dir| world.path(dir));
    world.request.sources.timeouts.version = SILENCE;
    let environment = &mut world.request.sources.environment;
    environment.kubebuilder_assets = Some(world.root.path().join("assets"));
    environment.path = Some(std::env::join_paths(path).unwrap());

    let events = Recorder::default();
    let binaries = world.ensure(&events).await.unwrap();
    let binary = binaries.get(Tool::KubeScheduler).unwrap();
    assert_eq!(binary.path, world.path("good/kube-scheduler"));
    let skipped = skipped(&events);
    for (why, words) in skipped
        .iter()
        .zip(["KUBEBUILDER_ASSETS: ", "PATH: ", "PATH: ", "PATH: "])
    {
        assert!(why.starts_with(words), "{why}");
    }
    for (why, words) in skipped.iter().zip([
        "is version 1.36.2, wanted 1.36.3",
        "it was still running after 5s",
        "is built for machine 243",
        "is not executable (mode 0644)",
    ]) {
        assert!(why.contains(words), "{why}");
    }
    assert_eq!(skipped.len(), 4);
}

#[tokio::test]
async fn each_helm_major_finds_its_own() {
    let mut world = World::new(&[Tool::Helm3, Tool::Helm4]);
    write_program(&world.path("four/helm"), program(Tool::Helm4, "4.3.0"));
    write_program(&world.path("three/helm"), program(Tool::Helm3, "3.22.1"));
    let path = ["four", "three"].map(|dir| world.path(dir));
    world.request.sources.environment.path = Some(std::env::join_paths(path).unwrap());
    let binaries = world.ensure(&Recorder::default()).await.unwrap();
    let path = |tool| binaries.get(tool).unwrap().path.clone();
    assert_eq!(path(Tool::Helm3), world.path("three/helm"));
    assert_eq!(path(Tool::Helm4), world.path("four/helm"));
}

#[tokio::test]
async fn a_named_folder_must_hold_everything_and_fit() {
    let mut world = World::new(&[Tool::Etcd, Tool::KubeScheduler]).go(BUILDS);
    let dir = world.path("named");
    world.request.explicit = Some(dir.clone());
    write_program(&dir.join("etcd"), program(Tool::Etcd, "3.6.15"));
    let error = world
        .ensure(&Recorder::default())
        .await
        .expect_err("lacking");
    assert!(
        error.to_string().ends_with("named holds no kube-scheduler"),
        "{error}"
    );

    write_program(
        &dir.join("kube-scheduler"),
        program(Tool::KubeScheduler, "1.35.0"),
    );
    let error = world
        .ensure(&Recorder::default())
        .await
        .expect_err("a misfit");
    assert!(
        matches!(
            &error,
            BinaryError::Unusable {
                from: Source::Explicit,
                problem: Problem::Misfit { .. },
                ..
            }
        ),
        "{error:?}"
    );
    assert_eq!(
        error.hint().as_deref(),
        Some("put version 1.36.3 there, or leave --binaries out")
    );

    write_program(
        &dir.join("kube-scheduler"),
        program(Tool::KubeScheduler, "1.36.3"),
    );
    let binaries = world.ensure(&Recorder::default()).await.unwrap();
    assert!(
        binaries
            .iter()
            .all(|binary| binary.origin == Origin::Explicit)
    );
    assert!(!world.path("cache").exists());
}

#[tokio::test]
async fn locating_obtains_nothing() {
    let mut world = World::new(&[Tool::Etcd, Tool::KubeScheduler, Tool::Helm3]).go(BUILDS);
    world.request.sources.download = true;
    write_program(&world.path("bin/etcd"), program(Tool::Etcd, "3.6.15"));
    write_program(&world.path("bin/helm"), program(Tool::Helm4, "4.3.1"));
    let located = locate(&world.dirs, &launcher(), &world.request).await;
    assert!(!world.path("cache").exists());

    let [etcd, scheduler, helm] = located.as_slice() else {
        panic!("{located:?}");
    };
    assert!(matches!(&etcd.availability, Availability::Found(binary) if binary.tool == Tool::Etcd));
    let Availability::Obtainable(sources) = &scheduler.availability else {
        panic!("{scheduler:?}");
    };
    assert!(matches!(
        sources.as_slice(),
        [Obtainable::Download { url }, Obtainable::Build { go }]
            if url.starts_with("https://dl.k8s.io/release/v1.36.3/") && go == "go1.26.8"
    ));
    assert!(matches!(helm.passed_over[0].reason, Reason::Unfit { .. }));

    world.request.kubernetes = Version::new(1, 33, 1);
    world.request.sources.download = false;
    let located = locate(&world.dirs, &launcher(), &world.request).await;
    assert!(matches!(
        &located[1].availability,
        Availability::Refused(BinaryError::NoSource { .. })
    ));
}

#[tokio::test]
async fn a_kubernetes_that_is_too_old_is_refused_at_once() {
    let mut world = World::new(&[Tool::Etcd, Tool::KubeScheduler]).go(BUILDS);
    world.request.kubernetes = Version::new(1, 32, 9);
    let error = world.ensure(&Recorder::default()).await.expect_err("old");
    assert!(
        matches!(error, BinaryError::KubernetesTooOld { .. }),
        "{error:?}"
    );
    assert_eq!(
        error.hint().as_deref(),
        Some("choose 1.33.0 or newer with --kubernetes")
    );
    assert!(!world.path("cache").exists());

    let located = locate(&world.dirs, &launcher(), &world.request).await;
    let refused = located.iter().map(|located| {
        matches!(
            &located.availability,
            Availability::Refused(BinaryError::KubernetesTooOld { .. })
        )
    });
    assert_eq!(refused.collect::<Vec<_>>(), [false, true]);

    world.request.tools = vec![Tool::Etcd];
    let error = world.ensure(&Recorder::default()).await.expect_err("no go");
    assert!(!matches!(error, BinaryError::KubernetesTooOld { .. }));
}
