//! `/containerLogs`.

use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use aibom_qual::node::view::ContainerView;
use tokio::time::{Instant, timeout};

use crate::kubelet::{CERTIFICATES, Kubelet, client, key};

const LOG: &str = "2026-01-01T00:00:01.5Z stdout F one\n\
                   2026-01-01T00:00:02.000000001Z stderr P two, \n\
                   2026-01-01T00:00:03Z stderr F continued\n\
                   not a line of the format\n\
                   2026-01-01T00:00:04Z stdout F three\n";

const SOON: Duration = Duration::from_secs(5);

fn write(kubelet: &Kubelet, name: &str, text: &str) -> PathBuf {
    let path = kubelet.dir.path().join(name);
    fs::write(&path, text).expect("a file");
    path
}

fn append(path: &PathBuf) -> File {
    OpenOptions::new().append(true).open(path).expect("a log")
}

fn running(log: PathBuf) -> ContainerView {
    ContainerView {
        log: Some(log),
        running: true,
        ..ContainerView::default()
    }
}

#[tokio::test]
async fn a_query_chooses_what_is_shown() {
    let kubelet = Kubelet::start().await;
    kubelet.show(running(write(&kubelet, "0.log", LOG)));
    for (query, expected) in [
        ("", "one\ntwo, continued\nthree\n"),
        ("?tailLines=1", "three\n"),
        ("?tailLines=0", ""),
        // Parts and foreign lines count as lines.
        ("?tailLines=3", "continued\nthree\n"),
        ("?tailLines=99", "one\ntwo, continued\nthree\n"),
        (
            "?timestamps=true",
            "2026-01-01T00:00:01.500000000Z one\n\
             2026-01-01T00:00:02.000000001Z two, continued\n\
             2026-01-01T00:00:04.000000000Z three\n",
        ),
        ("?sinceTime=2026-01-01T00:00:03Z", "continued\nthree\n"),
        ("?sinceTime=2026-01-01T00:00:05Z", ""),
        ("?sinceSeconds=3600", ""),
        ("?limitBytes=6", "one\ntw"),
        ("?limitBytes=1000", "one\ntwo, continued\nthree\n"),
        (
            "?tailLines=1&timestamps=true&limitBytes=34",
            "2026-01-01T00:00:04.000000000Z thr",
        ),
    ] {
        let path = format!("/containerLogs/models/web/main{query}");
        assert_eq!(
            kubelet.get(&path).await,
            (200, expected.to_owned()),
            "{query}"
        );
    }
}

#[tokio::test]
async fn refusals_are_the_kubelet_s() {
    let kubelet = Kubelet::start().await;
    let gone = kubelet.dir.path().join("gone.log");
    kubelet.show_all([
        ("main", running(write(&kubelet, "0.log", LOG))),
        ("waiting", ContainerView::default()),
        ("lost", running(gone.clone())),
    ]);
    let lost = format!("failed to open log file {gone:?}: No such file or directory (os error 2)");
    for (path, status, text) in [
        ("models/nobody/main", 404, "pod \"nobody\" does not exist"),
        ("other/web/main", 404, "pod \"web\" does not exist"),
        (
            "models/web/side",
            404,
            "container \"side\" not found in pod \"web\"",
        ),
        (
            "models/web/waiting",
            400,
            "container \"waiting\" in pod \"web\" is waiting to start - no logs yet",
        ),
        (
            "models/web/main?previous=true",
            400,
            "previous terminated container \"main\" in pod \"web\" not found",
        ),
        ("models/web/lost", 400, &lost),
        (
            "models/web/main?tailLines=x",
            400,
            "unable to decode query: tailLines is not a number: \"x\"",
        ),
        (
            "models/web/main?limitBytes=0",
            422,
            "invalid request: limitBytes must be greater than 0",
        ),
    ] {
        let answer = kubelet.get(&format!("/containerLogs/{path}")).await;
        assert_eq!(answer, (status, text.to_owned()), "{path}");
    }
}

#[tokio::test]
async fn the_start_before_is_shown_on_request() {
    let kubelet = Kubelet::start().await;
    let line = "2026-01-01T00:00:00Z stdout F panic\n";
    kubelet.show(ContainerView {
        previous_log: Some(write(&kubelet, "0.log", line)),
        ..running(write(&kubelet, "1.log", LOG))
    });
    // It has ended, so that there is nothing to follow.
    for query in ["previous=true", "previous=true&follow=true"] {
        let path = format!("/containerLogs/models/web/main?{query}");
        let answer = timeout(SOON, kubelet.get(&path)).await.expect("it ends");
        assert_eq!(answer, (200, "panic\n".to_owned()), "{query}");
    }
}

/// What comes of a log that is followed.
struct Followed(reqwest::Response);

impl Followed {
    async fn begin(kubelet: &Kubelet, query: &str) -> Self {
        let path = format!("/containerLogs/models/web/main?follow=true{query}");
        let answer = client(Some(CERTIFICATES.pki.kubelet_client()))
            .get(kubelet.url(&path))
            .send()
            .await
            .expect("an answer");
        assert_eq!(answer.status().as_u16(), 200);
        Self(answer)
    }

    /// The next text as long as this.
    async fn next(&mut self, expected: &str) {
        let mut text = String::new();
        while text.len() < expected.len() {
            let chunk = timeout(SOON, self.0.chunk()).await.expect("more in time");
            let chunk = chunk.expect("no error").expect("more");
            text.push_str(std::str::from_utf8(&chunk).expect("text"));
        }
        assert_eq!(text, expected);
    }

    async fn end(mut self) {
        let chunk = timeout(SOON, self.0.chunk()).await.expect("an end in time");
        assert_eq!(chunk.expect("no error"), None);
    }
}

#[tokio::test]
async fn a_log_is_followed_until_its_run_has_ended() {
    let kubelet = Kubelet::start().await;
    let log = write(&kubelet, "0.log", LOG);
    kubelet.show(running(log.clone()));
    let mut followed = Followed::begin(&kubelet, "&tailLines=1").await;
    followed.next("three\n").await;
    let mut file = append(&log);
    write!(file, "2026-01-01T00:00:05Z stdout F fo").expect("written");
    tokio::time::sleep(Duration::from_millis(150)).await;
    write!(file, "ur\n2026-01-01T00:00:05Z stdout P fi").expect("written");
    followed.next("four\n").await;
    writeln!(file, "ve").expect("written");
    followed.next("five").await;
    // What was written before the end is shown, though the end is noticed first.
    writeln!(file, "2026-01-01T00:00:06Z stdout F last").expect("written");
    kubelet.show(ContainerView {
        running: false,
        ..running(log)
    });
    followed.next("last\n").await;
    followed.end().await;
}

#[tokio::test]
async fn following_ends_with_the_next_start_the_pod_or_the_limit() {
    let kubelet = Kubelet::start().await;
    let log = write(&kubelet, "0.log", LOG);
    let all = "one\ntwo, continued\nthree\n";

    kubelet.show(running(log.clone()));
    let mut followed = Followed::begin(&kubelet, "").await;
    followed.next(all).await;
    kubelet.show(running(write(&kubelet, "1.log", "")));
    followed.end().await;

    kubelet.show(running(log.clone()));
    let mut followed = Followed::begin(&kubelet, "").await;
    followed.next(all).await;
    kubelet.pods.hide(&key(), "u1");
    followed.end().await;

    kubelet.show(running(log));
    let mut followed = Followed::begin(&kubelet, "&limitBytes=5").await;
    followed.next("one\nt").await;
    followed.end().await;
}

#[tokio::test]
async fn a_server_that_stops_ends_logs_in_order() {
    let kubelet = Kubelet::start().await;
    kubelet.show(running(write(&kubelet, "0.log", LOG)));
    let mut followed = Followed::begin(&kubelet, "&tailLines=1").await;
    followed.next("three\n").await;
    // Somebody who has only connected does not hold it up.
    let idle = kubelet.connect().await;
    let begun = Instant::now();
    kubelet.server.stop().await;
    assert!(begun.elapsed() < Duration::from_secs(1));
    followed.end().await;
    drop(idle);
}

#[tokio::test]
async fn a_client_that_leaves_is_noticed() {
    let kubelet = Kubelet::start().await;
    let log = write(&kubelet, "0.log", LOG);
    kubelet.show(running(log.clone()));
    let mut followed = Followed::begin(&kubelet, "").await;
    followed.next("one\ntwo, continued\nthree\n").await;
    let readers = || open_files(&log);
    assert_eq!(readers(), 1);
    drop(followed);
    let deadline = Instant::now() + SOON;
    while readers() > 0 {
        assert!(Instant::now() < deadline, "the log is still open");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// How many descriptors of this process are the file.
fn open_files(path: &PathBuf) -> usize {
    let descriptors = fs::read_dir("/proc/self/fd").expect("Linux");
    descriptors
        .flatten()
        .filter(|entry| fs::read_link(entry.path()).is_ok_and(|link| link == *path))
        .count()
}

#[tokio::test]
async fn a_long_log_arrives_whole() {
    let kubelet = Kubelet::start().await;
    let line = "x".repeat(200);
    let log = format!("2026-01-01T00:00:00Z stdout F {line}\n").repeat(20_000);
    kubelet.show(running(write(&kubelet, "0.log", &log)));
    let (status, text) = kubelet.get("/containerLogs/models/web/main").await;
    assert_eq!(status, 200);
    assert_eq!(text.len(), 20_000 * 201);
}
