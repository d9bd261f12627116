use super::fixture::{AIBOMS, CONFIGS, Case, event};
use super::{result, verdict};
use crate::gates::{catalogue, exit_code};
use crate::record::{ConditionStatus, Event, PlaneKind, StepEnd, Verdict};
use crate::scenario::Expect;

#[test]
fn sound_evidence_passes_every_check() {
    let results = Case::sound().results();
    for result in &results {
        let fine = [Verdict::Pass, Verdict::NotApplicable];
        assert!(fine.contains(&result.verdict), "{result:#?}");
        assert!(result.details.is_empty() || result.finding, "{result:#?}");
    }
    assert_eq!(exit_code(&results), 0);
    for check in catalogue() {
        let mut all = results.iter().filter(|result| result.id == check.id);
        assert!(
            all.any(|result| result.verdict == Verdict::Pass),
            "{}",
            check.id
        );
    }
}

#[test]
fn what_is_stranded_is_found_though_all_is_green() {
    let results = Case::sound().results();
    let findings = results.iter().filter(|result| result.finding);
    let findings: Vec<_> = findings
        .map(|found| (found.id.as_str(), found.step))
        .collect();
    let wanted = [4, 5, 7, 9].map(|step| ("CRD-04", Some(step)));
    assert_eq!(findings, wanted);
    let summary = |case: &Case, step| result(case, "CRD-04", Some(step)).summary;
    let mut case = Case::sound();
    let stranded = "stranded: to 1.5.1 runs over definitions of from";
    assert_eq!(summary(&case, 4), format!("green but {stranded}"));
    assert_eq!(
        summary(&case, 7),
        "from 1.3.0 runs over newer definitions, of to"
    );
    assert_eq!(summary(&case, 8), "to 1.5.1 runs over definitions of to");
    case.degraded(4).status = ConditionStatus::True;
    assert_eq!(summary(&case, 4), stranded);
}

#[test]
fn an_expected_failure_that_happens_is_expected() {
    let mut case = Case::sound();
    case.expect("CRD-04", Some(4), Expect::Fail);
    assert_eq!(verdict(&case, "CRD-04", Some(4)), Verdict::Expected);
    assert!(result(&case, "CRD-04", Some(5)).finding);
    assert_eq!(exit_code(&case.results()), 0);
}

#[test]
fn an_expected_failure_that_does_not_happen_fails() {
    let mut case = Case::sound();
    case.expect("CFG-03", Some(4), Expect::Fail);
    assert_eq!(verdict(&case, "CFG-03", Some(4)), Verdict::Fail);
    assert_eq!(exit_code(&case.results()), 1);
}

#[test]
fn a_finding_that_must_not_be_fails() {
    let mut case = Case::sound();
    case.expect("CRD-04", None, Expect::Pass);
    assert_eq!(verdict(&case, "CRD-04", Some(4)), Verdict::Fail);
    assert_eq!(verdict(&case, "CRD-04", Some(8)), Verdict::Pass);
    // What is said of just one step goes first.
    case.expect("CRD-04", Some(4), Expect::Fail);
    assert_eq!(verdict(&case, "CRD-04", Some(4)), Verdict::Expected);
    assert_eq!(verdict(&case, "CRD-04", Some(5)), Verdict::Fail);
}

#[test]
fn nothing_is_expected_of_what_was_not_looked_at() {
    let mut case = Case::sound();
    case.forget(4);
    case.expect("CRD-04", Some(4), Expect::Fail);
    assert_eq!(verdict(&case, "CRD-04", Some(4)), Verdict::Invalid);

    let mut case = Case::sound();
    case.expect("STS-03", Some(4), Expect::Fail);
    assert_eq!(verdict(&case, "STS-03", Some(4)), Verdict::Invalid);
    assert_eq!(exit_code(&case.results()), 3);
}

#[test]
fn a_failure_on_sound_data_outweighs_what_is_invalid() {
    let mut case = Case::sound();
    case.record(5).window = None;
    assert_eq!(exit_code(&case.results()), 3);
    case.aibom(9).input_hash = None;
    assert_eq!(exit_code(&case.results()), 1);
}

#[test]
fn a_step_that_was_not_reached_has_no_verdict() {
    let mut case = Case::sound();
    case.steps.truncate(7);
    case.snapshots.retain(|step, _| *step <= 7);
    let results = case.results();
    let mut late = results.iter().filter(|result| result.step > Some(7));
    assert!(late.all(|result| result.verdict == Verdict::Invalid && result.evaluated == 0));
    let mut early = results
        .iter()
        .filter(|result| result.step <= Some(7) && result.step.is_some());
    assert!(early.all(|result| result.verdict != Verdict::Invalid));
}

#[test]
fn what_applies_is_decided_by_the_plan() {
    let mut case = Case::sound();
    case.run.plan.workloads.preexisting = 0;
    assert_eq!(verdict(&case, "DAT-01", Some(3)), Verdict::NotApplicable);
    assert_eq!(verdict(&case, "CNV-01", Some(2)), Verdict::NotApplicable);
    // That there are none is no reason not to look.
    let mut case = Case::sound();
    case.list(3).items.clear();
    assert_eq!(verdict(&case, "DAT-02", Some(4)), Verdict::Invalid);
    assert_eq!(verdict(&case, "CNV-01", Some(3)), Verdict::Fail);
}

#[test]
fn a_failed_step_does_not_pass_in_silence() {
    let mut case = Case::sound();
    case.record(1).end = StepEnd::Failed {
        reason: "the cluster was not looked at".to_owned(),
    };
    let looked = result(&case, "MET-13", None);
    assert_eq!(looked.verdict, Verdict::Invalid);
    let why = "step 1 failed (the cluster was not looked at), and no check says why";
    assert_eq!(looked.details, [why]);
}

#[test]
fn unknown_hashes_are_not_equal() {
    let mut case = Case::sound();
    for step in [3, 4] {
        case.aibom(step).input_hash = None;
    }
    assert_eq!(verdict(&case, "DAT-03", Some(4)), Verdict::Invalid);
    // What is known to be wrong stays wrong.
    case.list(4).items[3].input_hash = None;
    assert_eq!(verdict(&case, "DAT-03", Some(4)), Verdict::Fail);
}

#[test]
fn documented_warnings_pass_where_they_may_come() {
    let warn = |case: &mut Case, step, reason: &str, message: &str| {
        let mut reported = event("Warning", reason);
        message.clone_into(&mut reported.message);
        case.report(step, Event::Cluster { reported });
    };
    let mut case = Case::sound();
    warn(&mut case, 2, "AIBOMControllerConfigMissing", "");
    warn(&mut case, 10, "AIBOMControllerConfigDeleted", "");
    warn(
        &mut case,
        4,
        "Unhealthy",
        "Readiness probe failed: HTTP 500",
    );
    assert_eq!(exit_code(&case.results()), 0);
    assert!(
        result(&case, "EVT-01", Some(2))
            .summary
            .ends_with("1 that are documented")
    );

    let mut case = Case::sound();
    warn(&mut case, 4, "AIBOMControllerConfigMissing", "");
    warn(&mut case, 6, "Unhealthy", "Liveness probe failed: HTTP 500");
    for step in [4, 6].map(Some) {
        assert_eq!(verdict(&case, "EVT-01", step), Verdict::Fail);
        assert_eq!(verdict(&case, "EVT-02", step), Verdict::Fail);
    }
}

#[test]
fn what_happens_elsewhere_is_nobodys_fault() {
    let mut case = Case::sound();
    let mut reported = event("Warning", "FailedMount");
    reported.namespace = "somewhere".to_owned();
    case.report(4, Event::Cluster { reported });
    assert_eq!(verdict(&case, "EVT-01", Some(4)), Verdict::Pass);
    // The configuration is outside of namespaces, so that its events lie in another one.
    let mut reported = event("Warning", "SchemaPredatesController");
    reported.namespace = "default".to_owned();
    reported.kind = "AIBOMControllerConfig".to_owned();
    case.report(4, Event::Cluster { reported });
    assert_eq!(verdict(&case, "EVT-01", Some(4)), Verdict::Fail);
}

#[test]
fn one_definition_of_two_serves_no_chart() {
    let mut case = Case::sound();
    case.snapshot(4).crds.retain(|crd| crd.name == AIBOMS);
    let known = result(&case, "CRD-02", Some(4));
    assert_eq!(known.verdict, Verdict::Fail);
    assert_eq!(known.details, [format!("{CONFIGS} does not exist")]);
    assert_eq!(verdict(&case, "CRD-03", Some(4)), Verdict::Fail);
    assert_eq!(
        result(&Case::sound(), "CRD-02", Some(4)).summary,
        "aibomcontrollerconfigs: from; aiboms: from, to"
    );
}

#[test]
fn a_short_window_is_judged_but_proves_nothing() {
    let mut case = Case::sound();
    let window = case.window();
    (window.asked, window.elapsed, window.phase) = (60.0, 60.0, 3_000.0);
    window.closed.at_ms = window.opened.at_ms + 60_000;
    window.closed.counters.requests[0].count = window.opened.counters.requests[0].count + 1;
    let band = result(&case, "STS-06", Some(5));
    assert_eq!(band.verdict, Verdict::Pass);
    assert!(
        band.summary.contains("window too short to prove it"),
        "{}",
        band.summary
    );
    let proven = result(&Case::sound(), "STS-06", Some(5)).summary;
    assert_eq!(
        proven,
        "17 GETs, 14 to 20 expected of 9 informers; an extra list per minute would show in 100 %"
    );
}

#[test]
fn reconciles_may_be_due_to_what_changed() {
    let mut case = Case::sound();
    let reconciles = &mut case.window().closed.counters.reconciles;
    *reconciles.get_mut("deployment").expect("a counter") += 6;
    assert_eq!(verdict(&case, "STS-05", Some(5)), Verdict::Fail);
    case.window().churn.insert("Pod".to_owned(), 3);
    assert_eq!(verdict(&case, "STS-05", Some(5)), Verdict::Pass);
    case.window().churn.insert("Pod".to_owned(), 2);
    assert_eq!(verdict(&case, "STS-05", Some(5)), Verdict::Fail);
}

#[test]
fn an_unsound_window_decides_nothing() {
    let mut case = Case::sound();
    case.window().closed.restarts = 1;
    for id in [
        "STS-01", "STS-02", "STS-03", "STS-04", "STS-05", "STS-06", "STS-08", "STS-09",
    ] {
        let result = result(&case, id, Some(5));
        assert_eq!(result.verdict, Verdict::Invalid, "{id}");
        assert!(
            result.summary.starts_with("the window is not sound"),
            "{}",
            result.summary
        );
    }
}

#[test]
fn a_cluster_of_the_users_may_have_more_informers() {
    let mut case = Case::sound();
    case.restart(4).after.counters.requests[0].count = 12;
    assert_eq!(verdict(&case, "RST-03", Some(4)), Verdict::Fail);
    let environment = case.run.environment.as_mut().expect("an environment");
    environment.plane = PlaneKind::Cluster {
        context: "theirs".to_owned(),
    };
    assert_eq!(verdict(&case, "RST-03", Some(4)), Verdict::Pass);
    assert!(
        result(&case, "STS-06", Some(5))
            .summary
            .contains("9 to 10 informers")
    );
}

#[test]
fn only_a_fresh_install_is_told_to_come_again() {
    let mut case = Case::sound();
    let again = case.restart(2).after.counters.requests[3].clone();
    case.restart(4).after.counters.requests.push(again);
    assert_eq!(verdict(&case, "RST-03", Some(2)), Verdict::Pass);
    assert_eq!(verdict(&case, "RST-03", Some(4)), Verdict::Fail);
}

#[test]
fn no_verdict_is_given_before_the_process_rests() {
    let mut case = Case::sound();
    case.restart(4).settled_after = None;
    assert_eq!(verdict(&case, "RST-01", Some(4)), Verdict::Fail);
    assert_eq!(verdict(&case, "RST-02", Some(4)), Verdict::Invalid);
}

#[test]
fn a_rollout_that_is_to_stall_leads_to_no_new_process() {
    let mut case = Case::sound();
    case.rollout(4).complete_after = None;
    case.record(4).restart = None;
    case.snapshot(4).scrape = None;
    case.expect("UPG-03", Some(4), Expect::Fail);
    assert_eq!(verdict(&case, "UPG-03", Some(4)), Verdict::Expected);
    for id in ["RST-01", "RST-02", "RST-03", "DAT-07", "MET-04", "MET-05"] {
        assert_eq!(verdict(&case, id, Some(4)), Verdict::NotApplicable, "{id}");
        assert_eq!(verdict(&case, id, Some(6)), Verdict::Pass, "{id}");
    }
    assert_eq!(verdict(&case, "MET-04", Some(5)), Verdict::Pass);
}

#[test]
fn a_controller_may_notice_its_own_definitions() {
    let mut case = Case::sound();
    case.run.plan.steps[5] = crate::scenario::Step::Hold { seconds: 1 };
    assert_eq!(verdict(&case, "CRD-13", Some(7)), Verdict::NotApplicable);
}

#[test]
fn what_was_reconciled_in_the_window_was_not_before_it() {
    let mut case = Case::sound();
    let opened = case.window().opened.at;
    case.aibom(5).last_reconciled = Some(opened + chrono::TimeDelta::seconds(10));
    assert_eq!(verdict(&case, "STS-01", Some(5)), Verdict::Pass);
}
