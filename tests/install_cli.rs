//! `plane install` as a person types it, with a mirror and a `go` that misbehave.

#![allow(clippy::expect_used, reason = "a test fails by panicking")]

#[path = "support/http.rs"]
mod http;
#[path = "support/programs.rs"]
mod programs;
mod support;

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use aibom_qual::plane::binaries::Sha256;
use aibom_qual::plane::tool::Tool;
use http::{Answer, Asked, Server};
use programs::{assert_gone, go, long_build, program, write_program};
use support::{Finished, Owner, World, eventually};

/// Programs that are published as they are, not in an archive.
const KUBERNETES: [Tool; 3] = [
    Tool::KubeApiserver,
    Tool::KubeControllerManager,
    Tool::KubeScheduler,
];

/// Serves small programs and their checksums; `file` decides about the former.
async fn mirror(file: impl Fn(&[u8], &Asked) -> Answer + Send + Sync + 'static) -> Server {
    Server::start(move |asked| {
        let name = asked.path.rsplit('/').next().unwrap_or_default();
        let stem = name.trim_end_matches(".sha256");
        let Some(tool) = KUBERNETES.into_iter().find(|tool| tool.file_name() == stem) else {
            return Answer::status(404);
        };
        let content = program(tool, "1.36.3");
        if stem == name {
            file(content.as_bytes(), asked)
        } else {
            let digest = Sha256::of(&[content.as_bytes()]).to_string();
            Answer::file(digest.as_bytes(), asked)
        }
    })
    .await
}

/// `plane install` of these programs; nothing but `bin` and the shell's own tools is in `PATH`.
fn install(world: &World, tools: &[Tool], more: &[&str]) -> Command {
    let only: Vec<_> = tools.iter().map(ToString::to_string).collect();
    let only = only.join(",");
    let mut args = vec!["plane", "install", "--only", &only];
    args.extend(more);
    let mut command = world.command(&args);
    let path = format!("{}:/usr/bin:/bin", world.path("bin").display());
    command.env("PATH", path).env_remove("KUBEBUILDER_ASSETS");
    for proxy in ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"] {
        command.env_remove(proxy);
    }
    command
}

fn finish(mut command: Command) -> Finished {
    Finished::of(command.output().expect("the command starts"))
}

fn files_below(dir: &Path) -> Vec<String> {
    let mut files = Vec::new();
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        if entry.path().is_dir() {
            files.extend(files_below(&entry.path()));
        } else {
            files.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    files.sort();
    files
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_checksum_is_exit_code_4_and_no_other_source_is_tried() {
    let server = mirror(|content, asked| Answer::file(&content[1..], asked)).await;
    let world = World::with_empty_cache();
    let asked_go = world.path("go-was-asked");
    let script = format!("#!/bin/sh\ntouch {}\n", asked_go.display());
    write_program(&world.path("bin/go"), script);
    let url = server.url().to_string();
    let finished = finish(install(&world, &[Tool::KubeScheduler], &["--mirror", &url]));
    finished.expect(
        4,
        &[
            "/kube-scheduler has SHA-256 ",
            ", published is ",
            "hint: do not use this file",
        ],
    );
    assert_eq!(finished.stdout, "");
    assert!(!asked_go.exists(), "a build was tried");
    assert_eq!(server.asked("/kube-scheduler").len(), 1);
    assert_eq!(
        files_below(world.dirs.cache()),
        ["CACHEDIR.TAG", "binaries.lock"]
    );
    world.assert_empty("after the refusal");
}

#[tokio::test(flavor = "multi_thread")]
async fn two_processes_that_find_an_empty_cache_obtain_each_file_once() {
    let delay = Duration::from_secs(1);
    let server = mirror(move |content, asked| Answer::file(content, asked).delay(delay)).await;
    let world = World::with_empty_cache();
    let url = server.url().to_string();
    let start = || Owner::spawn(install(&world, &KUBERNETES, &["--mirror", &url]));
    let (mut one, mut two) = (start(), start());
    let (one, two) = (one.finish(), two.finish());
    one.expect(0, &[]);
    two.expect(0, &[]);
    for tool in KUBERNETES {
        let asked = server.asked(&format!("/{}", tool.file_name()));
        assert_eq!(asked.len(), 1, "{asked:?}");
    }
    let waits = [&one, &two].map(|finished| {
        let waiting = "another process obtains the binaries; waiting";
        usize::from(finished.stderr.contains(waiting))
    });
    assert_eq!(waits.iter().sum::<usize>(), 1, "{one:?}\n{two:?}");
    assert_eq!(
        files_below(world.dirs.cache()),
        [
            "CACHEDIR.TAG",
            "binaries.lock",
            "kube-apiserver",
            "kube-apiserver.json",
            "kube-controller-manager",
            "kube-controller-manager.json",
            "kube-scheduler",
            "kube-scheduler.json",
        ]
    );
}

#[tokio::test]
async fn a_command_killed_in_a_build_leaves_no_process_and_nothing_outside_the_cache() {
    let world = World::with_empty_cache();
    let pids = world.path("pids");
    write_program(&world.path("bin/go"), go(&long_build(&pids)));
    let build = || install(&world, &[Tool::KubeScheduler], &["--no-download"]);
    let mut owner = Owner::spawn(build());
    eventually("the build runs", Duration::from_secs(60), || pids.exists());
    owner.kill();

    world.run(&["plane", "status"]).expect(0, &[]);
    assert_gone(&pids).await;
    world.assert_empty("after the kill");

    // Nothing that it left is in the way of the next one.
    let works = "printf '#!/bin/sh\\necho Kubernetes v1.36.3\\n' > $out";
    write_program(&world.path("bin/go"), go(works));
    finish(build()).expect(0, &[]);
    world.assert_empty("after the next build");
    assert!(
        !world.dirs.cache().join("go").exists(),
        "Go's folders are kept"
    );
}
