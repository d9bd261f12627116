//! Programs that are built from pinned Go modules, by a `go` that is a script.

use std::fs;
use std::time::Duration;

use aibom_qual::plane::binaries::{BinaryError, GoProblem, Origin, Problem, Reason, Source};
use aibom_qual::plane::event::Event;
use aibom_qual::plane::tool::Tool;

use crate::BUILDS;
use crate::programs::{World, assert_gone, long_build, pause, write_program};
use crate::support::Recorder;

#[tokio::test]
async fn a_program_is_built_from_the_pins_and_gos_folders_are_removed() {
    let world = World::new(&[Tool::KubeScheduler]);
    let seen = world.path("seen");
    let world = world.go(&format!(
        "echo args: \"$@\" > {seen}; env >> {seen}; cat go.mod go.sum >> {seen}\n\
         mkdir -p $GOCACHE $GOMODCACHE; echo object > $GOCACHE/object; {BUILDS}",
        seen = seen.display()
    ));
    let events = Recorder::default();
    let binaries = world.ensure(&events).await.unwrap();
    let binary = binaries.get(Tool::KubeScheduler).unwrap();
    assert_eq!(
        binary.origin,
        Origin::Built {
            go: "go1.26.8".to_owned()
        }
    );

    let seen = fs::read_to_string(seen).unwrap();
    let cache = world.path("cache").display().to_string();
    for words in [
        "args: build -trimpath -buildvcs=false -mod=readonly -ldflags -s -w -X k8s.io/",
        " k8s.io/kubernetes/cmd/kube-scheduler\n",
        "\nCGO_ENABLED=0\n",
        "\nGOENV=off\n",
        "\nGOTOOLCHAIN=local\n",
        "\nGOWORK=off\n",
        "\nGOFLAGS=-modcacherw\n",
        &format!("\nGOCACHE={cache}/go/cache\n"),
        &format!("\nGOMODCACHE={cache}/go/mod\n"),
        &format!("\nGOTMPDIR={cache}/go/tmp\n"),
        &format!("\nTMPDIR={cache}/go/tmp\n"),
        "module aibom-qual/tools/kube",
        "k8s.io/kubernetes v1.36.3 h1:",
    ] {
        assert!(seen.contains(words), "{words:?} is missing in\n{seen}");
    }
    assert!(!world.path("cache/go").exists());
    assert_eq!(
        world.cached_files(),
        [
            "CACHEDIR.TAG",
            "binaries.lock",
            "build-kube-scheduler.log",
            "kube-scheduler",
            "kube-scheduler.json"
        ]
    );
    let events = events.events();
    assert!(
        events
            .iter()
            .any(|event| matches!(event, Event::BuildStarted { go, .. } if go == "go1.26.8"))
    );
    assert!(
        events
            .iter()
            .any(|event| matches!(event, Event::BuildProgress { .. }))
    );
    assert!(
        events
            .iter()
            .any(|event| matches!(event, Event::BuildCacheRemoved { bytes } if *bytes > 0))
    );
}

#[tokio::test]
async fn gos_own_settings_are_honoured_and_left_alone() {
    let mut world = World::new(&[Tool::KubeScheduler]).go(&format!(
        "mkdir -p $GOCACHE $GOMODCACHE; echo $GOFLAGS > $GOCACHE/flags; touch $GOMODCACHE/x; {BUILDS}"
    ));
    let (gocache, gomodcache) = (world.path("gocache"), world.path("gomodcache"));
    let environment = &mut world.request.sources.environment;
    environment.gocache = Some(gocache.clone());
    environment.gomodcache = Some(gomodcache.clone());
    environment.goflags = Some("-v".into());
    let events = Recorder::default();
    world.ensure(&events).await.unwrap();
    assert_eq!(fs::read_to_string(gocache.join("flags")).unwrap(), "-v\n");
    assert!(gomodcache.join("x").exists());
    let removed = |event: &Event| matches!(event, Event::BuildCacheRemoved { .. });
    assert!(!events.events().iter().any(removed));
}

#[tokio::test]
async fn a_failed_build_shows_the_end_of_its_log() {
    let world = World::new(&[Tool::KubeScheduler]).go(
        "i=0; while [ $i -lt 100 ]; do echo line $i; i=$((i + 1)); done; touch $TMPDIR/kept; exit 3",
    );
    let error = world
        .ensure(&Recorder::default())
        .await
        .expect_err("failed");
    let BinaryError::Build { how, tail, .. } = &error else {
        panic!("{error:?}");
    };
    assert_eq!(how, "ended with exit status: 3");
    assert_eq!(tail.len(), 30);
    assert_eq!(tail.last().map(String::as_str), Some("line 99"));
    assert!(error.to_string().ends_with("\n  line 98\n  line 99"));
    assert!(
        world.path("cache/go/tmp/kept").exists(),
        "the next build goes on"
    );
}

#[tokio::test]
async fn a_full_disk_is_recognised_in_the_log_of_a_build() {
    let world = World::new(&[Tool::KubeScheduler])
        .go("echo 'write /x: no space left on device' >&2; exit 1");
    let error = world
        .ensure(&Recorder::default())
        .await
        .expect_err("failed");
    assert!(matches!(error, BinaryError::DiskFull { .. }), "{error:?}");
}

#[tokio::test]
async fn a_build_of_another_version_is_refused() {
    let world = World::new(&[Tool::KubeScheduler])
        .go("printf '#!/bin/sh\\necho Kubernetes v0.0.0\\n' > $out");
    let error = world
        .ensure(&Recorder::default())
        .await
        .expect_err("refused");
    assert!(
        matches!(
            &error,
            BinaryError::Unusable {
                from: Source::Build,
                problem: Problem::Misfit { .. },
                ..
            }
        ),
        "{error:?}"
    );
    assert!(!world.cached_files().contains(&"kube-scheduler".to_owned()));
}

#[tokio::test]
async fn a_build_that_does_not_end_is_ended() {
    let mut world = World::new(&[Tool::KubeScheduler]);
    let pids = world.path("pids");
    world = world.go(&long_build(&pids));
    world.request.sources.timeouts.build = Duration::from_secs(6);
    let error = world
        .ensure(&Recorder::default())
        .await
        .expect_err("too long");
    assert!(
        error.to_string().contains("had not ended after 6s"),
        "{error}"
    );
    assert_gone(&pids).await;
}

#[tokio::test]
async fn a_cancelled_build_leaves_no_process() {
    let mut world = World::new(&[Tool::KubeScheduler]);
    let pids = world.path("pids");
    world = world.go(&long_build(&pids));
    let events = Recorder::default();
    tokio::select! {
        result = world.ensure(&events) => panic!("{result:?}"),
        () = async { while !pids.exists() { pause().await } } => {}
        () = tokio::time::sleep(Duration::from_secs(10)) => panic!("the build did not start"),
    }
    assert_gone(&pids).await;
}

#[tokio::test]
async fn without_go_every_source_is_listed() {
    let mut world = World::new(&[Tool::Etcd]);
    world.request.sources.build = true;
    world.request.sources.environment.path = Some(world.path("bin").into());
    let error = world
        .ensure(&Recorder::default())
        .await
        .expect_err("nothing left");
    assert_eq!(
        error.to_string(),
        "no source has etcd 3.6.15: PATH: not found; download: switched off; \
         build: there is no go in PATH"
    );

    write_program(
        &world.path("bin/go"),
        "#!/bin/sh\necho go version go1.25.1 linux/amd64\n",
    );
    let error = world
        .ensure(&Recorder::default())
        .await
        .expect_err("too old");
    let BinaryError::NoSource { attempts, .. } = &error else {
        panic!("{error:?}");
    };
    let last = attempts.last().map(|attempt| &attempt.reason);
    assert!(
        matches!(last, Some(Reason::Go(GoProblem::TooOld { .. }))),
        "{last:?}"
    );
    assert!(
        error
            .hint()
            .is_some_and(|hint| hint.starts_with("install Go 1.26.0 or newer"))
    );
}

#[tokio::test]
async fn an_unpinned_version_is_never_built() {
    let world = World::new(&[Tool::KubeScheduler]).unpinned().go(BUILDS);
    let error = world
        .ensure(&Recorder::default())
        .await
        .expect_err("refused");
    assert!(
        error
            .to_string()
            .ends_with("build: there are no pinned Go modules of kubernetes 1.33.1"),
        "{error}"
    );
    assert!(error.hint().is_some_and(|hint| hint.contains("1.36.3")));
}

#[tokio::test]
async fn caches_left_by_an_interrupted_run_are_removed_when_nothing_is_lacking() {
    let world = World::new(&[Tool::KubeScheduler]).go(BUILDS);
    world.ensure(&Recorder::default()).await.unwrap();
    let left = world.path("cache/go/mod");
    let leave = || {
        fs::create_dir_all(&left).unwrap();
        fs::write(left.join("module"), "x").unwrap();
    };
    leave();
    // Somebody else is at work: the caches are theirs.
    let lock = fs::File::open(world.path("cache/binaries.lock")).unwrap();
    lock.lock().unwrap();
    world.ensure(&Recorder::default()).await.unwrap();
    assert!(left.exists());
    lock.unlock().unwrap();

    let events = Recorder::default();
    world.ensure(&events).await.unwrap();
    assert!(!world.path("cache/go").exists());
    let removed = |event: &Event| matches!(event, Event::BuildCacheRemoved { bytes } if *bytes > 0);
    assert!(events.events().iter().any(removed));
}

#[tokio::test]
async fn the_user_s_module_proxy_reaches_the_build() {
    let world = World::new(&[Tool::KubeScheduler]);
    let (goenv, seen) = (world.path("goenv"), world.path("seen"));
    fs::write(&goenv, "GOPROXY=http://proxy.example\n").unwrap();
    let mut world = world.go(&format!(
        "if [ \"$1\" = env ]; then\n\
           [ \"$GOENV\" = {goenv} ] || exit 1\n\
           echo '{{\"GOPROXY\": \"http://proxy.example\", \"GOSUMDB\": \"off\", \"GOPRIVATE\": \"\"}}'; exit\n\
         fi\n\
         echo $GOENV $GOPROXY $GOSUMDB > {seen}; {BUILDS}",
        goenv = goenv.display(),
        seen = seen.display()
    ));
    world.request.sources.environment.goenv = Some(goenv);
    world.ensure(&Recorder::default()).await.unwrap();
    assert_eq!(
        fs::read_to_string(seen).unwrap(),
        "off http://proxy.example off\n"
    );
}

#[tokio::test]
async fn a_fresh_program_gets_more_time_to_tell_its_version_than_a_stray_one() {
    let mut world = World::new(&[Tool::KubeScheduler])
        .go("printf '#!/bin/sh\\nsleep 2\\necho Kubernetes v1.36.3\\n' > $out");
    world.request.sources.timeouts.version = Duration::from_secs(1);
    world.ensure(&Recorder::default()).await.unwrap();
}
