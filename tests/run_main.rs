//! `aibom-qual run` as a person types it, on private planes of its own.

#![allow(clippy::expect_used, reason = "a test fails by panicking")]

mod support;

use std::path::{Path, PathBuf};
use std::process::Command;

use aibom_qual::record::{Created, Ledger, LoadedRun, RunFolder, StepEnd, StepKind, Verdict};
use aibom_qual::subject::images::CONTROLLERS;
use rustix::process::Signal;
use support::{Finished, World, signal};

/// A round trip of five steps: the shortest plan that has a move.
const SHORT: &str = "
apiVersion: aibom-qual/v1
kind: Scenario
metadata: {name: short}
spec:
  release: {name: k8s-aibom, namespace: k8s-aibom-system}
  charts:
    from: {path: CHARTS/1.3.0}
    to: {path: CHARTS/1.5.1}
  workloads: {preexisting: 1, count: 5, mix: vllm-replicas-0, namespaces: 2, seed: 7, rate: unlimited}
  steps:
    - baseline: {}
    - install: {chart: from}
    - load: {}
    - upgrade: {chart: to}
    - cleanup: {}
";

/// Writes the short scenario into the world, changed as the test wants it.
fn scenario(world: &World, change: impl FnOnce(String) -> String) -> String {
    let charts = Path::new(env!("CARGO_MANIFEST_DIR")).join("charts");
    let text = SHORT.replace("CHARTS", charts.to_str().expect("text"));
    let path = world.path("short.yaml");
    std::fs::write(&path, change(text)).expect("a file");
    path.to_str().expect("text").to_owned()
}

/// The folders of all runs of this world.
fn runs(world: &World) -> Vec<PathBuf> {
    let folder = world.path("results");
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}

/// The only run of this world.
#[track_caller]
fn the_run(world: &World) -> (PathBuf, LoadedRun) {
    let runs = runs(world);
    let [run] = runs.as_slice() else {
        panic!("one run is expected: {runs:?}");
    };
    let folder = RunFolder::open(run).expect("a folder");
    (run.clone(), folder.load().expect("a run"))
}

/// What a run made, as it wrote it down.
fn ledger(run: &Path) -> Ledger {
    let folder = RunFolder::open(run).expect("a folder");
    folder.read_ledger().expect("readable").expect("a ledger")
}

fn reason(end: &StepEnd) -> &str {
    match end {
        StepEnd::Done => "",
        StepEnd::Failed { reason } | StepEnd::Aborted { reason, .. } => reason,
    }
}

fn the_shipped_scenario(major: &str) {
    let world = World::new();
    let finished = world.run(&[
        "run",
        "v1.3-to-v1.5",
        "--workloads",
        "40",
        "--window",
        "20s",
        "--helm",
        major,
    ]);
    finished.expect(0, &[]);
    world.assert_empty("after the run");
    let (folder, run) = the_run(&world);
    assert_eq!(run.problems, Vec::<String>::new());
    assert_eq!(run.steps.len(), 10);
    for step in &run.steps {
        assert_eq!(step.end, StepEnd::Done, "{} {}", step.step, step.action);
    }
    let revisions: Vec<_> = run
        .steps
        .iter()
        .filter(|step| step.kind.is_move())
        .map(|step| step.helm.as_ref().and_then(|helm| helm.revision_after))
        .collect();
    assert_eq!(revisions, [1, 2, 3, 4, 5].map(Some));
    let environment = run.run.environment.expect("an environment");
    assert_eq!(environment.helm.major.to_string(), major);
    for step in &run.steps[1..9] {
        let snapshot = &run.snapshots[&step.step];
        let expected = if step.kind == StepKind::Install {
            1
        } else {
            41
        };
        assert_eq!(snapshot.aiboms().len(), expected, "step {}", step.step);
    }
    let costs = run.steps.iter().filter(|step| step.kind != StepKind::Load);
    for step in costs.filter(|step| step.kind.is_move()) {
        let restart = step.restart.as_ref().expect("its cost");
        assert!(restart.settled_after.is_some(), "{restart:?}");
        assert_eq!(restart.not_walked, Vec::<String>::new());
    }
    let ledger = ledger(&folder);
    assert!(ledger.cleaned);
    assert!(
        ledger
            .created
            .iter()
            .any(|made| matches!(made, Created::Crd { uid: Some(_), .. }))
    );
    assert!(folder.join("timeline.md").is_file());
    assert!(
        finished.stdout.contains("helm rollback"),
        "{}",
        finished.stdout
    );
}

#[test]
fn the_shipped_scenario_passes_with_helm_4() {
    the_shipped_scenario("4");
}

#[test]
fn the_shipped_scenario_passes_with_helm_3() {
    the_shipped_scenario("3");
}

#[test]
fn a_controller_that_crashes_at_once_is_a_verdict_that_names_the_crash() {
    let world = World::new();
    let scenario = scenario(&world, |text| text);
    let image = CONTROLLERS[1].reference();
    let finished = world.run(&[
        "run",
        &scenario,
        "--runtime",
        &format!("{image}=/bin/sh -c 'echo no such config >&2; exit 7'"),
    ]);
    finished.expect(1, &["exit 7"]);
    world.assert_empty("after the run");
    let (folder, run) = the_run(&world);
    // Without a controller the load and the upgrade would show nothing.
    let kinds: Vec<_> = run.steps.iter().map(|step| step.kind).collect();
    assert_eq!(
        kinds,
        [StepKind::Baseline, StepKind::Install, StepKind::Cleanup]
    );
    let install = &run.steps[1];
    assert!(reason(&install.end).contains("exit 7"), "{:?}", install.end);
    assert!(
        install
            .helm
            .as_ref()
            .is_some_and(|helm| helm.failure.is_some())
    );
    assert!(
        install
            .rollout
            .as_ref()
            .is_some_and(|rollout| rollout.trouble.is_some())
    );
    assert!(ledger(&folder).cleaned);
    let outcome = run.run.outcome.expect("an outcome");
    assert_eq!(outcome.exit, 1);
    assert!(
        outcome
            .aborted
            .is_some_and(|why| why.contains("step 2 (install) failed"))
    );
    assert!(
        outcome
            .checks
            .iter()
            .any(|check| check.verdict == Verdict::Fail)
    );
}

#[test]
fn what_is_wrong_with_the_input_is_told_before_anything_starts() {
    let world = World::new();
    let good = scenario(&world, |text| text);
    world
        .run(&["run", &good, "--chart", "to=no/such/chart"])
        .expect(2, &["cannot use the chart `to`", "no/such/chart", "hint: "]);
    world
        .run(&["run", "no-such-scenario"])
        .expect(2, &["`no-such-scenario`", "hint: "]);
    world
        .run(&["run", &good, "--chart", "too=x"])
        .expect(2, &["no chart `too`"]);
    world
        .run(&["run", &good, "--helm", "/bin/false"])
        .expect(2, &["/bin/false is not Helm"]);
    let five = scenario(&world, |text| {
        text.replace("seed: 7", "sed: 7")
            .replace("preexisting: 1", "preexisting: -1")
            .replace("mix: vllm-replicas-0", "mix: vlm")
            .replace("upgrade: {chart: to}", "upgrade: {chart: next}")
            .replace("- cleanup: {}", "- cleanap: {}")
    });
    let finished = world.run(&["run", &five]);
    finished.expect(2, &["sed", "preexisting", "vlm", "next", "cleanap"]);
    assert!(
        finished.stderr.matches("error[S").count() >= 5,
        "{}",
        finished.stderr
    );
    let same = scenario(&world, |text| text.replace("1.5.1", "1.3.0"));
    world
        .run(&["run", &same])
        .expect(2, &["are the same chart with the same values"]);
    // A copy of a chart is another place, and the same chart.
    let copy = world.path("copy");
    let chart = Path::new(env!("CARGO_MANIFEST_DIR")).join("charts/1.3.0");
    let copied = Command::new("cp").arg("-r").arg(&chart).arg(&copy).status();
    assert!(copied.expect("cp starts").success());
    let good = scenario(&world, |text| text);
    let copy = format!("to={}", copy.display());
    world
        .run(&["run", &good, "--chart", &copy])
        .expect(2, &["a move between them would show nothing", "hint: "]);
    assert_eq!(runs(&world), Vec::<PathBuf>::new());
    world.assert_empty("after refusals");
}

#[test]
fn every_other_kind_of_step_is_done() {
    let world = World::new();
    let scenario = scenario(&world, |text| {
        let (head, _) = text.split_once("  steps:").expect("steps");
        format!(
            "{head}  steps:
    - baseline: {{}}
    - crds: {{chart: to}}
    - install: {{chart: to}}
    - load: {{}}
    - restart: {{}}
    - config: {{spec: {{bomGeneration: {{staleThresholdReconciles: 7}}}}}}
    - hold: {{for: 1s}}
    - uninstall: {{}}
    - install: {{chart: to}}
    - cleanup: {{}}
"
        )
        .replace("    from: {path: ", "    unused: {path: ")
    });
    world.run(&["run", &scenario]).expect(0, &[]);
    world.assert_empty("after the run");
    let (_, run) = the_run(&world);
    assert_eq!(run.steps.len(), 10);
    for step in &run.steps {
        assert_eq!(step.end, StepEnd::Done, "{} {}", step.step, step.action);
    }
    let generation = |step: u32| {
        let config = run.snapshots[&step].config.as_ref();
        config.map(|config| (config.generation, config.observed_generation))
    };
    assert_eq!(generation(5), Some((1, Some(1))));
    assert_eq!(generation(6), Some((2, Some(2))));
    let restart = run.steps[4].restart.as_ref().expect("its cost");
    let before = restart.before.as_ref().expect("the process before");
    assert!(!before.same_process(&restart.after));
    let namespaces = run.snapshots[&4].aiboms().iter();
    let mut namespaces: Vec<_> = namespaces.map(|aibom| aibom.namespace.as_str()).collect();
    namespaces.dedup();
    assert_eq!(namespaces, ["aibom-qual-load-1", "aibom-qual-load-2"]);
    // Uninstalled, with what a controller leaves behind, and installed over it.
    assert_eq!(run.snapshots[&8].release, None);
    assert_eq!(run.snapshots[&8].pods, Vec::new());
    assert_eq!(run.snapshots[&8].aiboms().len(), 6);
    assert_eq!(run.snapshots[&9].aiboms().len(), 6);
}

#[test]
fn what_is_kept_can_be_looked_at_and_cleaned_up_later() {
    let world = World::new();
    let scenario = scenario(&world, |text| text);
    let mut run = world.spawn(&["run", &scenario, "--keep", "--no-progress"]);
    run.until("[3/5]");
    signal(run.id(), Signal::INT);
    run.finish()
        .expect(130, &["the plane is kept", "interrupted"]);
    let planes = world.planes();
    let [plane] = planes.as_slice() else {
        panic!("one plane is expected: {planes:?}");
    };
    assert!(plane.starts_with("run-"), "{plane}");
    let (folder, _) = the_run(&world);
    assert!(!ledger(&folder).cleaned);
    let folder = folder.to_str().expect("text");
    world.run(&["cleanup", "--run", folder]).expect(0, &[]);
    world
        .run(&["plane", "down", plane, "--delete"])
        .expect(0, &[]);
    world.assert_empty("after the plane");
}

#[test]
fn a_cluster_that_cannot_be_reached_is_no_verdict() {
    let world = World::new();
    let scenario = scenario(&world, |text| text);
    let kubeconfig = world.path("kubeconfig");
    let nobody = support::free_address();
    let text = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: gone\n\
         clusters: [{{name: gone, cluster: {{server: 'https://{nobody}'}}}}]\n\
         users: [{{name: me, user: {{token: t}}}}]\n\
         contexts: [{{name: gone, context: {{cluster: gone, user: me}}}}]\n"
    );
    std::fs::write(&kubeconfig, text).expect("a file");
    let path = kubeconfig.to_str().expect("text");
    let arguments = ["run", &scenario, "--yes", "--kubeconfig", path];
    world.run(&arguments).expect(4, &["nothing listens", path]);
    let other = [&arguments[..], &["--context", "other"]].concat();
    world.run(&other).expect(
        2,
        &["no context `other`", "hint: name one that it has: gone"],
    );
    world.assert_empty("after refusals");
}

#[test]
fn a_cluster_is_changed_only_with_consent() {
    let world = World::new();
    let scenario = scenario(&world, |text| text);
    world
        .run(&["plane", "up", "--persistent", "mine"])
        .expect(0, &[]);
    let path = world.dirs.planes().join("mine/kubeconfig");
    let path = path.to_str().expect("text");
    let refused = world.run(&["run", &scenario, "--kubeconfig", path]);
    refused.expect(
        2,
        &["changes the cluster of context", "hint: say so with --yes"],
    );
    assert_eq!(runs(&world), Vec::<PathBuf>::new());
    // It is the user's own, so that all of it has to be as it was afterwards.
    world
        .run(&["run", &scenario, "--kubeconfig", path, "--yes"])
        .expect(0, &[]);
    let (folder, run) = the_run(&world);
    let cleanup = run.steps.last().and_then(|step| step.cleanup.as_ref());
    let cleanup = cleanup.expect("a clean-up");
    assert_eq!(cleanup.left, Vec::<String>::new());
    assert_eq!(cleanup.differences, Vec::<String>::new());
    assert!(ledger(&folder).cleaned);
    let name = folder
        .file_name()
        .and_then(|name| name.to_str())
        .expect("text");
    world
        .run(&["cleanup", "--run", name])
        .expect(0, &["nothing is left of this run"]);
    world
        .run(&["plane", "down", "mine", "--delete"])
        .expect(0, &[]);
}

#[test]
fn a_run_that_was_killed_is_cleaned_up_by_its_ledger() {
    let world = World::new();
    let scenario = scenario(&world, |text| text);
    world
        .run(&["plane", "up", "--persistent", "mine"])
        .expect(0, &[]);
    let path = world.dirs.planes().join("mine/kubeconfig");
    let path = path.to_str().expect("text");
    let mut killed = world.spawn(&[
        "run",
        &scenario,
        "--kubeconfig",
        path,
        "--yes",
        "--no-progress",
    ]);
    killed.until("[3/5]");
    killed.kill();
    let (folder, _) = the_run(&world);
    let made = ledger(&folder);
    assert!(!made.cleaned);
    assert!(
        made.created
            .iter()
            .any(|made| matches!(made, Created::Release { .. }))
    );
    let folder = folder.to_str().expect("text");
    let cleaned = world.run(&["cleanup", "--run", folder, "--format", "json"]);
    cleaned.expect(0, &[]);
    let facts: serde_json::Value = serde_json::from_str(&cleaned.stdout).expect("JSON");
    assert_eq!(facts["deleted"]["Namespace"], 3, "{facts}");
    assert_eq!(facts["deleted"]["CustomResourceDefinition"], 2, "{facts}");
    assert_eq!(facts["deleted"]["Release"], 1, "{facts}");
    assert_eq!(facts["differences"], serde_json::json!([]), "{facts}");
    world
        .run(&["cleanup", "--run", folder])
        .expect(0, &["nothing is left of this run"]);
    world
        .run(&["plane", "down", "mine", "--delete"])
        .expect(0, &[]);
    // A kill leaves what only its owner could remove.
    for left in world.strays() {
        assert!(left.starts_with("aibom-qual-"), "{left}");
    }
}

#[test]
fn an_interrupted_run_leaves_nothing_but_its_folder() {
    let world = World::new();
    let scenario = scenario(&world, |text| text);
    let mut run = world.spawn(&["run", &scenario, "--no-progress"]);
    run.until("[2/5]");
    signal(run.id(), Signal::INT);
    run.finish().expect(130, &["interrupted"]);
    world.assert_empty("after the interrupt");
    let (folder, run) = the_run(&world);
    assert_eq!(run.run.outcome.expect("an outcome").exit, 130);
    let last = run.steps.last().expect("a step");
    assert!(matches!(last.end, StepEnd::Aborted { .. }), "{last:?}");
    assert!(ledger(&folder).cleaned);
}

#[test]
fn a_full_disk_ends_the_run_as_such() {
    let world = World::new();
    let scenario = scenario(&world, |text| text);
    // A mount of one's own needs no privilege inside a user namespace.
    let script = format!(
        "mkdir small && exec unshare --user --map-root-user --mount sh -ec '
        mount -t tmpfs -o size=64k tmpfs small
        exec $EXE run {scenario} --out small'"
    );
    let finished = Finished::of(world.shell(&script).output().expect("the shell starts"));
    finished.expect(4, &["cannot write", "hint: free some space"]);
    world.assert_empty("after the full disk");
}

#[test]
fn a_plan_is_told_without_a_cluster() {
    let world = World::new();
    let told = world.run(&["plan", "v1.3-to-v1.5"]);
    told.expect(0, &[]);
    for text in [
        "helm upgrade to 1.5.1",
        "stranded",
        "the way back",
        "helm rollback k8s-aibom 1",
    ] {
        assert!(
            told.stdout.contains(text),
            "`{text}` is missing in: {}",
            told.stdout
        );
    }
    let json = world.run(&["plan", "v1.3-to-v1.5", "--format", "json"]);
    let plan: serde_json::Value = serde_json::from_str(&json.stdout).expect("JSON");
    assert_eq!(plan["steps"][8]["revision"], 5, "{plan}");
    assert_eq!(plan["steps"][3]["aiboms"], 1002);
    assert!(
        plan["changes"][0]["crdsAdded"]
            .as_array()
            .is_some_and(|added| !added.is_empty())
    );
    world.assert_empty("after the plan");
}
