//! Downloads against a server that fails in every way that servers do.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

#[path = "../support/http.rs"]
mod http;
#[path = "../support/programs.rs"]
mod programs;
#[path = "../support/mod.rs"]
mod support;

mod install;
mod transfer;

use std::fs;
use std::time::Duration;

use aibom_qual::plane::binaries::{Binaries, BinaryError, Origin, Reason, Sha256, Source};
use aibom_qual::plane::tool::Tool;
use http::{Answer, Asked, Server};
use programs::{World, long_program};

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
    world.request.sources.timeouts.stall = Duration::from_secs(4);
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
