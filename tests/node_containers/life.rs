//! From a container's start to its end.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use aibom_qual::host::identity::ProcessIdentity;
use aibom_qual::node::container::{Running, StartError};
use aibom_qual::node::image::Pulled;
use k8s_openapi::api::core::v1::Pod;
use serde_json::json;

use crate::bench::{Bench, command, end, log, mode, only, pause, pod, start, until};

#[tokio::test]
async fn the_end_comes_after_all_output_and_takes_all_processes_along() {
    let bench = Bench::new([]);
    let pod = pod(json!({}), json!({}));
    let sandbox = bench.prepare(&pod).await;
    let image = bench.script(
        "i=0; while [ $i -lt 2000 ]; do echo line $i; i=$((i+1)); done\n\
         echo trouble >&2; sleep 300 & echo $!; exit 3",
        &[],
    );
    let running = start(&sandbox, &pod, &image, 0).await;
    let finished = end(&running).await;
    // The one that was left had the pipe.
    let drained_for = chrono::Utc::now() - finished.finished_at;
    assert!(drained_for < chrono::Duration::seconds(4), "{drained_for}");
    assert_eq!((finished.exit_code, finished.signal), (3, None));
    assert!(finished.started_at <= finished.finished_at);
    assert_eq!(end(&running).await, finished);
    assert_eq!(running.stop(Duration::ZERO).await, finished);

    let text = fs::read_to_string(running.log()).expect("a log");
    assert_eq!(text.lines().count(), 2002);
    assert_eq!(mode(running.log()), 0o600);
    let first: Vec<&str> = text
        .lines()
        .next()
        .expect("a line")
        .splitn(4, ' ')
        .collect();
    chrono::DateTime::parse_from_rfc3339(first[0]).expect("a time");
    assert_eq!(first[1..], ["stdout", "F", "line 0"]);
    assert!(text.contains(" stderr F trouble\n"));
    let left = log(&running).iter().find_map(|line| line.parse().ok());
    let left = left.expect("a process number");
    until("it ends", || ProcessIdentity::of(left).is_none()).await;
}

#[tokio::test]
async fn a_process_is_asked_to_end_and_then_made_to() {
    let bench = Bench::new([]);
    let pod = pod(json!({}), json!({}));
    let sandbox = bench.prepare(&pod).await;
    let ready = |running: &Running| {
        let path = running.log().to_owned();
        move || fs::metadata(&path).is_ok_and(|log| log.len() > 0)
    };
    let wait = "echo ready; while :; do sleep 0.01; done";
    for (start_number, (trap, code, signal)) in [
        ("trap 'exit 0' TERM", 0, None),
        ("trap 'exit 7' TERM", 7, None),
        ("true", 143, Some(15)),
    ]
    .into_iter()
    .enumerate()
    {
        let image = bench.script(&format!("{trap}; {wait}"), &[]);
        let number = u32::try_from(start_number).expect("a small number");
        let running = start(&sandbox, &pod, &image, number).await;
        until("it runs", ready(&running)).await;
        let finished = running.stop(Duration::from_secs(10)).await;
        assert_eq!(
            (finished.exit_code, finished.signal),
            (code, signal),
            "{trap}"
        );
    }
    let image = bench.script(&format!("trap '' TERM; {wait}"), &[]);
    let running = start(&sandbox, &pod, &image, 3).await;
    until("it runs", ready(&running)).await;
    let finished = running.stop(Duration::from_millis(100)).await;
    assert_eq!((finished.exit_code, finished.signal), (137, Some(9)));
    sandbox.remove().await.expect("it is removed");
}

#[tokio::test]
async fn the_logs_that_clients_may_still_read_are_kept() {
    let bench = Bench::new([]);
    let pod = pod(json!({}), json!({}));
    let sandbox = bench.prepare(&pod).await;
    let image = bench.script("echo start; touch file", &[]);
    let missing = program_that_is_gone(&bench);
    let mut ids = Vec::new();
    for number in [0, 1, 2, 4] {
        if number == 4 {
            // Clients still read those of 1 and 2 when this one has failed.
            let failed = sandbox.start(&pod, only(&pod), &missing, 3).await;
            failed.expect_err("there is no such program");
        }
        let running = start(&sandbox, &pod, &image, number).await;
        end(&running).await;
        ids.push(running.container_id().to_owned());
    }
    let entries = fs::read_dir(bench.pod_dir().join("manager")).expect("a folder");
    let entries = entries.map(|entry| entry.expect("an entry").file_name());
    let mut names: Vec<_> = entries
        .map(|name| name.into_string().expect("text"))
        .collect();
    names.sort();
    assert_eq!(names, ["1.log", "2.log", "4", "4.log"]);
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 4);
    assert!(ids.iter().all(|id| id.len() == "aibom-qual://".len() + 64));
}

#[tokio::test]
async fn nothing_outlives_its_owner() {
    let bench = Bench::new([]);
    let pod = pod(json!({}), json!({}));
    let sandbox = bench.prepare(&pod).await;
    let image = bench.script("trap '' TERM; echo $$; while :; do sleep 0.01; done", &[]);
    let process = |running: &Running| {
        let path = running.log().to_owned();
        async move {
            until("it runs", || {
                fs::metadata(&path).is_ok_and(|log| log.len() > 0)
            })
            .await;
            let text = fs::read_to_string(&path).expect("a log");
            let pid = text.trim_end().rsplit(' ').next();
            pid.and_then(|pid| pid.parse().ok())
                .expect("a process number")
        }
    };
    let dropped = start(&sandbox, &pod, &image, 0).await;
    let pid = process(&dropped).await;
    drop(dropped);
    until("it ends", || ProcessIdentity::of(pid).is_none()).await;

    let held = start(&sandbox, &pod, &image, 1).await;
    let pid = process(&held).await;
    sandbox.remove().await.expect("it is removed");
    assert_eq!(ProcessIdentity::of(pid), None);
    assert_eq!(end(&held).await.signal, Some(9));
}

#[tokio::test]
async fn a_container_without_a_process_ends_when_asked_or_when_its_time_has_come() {
    let bench = Bench::new([]);
    let mut pod = pod(json!({}), json!({}));
    let sandbox = bench.prepare(&pod).await;
    let running = start(&sandbox, &pod, &pause(), 0).await;
    assert!(running.ports().is_none());
    assert_eq!(fs::read(running.log()).expect("a log"), b"");
    let lasting = tokio::time::timeout(Duration::from_millis(100), running.exited()).await;
    assert!(lasting.is_err());
    let finished = running.stop(Duration::from_secs(10)).await;
    assert_eq!((finished.exit_code, finished.signal), (0, None));

    let mut waiting = pod.clone();
    let spec = waiting.spec.as_mut().expect("a spec");
    spec.init_containers = Some(spec.containers.clone());
    let running = start(&sandbox, &waiting, &pause(), 0).await;
    assert_eq!(end(&running).await.exit_code, 0);

    let annotate = |pod: &mut Pod, value: &str| {
        let name = "node.aibom-qual.dev/completes-after".to_owned();
        pod.metadata.annotations = Some(BTreeMap::from([(name, value.to_owned())]));
    };
    annotate(&mut pod, "50ms");
    let running = start(&sandbox, &pod, &pause(), 1).await;
    let finished = end(&running).await;
    assert_eq!(finished.exit_code, 0);
    assert!(finished.finished_at - finished.started_at >= chrono::Duration::milliseconds(50));

    for value in ["soon", "-5s"] {
        annotate(&mut pod, value);
        let error = sandbox.start(&pod, only(&pod), &pause(), 2).await;
        let error = error.expect_err("it is no time");
        assert!(matches!(error, StartError::Config(_)));
        assert!(
            error
                .to_string()
                .contains(&format!("{value:?} is not a duration"))
        );
    }
}

/// An image whose program was there when it was named.
fn program_that_is_gone(bench: &Bench) -> Pulled {
    let program = bench.root.path().join("program");
    fs::write(&program, "#!/bin/sh\n").expect("a file");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("a mode");
    let image = command([program.to_str().expect("text")]);
    fs::remove_file(&program).expect("it was there");
    image
}

#[tokio::test]
async fn a_program_that_is_gone_is_told_at_the_start() {
    let bench = Bench::new([]);
    let pod = pod(json!({}), json!({}));
    let sandbox = bench.prepare(&pod).await;
    let image = program_that_is_gone(&bench);
    let error = sandbox
        .start(&pod, only(&pod), &image, 0)
        .await
        .expect_err("it is gone");
    assert!(matches!(error, StartError::Run(_)));
    let program = bench.root.path().join("program");
    let words = format!("cannot execute {}: ", program.display());
    assert!(error.to_string().starts_with(&words), "{error}");
}
