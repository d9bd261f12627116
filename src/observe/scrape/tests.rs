//! One exchange over a stream, and what is kept of it.

use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};
use tokio::time::Instant;

use super::exchange::{Answer, get};
use super::*;

const BODY: &str = "process_start_time_seconds 1\n";

async fn request(server: &mut DuplexStream) -> String {
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") {
        request.push(server.read_u8().await.expect("a byte"));
    }
    String::from_utf8(request).expect("text")
}

/// What becomes of an answer whose pieces come one after the other before the stream ends.
async fn answered(pieces: &[&str]) -> Result<Answer, String> {
    let (stream, mut server) = duplex(64);
    let pieces: Vec<String> = pieces.iter().map(|piece| (*piece).to_owned()).collect();
    tokio::spawn(async move {
        let request = request(&mut server).await;
        assert!(
            request.starts_with("GET /metrics HTTP/1.1\r\n"),
            "{request}"
        );
        assert!(request.contains("connection: close\r\n"), "{request}");
        for piece in pieces {
            server.write_all(piece.as_bytes()).await.expect("room");
            tokio::task::yield_now().await;
        }
    });
    let clock = ScrapeFiles::new("nowhere", Instant::now());
    get(stream, &clock).await
}

#[tokio::test]
async fn a_body_is_whole_by_its_length_or_its_last_chunk() {
    let length = format!(
        "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{BODY}",
        BODY.len()
    );
    let answer = answered(&[&length]).await.expect("an answer");
    assert_eq!(answer.body, BODY);
    let chunked = [
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
        "8\r\nprocess_\r\n",
        "15\r\nstart_time_seconds 1\n\r\n",
        "0\r\n\r\n",
    ];
    let answer = answered(&chunked).await.expect("an answer");
    assert_eq!(answer.body, BODY);
}

#[tokio::test]
async fn a_body_that_just_ends_is_not_whole() {
    let cases: [&[&str]; 5] = [
        &["HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\nprocess_"],
        &["HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n8\r\nprocess_\r\n"],
        &["HTTP/1.1 200 OK\r\n\r\nprocess_start_time_seconds 1\n"],
        &["HTTP/1.1 200 OK\r\nContent-Le"],
        &[],
    ];
    for pieces in cases {
        let reason = answered(pieces).await.expect_err("not whole");
        assert!(!reason.is_empty(), "{pieces:?}");
    }
}

#[tokio::test]
async fn another_status_is_no_answer() {
    let busy = "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n";
    let reason = answered(&[busy]).await.expect_err("a status");
    assert_eq!(reason, "status 503 Service Unavailable");
}

#[tokio::test]
async fn no_file_is_written_over() {
    let folder = tempfile::tempdir().expect("a folder");
    let purpose = Purpose {
        step: 3,
        what: "settle",
    };
    let begun = Instant::now();
    let files = ScrapeFiles::new(folder.path(), begun);
    let first = files.write(purpose, b"one").await.expect("written");
    assert_eq!(first, "scrapes/03-settle-0001.prom");
    // The run is resumed.
    let files = ScrapeFiles::new(folder.path(), begun);
    let second = files.write(purpose, b"two").await.expect("written");
    assert_eq!(second, "scrapes/03-settle-0002.prom");
    let kept = std::fs::read(folder.path().join("03-settle-0001.prom"));
    assert_eq!(kept.expect("a file"), b"one");
    let gone = ScrapeFiles::new(folder.path().join("gone"), begun);
    let error = gone.write(purpose, b"").await.expect_err("no folder");
    assert!(error.hint().is_some(), "{error}");
}

#[tokio::test(start_paused = true)]
async fn the_last_reason_is_told_after_three_tries() {
    let (target, asked) = crate::observe::scripted::target(|_| {
        crate::observe::scripted::Answer::json(
            serde_json::json!({"metadata": {"resourceVersion": "1"}, "items": []}),
        )
    });
    let files = ScrapeFiles::new("nowhere", Instant::now());
    let purpose = Purpose { step: 1, what: "x" };
    let deadline = Deadline::within(Duration::from_secs(60));
    let error = scrape(&target, &files, purpose, deadline).await;
    let error = error.expect_err("no pod");
    assert_eq!(
        chain(&error),
        "the controller's metrics could not be read in 3 tries: there is no Deployment with the \
         labels of the release"
    );
    assert_eq!(asked.lines().len(), 9);
    let of_release =
        "labelSelector=app.kubernetes.io%2Fname%3Dk8s-aibom%2Capp.kubernetes.io%2Finstance%3Dr";
    assert!(asked.lines().iter().all(|line| line.contains(of_release)));
}

#[tokio::test(start_paused = true)]
async fn a_refusal_is_not_tried_again() {
    let (target, _) = crate::observe::scripted::target(|_| {
        crate::observe::scripted::Answer::refused(403, "Forbidden")
    });
    let files = ScrapeFiles::new("nowhere", Instant::now());
    let purpose = Purpose { step: 1, what: "x" };
    let deadline = Deadline::within(Duration::from_secs(60));
    let error = scrape(&target, &files, purpose, deadline).await;
    let error = error.expect_err("no permission");
    assert!(
        matches!(error, ScrapeError::Unread { tries: 1, .. }),
        "{error}"
    );
    assert!(error.hint().is_some());
}
