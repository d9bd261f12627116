//! The timeline proper: one row per step, with what it came to in a few clauses.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use serde::Serialize;

use super::RunView;
use super::clauses;
use super::definitions::{DefinitionRow, Level};
use super::words::{counted, image, of, seconds};
use crate::compare::{AibomName, Diff, diff};
use crate::record::{
    ConditionStatus, Event, PhaseTime, Snapshot, StepEnd, StepKind, StepRecord, grouped,
};

/// One step.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StepRow {
    /// Its number, from 1.
    pub step: u32,
    /// Its kind.
    pub kind: StepKind,
    /// When it began.
    pub at: DateTime<Utc>,
    /// What was done.
    pub action: String,
    /// How it ended.
    pub end: StepEnd,
    /// What it came to, the most important first.
    pub clauses: Vec<String>,
    /// How long it took, in seconds.
    pub seconds: f64,
    /// Where the time went.
    pub phases: Vec<PhaseTime>,
    /// Which AIBOMs differ from those before the step, by what differs.
    pub differences: Vec<Difference>,
}

/// AIBOMs that differ in one respect.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Difference {
    /// In what.
    pub what: &'static str,
    /// All of them, as `NAMESPACE/NAME`.
    pub names: Vec<String>,
}

/// One row per step that has an end.
pub(super) fn rows(view: &RunView<'_>, definitions: &[DefinitionRow]) -> Vec<StepRow> {
    let warnings = warnings(view);
    let mut served: Option<&DefinitionRow> = None;
    let mut rows = Vec::with_capacity(view.steps.len());
    for record in view.steps {
        let mut row = StepRow {
            step: record.step,
            kind: record.kind,
            at: record.started_at,
            action: record.action.clone(),
            end: record.end.clone(),
            clauses: clauses::of(record),
            seconds: record.seconds,
            phases: record.phases.clone(),
            differences: Vec::new(),
        };
        if let Some(snapshot) = view.snapshots.get(&record.step) {
            row.observed(view, record, snapshot);
            let now = definitions.iter().find(|row| row.step == record.step);
            row.clauses
                .extend(now.and_then(|now| crds(record, now, served)));
            served = now;
        }
        if record.kind.is_move() || record.kind == StepKind::Crds {
            row.clauses
                .extend(warnings.get(&record.step).map(Warnings::words));
        }
        rows.push(row);
    }
    rows
}

impl StepRow {
    fn observed(&mut self, view: &RunView<'_>, record: &StepRecord, snapshot: &Snapshot) {
        if record.kind == StepKind::Baseline {
            self.clauses.extend(found(snapshot));
            return;
        }
        if record.kind == StepKind::Cleanup {
            return;
        }
        if record.kind.is_move()
            && let Some(deployment) = &snapshot.deployment
        {
            self.clauses
                .push(format!("image {}", image(&deployment.image)));
        }
        let before = view.before(record.step);
        let diff = before.map(|before| diff(before, snapshot));
        match diff.filter(|diff| diff.before > 0) {
            Some(diff) if record.kind != StepKind::Load => {
                self.clauses.extend(preserved(&diff, before, snapshot));
                self.differences = differences(&diff, false);
            }
            diff => {
                let converged = record.load.as_ref().map(|load| load.converged_after);
                self.clauses.extend(inventory(snapshot, converged));
                // What the load adds was asked for.
                self.differences = diff
                    .map(|diff| differences(&diff, true))
                    .unwrap_or_default();
            }
        }
        self.clauses.extend(conditions(snapshot));
    }
}

fn found(snapshot: &Snapshot) -> Vec<String> {
    let controller = match (&snapshot.deployment, &snapshot.release) {
        (None, None) => "no controller",
        (Some(_), _) => "a controller runs",
        (None, Some(_)) => "a release without a controller",
    };
    let mut clauses = vec![controller.to_owned()];
    let expected = snapshot.expected.len() as u64;
    clauses.push(format!("{} to be tracked", counted(expected, "workload")));
    if let Some(aiboms) = &snapshot.aiboms {
        clauses.push(counted(aiboms.items.len() as u64, "AIBOM"));
    }
    clauses
}

/// `1,002 AIBOMs, all Ready, 2.1 s after the load`.
fn inventory(snapshot: &Snapshot, converged: Option<Option<f64>>) -> Option<String> {
    let aiboms = snapshot.aiboms.as_ref()?;
    let all = aiboms.items.len() as u64;
    let mut text = counted(all, "AIBOM");
    if all == 0 {
        return Some(text);
    }
    let ready = ready(snapshot);
    text.push_str(&match (all - ready, all) {
        (0, 1) => ", Ready".to_owned(),
        (0, _) => ", all Ready".to_owned(),
        (many, _) => format!(", {} not Ready", grouped(many)),
    });
    match converged {
        Some(Some(after)) => text.push_str(&format!(", {} after the load", seconds(after))),
        Some(None) => text.push_str(", not complete in the time allowed"),
        None => {}
    }
    Some(text)
}

/// `1,002 AIBOMs preserved` and how many of their hashes are equal.
fn preserved(diff: &Diff, before: Option<&Snapshot>, after: &Snapshot) -> Vec<String> {
    let lost = diff.lost.len() as u64;
    let replaced = diff.uid_changed.len() as u64;
    let kept = diff.common - replaced;
    let mut parts = Vec::new();
    for (many, what) in [
        (lost, "lost"),
        (replaced, "replaced"),
        (diff.added.len() as u64, "added"),
    ] {
        if many > 0 {
            parts.push(format!("{} {what}", grouped(many)));
        }
    }
    let mut clauses = vec![if lost + replaced == 0 {
        parts.insert(0, format!("{} preserved", counted(kept, "AIBOM")));
        parts.join(", ")
    } else {
        let head = format!(
            "{} of {} preserved",
            grouped(kept),
            counted(diff.before, "AIBOM")
        );
        parts.insert(0, head);
        parts.join(", ")
    }];
    if diff.common > 0 {
        clauses.push(hashes(diff));
    }
    let unready = |snapshot: &Snapshot| snapshot.aiboms().len() as u64 - ready(snapshot);
    if unready(after) > before.map_or(0, unready) {
        clauses.push(format!("{} not Ready", grouped(unready(after))));
    }
    clauses
}

/// `inputHash 1,002/1,002, bomHash 1,002/1,002 equal`.
fn hashes(diff: &Diff) -> String {
    let (input, bom) = equal_hashes(diff);
    let mut text = format!(
        "inputHash {}, bomHash {} equal",
        of(input, diff.common),
        of(bom, diff.common)
    );
    if !diff.unhashed.is_empty() {
        text.push_str(&format!(
            ", {} without hashes",
            grouped(diff.unhashed.len() as u64)
        ));
    }
    text
}

/// How many kept their `inputHash`, and how many their `bomHash`.
pub(super) fn equal_hashes(diff: &Diff) -> (u64, u64) {
    (
        diff.same_same + diff.same_changed.len() as u64,
        diff.same_same + diff.changed_same.len() as u64,
    )
}

fn ready(snapshot: &Snapshot) -> u64 {
    let aiboms = snapshot.aiboms().iter();
    aiboms
        .filter(|aibom| aibom.ready == Some(ConditionStatus::True))
        .count() as u64
}

/// `Ready=True, Degraded=False`, with the reason where it is not that.
pub(super) fn conditions(snapshot: &Snapshot) -> Option<String> {
    let config = snapshot.config.as_ref()?;
    let wanted = [
        ("Ready", ConditionStatus::True),
        ("Degraded", ConditionStatus::False),
    ];
    let told = wanted.map(|(type_, wanted)| match config.condition(type_) {
        None => format!("{type_} absent"),
        Some(condition) => {
            let status = match condition.status {
                ConditionStatus::True => "True",
                ConditionStatus::False => "False",
                ConditionStatus::Unknown => "Unknown",
            };
            if condition.status == wanted {
                format!("{type_}={status}")
            } else {
                format!("{type_}={status} ({})", condition.reason)
            }
        }
    });
    Some(told.join(", "))
}

/// `CRDs still 1.3.0: green but stranded`.
fn crds(
    record: &StepRecord,
    now: &DefinitionRow,
    before: Option<&DefinitionRow>,
) -> Option<String> {
    if matches!(record.kind, StepKind::Steady | StepKind::Hold) {
        return None;
    }
    let moved = record.kind.is_move() && record.kind != StepKind::Install;
    let mut text = now.words();
    if moved && let Some(charts) = text.strip_prefix("CRDs ") {
        let same = before.is_some_and(|before| before.definitions == now.definitions);
        let word = if same { "still" } else { "now" };
        text = format!("CRDs {word} {charts}");
    }
    if matches!(now.level, Level::Stranded { .. } | Level::Newer) {
        text.push_str(": ");
        text.push_str(now.level.words());
    }
    Some(text)
}

/// The differences that have names, the worst first.
pub(super) fn differences(diff: &Diff, added_is_planned: bool) -> Vec<Difference> {
    let mut differences = Vec::new();
    let mut add = |what, names: &[AibomName]| {
        if !names.is_empty() {
            let names = names.iter().map(ToString::to_string).collect();
            differences.push(Difference { what, names });
        }
    };
    add("lost", &diff.lost);
    add(
        "replaced by another object of the same name",
        &diff.uid_changed,
    );
    add("owned by another object", &diff.owner_changed);
    add("inputHash and bomHash changed", &diff.changed_changed);
    add("inputHash changed but bomHash equal", &diff.changed_same);
    add("inputHash equal but bomHash changed", &diff.same_changed);
    add("without hashes", &diff.unhashed);
    add(
        "document differs in more than its time",
        &diff.document_drift,
    );
    if !added_is_planned {
        add("added", &diff.added);
    }
    differences
}

/// Warning events that were reported in a step.
#[derive(Debug, Default)]
pub(super) struct Warnings {
    by_reason: BTreeMap<String, u64>,
    missed: bool,
}

impl Warnings {
    pub(super) fn words(&self) -> String {
        let all: u64 = self.by_reason.values().sum();
        let mut text = if all == 0 && self.missed {
            "Warning events not known".to_owned()
        } else if all == 0 {
            "no Warning events".to_owned()
        } else {
            let reasons = self.by_reason.iter();
            let reasons: Vec<String> = reasons
                .map(|(reason, many)| format!("{reason} {}", grouped(*many)))
                .collect();
            format!("{}: {}", counted(all, "Warning event"), reasons.join(", "))
        };
        if self.missed {
            text.push_str(" (the event watch was interrupted)");
        }
        text
    }
}

/// The Warning events of each step that has an end, by the order of the log.
pub(super) fn warnings(view: &RunView<'_>) -> BTreeMap<u32, Warnings> {
    let mut all: BTreeMap<u32, Warnings> = BTreeMap::new();
    let mut open = None;
    for entry in view.events {
        match &entry.event {
            Event::StepStarted { step, .. } => {
                // Done again, it counts anew.
                all.insert(*step, Warnings::default());
                open = Some(*step);
            }
            Event::StepFinished { .. } => open = None,
            Event::Cluster { reported } if reported.type_ == "Warning" => {
                if let Some(warnings) = open.and_then(|step| all.get_mut(&step)) {
                    *warnings
                        .by_reason
                        .entry(reported.reason.clone())
                        .or_default() += 1;
                }
            }
            Event::EventsMissed { .. } => {
                if let Some(warnings) = open.and_then(|step| all.get_mut(&step)) {
                    warnings.missed = true;
                }
            }
            _ => {}
        }
    }
    all
}
