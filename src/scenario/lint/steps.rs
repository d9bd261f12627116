//! The steps in their order: what each finds when it is its turn.

use std::collections::BTreeSet;

use super::{Lint, step_place};
use crate::record::StepKind;
use crate::scenario::finding::Place;
use crate::scenario::plan::ChartName;
use crate::scenario::rule::Rule;
use crate::scenario::sketch::{Sketch, StepSketch};

/// How many revisions Helm keeps unless told otherwise.
const KEPT_REVISIONS: usize = 10;

/// The release at one point of a scenario.
enum Release {
    /// None was installed.
    None,
    /// It was removed by this step.
    Removed(StepKind),
    /// Its revisions, oldest first: the chart of each, where that is known.
    Installed(Vec<Option<String>>),
    /// What comes before is not readable, so that nothing can be said against what follows.
    Unclear,
}

impl Lint<'_> {
    pub(super) fn steps(&mut self) {
        let Some(steps) = &self.sketch.steps else {
            return;
        };
        self.frame(steps);
        self.loads(steps);
        let mut release = Release::None;
        let mut alike = BTreeSet::new();
        for (index, step) in steps.iter().enumerate() {
            release = match step.kind {
                None => Release::Unclear,
                Some(kind) => self.step(index, kind, step, release, &mut alike),
            };
        }
    }

    /// `baseline` opens, `cleanup` closes.
    fn frame(&mut self, steps: &[StepSketch]) {
        let last = steps.len().saturating_sub(1);
        for (kind, wanted, end, index) in [
            (StepKind::Baseline, 0, "first", 0),
            (StepKind::Cleanup, last, "last", last),
        ] {
            let places = steps.iter().enumerate();
            let places = places.filter(|(_, step)| step.kind == Some(kind));
            let found: Vec<usize> = places.map(|(index, _)| index).collect();
            // One of them is to stay.
            let nearest = found.iter().min_by_key(|at| at.abs_diff(wanted)).copied();
            for at in found.iter().filter(|at| **at != wanted) {
                let message = format!("`{kind}` must be the {end} step, and is step {}", at + 1);
                let hint = if nearest == Some(*at) {
                    format!("move it to the {} of `spec.steps`", edge(kind))
                } else {
                    "leave it out: it stands in the scenario more than once".to_owned()
                };
                self.complain(Rule::StepOrder, step_place(*at), message, Some(hint));
            }
            // A step that is not readable may be the one.
            let readable = steps.get(index).is_some_and(|step| step.kind.is_some());
            if found.is_empty() && readable {
                let message = format!("the {end} step must be `{kind}`");
                let hint = format!("add `- {kind}: {{}}` at the {}", edge(kind));
                self.complain(Rule::StepOrder, step_place(index), message, Some(hint));
            }
        }
    }

    fn loads(&mut self, steps: &[StepSketch]) {
        let loads = steps.iter().enumerate();
        let loads = loads.filter(|(_, step)| step.kind == Some(StepKind::Load));
        for (index, _) in loads.skip(1) {
            let message = "`load` stands in the scenario more than once".to_owned();
            let hint = "make all workloads at once, or some before by `preexisting`".to_owned();
            self.complain(Rule::StepOrder, step_place(index), message, Some(hint));
        }
    }

    fn step(
        &mut self,
        index: usize,
        kind: StepKind,
        step: &StepSketch,
        release: Release,
        alike: &mut BTreeSet<(String, String)>,
    ) -> Release {
        match (kind, release) {
            (_, Release::Unclear) if kind != StepKind::Install => Release::Unclear,
            (StepKind::Install, Release::Installed(_)) => {
                let message = "`install` of a release that is installed already".to_owned();
                let hint = "write `upgrade`, or `uninstall` before".to_owned();
                self.complain(Rule::StepOrder, step_place(index), message, Some(hint));
                Release::Unclear
            }
            (StepKind::Install, _) => Release::Installed(vec![step.chart.clone()]),
            (StepKind::Upgrade, Release::Installed(mut history)) => {
                let running = history.last().cloned().flatten();
                let place = step_place(index).key("upgrade").key("chart");
                self.must_change(place, running.as_deref(), step.chart.as_deref(), alike);
                history.push(step.chart.clone());
                self.long(index, &history);
                Release::Installed(history)
            }
            (StepKind::Rollback, Release::Installed(mut history)) => {
                let target = self.rollback(index, step, &history, alike);
                history.push(target);
                self.long(index, &history);
                Release::Installed(history)
            }
            (StepKind::Uninstall | StepKind::Cleanup, Release::Installed(_)) => {
                Release::Removed(kind)
            }
            (
                StepKind::Upgrade
                | StepKind::Rollback
                | StepKind::Steady
                | StepKind::Restart
                | StepKind::Config
                | StepKind::Uninstall,
                before,
            ) => self.needs_release(index, kind, before),
            (_, release) => release,
        }
    }

    fn needs_release(&mut self, index: usize, kind: StepKind, before: Release) -> Release {
        if let Release::Installed(_) = before {
            return before;
        }
        let message = match before {
            Release::Removed(by) => format!("`{kind}` after `{by}`: there is no release any more"),
            _ => format!("`{kind}` before `install`: there is no release yet"),
        };
        let hint = "add `- install: {chart: …}` before it".to_owned();
        self.complain(Rule::StepOrder, step_place(index), message, Some(hint));
        // It is said once.
        Release::Unclear
    }

    /// The chart that a rollback leads to, where that is known.
    fn rollback(
        &mut self,
        index: usize,
        step: &StepSketch,
        history: &[Option<String>],
        alike: &mut BTreeSet<(String, String)>,
    ) -> Option<String> {
        let wanted = step.revision?;
        let newest = history.len();
        let mut place = step_place(index).key("rollback");
        if wanted.is_some() {
            place = place.key("revision");
        }
        let target = match wanted {
            None => newest - 1,
            Some(number) => usize::try_from(number).unwrap_or(usize::MAX),
        };
        // Zero is out of range, which is said elsewhere.
        if wanted == Some(0) {
            return None;
        }
        if target == 0 || target > newest {
            let message = match wanted {
                None => "there is no revision to go back to: the release has one".to_owned(),
                Some(number) => {
                    format!("there is no revision {number} at step {}", index + 1)
                }
            };
            let hint = match newest {
                1 => "add an `upgrade` before it".to_owned(),
                _ => format!("revisions at that point are 1 to {newest}"),
            };
            self.complain(Rule::NoSuchRevision, place, message, Some(hint));
            return None;
        }
        if target == newest {
            let message = format!("revision {target} runs already");
            let hint = "go back to an earlier one".to_owned();
            self.complain(Rule::NoChange, place, message, Some(hint));
            return history[target - 1].clone();
        }
        let chart = history[target - 1].clone();
        let running = history.last().cloned().flatten();
        self.must_change(place, running.as_deref(), chart.as_deref(), alike);
        chart
    }

    /// A move that changes nothing is a test that cannot fail (MET-14). Two names of the same chart are
    /// named once, however many moves there are between them.
    fn must_change(
        &mut self,
        place: Place,
        running: Option<&str>,
        next: Option<&str>,
        alike: &mut BTreeSet<(String, String)>,
    ) {
        let (Some(running), Some(next)) = (running, next) else {
            return;
        };
        if running == next {
            let message = format!("the chart `{next}` runs already");
            let hint = "name another chart; `restart: {}` starts the same one again".to_owned();
            self.complain(Rule::NoChange, place, message, Some(hint));
        } else if same(self.sketch, running, next) {
            let pair = if running < next {
                (running.to_owned(), next.to_owned())
            } else {
                (next.to_owned(), running.to_owned())
            };
            if alike.insert(pair) {
                let message =
                    format!("`{running}` and `{next}` are the same chart with the same values");
                let hint = "give one of them another `path`, `oci` or `values`".to_owned();
                self.complain(Rule::SameChart, place, message, Some(hint));
            }
        }
    }

    fn long(&mut self, index: usize, history: &[Option<String>]) {
        if history.len() == KEPT_REVISIONS + 1 {
            let message = format!("this is revision {}", history.len());
            let hint = format!(
                "Helm keeps {KEPT_REVISIONS} by default: whoever repeats this by hand needs \
                 `--history-max 0`"
            );
            self.complain(Rule::LongHistory, step_place(index), message, Some(hint));
        }
    }
}

fn edge(kind: StepKind) -> &'static str {
    match kind {
        StepKind::Baseline => "beginning",
        _ => "end",
    }
}

/// Whether two names mean the same chart with the same values.
fn same(sketch: &Sketch, one: &str, other: &str) -> bool {
    let chart = |name: &str| {
        let charts = sketch.charts.as_ref()?;
        charts.get(&ChartName(name.to_owned()))?.as_ref()
    };
    chart(one).is_some() && chart(one) == chart(other)
}
