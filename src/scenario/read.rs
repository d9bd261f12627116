//! From a text to a plan, or to everything that is wrong with the text.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use super::chart::{self, Base};
use super::file::{self, File, StepEntry};
use super::finding::{Complaint, Finding, Findings, Place, Position};
use super::lint::{self, Known};
use super::plan::{ChartName, Expectation, Plan, Step, WorkloadPlan};
use super::rule::{Rule, Severity};
use super::shape;
use super::sketch::Sketch;
use super::tree::{self, Node};

/// A scenario that can be run.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// What it does.
    pub plan: Plan,
    /// Findings that are no errors.
    pub warnings: Findings,
}

/// Reads a scenario. `name` is what findings call the text, and `base` what its relative paths are
/// relative to.
///
/// # Errors
///
/// All findings of the text, warnings included, when at least one of them is an error.
pub fn read(name: &str, text: &str, base: &Base, known: &Known<'_>) -> Result<Scenario, Findings> {
    let (tree, mut list) = tree::parse(text);
    if let Some(tree) = &tree {
        list.extend(shape::check(tree, &file::schema()));
        let sketch = Sketch::read(tree, base);
        let complaints = lint::sketch(&sketch, known);
        list.extend(
            complaints
                .into_iter()
                .chain(sketch.complaints)
                .map(|complaint| Finding {
                    rule: complaint.rule,
                    at: tree.locate(&complaint.place),
                    message: complaint.message,
                    hint: complaint.hint,
                }),
        );
    }
    let findings = Findings::new(name, list);
    let tree = match tree {
        Some(tree) if findings.count(Severity::Error) == 0 => tree,
        _ => return Err(findings),
    };
    match typed(text, &tree, base) {
        Ok(plan) => Ok(Scenario {
            plan,
            warnings: findings,
        }),
        Err(finding) => {
            let mut list = findings.list;
            list.push(finding);
            Err(Findings::new(name, list))
        }
    }
}

/// The typed read, by another library than the one that the positions come from. Whatever it refuses
/// that the checks above let pass is an error all the same.
fn typed(text: &str, tree: &Node, base: &Base) -> Result<Plan, Finding> {
    let file: File = serde_yaml::from_str(text).map_err(|error| {
        let at = error.location().map_or(Position::START, |location| {
            within(text, location.line(), location.column())
        });
        Finding {
            rule: Rule::WrongType,
            at,
            message: error.to_string(),
            hint: None,
        }
    })?;
    plan(file, base).map_err(|complaint| Finding {
        rule: complaint.rule,
        at: tree.locate(&complaint.place),
        message: complaint.message,
        hint: complaint.hint,
    })
}

/// A place inside the text: errors at its end may lie behind it.
fn within(text: &str, line: usize, column: usize) -> Position {
    let line = line.clamp(1, text.lines().count().max(1));
    let length = text
        .lines()
        .nth(line - 1)
        .map_or(0, |line| line.chars().count());
    let column = column.clamp(1, length + 1);
    Position { line, column }
}

fn plan(file: File, base: &Base) -> Result<Plan, Complaint> {
    let mut charts = BTreeMap::new();
    let place = Place::of(&["spec", "charts"]);
    for (name, chart) in &file.spec.charts {
        let chart = chart::resolve(chart, base, &place.key(name))
            .map_err(|mut complaints| complaints.swap_remove(0))?;
        charts.insert(ChartName(name.clone()), chart);
    }
    let workloads = file.spec.workloads;
    Ok(Plan {
        name: file.metadata.name,
        release: file.spec.release.name,
        namespace: file.spec.release.namespace,
        charts,
        workloads: WorkloadPlan {
            preexisting: workloads.preexisting,
            count: workloads.count,
            mix: workloads.mix,
            namespaces: workloads.namespaces,
            seed: workloads.seed,
            rate: workloads.rate.0,
        },
        steps: file.spec.steps.into_iter().map(Step::from).collect(),
        expectations: file
            .spec
            .gates
            .into_iter()
            .map(|gate| Expectation {
                check: gate.check,
                step: gate.step.map(NonZeroU32::get),
                expect: gate.expect,
                because: gate.because,
            })
            .collect(),
    })
}

impl From<StepEntry> for Step {
    fn from(entry: StepEntry) -> Self {
        match entry {
            StepEntry::Baseline(_) => Self::Baseline,
            StepEntry::Install(of) => Self::Install {
                chart: ChartName(of.chart),
            },
            StepEntry::Load(_) => Self::Load,
            StepEntry::Upgrade(of) => Self::Upgrade {
                chart: ChartName(of.chart),
            },
            StepEntry::Rollback(rollback) => Self::Rollback {
                revision: rollback.revision,
            },
            StepEntry::Crds(of) => Self::Crds {
                chart: ChartName(of.chart),
            },
            StepEntry::Steady(steady) => Self::Steady {
                window_seconds: steady.window.seconds(),
            },
            StepEntry::Restart(_) => Self::Restart,
            StepEntry::Config(config) => Self::Config {
                spec: serde_json::Value::Object(config.spec),
            },
            StepEntry::Hold(hold) => Self::Hold {
                seconds: hold.length.seconds(),
            },
            StepEntry::Uninstall(_) => Self::Uninstall,
            StepEntry::Cleanup(_) => Self::Cleanup,
        }
    }
}
