//! What can be read of a scenario, however broken the rest of it is: what the linter looks at.
//!
//! Every part is read for itself, so that a mistake in one hides none in another. Of a plan everything
//! is known.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use super::chart::{self, Base};
use super::file;
use super::finding::{Complaint, Place};
use super::format::Length;
use super::near::nearest;
use super::plan::{ChartName, ChartPlan, Plan, Step};
use super::tree::{Entry, Node};
use crate::record::StepKind;

/// All kinds of steps.
const KINDS: [StepKind; 12] = [
    StepKind::Baseline,
    StepKind::Install,
    StepKind::Load,
    StepKind::Upgrade,
    StepKind::Rollback,
    StepKind::Crds,
    StepKind::Steady,
    StepKind::Restart,
    StepKind::Config,
    StepKind::Hold,
    StepKind::Uninstall,
    StepKind::Cleanup,
];

/// A scenario as far as it is known.
#[derive(Debug, Default)]
pub(super) struct Sketch {
    /// By name; [`None`] when the chart itself is not readable. No map when there is none.
    pub(super) charts: Option<BTreeMap<ChartName, Option<ChartPlan>>>,
    pub(super) mix: Option<String>,
    pub(super) count: Option<u32>,
    /// No list when there is none.
    pub(super) steps: Option<Vec<StepSketch>>,
    pub(super) expectations: Vec<ExpectationSketch>,
    /// What came up while the parts were read.
    pub(super) complaints: Vec<Complaint>,
}

/// A step as far as it is known.
#[derive(Debug)]
pub(super) struct StepSketch {
    /// Its kind, or the kind that is probably meant.
    pub(super) kind: Option<StepKind>,
    /// The chart that it names.
    pub(super) chart: Option<String>,
    /// The revision of a rollback: [`None`] when that is not readable, and no number when there is none.
    pub(super) revision: Option<Option<u32>>,
    /// The window of `steady`, in seconds.
    pub(super) window: Option<u64>,
}

/// An expectation as far as it is known.
#[derive(Debug)]
pub(super) struct ExpectationSketch {
    pub(super) check: Option<String>,
    /// As for a revision: no number means every step.
    pub(super) step: Option<Option<u32>>,
}

impl Sketch {
    /// Of a text.
    pub(super) fn read(tree: &Node, base: &Base) -> Self {
        let mut sketch = Self::default();
        let Some(spec) = tree.get("spec") else {
            return sketch;
        };
        if let Some(charts) = spec.get("charts") {
            let place = Place::of(&["spec", "charts"]);
            let read = |entry: &Entry| {
                let chart = entry.node.read::<file::Chart>().and_then(|chart| {
                    chart::resolve(&chart, base, &place.key(&entry.key))
                        .map_err(|complaints| sketch.complaints.extend(complaints))
                        .ok()
                });
                (ChartName(entry.key.clone()), chart)
            };
            sketch.charts = Some(charts.entries().iter().map(read).collect());
        }
        if let Some(workloads) = spec.get("workloads") {
            sketch.count = workloads.get("count").and_then(Node::read);
            sketch.mix = workloads.get("mix").and_then(Node::read);
        }
        let steps = spec.get("steps").and_then(Node::items);
        sketch.steps = steps.map(|steps| steps.iter().map(StepSketch::read).collect());
        let gates = spec.get("gates").and_then(Node::items).unwrap_or_default();
        sketch.expectations = gates
            .iter()
            .map(|gate| ExpectationSketch {
                check: gate.get("check").and_then(Node::read),
                step: optional(gate, "step"),
            })
            .collect();
        sketch
    }

    /// Of a plan.
    pub(super) fn of(plan: &Plan) -> Self {
        let charts = plan.charts.iter();
        Self {
            charts: Some(
                charts
                    .map(|(name, chart)| (name.clone(), Some(chart.clone())))
                    .collect(),
            ),
            mix: Some(plan.workloads.mix.clone()),
            count: Some(plan.workloads.count),
            steps: Some(plan.steps.iter().map(StepSketch::of).collect()),
            expectations: plan
                .expectations
                .iter()
                .map(|expectation| ExpectationSketch {
                    check: Some(expectation.check.clone()),
                    step: Some(expectation.step),
                })
                .collect(),
            complaints: Vec::new(),
        }
    }
}

impl StepSketch {
    fn read(node: &Node) -> Self {
        let unknown = Self {
            kind: None,
            chart: None,
            revision: None,
            window: None,
        };
        let [entry] = node.entries() else {
            // A kind without anything, as `- load`, is a step to whoever reads the rest.
            let kind = node.read::<String>().and_then(|word| kind_of(&word));
            return Self { kind, ..unknown };
        };
        let kind = kind_of(&entry.key);
        let rollback = kind == Some(StepKind::Rollback);
        Self {
            kind,
            chart: entry.node.get("chart").and_then(Node::read),
            revision: rollback
                .then(|| optional(&entry.node, "revision"))
                .flatten(),
            window: entry
                .node
                .get("window")
                .and_then(Node::read::<Length>)
                .map(Length::seconds),
        }
    }

    fn of(step: &Step) -> Self {
        let chart = match step {
            Step::Install { chart } | Step::Upgrade { chart } | Step::Crds { chart } => Some(chart),
            _ => None,
        };
        Self {
            kind: Some(step.kind()),
            chart: chart.map(|name| name.0.clone()),
            revision: match step {
                Step::Rollback { revision } => Some(revision.map(NonZeroU32::get)),
                _ => None,
            },
            window: match step {
                Step::Steady { window_seconds } => Some(*window_seconds),
                _ => None,
            },
        }
    }
}

/// A number that may be left out: [`None`] when what is there is none.
fn optional(node: &Node, key: &str) -> Option<Option<u32>> {
    match node.get(key) {
        None => Some(None),
        Some(value) => value.read::<u32>().map(Some),
    }
}

fn kind_of(word: &str) -> Option<StepKind> {
    let names = KINDS.map(|kind| kind.to_string());
    let meant = nearest(word, names.iter().map(String::as_str))?;
    KINDS.into_iter().find(|kind| kind.to_string() == meant)
}
