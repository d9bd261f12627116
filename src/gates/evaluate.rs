//! Which check looks at which step, and how what it saw becomes a verdict (`design.md` 2 and 4).

use std::collections::BTreeSet;

use super::catalogue::{Check, Judge, Severity, catalogue};
use super::seen::{Judged, Seen};
use super::view::{Evidence, Planned, RunView, StepView, by_step};
use crate::record::{CheckResult, Verdict};
use crate::scenario::{Expect, Expectation};

/// Evaluates every check on every step that it belongs to, then on the run as a whole. Results are in
/// the order of the steps, those about the whole run last.
#[must_use]
pub fn evaluate(evidence: &Evidence<'_>) -> Vec<CheckResult> {
    let plan = &evidence.run.plan;
    let outlook = plan.outlook();
    let logs = by_step(evidence.events);
    let snapshots = evidence.snapshots.values();
    let opted_in: BTreeSet<_> = snapshots
        .flat_map(|snapshot| &snapshot.expected)
        .map(|workload| workload.namespace.as_str())
        .collect();

    let mut results = Vec::new();
    let mut before = None;
    for ((number, step), outlook) in (1..).zip(&plan.steps).zip(&outlook) {
        let planned = Planned {
            number,
            step,
            before,
            outlook,
            run: evidence.run,
        };
        let view = StepView::new(planned, evidence, logs.get(&number), &opted_in);
        results.extend(catalogue().iter().filter_map(|check| on_step(check, &view)));
        before = Some(outlook);
    }
    let run = RunView {
        evidence,
        outlook: &outlook,
    };
    for check in catalogue() {
        for judge in check.judges {
            let judged = match judge {
                Judge::Steps(..) => continue,
                Judge::Run(applies, judge) => match applies(&outlook) {
                    Some(reason) => {
                        results.push(not_applicable(check, None, reason));
                        continue;
                    }
                    None => judge(&run),
                },
                // What is about the other results comes when they are there.
                Judge::Results(_) => continue,
            };
            results.push(decide(check, None, judged, &plan.expectations));
        }
    }
    results.extend(unseen(&plan.expectations, &results));
    for check in catalogue() {
        for judge in check.judges {
            if let Judge::Results(judge) = judge {
                let judged = judge(evidence, &results);
                results.push(decide(check, None, judged, &plan.expectations));
            }
        }
    }
    results
}

/// The exit code that verdicts lead to: 1 when one is FAIL, else 3 when one is INVALID or there is
/// none at all, else 0.
#[must_use]
pub fn exit_code(results: &[CheckResult]) -> u8 {
    let any = |verdict: &Verdict| results.iter().any(|result| result.verdict == *verdict);
    if any(&Verdict::Fail) {
        1
    } else if results.is_empty() || any(&Verdict::Invalid) {
        3
    } else {
        0
    }
}

/// What a check comes to at a step; [`None`] when it does not belong to its kind.
fn on_step(check: &Check, view: &StepView<'_>) -> Option<CheckResult> {
    let number = Some(view.planned.number);
    let (applies, judge) = check.judges.iter().find_map(|judge| match judge {
        Judge::Steps(kinds, applies, judge) => {
            kinds.contains(&view.kind()).then_some((applies, judge))
        }
        Judge::Run(..) | Judge::Results(_) => None,
    })?;
    if let Some(reason) = applies(&view.planned) {
        return Some(not_applicable(check, number, reason));
    }
    let judged = view.record().and_then(|_| judge(view));
    let expectations = &view.planned.run.plan.expectations;
    Some(decide(check, number, judged, expectations))
}

fn not_applicable(check: &Check, step: Option<u32>, reason: &str) -> CheckResult {
    CheckResult {
        id: check.id.to_owned(),
        step,
        verdict: Verdict::NotApplicable,
        evaluated: 0,
        finding: false,
        summary: reason.to_owned(),
        details: Vec::new(),
    }
}

/// The verdict rules.
fn decide(
    check: &Check,
    step: Option<u32>,
    judged: Judged,
    expectations: &[Expectation],
) -> CheckResult {
    let mut result = CheckResult {
        id: check.id.to_owned(),
        step,
        verdict: Verdict::Invalid,
        evaluated: 0,
        finding: false,
        summary: String::new(),
        details: Vec::new(),
    };
    let Seen {
        evaluated,
        faults,
        summary,
    } = match judged {
        Ok(seen) => seen,
        Err(blind) => {
            result.summary = blind.0;
            return result;
        }
    };
    let holds = faults.is_empty();
    result.evaluated = evaluated;
    result.summary = summary;
    result.details = faults;
    if evaluated == 0 {
        result.summary = format!("nothing was looked at: {}", result.summary);
        return result;
    }
    let expected = expectation(expectations, check.id, step);
    result.verdict = match (holds, expected, check.severity) {
        (false, _, Severity::Validity) => Verdict::Invalid,
        (false, Some((Expect::Fail, because)), _) => {
            result.summary = format!("{}; expected: {because}", result.summary);
            Verdict::Expected
        }
        (true, Some((Expect::Fail, because)), _) => {
            let fault = format!("it was expected to fail, and did not: {because}");
            result.details.push(fault);
            Verdict::Fail
        }
        (false, Some((Expect::Pass, _)), _) | (false, None, Severity::Gate) => Verdict::Fail,
        (false, None, Severity::Finding) => {
            result.finding = true;
            Verdict::Pass
        }
        (true, _, _) => Verdict::Pass,
    };
    result
}

/// What the scenario expects of a check at a step; what it says of just this step goes first.
fn expectation<'a>(
    expectations: &'a [Expectation],
    id: &str,
    step: Option<u32>,
) -> Option<(Expect, &'a str)> {
    let about = |expectation: &&Expectation| expectation.check == id;
    let mut all = expectations.iter().filter(about);
    let exact = all
        .clone()
        .find(|expectation| expectation.step.is_some() && expectation.step == step);
    exact
        .or_else(|| all.find(|expectation| expectation.step.is_none()))
        .map(|expectation| (expectation.expect, expectation.because.as_str()))
}

/// Expectations about a check that looked at no such step. What was to be seen was not, so that no
/// verdict is given.
fn unseen(expectations: &[Expectation], results: &[CheckResult]) -> Vec<CheckResult> {
    let seen = |expectation: &Expectation| {
        results.iter().any(|result| {
            result.id == expectation.check
                && (expectation.step.is_none() || expectation.step == result.step)
                && result.verdict != Verdict::NotApplicable
        }) || catalogue().iter().any(|check| {
            let late = |judge: &Judge| matches!(judge, Judge::Results(_));
            check.id == expectation.check && check.judges.iter().any(late)
        })
    };
    let unseen = expectations.iter().filter(|expectation| !seen(expectation));
    unseen
        .map(|expectation| CheckResult {
            id: expectation.check.clone(),
            step: expectation.step,
            verdict: Verdict::Invalid,
            evaluated: 0,
            finding: false,
            summary: "the scenario expects something of it, but it looks at no such step"
                .to_owned(),
            details: Vec::new(),
        })
        .collect()
}
