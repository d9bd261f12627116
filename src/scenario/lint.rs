//! Rules about what a scenario means, beyond its shape: names that resolve, numbers that make sense,
//! moves that change something. They hold for a text as far as it can be read, and for every plan.

mod steps;

use std::collections::BTreeSet;

use super::finding::{Complaint, Place};
use super::near::{nearest, suggest};
use super::plan::{ChartSource, Plan};
use super::rule::{Rule, Severity};
use super::sketch::Sketch;
use crate::record::StepKind;

/// Words that a scenario uses and that other parts of the program define.
#[derive(Clone, Copy, Debug)]
pub struct Known<'k> {
    /// The ids of the checks.
    pub checks: &'k [&'k str],
    /// The names of the mixes of workloads.
    pub mixes: &'k [&'k str],
}

/// What is wrong with a plan: to be asked again after [`Plan::with`] has changed it.
#[must_use]
pub fn lint(plan: &Plan, known: &Known<'_>) -> Vec<Complaint> {
    sketch(&Sketch::of(plan), known)
}

/// The shortest window that finds one extra list per minute in 90 % of cases, among those whose power
/// was simulated (`design.md` 7), in seconds.
const SHORTEST_WINDOW: u64 = 600;

pub(super) fn sketch(sketch: &Sketch, known: &Known<'_>) -> Vec<Complaint> {
    let mut lint = Lint {
        sketch,
        complaints: Vec::new(),
    };
    lint.charts();
    lint.workloads(known.mixes);
    lint.steps();
    lint.windows();
    lint.expectations(known.checks);
    lint.complaints
}

struct Lint<'s> {
    sketch: &'s Sketch,
    complaints: Vec<Complaint>,
}

fn step_place(index: usize) -> Place {
    Place::of(&["spec", "steps"]).item(index)
}

impl Lint<'_> {
    fn complain(&mut self, rule: Rule, place: Place, message: String, hint: Option<String>) {
        self.complaints.push(Complaint {
            rule,
            place,
            message,
            hint,
        });
    }

    /// Names resolve, every chart is used, and is the same one tomorrow.
    fn charts(&mut self) {
        let Some(charts) = &self.sketch.charts else {
            return;
        };
        let names: Vec<&str> = charts.keys().map(|name| name.0.as_str()).collect();
        let mut used = BTreeSet::new();
        let mut all_readable = self.sketch.steps.is_some();
        for (index, step) in self.sketch.steps.iter().flatten().enumerate() {
            let Some(kind) = step.kind else {
                all_readable = false;
                continue;
            };
            if !names_a_chart(kind) {
                continue;
            }
            match step.chart.as_deref() {
                None => all_readable = false,
                Some(chart) if names.contains(&chart) => {
                    used.insert(chart);
                }
                Some(chart) => {
                    all_readable = false;
                    let place = step_place(index).key(&kind.to_string()).key("chart");
                    let message = format!("there is no chart `{chart}` in `spec.charts`");
                    let hint = suggest(chart, &names, "charts");
                    self.complain(Rule::UnknownChart, place, message, Some(hint));
                }
            }
        }
        for (name, chart) in charts {
            let place = Place::of(&["spec", "charts"]).key(&name.0);
            // One that is misspelt elsewhere is named there.
            if all_readable && !used.contains(name.0.as_str()) {
                let message = format!("no step names the chart `{name}`");
                let hint = "leave it out, or name it in a step".to_owned();
                self.complain(Rule::UnusedChart, place.clone(), message, Some(hint));
            }
            let Some(chart) = chart else {
                continue;
            };
            if let ChartSource::Oci {
                version: None,
                digest: None,
                ..
            } = chart.source
            {
                let message = format!("the chart `{name}` has neither version nor digest");
                let hint = "write `version: \"…\"`, or better `digest: sha256:…`".to_owned();
                self.complain(Rule::FloatingChart, place, message, Some(hint));
            }
        }
    }

    fn workloads(&mut self, mixes: &[&str]) {
        let workloads = Place::of(&["spec", "workloads"]);
        if let Some(mix) = &self.sketch.mix
            && !mixes.contains(&mix.as_str())
        {
            let message = format!("there is no mix `{mix}`");
            let hint = suggest(mix, mixes, "mixes");
            self.complain(Rule::BadValue, workloads.key("mix"), message, Some(hint));
        }
        let (Some(count), Some(steps)) = (self.sketch.count, &self.sketch.steps) else {
            return;
        };
        let loads = steps.iter().any(|step| step.kind == Some(StepKind::Load));
        let all_readable = steps.iter().all(|step| step.kind.is_some());
        if loads && count == 0 {
            let message = "the step `load` has nothing to make: `count` is 0".to_owned();
            let hint = "write how many, or leave the step out".to_owned();
            self.complain(Rule::EmptyLoad, workloads.key("count"), message, Some(hint));
        } else if !loads && all_readable && count > 0 {
            let message = format!("no step makes what `count` asks for: {count}");
            let hint = "add the step `load: {}`, or write 0".to_owned();
            self.complain(
                Rule::UnusedLoad,
                workloads.key("count"),
                message,
                Some(hint),
            );
        }
    }

    fn windows(&mut self) {
        for (index, step) in self.sketch.steps.iter().flatten().enumerate() {
            let window = step.window.filter(|_| step.kind == Some(StepKind::Steady));
            if let Some(window) = window.filter(|window| *window < SHORTEST_WINDOW) {
                let place = step_place(index).key("steady").key("window");
                let message = format!("a window of {window} s is too short to prove anything");
                let hint = format!("write {SHORTEST_WINDOW}s or more");
                self.complain(Rule::ShortWindow, place, message, Some(hint));
            }
        }
    }

    fn expectations(&mut self, checks: &[&str]) {
        let steps = self.sketch.steps.as_ref().map(Vec::len);
        let gates = Place::of(&["spec", "gates"]);
        for (index, expectation) in self.sketch.expectations.iter().enumerate() {
            let place = gates.item(index);
            if let Some(check) = &expectation.check
                && !checks.contains(&check.as_str())
            {
                let message = format!("there is no check `{check}`");
                // There are too many of them to list.
                let hint = nearest(check, checks.iter().copied()).map_or_else(
                    || "`aibom-qual gate --list` names all of them".to_owned(),
                    |meant| format!("did you mean `{meant}`?"),
                );
                self.complain(Rule::UnknownCheck, place.key("check"), message, Some(hint));
            }
            if let (Some(Some(number)), Some(steps)) = (expectation.step, steps) {
                let there_is = usize::try_from(number).is_ok_and(|number| number <= steps);
                if !there_is {
                    let message = format!("there is no step {number}");
                    let hint = format!("steps are 1 to {steps}");
                    self.complain(Rule::NoSuchStep, place.key("step"), message, Some(hint));
                }
            }
            let earlier = self.sketch.expectations.iter().take(index);
            let twice = expectation.check.is_some()
                && earlier.clone().any(|other| {
                    other.check == expectation.check && overlap(other.step, expectation.step)
                });
            if twice {
                let check = expectation.check.as_deref().unwrap_or_default();
                let message = format!("what is expected of `{check}` at this step is said before");
                let hint = "leave one of them out".to_owned();
                let place = place.key("check");
                self.complain(Rule::DoubleExpectation, place, message, Some(hint));
            }
        }
    }
}

/// Whether two expectations are about a common step, as far as is known.
fn overlap(one: Option<Option<u32>>, other: Option<Option<u32>>) -> bool {
    match (one, other) {
        (Some(Some(one)), Some(Some(other))) => one == other,
        (Some(_), Some(_)) => true,
        _ => false,
    }
}

fn names_a_chart(kind: StepKind) -> bool {
    matches!(kind, StepKind::Install | StepKind::Upgrade | StepKind::Crds)
}

/// Whether complaints keep a plan from being run.
#[must_use]
pub fn refused(complaints: &[Complaint]) -> bool {
    let mut each = complaints.iter();
    each.any(|complaint| complaint.rule.severity() == Severity::Error)
}
