use std::collections::BTreeMap;
use std::fs;
use std::num::NonZeroU32;
use std::os::unix::fs::{PermissionsExt as _, symlink};

use chrono::TimeZone as _;
use tempfile::TempDir;

use super::*;
use crate::error_chain::chain;
use crate::record::{Event, Outcome, StepKind, StepRecord};
use crate::scenario::{Plan, Step, WorkloadPlan};

fn now() -> DateTime<Utc> {
    Utc.with_ymd_and_hms(2026, 9, 29, 17, 18, 5)
        .single()
        .expect("a time")
}

fn parent() -> TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

fn run_file() -> RunFile {
    RunFile {
        schema_version: SCHEMA_VERSION,
        run: "r".to_owned(),
        started_at: now(),
        plan: Plan {
            name: "s".to_owned(),
            release: "k8s-aibom".to_owned(),
            namespace: "k8s-aibom-system".to_owned(),
            charts: BTreeMap::new(),
            workloads: WorkloadPlan {
                preexisting: 0,
                count: 1,
                mix: "vllm-replicas-0".to_owned(),
                namespaces: NonZeroU32::MIN,
                seed: 7,
                rate: None,
            },
            steps: vec![Step::Baseline, Step::Load],
            expectations: Vec::new(),
        },
        environment: None,
        charts: BTreeMap::new(),
        outcome: None,
    }
}

fn snapshot(step: u32) -> Snapshot {
    Snapshot {
        step,
        at: now(),
        took_ms: 12,
        release: None,
        deployment: None,
        pods: Vec::new(),
        config: None,
        crds: Vec::new(),
        expected: Vec::new(),
        aiboms: None,
        scrape: None,
    }
}

fn entry(event: Event) -> Entry {
    Entry {
        at: now(),
        at_ms: 1,
        event,
    }
}

fn started(step: u32) -> Entry {
    entry(Event::StepStarted {
        step,
        kind: StepKind::Load,
        action: "create 1 workload – „vllm“".to_owned(),
    })
}

fn finished(step: u32, snapshot: Option<String>) -> Entry {
    let action = "create 1 workload".to_owned();
    let record = StepRecord {
        seconds: 1.5,
        snapshot,
        ..StepRecord::begun(step, StepKind::Load, action, now())
    };
    entry(Event::StepFinished {
        record: Box::new(record),
    })
}

fn outcome() -> Outcome {
    Outcome {
        at: now(),
        exit: 0,
        aborted: None,
        checks: Vec::new(),
    }
}

/// A run of two steps with everything in place.
fn complete(parent: &TempDir) -> RunFolder {
    let mut folder = RunFolder::create(parent.path(), "s", now()).expect("a folder");
    let mut run = run_file();
    run.outcome = Some(outcome());
    folder.write_run(&run).expect("run.json");
    for step in [1, 2] {
        folder.append(&started(step)).expect("a line");
        let name = folder.write_snapshot(&snapshot(step)).expect("a snapshot");
        folder.append(&finished(step, Some(name))).expect("a line");
    }
    folder
}

#[test]
fn a_new_folder_is_private_and_says_what_it_is() {
    let parent = parent();
    let results = parent.path().join("deep/results");
    let folder = RunFolder::create(&results, "../v1.3 to/v1.5", now()).expect("a folder");
    let name = folder.name();
    let id = name
        .strip_prefix("20260929T171805Z-..-v1.3-to-v1.5-")
        .expect("time and scenario");
    assert_eq!(id.len(), ID_LENGTH);
    assert_eq!(folder.path().parent(), Some(results.as_path()));
    for path in [
        folder.path(),
        &folder.scrapes_dir(),
        &folder.logs_dir(),
        &folder.path().join(SNAPSHOTS),
    ] {
        let mode = fs::metadata(path).expect("it exists").permissions().mode();
        assert_eq!(mode & 0o7777, 0o700, "{}", path.display());
    }
    let other = RunFolder::create(&results, "../v1.3 to/v1.5", now()).expect("another folder");
    assert_ne!(other.path(), folder.path());
}

#[test]
fn what_is_written_is_read_back() {
    let parent = parent();
    let folder = complete(&parent);
    let loaded = folder.load().expect("a run");
    assert_eq!(loaded.problems, [""; 0]);
    assert_eq!(loaded.events.len(), 4);
    assert_eq!(loaded.steps.len(), 2);
    assert_eq!(loaded.snapshots[&2], snapshot(2));
    assert_eq!(
        loaded.steps[1].snapshot.as_deref(),
        Some("snapshots/02-step.json.zst")
    );
    assert_eq!(folder.read_ledger().expect("no ledger"), None);
    let ledger = Ledger {
        cleaned: true,
        ..Ledger::default()
    };
    folder.write_ledger(&ledger).expect("a ledger");
    assert_eq!(folder.read_ledger().expect("a ledger"), Some(ledger));
}

#[test]
fn a_kill_at_any_byte_of_the_last_line_costs_that_line_only() {
    let parent = parent();
    let folder = complete(&parent);
    let log = folder.path().join(EVENTS);
    let text = fs::read(&log).expect("a log");
    let before = text[..text.len() - 1]
        .iter()
        .rposition(|byte| *byte == b'\n')
        .expect("more than one line")
        + 1;
    for length in before..text.len() {
        fs::write(&log, &text[..length]).expect("a cut");
        let loaded = folder.load().expect("still a run");
        assert_eq!(loaded.events.len(), 3, "cut at byte {length}");
        assert_eq!(loaded.steps.len(), 1);
        // Step 2 has lost its end; whatever there is of the line is told as well.
        let wanted = if length == before { 1 } else { 2 };
        assert_eq!(loaded.problems.len(), wanted, "{:?}", loaded.problems);
        assert!(loaded.problems.iter().any(|line| line.contains("step 2")));
    }
}

#[test]
fn a_torn_line_is_removed_before_the_next_one() {
    let parent = parent();
    let folder = complete(&parent);
    let log = folder.path().join(EVENTS);
    let text = fs::read(&log).expect("a log");
    fs::write(&log, &text[..text.len() - 7]).expect("a cut");
    let mut folder = RunFolder::open(folder.path()).expect("a run");
    folder.append(&finished(2, None)).expect("a line");
    let loaded = folder.load().expect("a run");
    assert_eq!(loaded.problems, [""; 0]);
    assert_eq!(loaded.events.len(), 4);
    assert_eq!(loaded.steps[1].snapshot, None);
}

#[test]
fn a_step_that_was_done_again_counts_once() {
    let parent = parent();
    let mut folder = complete(&parent);
    folder.append(&started(2)).expect("a line");
    folder.append(&finished(2, None)).expect("a line");
    let loaded = folder.load().expect("a run");
    assert_eq!(loaded.steps.len(), 2);
    assert!(!loaded.snapshots.contains_key(&2));
}

#[test]
fn a_damaged_line_is_told_and_the_rest_is_read() {
    let parent = parent();
    let folder = complete(&parent);
    let log = folder.path().join(EVENTS);
    let text = fs::read_to_string(&log).expect("a log");
    fs::write(&log, text.replacen("stepStarted", "stepStart\u{fffd}", 1)).expect("damage");
    let loaded = folder.load().expect("a run");
    assert_eq!(loaded.events.len(), 3);
    assert_eq!(loaded.problems.len(), 1);
    assert!(loaded.problems[0].starts_with("line 1 of events.jsonl is damaged and left out"));
}

#[test]
fn a_missing_or_damaged_snapshot_is_told() {
    let parent = parent();
    let folder = complete(&parent);
    let first = folder.path().join("snapshots/01-step.json.zst");
    fs::remove_file(&first).expect("removed");
    let second = folder.path().join("snapshots/02-step.json.zst");
    let bytes = fs::read(&second).expect("a snapshot");
    fs::write(&second, &bytes[..bytes.len() - 9]).expect("a cut");
    let loaded = folder.load().expect("a run");
    assert!(loaded.snapshots.is_empty());
    assert_eq!(loaded.problems.len(), 2, "{:?}", loaded.problems);
    assert!(loaded.problems[0].contains("step 1 is told without its snapshot"));
    assert!(loaded.problems[1].contains("02-step.json.zst is damaged"));
}

#[test]
fn a_run_that_was_killed_says_so() {
    let parent = parent();
    let mut folder = complete(&parent);
    folder.write_run(&run_file()).expect("run.json");
    let loaded = folder.load().expect("a run");
    assert_eq!((loaded.run.outcome, loaded.problems.len()), (None, 0));
    // Killed between the log and `run.json`.
    let event = Event::RunFinished {
        outcome: Box::new(outcome()),
    };
    folder.append(&entry(event)).expect("a line");
    let loaded = folder.load().expect("a run");
    assert_eq!(loaded.run.outcome, Some(outcome()));
    assert_eq!(loaded.problems.len(), 1);
}

#[test]
fn a_run_without_a_log_is_a_run_without_steps() {
    let parent = parent();
    let folder = RunFolder::create(parent.path(), "s", now()).expect("a folder");
    folder.write_run(&run_file()).expect("run.json");
    let loaded = folder.load().expect("a run");
    assert!(loaded.steps.is_empty());
    assert_eq!(
        loaded.problems[0],
        "events.jsonl is missing: no step is known"
    );
}

#[test]
fn a_newer_run_is_refused_before_its_fields_are_looked_at() {
    let parent = parent();
    let folder = complete(&parent);
    let newer = format!(
        r#"{{"schemaVersion": {}, "unheard": "of"}}"#,
        SCHEMA_VERSION + 1
    );
    fs::write(folder.path().join(RUN), newer).expect("run.json");
    let error = RunFolder::open(folder.path()).expect_err("newer");
    assert!(
        matches!(error, FolderError::Newer { found: 2, .. }),
        "{error}"
    );
    assert!(error.hint().is_some_and(|hint| hint.contains("later")));
    assert!(folder.load().is_err());
}

#[test]
fn a_folder_without_run_json_is_no_run() {
    let parent = parent();
    for path in [parent.path(), &parent.path().join("missing")] {
        let error = RunFolder::open(path).expect_err("no run");
        assert!(matches!(error, FolderError::NotARun { .. }), "{error}");
        assert_eq!(error.hint().as_deref(), Some("aibom-qual runs list"));
    }
    fs::write(parent.path().join(RUN), "{\"schemaVersion\": 1").expect("half a file");
    let error = RunFolder::open(parent.path()).expect_err("damaged");
    assert!(matches!(error, FolderError::Damaged { .. }), "{error}");
}

#[test]
fn a_full_disk_names_the_file_and_what_to_do() {
    let parent = parent();
    let mut folder = RunFolder::create(parent.path(), "s", now()).expect("a folder");
    symlink("/dev/full", folder.path().join(EVENTS)).expect("a link");
    let error = folder.append(&started(1)).expect_err("the disk is full");
    let told = chain(&error);
    assert!(told.contains("events.jsonl: No space left"), "{told}");
    let hint = error.hint().expect("a hint");
    assert!(hint.starts_with("free some space on the disk"), "{hint}");
}

#[test]
fn what_cannot_be_replaced_stays() {
    let parent = parent();
    let folder = RunFolder::create(parent.path(), "s", now()).expect("a folder");
    folder.write_text("logs/plane.txt", "one").expect("written");
    // A folder is in the way of the new file.
    fs::create_dir(folder.path().join("timeline.md")).expect("a folder");
    fs::write(folder.path().join("timeline.md/x"), "x").expect("a file");
    let error = folder
        .write_text("timeline.md", "two")
        .expect_err("in the way");
    assert!(error.to_string().contains("timeline.md"), "{error}");
    let left = fs::read_dir(folder.path()).expect("the folder").count();
    assert_eq!(left, 4, "no temporary file is left");
}

#[test]
fn no_name_leads_out_of_the_folder() {
    let parent = parent();
    let folder = RunFolder::create(parent.path(), "s", now()).expect("a folder");
    for name in ["", "..", "../x", "/etc/x", "logs/../../x", "."] {
        let error = folder.write_text(name, "x").expect_err(name);
        assert!(matches!(error, FolderError::Name { .. }), "{error}");
        assert!(folder.read_snapshot(name).is_err(), "{name}");
    }
}

#[test]
fn runs_are_listed_by_time_and_nothing_else_is() {
    let parent = parent();
    assert!(
        RunFolder::list(&parent.path().join("none"))
            .expect("none")
            .is_empty()
    );
    fs::create_dir(parent.path().join("other")).expect("a folder");
    fs::write(parent.path().join("file"), "x").expect("a file");
    let later = now() + chrono::TimeDelta::seconds(1);
    let mut names = Vec::new();
    for at in [later, now()] {
        let folder = RunFolder::create(parent.path(), "s", at).expect("a folder");
        folder.write_run(&run_file()).expect("run.json");
        names.push(folder.name());
    }
    names.reverse();
    let listed = RunFolder::list(parent.path()).expect("two");
    assert_eq!(
        listed.iter().map(RunFolder::name).collect::<Vec<_>>(),
        names
    );
}
