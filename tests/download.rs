//! Downloads against a server that fails in every way that servers do.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

#[path = "support/http.rs"]
mod http;
#[path = "support/programs.rs"]
mod programs;
mod support;

use std::fs;
use std::io::Write as _;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use aibom_qual::plane::binaries::{Binaries, BinaryError, Origin, Reason, Sha256, Source};
use aibom_qual::plane::event::Event;
use aibom_qual::plane::tool::Tool;
use http::{Answer, Asked, Server};
use programs::{World, long_program, program, skipped};
use support::Recorder;

const SCHEDULER: &str = "/kube-scheduler";

fn scheduler() -> Vec<u8> {
    long_program(Tool::KubeScheduler, "1.33.1")
}

/// Serves `kube-scheduler` and its checksum; `file` decides about the former.
async fn serving(file: impl Fn(&[u8], &Asked) -> Answer + Send + Sync + 'static) -> Server {
    let content = scheduler();
    let digest = Sha256::of(&[&content]).to_string();
    Server::start(move |asked| {
        if asked.path.ends_with(".sha256") {
            Answer::file(digest.as_bytes(), asked)
        } else if asked.path.ends_with(SCHEDULER) {
            file(&content, asked)
        } else {
            Answer::status(404)
        }
    })
    .await
}

fn world(server: &Server) -> World {
    let mut world = World::new(&[Tool::KubeScheduler])
        .unpinned()
        .mirror(server.url());
    world.request.sources.timeouts.stall = Duration::from_millis(400);
    world
}

/// The one reason for which the download did not deliver.
fn download_reason(result: Result<Binaries, BinaryError>) -> Reason {
    let error = result.expect_err("no source is left");
    assert!(error.hint().is_some());
    let BinaryError::NoSource { attempts, .. } = error else {
        panic!("{error:?}");
    };
    let mut reasons = attempts.into_iter();
    let attempt = reasons
        .find(|attempt| attempt.from == Source::Download)
        .expect("the download was tried");
    attempt.reason
}

fn assert_is_scheduler(binaries: &Binaries) {
    let binary = binaries.get(Tool::KubeScheduler).expect("delivered");
    assert!(matches!(&binary.origin, Origin::Downloaded { url } if url.ends_with(SCHEDULER)));
    assert_eq!(fs::read(&binary.path).unwrap(), scheduler());
    assert_eq!(binary.sha256, Sha256::of(&[&scheduler()]));
    assert!(!binary.from_cache);
}

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
async fn a_file_that_ends_early_is_resumed() {
    let server = serving(|content, asked| {
        let answer = Answer::file(content, asked);
        if asked.from.is_none() {
            answer.cut(700_000)
        } else {
            answer
        }
    })
    .await;
    assert_is_scheduler(&world(&server).ensure(&Recorder::default()).await.unwrap());
    let from: Vec<_> = server
        .asked(SCHEDULER)
        .iter()
        .map(|asked| asked.from)
        .collect();
    assert_eq!(from, [None, Some(700_000)]);
}

#[tokio::test]
async fn a_server_that_ignores_ranges_starts_over() {
    let server = serving(|content, asked| {
        let whole = Asked {
            from: None,
            ..asked.clone()
        };
        let answer = Answer::file(content, &whole);
        if asked.from.is_none() {
            answer.cut(700_000)
        } else {
            answer
        }
    })
    .await;
    assert_is_scheduler(&world(&server).ensure(&Recorder::default()).await.unwrap());
}

/// Serves the checksum, then the file without a length: only the end of the connection ends it. The
/// first time so many bytes are missing, later as many as `later` says.
async fn serving_until_closed(first: usize, later: usize) -> reqwest::Url {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let mut missing = first;
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut request = vec![0; 4096];
            let length = stream.read(&mut request).await.unwrap_or_default();
            let path = String::from_utf8_lossy(&request[..length]).into_owned();
            let content = scheduler();
            let body = if path.contains(".sha256 ") {
                Sha256::of(&[&content]).to_string().into_bytes()
            } else {
                let end = content.len() - missing;
                missing = later;
                content[..end].to_vec()
            };
            let _ = stream
                .write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")
                .await;
            let _ = stream.write_all(&body).await;
            let _ = stream.shutdown().await;
        }
    });
    format!("http://{address}").parse().unwrap()
}

#[tokio::test]
async fn a_body_without_a_length_may_have_been_cut_once() {
    let url = serving_until_closed(1_000_000, 0).await;
    let world = World::new(&[Tool::KubeScheduler]).unpinned().mirror(url);
    assert_is_scheduler(&world.ensure(&Recorder::default()).await.unwrap());

    let url = serving_until_closed(1_000_000, 1).await;
    let world = World::new(&[Tool::KubeScheduler]).unpinned().mirror(url);
    let error = world.ensure(&Recorder::default()).await.expect_err("wrong");
    assert!(matches!(error, BinaryError::Checksum { .. }), "{error:?}");
}

#[tokio::test]
async fn a_file_that_ends_early_every_time_is_given_up() {
    let server = serving(|content, asked| Answer::file(content, asked).cut(10_000)).await;
    let events = Recorder::default();
    let reason = download_reason(world(&server).ensure(&events).await);
    assert!(
        matches!(
            reason,
            Reason::Truncated {
                received: 30_000,
                resumes: 2,
                ..
            }
        ),
        "{reason:?}"
    );
    assert_eq!(server.asked(SCHEDULER).len(), 3);
    assert!(
        skipped(&events)[0].contains("ended early after 30000 of"),
        "{:?}",
        skipped(&events)
    );
}

#[tokio::test]
async fn a_missing_release_is_not_an_error_of_its_own() {
    let server = serving(|_, _| Answer::status(404)).await;
    let reason = download_reason(world(&server).ensure(&Recorder::default()).await);
    assert!(matches!(&reason, Reason::Status { status, .. } if status.starts_with("404")));
}

#[tokio::test]
async fn a_checksum_file_without_the_digest_is_not_trusted() {
    let server = Server::start(|asked| Answer::file(b"<html>sign in</html>", asked)).await;
    let reason = download_reason(world(&server).ensure(&Recorder::default()).await);
    assert!(matches!(reason, Reason::ChecksumFile { .. }), "{reason:?}");
    assert_eq!(server.asked(SCHEDULER), []);
}

#[tokio::test]
async fn a_stalled_body_ends_the_try() {
    let server = serving(|content, asked| Answer::file(content, asked).stall(5_000)).await;
    let begun = Instant::now();
    let reason = download_reason(world(&server).ensure(&Recorder::default()).await);
    assert!(
        matches!(
            reason,
            Reason::Stalled {
                received: 5_000,
                ..
            }
        ),
        "{reason:?}"
    );
    assert!(begun.elapsed() < Duration::from_secs(3));
}

#[tokio::test]
async fn redirects_are_followed_but_not_in_circles() {
    let server = serving(|_, _| Answer::redirect("kube-scheduler")).await;
    let reason = download_reason(world(&server).ensure(&Recorder::default()).await);
    assert!(
        matches!(&reason, Reason::Redirect { why, .. } if why.contains("more than 5 redirects")),
        "{reason:?}"
    );
    assert_eq!(server.asked(SCHEDULER).len(), 6);

    let server = serving(|content, asked| {
        if asked.path.starts_with("/else") {
            Answer::file(content, asked)
        } else {
            Answer::redirect("/elsewhere/kube-scheduler")
        }
    })
    .await;
    assert_is_scheduler(&world(&server).ensure(&Recorder::default()).await.unwrap());
}

#[tokio::test]
async fn a_host_that_does_not_answer_is_asked_once() {
    // Connections are accepted by the kernel and never answered.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = closed.local_addr().unwrap().port();
    drop(closed);
    for port in [silent.local_addr().unwrap().port(), port] {
        let url = format!("http://127.0.0.1:{port}").parse().unwrap();
        let mut world = World::new(&Tool::PLANE).mirror(url).go(
            "case $package in *etcd*) words='etcd Version: 3.6.15';; *) words='Kubernetes v1.36.3';; esac\n\
             printf '#!/bin/sh\\necho %s\\n' \"$words\" > $out",
        );
        world.request.sources.timeouts.connect = Duration::from_millis(300);
        world.request.sources.timeouts.answer = Duration::from_millis(300);
        let events = Recorder::default();
        let begun = Instant::now();
        let binaries = world.ensure(&events).await.unwrap();
        assert_eq!(binaries.iter().count(), 4);
        assert!(
            begun.elapsed() < Duration::from_secs(5),
            "{:?}",
            begun.elapsed()
        );
        let skipped = skipped(&events);
        let unreachable = skipped
            .iter()
            .filter(|why| why.contains("cannot be reached"));
        assert_eq!(unreachable.count(), 4, "{skipped:?}");
        let news = |event: &Event| {
            matches!(
                event,
                Event::SourceSkipped {
                    repeated: false,
                    ..
                }
            )
        };
        let events = events.events();
        assert_eq!(events.iter().filter(|event| news(event)).count(), 1);
        // The operating system's words alone, not where each layer noticed it.
        assert!(!skipped[0].contains("error sending request"), "{skipped:?}");
    }
    silent.set_nonblocking(true).unwrap();
    silent.accept().expect("the host was asked");
    assert!(silent.accept().is_err(), "the host was asked twice");
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
