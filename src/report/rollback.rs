//! The ways back: what each rollback kept, and what is left of a round trip.

use serde::Serialize;

use super::RunView;
use super::definitions::DefinitionRow;
use super::steps::{self, Difference, differences, equal_hashes};
use crate::compare::{self, Diff, diff};
use crate::record::StepKind;

/// How much is as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Kept {
    /// AIBOMs before.
    pub before: u64,
    /// Of these, the same objects after.
    pub same: u64,
    /// AIBOMs of the same name in both.
    pub common: u64,
    /// Of these, how many have the same `inputHash`.
    pub input_hash: u64,
    /// Of these, how many have the same `bomHash`.
    pub bom_hash: u64,
    /// Documents that could be compared.
    pub documents: u64,
    /// Of these, how many differ in nothing but the time of their generation.
    pub same_documents: u64,
}

impl From<&Diff> for Kept {
    fn from(diff: &Diff) -> Self {
        let (input_hash, bom_hash) = equal_hashes(diff);
        Self {
            before: diff.before,
            same: diff.common - diff.uid_changed.len() as u64,
            common: diff.common,
            input_hash,
            bom_hash,
            documents: diff.documents,
            same_documents: diff.documents - diff.document_drift.len() as u64,
        }
    }
}

/// One rollback.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RollbackRow {
    /// The step.
    pub step: u32,
    /// The chart before, as a person knows it.
    pub from: Option<String>,
    /// The chart after.
    pub to: Option<String>,
    /// The definitions that were served meanwhile, in words.
    pub definitions: Option<String>,
    /// The new revision.
    pub revision: Option<u32>,
    /// From the start of the helm process until the rollout was complete, in seconds.
    pub complete_after_seconds: Option<f64>,
    /// What it kept; [`None`] when one of the two ends was not observed.
    pub kept: Option<Kept>,
    /// The configuration's conditions, in words.
    pub conditions: Option<String>,
    /// Warning events, in words.
    pub warnings: Option<String>,
}

/// One row per rollback.
pub(super) fn rows(view: &RunView<'_>, definitions: &[DefinitionRow]) -> Vec<RollbackRow> {
    let warnings = steps::warnings(view);
    let rollbacks = view
        .steps
        .iter()
        .filter(|record| record.kind == StepKind::Rollback);
    let rows = rollbacks.map(|record| {
        let step = record.step;
        let after = view.snapshots.get(&step);
        let earlier = view.steps.iter().rev().find(|earlier| earlier.step < step);
        let chart = |name: &String| view.chart(name);
        RollbackRow {
            step,
            from: earlier
                .and_then(|earlier| earlier.chart.as_ref())
                .map(chart),
            to: record.chart.as_ref().map(chart),
            definitions: definitions
                .iter()
                .find(|row| row.step == step)
                .map(DefinitionRow::words),
            revision: record.helm.as_ref().and_then(|helm| helm.revision_after),
            complete_after_seconds: record
                .rollout
                .as_ref()
                .and_then(|rollout| rollout.complete_after),
            kept: view
                .before(step)
                .zip(after)
                .map(|(before, after)| Kept::from(&diff(before, after))),
            conditions: after.and_then(steps::conditions),
            warnings: warnings.get(&step).map(steps::Warnings::words),
        }
    });
    rows.collect()
}

/// From a chart and back to it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RoundTripRow {
    /// The charts, in order; the first is also the last.
    pub charts: Vec<String>,
    /// The last step before the chart was left.
    pub from_step: u32,
    /// The step that brought it back.
    pub to_step: u32,
    /// What is as it was.
    pub kept: Kept,
    /// Which AIBOMs are not.
    pub differences: Vec<Difference>,
}

/// All round trips whose ends were both observed and had AIBOMs.
pub(super) fn round_trips(view: &RunView<'_>) -> Vec<RoundTripRow> {
    let trips = compare::round_trips(&view.run.plan.outlook(), view.snapshots);
    let rows = trips.into_iter().filter_map(|trip| {
        let diff = trip.diff.filter(|diff| diff.before > 0)?;
        // A step that did not do what the plan says made no round trip.
        let arrived = view.step(trip.to)?.chart.as_ref() == Some(&trip.chart);
        let ends = std::iter::once(&trip.chart);
        let charts = ends.clone().chain(&trip.through).chain(ends);
        arrived.then(|| RoundTripRow {
            charts: charts.map(|chart| view.chart(chart)).collect(),
            from_step: trip.from,
            to_step: trip.to,
            kept: Kept::from(&diff),
            differences: differences(&diff, false),
        })
    });
    rows.collect()
}
