//! From what arrived to a program in the cache.

use std::fs;
use std::io::Write as _;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use aibom_qual::plane::binaries::{Binaries, BinaryError, Origin, Sha256};
use aibom_qual::plane::event::Event;
use aibom_qual::plane::tool::Tool;

use crate::http::{Answer, Server};
use crate::programs::{World, program, skipped};
use crate::support::Recorder;
use crate::{SCHEDULER, assert_is_scheduler, scheduler, serving, world};

#[tokio::test]
async fn a_good_file_is_installed_once_and_checked_afterwards() {
    let server = serving(Answer::file).await;
    let world = world(&server);
    let events = Recorder::default();
    assert_is_scheduler(&world.ensure(&events).await.unwrap());
    assert!(events.events().iter().any(|event| matches!(
        event,
        Event::DownloadStarted { total: Some(total), .. } if *total == scheduler().len() as u64
    )));
    assert_eq!(
        server.asked(SCHEDULER)[0].path,
        format!(
            "/mirror/dl.k8s.io/release/v1.33.1/bin/linux/{}/kube-scheduler",
            if cfg!(target_arch = "aarch64") {
                "arm64"
            } else {
                "amd64"
            }
        )
    );
    assert_eq!(
        world.cached_files(),
        [
            "CACHEDIR.TAG",
            "binaries.lock",
            "kube-scheduler",
            "kube-scheduler.json"
        ]
    );

    let events = Recorder::default();
    let again = world.ensure(&events).await.unwrap();
    assert!(again.get(Tool::KubeScheduler).unwrap().from_cache);
    assert_eq!(server.asked(SCHEDULER).len(), 1);
    assert!(matches!(
        events.events().as_slice(),
        [Event::BinaryFound {
            origin: Origin::Downloaded { .. },
            from_cache: true,
            ..
        }]
    ));
}

#[tokio::test]
async fn one_program_is_taken_out_of_an_archive() {
    let archive = archive("helm", &program(Tool::Helm3, "3.22.0"));
    let digest = Sha256::of(&[&archive]);
    let server = Server::start(move |asked| {
        match asked
            .path
            .rsplit('/')
            .next()
            .unwrap()
            .strip_suffix(".sha256sum")
        {
            Some(name) => Answer::file(format!("{digest}  {name}\n").as_bytes(), asked),
            None => Answer::file(&archive, asked),
        }
    })
    .await;
    let world = World::new(&[Tool::Helm3]).mirror(server.url());
    let binaries = world.ensure(&Recorder::default()).await.unwrap();
    let helm = binaries.get(Tool::Helm3).unwrap();
    assert_eq!(
        fs::read_to_string(&helm.path).unwrap(),
        program(Tool::Helm3, "3.22.0")
    );
    assert_eq!(
        world.cached_files(),
        ["CACHEDIR.TAG", "binaries.lock", "helm", "helm.json"]
    );
}

/// A release archive as Helm publishes it.
fn archive(name: &str, content: &str) -> Vec<u8> {
    let arch = if cfg!(target_arch = "aarch64") {
        "arm64"
    } else {
        "amd64"
    };
    let mut tar = tar::Builder::new(Vec::new());
    for (name, content) in [("README.md", "words"), (name, content)] {
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o755);
        tar.append_data(
            &mut header,
            format!("linux-{arch}/{name}"),
            content.as_bytes(),
        )
        .unwrap();
    }
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&tar.into_inner().unwrap()).unwrap();
    gzip.finish().unwrap()
}

#[tokio::test]
async fn a_wrong_checksum_stops_and_nothing_is_kept() {
    let server = serving(|content, asked| Answer::file(&content[1..], asked)).await;
    let mut world = world(&server).go("echo 'must not be built'; exit 1");
    // A version that could be built, to see that it is not.
    world.request.kubernetes = aibom_qual::plane::binaries::DEFAULT_KUBERNETES;
    let events = Recorder::default();
    let error = world.ensure(&events).await.expect_err("refused");
    assert!(matches!(error, BinaryError::Checksum { .. }), "{error:?}");
    assert!(error.hint().is_some_and(|hint| hint.contains("do not use")));
    assert_eq!(skipped(&events), [""; 0]);
    assert_eq!(world.cached_files(), ["CACHEDIR.TAG", "binaries.lock"]);
}

#[tokio::test]
async fn a_full_disk_is_an_error_of_its_own() {
    let server = serving(Answer::file).await;
    let world = world(&server);
    let part = world.unpinned_place("kube-scheduler.part");
    fs::create_dir_all(part.parent().unwrap()).unwrap();
    std::os::unix::fs::symlink("/dev/full", &part).unwrap();
    let error = world.ensure(&Recorder::default()).await.expect_err("full");
    assert!(matches!(error, BinaryError::DiskFull { .. }), "{error:?}");
}

#[tokio::test]
async fn two_callers_fetch_once() {
    let server =
        serving(|content, asked| Answer::file(content, asked).delay(Duration::from_millis(300)))
            .await;
    let world = world(&server);
    let (one, two) = (Recorder::default(), Recorder::default());
    let (first, second) = tokio::join!(world.ensure(&one), world.ensure(&two));
    let (first, second) = (first.unwrap(), second.unwrap());
    let digest = |binaries: &Binaries| binaries.get(Tool::KubeScheduler).unwrap().sha256;
    assert_eq!(digest(&first), digest(&second));
    assert_eq!(server.asked(SCHEDULER).len(), 1);
    let waits = [one, two].map(|events| {
        let waiting = |event: &Event| matches!(event, Event::LockWait { .. });
        events
            .events()
            .iter()
            .filter(|event| waiting(event))
            .count()
    });
    assert_eq!(waits.iter().sum::<usize>(), 1);
}

#[tokio::test]
async fn an_interrupted_download_goes_on_where_it_stopped() {
    let calls = AtomicU32::new(0);
    let server = serving(move |content, asked| {
        let answer = Answer::file(content, asked);
        match calls.fetch_add(1, Ordering::Relaxed) {
            0 => answer.stall(1_500_000),
            _ => answer,
        }
    })
    .await;
    let mut world = world(&server);
    world.request.sources.timeouts.stall = Duration::from_secs(20);
    let part = world.unpinned_place("kube-scheduler.part");
    let events = Recorder::default();
    tokio::select! {
        result = world.ensure(&events) => panic!("{result:?}"),
        () = async {
            while !fs::metadata(&part).is_ok_and(|meta| meta.len() > 1_000_000) {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        } => {}
        () = tokio::time::sleep(Duration::from_secs(10)) => panic!("nothing arrived"),
    }
    assert_is_scheduler(&world.ensure(&events).await.unwrap());
    let from = server.asked(SCHEDULER)[1].from;
    assert!(from.is_some_and(|from| from > 1_000_000), "{from:?}");
    assert!(!part.exists());
}

#[tokio::test]
async fn a_part_of_another_file_is_given_up_for_a_whole_one() {
    let server = serving(Answer::file).await;
    let world = world(&server);
    let part = world.unpinned_place("kube-scheduler.part");
    fs::create_dir_all(part.parent().unwrap()).unwrap();
    for content in [vec![0; 5_000], vec![0; scheduler().len() + 1]] {
        fs::write(&part, content).unwrap();
        assert_is_scheduler(&world.ensure(&Recorder::default()).await.unwrap());
        fs::remove_file(world.unpinned_place("kube-scheduler")).unwrap();
    }
}

#[tokio::test]
async fn a_damaged_program_is_set_aside_and_fetched_again() {
    let server = serving(Answer::file).await;
    let world = world(&server);
    world.ensure(&Recorder::default()).await.unwrap();
    let place = world.unpinned_place("kube-scheduler");
    let mut damaged = scheduler();
    damaged[500] ^= 1;
    fs::write(&place, &damaged).unwrap();

    let events = Recorder::default();
    assert_is_scheduler(&world.ensure(&events).await.unwrap());
    let events = events.events();
    let aside = events.iter().find_map(|event| match event {
        Event::BinarySetAside { moved_to, .. } => Some(moved_to),
        _ => None,
    });
    assert_eq!(fs::read(aside.expect("told")).unwrap(), damaged);
    assert_eq!(server.asked(SCHEDULER).len(), 2);
}

#[tokio::test]
async fn a_release_of_another_version_is_refused() {
    let content = program(Tool::KubeScheduler, "1.33.2");
    let digest = Sha256::of(&[content.as_bytes()]).to_string();
    let server = Server::start(move |asked| {
        let body = if asked.path.ends_with(".sha256") {
            &digest
        } else {
            &content
        };
        Answer::file(body.as_bytes(), asked)
    })
    .await;
    let world = world(&server);
    let error = world
        .ensure(&Recorder::default())
        .await
        .expect_err("refused");
    assert!(
        error
            .to_string()
            .ends_with("is version 1.33.2, wanted 1.33.1"),
        "{error}"
    );
    assert_eq!(world.cached_files(), ["CACHEDIR.TAG", "binaries.lock"]);
}
