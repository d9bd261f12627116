//! What happens on the way from the server.

use std::time::{Duration, Instant};

use aibom_qual::plane::binaries::{BinaryError, Reason, Sha256};
use aibom_qual::plane::event::Event;
use aibom_qual::plane::tool::Tool;

use crate::http::{Answer, Asked, Server};
use crate::programs::{World, skipped};
use crate::support::Recorder;
use crate::{SCHEDULER, assert_is_scheduler, download_reason, serving, world};

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
    assert!(begun.elapsed() < Duration::from_secs(30));
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
        let binaries = world.ensure(&events).await.unwrap();
        assert_eq!(binaries.iter().count(), 4);
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
            let content = crate::scheduler();
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
