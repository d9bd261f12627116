use std::path::Path;

use serde_json::Value;

use super::fixture::{self, check};
use super::*;
use crate::record::{
    ConditionStatus, Event, HelmFailure, KubernetesEvent, PlaneKind, RunFolder, StepEnd, StepKind,
    SubjectKind, Verdict,
};

fn of(loaded: &LoadedRun) -> Timeline {
    timeline(&RunView::of(loaded))
}

/// With `UPDATE_GOLDEN` set the file is written; a person then reads the difference.
fn golden(name: &str, text: &str) {
    let path = Path::new("fixtures/report").join(name);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, text).expect("the golden file");
    }
    let wanted = std::fs::read_to_string(&path).expect("the golden file");
    assert!(
        wanted == text,
        "{} differs; UPDATE_GOLDEN=1 writes it anew\n{text}",
        path.display()
    );
}

fn result(timeline: &Timeline, step: u32) -> String {
    let row = timeline.steps.iter().find(|row| row.step == step);
    row.expect("the step").clauses.join("; ")
}

fn warning(reason: &str) -> KubernetesEvent {
    KubernetesEvent {
        uid: "u".to_owned(),
        type_: "Warning".to_owned(),
        reason: reason.to_owned(),
        message: String::new(),
        component: "kubelet".to_owned(),
        kind: "Pod".to_owned(),
        namespace: "n".to_owned(),
        name: "p".to_owned(),
        count: 1,
    }
}

#[test]
fn the_page_is_the_golden_one() {
    let timeline = of(&fixture::run());
    golden("terminal-80.txt", &terminal(&timeline, 80, false));
    golden("terminal-200.txt", &terminal(&timeline, 200, false));
    golden("timeline.md", &markdown(&timeline));
    golden("junit.xml", &junit(&timeline));
    golden("summary.json", &summary(&timeline).expect("JSON"));
}

#[test]
fn the_page_of_a_failed_run_is_the_golden_one() {
    let timeline = of(&fixture::failed());
    golden("failed-80.txt", &terminal(&timeline, 80, false));
}

#[test]
fn a_run_on_disk_gives_the_same_page() {
    let run = fixture::run();
    let parent = tempfile::tempdir().expect("a temporary folder");
    let mut folder =
        RunFolder::create(parent.path(), &run.run.plan.name, run.run.started_at).expect("a folder");
    folder.write_run(&run.run).expect("run.json");
    for entry in &run.events {
        folder.append(entry).expect("a line");
    }
    for (snapshot, record) in run.snapshots.values().zip(&run.steps) {
        let name = folder.write_snapshot(snapshot).expect("a snapshot");
        assert_eq!(record.snapshot.as_ref(), Some(&name));
    }
    let folder = RunFolder::open(folder.path()).expect("a run");
    assert!(folder.load().expect("a run") == run, "something got lost");
}

#[test]
fn no_line_leaves_the_screen() {
    let timeline = of(&fixture::run());
    for width in [80, 100, 120, 200] {
        let text = terminal(&timeline, width, false);
        let long: Vec<&str> = text
            .lines()
            .filter(|line| line.chars().count() > width)
            .collect();
        assert!(long.is_empty(), "at {width}: {long:#?}");
        assert!(text.lines().all(|line| line.trim_end() == line));
        assert!(!text.contains('\u{1b}'));
    }
}

#[test]
fn colour_changes_nothing_else() {
    let timeline = of(&fixture::run());
    let mut painted = terminal(&timeline, 80, true);
    assert!(painted.contains("\u{1b}[33mgreen but stranded\u{1b}[0m"));
    for code in [
        "\u{1b}[1m",
        "\u{1b}[1;31m",
        "\u{1b}[33m",
        "\u{1b}[32m",
        "\u{1b}[0m",
    ] {
        painted = painted.replace(code, "");
    }
    // A heading is bold in place of being underlined.
    let plain = terminal(&timeline, 80, false);
    let underline = |line: &&str| !(line.starts_with("---") && line.trim_matches('-').is_empty());
    let plain: Vec<&str> = plain.lines().filter(underline).collect();
    assert_eq!(painted.lines().collect::<Vec<_>>(), plain);
}

#[test]
fn the_headline_case_is_told_in_plain_words() {
    let timeline = of(&fixture::run());
    assert_eq!(
        result(&timeline, 4),
        "rev 2, 12.3 s; image sha256:7b02731563a5…; 1,002 AIBOMs preserved; inputHash 1,002/1,002, \
         bomHash 1,002/1,002 equal; Ready=True, Degraded=False; CRDs still 1.3.0: green but \
         stranded; no Warning events"
    );
    assert!(result(&timeline, 3).contains("1,002 AIBOMs, all Ready, 2.1 s after the load"));
    assert!(result(&timeline, 7).contains("CRDs 1.5.1: newer than the controller"));
    assert!(result(&timeline, 8).contains("CRDs still 1.5.1; no Warning events"));
    let page = markdown(&timeline);
    assert!(page.contains("Green but stranded after steps 4 and 5: controller 1.5.1 runs"));
}

#[test]
fn without_health_it_is_not_green() {
    let mut run = fixture::run();
    let snapshot = run.snapshots.get_mut(&4).expect("a snapshot");
    let config = snapshot.config.as_mut().expect("a configuration");
    config.conditions[1].status = ConditionStatus::True;
    config.conditions[1].reason = "SchemaPredatesController".to_owned();
    let timeline = of(&run);
    let result = result(&timeline, 4);
    assert!(
        result.contains(
            "Ready=True, Degraded=True (SchemaPredatesController); CRDs still 1.3.0: stranded"
        ),
        "{result}"
    );
    let levels: Vec<Level> = timeline.definitions.iter().map(|row| row.level).collect();
    assert_eq!(levels[3], Level::Stranded { green: false });
    assert_eq!(levels[4], Level::Stranded { green: true });
    assert_eq!((levels[0], levels[6]), (Level::Absent, Level::Newer));
}

#[test]
fn what_differs_is_named_up_to_twenty() {
    let mut run = fixture::run();
    let after = run.snapshots.get_mut(&6).expect("a snapshot");
    let aiboms = &mut after.aiboms.as_mut().expect("a list").items;
    aiboms.remove(7);
    for aibom in aiboms.iter_mut().take(25) {
        aibom.bom_hash = Some("other".to_owned());
    }
    aiboms[30].uid = "other".to_owned();
    let timeline = of(&run);
    let result = result(&timeline, 6);
    assert!(
        result.contains(
            "1,000 of 1,002 AIBOMs preserved, 1 lost, 1 replaced; inputHash 1,001/1,001, bomHash \
             976/1,001 equal"
        ),
        "{result}"
    );
    let page = markdown(&timeline);
    assert!(
        page.contains("- step 6, lost (1): qual-0/apps-deployment-load-00007\n"),
        "{page}"
    );
    assert!(page.contains("load-00020 and 5 more\n"), "{page}");
    // The way back is not what it was either.
    assert_eq!(timeline.rollbacks[0].kept.expect("observed").same, 1_000);
}

#[test]
fn a_failed_move_says_why_and_what_was_seen() {
    let mut run = fixture::run();
    let record = &mut run.steps[3];
    record.end = StepEnd::Failed {
        reason: "helm failed".to_owned(),
    };
    let helm = record.helm.as_mut().expect("helm");
    helm.failure = Some(HelmFailure::Timeout);
    helm.said = Some("context deadline exceeded".to_owned());
    helm.seconds = 180.2;
    let rollout = record.rollout.as_mut().expect("a rollout");
    rollout.complete_after = None;
    rollout.restarts = 5;
    rollout.longest_without_ready = 0.4;
    rollout.trouble = Some("CrashLoopBackOff".to_owned());
    run.snapshots.remove(&4);
    let timeline = of(&run);
    assert_eq!(
        result(&timeline, 4),
        "failed: helm failed; rev 2, helm failed after 180 s: context deadline exceeded; 0.4 s \
         without a ready pod; 5 restarts; CrashLoopBackOff; no Warning events"
    );
}

#[test]
fn warning_events_are_counted_where_they_happened() {
    let mut run = fixture::run();
    let place = run
        .events
        .iter()
        .position(
            |entry| matches!(entry.event, Event::StepFinished { ref record } if record.step == 6),
        )
        .expect("step 6");
    for _ in 0..2 {
        let mut entry = run.events[place].clone();
        entry.event = Event::Cluster {
            reported: warning("Unhealthy"),
        };
        run.events.insert(place, entry);
    }
    let timeline = of(&run);
    assert!(result(&timeline, 6).ends_with("2 Warning events: Unhealthy 2"));
    assert!(result(&timeline, 4).ends_with("no Warning events"));
    let mut missed = run.events[place].clone();
    missed.event = Event::EventsMissed {
        reason: "410".to_owned(),
    };
    run.events = fixture::run().events;
    run.events.insert(place, missed);
    let words = result(&of(&run), 6);
    assert!(words.ends_with("Warning events not known (the event watch was interrupted)"));
}

#[test]
fn a_window_of_two_processes_has_no_numbers() {
    let mut run = fixture::run();
    let window = run.steps[4].window.as_mut().expect("a window");
    window.closed.process_start += 1.0;
    let timeline = of(&run);
    assert!(timeline.windows[0].counters.is_empty());
    assert_eq!(
        result(&timeline, 5).split(';').next(),
        Some("935 s, but not sound: the two readings are of different processes")
    );
    let page = terminal(&timeline, 80, false);
    assert!(page.contains("INVALID: the window is not sound"), "{page}");
    assert!(!page.contains("mCPU"), "{page}");
}

#[test]
fn a_counter_that_fell_or_vanished_is_not_subtracted() {
    let mut run = fixture::run();
    let window = run.steps[4].window.as_mut().expect("a window");
    window.closed.counters.requests[0].count = 3;
    window.closed.counters.reconciles.remove("deployment");
    let timeline = of(&run);
    assert_eq!(
        timeline.windows[0].unsound,
        [
            "the counter GET 200 fell from 11 to 3",
            "the series deployment has vanished"
        ]
    );
}

#[test]
fn failed_requests_have_a_row_of_their_own() {
    let mut run = fixture::run();
    let window = run.steps[4].window.as_mut().expect("a window");
    let mut refused = window.closed.counters.requests[0].clone();
    refused.code = "429".to_owned();
    refused.count = 4;
    window.closed.counters.requests.push(refused);
    let timeline = of(&run);
    let rows = &timeline.windows[0].counters;
    let row = rows.iter().find(|row| row.counter.ends_with("GET 429"));
    assert_eq!(row.map(|row| row.delta), Some(4));
}

#[test]
fn an_image_of_a_cluster_is_not_called_embedded() {
    let mut run = fixture::run();
    let environment = run.run.environment.as_mut().expect("an environment");
    environment.subject = SubjectKind::Image;
    environment.plane = PlaneKind::Cluster {
        context: "gke-eu".to_owned(),
    };
    let page = markdown(&of(&run));
    assert!(page.contains("the image itself"));
    assert!(page.contains("cluster of context gke-eu, Kubernetes v1.36.3"));
    assert!(!page.contains("embedded"), "{page}");
}

#[test]
fn a_run_that_was_killed_tells_what_there_is() {
    let mut run = fixture::run();
    run.run.outcome = None;
    run.run.environment = None;
    run.run.charts.clear();
    run.steps.truncate(2);
    run.snapshots.clear();
    run.problems.push("a line is damaged".to_owned());
    let timeline = of(&run);
    assert_eq!(timeline.verdicts.standing, Standing::Unfinished);
    let page = terminal(&timeline, 80, false);
    assert!(page.starts_with("v1.3-to-v1.5: unfinished\n"), "{page}");
    assert!(page.contains("- a line is damaged\n"), "{page}");
    assert!(page.contains("from outside"), "{page}");
    assert!(!page.contains("VERDICT  "), "{page}");
    let xml = junit(&timeline);
    assert!(xml.contains("errors=\"1\""), "{xml}");
    assert!(xml.contains("the run: unfinished"), "{xml}");
    run.steps.clear();
    assert!(terminal(&of(&run), 80, false).contains("unfinished: no checks"));
}

#[test]
fn junit_gives_the_real_reason() {
    let mut run = fixture::run();
    let outcome = run.run.outcome.as_mut().expect("an outcome");
    let mut failed = check("DAT-03", Some(4), Verdict::Fail, "1 of 1,002 <differs>");
    failed.details = vec!["qual-0/a & b".to_owned()];
    outcome.checks = vec![
        failed,
        check("STS-02", Some(5), Verdict::Invalid, "two \u{1}processes"),
        check("ART-01", None, Verdict::NotApplicable, "no registry"),
        check("CFG-03", Some(4), Verdict::Expected, "Degraded=True"),
    ];
    outcome.exit = 1;
    let timeline = of(&run);
    let xml = junit(&timeline);
    assert!(
        xml.contains(
            "<testcase classname=\"v1.3-to-v1.5.DAT\" name=\"DAT-03 after step 4 (helm upgrade to \
         1.5.1)\">\n      <failure message=\"1 of 1,002 &lt;differs&gt;\">qual-0/a &amp; \
         b</failure>"
        ),
        "{xml}"
    );
    assert!(
        xml.contains("<error message=\"two \u{fffd}processes\">"),
        "{xml}"
    );
    assert!(xml.contains("<skipped message=\"no registry\"/>"), "{xml}");
    assert!(xml.contains("failed as declared: Degraded=True"), "{xml}");
    assert!(
        xml.contains("tests=\"4\" failures=\"1\" errors=\"1\" skipped=\"1\""),
        "{xml}"
    );
    let order: Vec<&str> = timeline
        .verdicts
        .told
        .iter()
        .map(|check| check.id.as_str())
        .collect();
    assert_eq!(order, ["DAT-03", "STS-02", "CFG-03", "ART-01"]);
    assert!(terminal(&timeline, 80, false).starts_with("v1.3-to-v1.5: FAIL\n"));
}

#[test]
fn numbers_of_the_summary_have_their_units_in_their_names() {
    let text = summary(&of(&fixture::run())).expect("JSON");
    let value: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(value["verdicts"]["standing"], "PASS");
    assert_eq!(value["windows"][0]["counters"][0]["delta"], 16);
    assert_eq!(value["windows"][0]["elapsedSeconds"], 935.2);
    assert_eq!(value["restarts"][1]["put"], 1003);
    assert_eq!(value["roundTrips"][2]["kept"]["inputHash"], 1002);
    assert_eq!(
        value["steps"][3]["kind"],
        serde_json::json!(StepKind::Upgrade)
    );
}
