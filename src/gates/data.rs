//! Data preservation: the DAT checks (`qualification.md` B.5).

use std::collections::{BTreeMap, BTreeSet};

use super::catalogue::Severity::{Gate, Validity};
use super::catalogue::{
    Check, Judge, KEEPING, KEEPING_OR_LOAD, ROLLOUTS, with_aiboms_before, with_walked_aiboms,
};
use super::seen::{Blind, Faults, Judged, Seen, count, each, of};
use super::view::{RunView, StepView};
use crate::compare;
use crate::record::{StepKind, grouped};
use crate::scenario::Outlook;

/// The checks of this module.
pub(super) static CHECKS: [Check; 9] = [
    Check {
        id: "DAT-01",
        title: "no AIBOM lost, none added",
        source: "qualification.md B.5",
        severity: Gate,
        judges: &[Judge::Steps(KEEPING_OR_LOAD, with_aiboms_before, names)],
    },
    Check {
        id: "DAT-02",
        title: "every AIBOM is the same object",
        source: "qualification.md B.5",
        severity: Gate,
        judges: &[Judge::Steps(KEEPING_OR_LOAD, with_aiboms_before, uids)],
    },
    Check {
        id: "DAT-03",
        title: "every inputHash is kept",
        source: "qualification.md B.5",
        severity: Gate,
        judges: &[Judge::Steps(
            KEEPING_OR_LOAD,
            with_aiboms_before,
            input_hashes,
        )],
    },
    Check {
        id: "DAT-04",
        title: "no AIBOM was rebuilt without a reason",
        source: "qualification.md B.5",
        severity: Gate,
        judges: &[Judge::Steps(
            KEEPING_OR_LOAD,
            with_aiboms_before,
            bom_hashes,
        )],
    },
    Check {
        id: "DAT-05",
        title: "every AIBOM keeps both hashes, at every step and over every round trip",
        source: "qualification.md B.5, G.3",
        severity: Gate,
        judges: &[
            Judge::Steps(KEEPING_OR_LOAD, with_aiboms_before, classes),
            Judge::Run(with_round_trips, round_trips),
        ],
    },
    Check {
        id: "DAT-06",
        title: "every document says the same",
        source: "qualification.md B.5",
        severity: Gate,
        judges: &[Judge::Steps(KEEPING, with_aiboms_before, documents)],
    },
    Check {
        id: "DAT-07",
        title: "the new process walked every AIBOM",
        source: "qualification.md B.5",
        severity: Gate,
        judges: &[Judge::Steps(ROLLOUTS, with_walked_aiboms, walked)],
    },
    Check {
        id: "DAT-08",
        title: "no condition changed where nothing was rebuilt",
        source: "qualification.md B.5",
        severity: Gate,
        judges: &[Judge::Steps(KEEPING, with_aiboms_before, conditions)],
    },
    Check {
        id: "DAT-12",
        title: "every step has its snapshot",
        source: "qualification.md B.5",
        severity: Validity,
        judges: &[Judge::Run(|_| None, snapshots)],
    },
];

/// DAT-01. A load adds AIBOMs; whether the right ones, is CNV-01's business.
fn names(view: &StepView<'_>) -> Judged {
    let diff = view.diff()?;
    let mut faults = each(&diff.lost, "lost");
    if view.kind() != StepKind::Load {
        faults.extend(each(&diff.added, "added"));
    }
    let mut summary = of(diff.common, diff.before, "kept");
    if !diff.added.is_empty() {
        summary = format!("{summary}, {} added", grouped(count(&diff.added)));
    }
    Ok(Seen::new(diff.before, faults, summary))
}

/// DAT-02. The controlling owner belongs to the identity as well.
fn uids(view: &StepView<'_>) -> Judged {
    let diff = view.diff()?;
    let mut faults = each(&diff.uid_changed, "another object");
    faults.extend(each(&diff.owner_changed, "another owner"));
    let kept = diff.common - count(&diff.uid_changed);
    Ok(Seen::new(
        diff.common,
        faults,
        of(kept, diff.common, "UIDs kept"),
    ))
}

/// DAT-03. Hashes that are absent at both ends are not equal but unknown.
fn input_hashes(view: &StepView<'_>) -> Judged {
    let diff = view.diff()?;
    let mut faults = each(&diff.changed_changed, "inputHash changed, document rebuilt");
    faults.extend(each(&diff.changed_same, "inputHash changed, bomHash kept"));
    let all = diff.classed();
    let summary = of(all - count(&faults), all, "inputHashes kept");
    known(&diff.unhashed, Seen::new(all, faults, summary))
}

/// DAT-04. An equal `bomHash` proves that nothing was rebuilt, and no more than that.
fn bom_hashes(view: &StepView<'_>) -> Judged {
    let diff = view.diff()?;
    let faults = each(&diff.same_changed, "rebuilt though its inputHash is kept");
    let all = diff.same_same + count(&faults);
    let summary = of(diff.same_same, all, "of equal inputHash not rebuilt");
    known(&diff.unhashed, Seen::new(all, faults, summary))
}

/// DAT-05, at a step.
fn classes(view: &StepView<'_>) -> Judged {
    let diff = view.diff()?;
    known(&diff.unhashed, of_classes(diff))
}

fn of_classes(diff: &compare::Diff) -> Seen {
    let mut faults = each(&diff.same_changed, "same/changed");
    faults.extend(each(&diff.changed_changed, "changed/changed"));
    faults.extend(each(&diff.changed_same, "changed/same"));
    let all = diff.classed();
    Seen::new(
        all,
        faults,
        of(diff.same_same, all, "kept inputHash and bomHash"),
    )
}

/// A fault is one whatever else is unknown; but where something is, nothing is proven.
fn known<T: std::fmt::Display>(unhashed: &[T], seen: Seen) -> Judged {
    match unhashed {
        [first, ..] if seen.faults.is_empty() => Err(Blind::new(format!(
            "{} AIBOMs have no hash to compare, {first} for one",
            grouped(count(unhashed))
        ))),
        _ => Ok(seen),
    }
}

/// DAT-06.
fn documents(view: &StepView<'_>) -> Judged {
    let diff = view.diff()?;
    let faults = each(&diff.document_drift, "the document says something else");
    let same = diff.documents - count(&faults);
    let summary = of(same, diff.documents, "documents say the same");
    Ok(Seen::new(diff.documents, faults, summary))
}

/// DAT-07. Later than before the step, and later than the start of the new process.
fn walked(view: &StepView<'_>) -> Judged {
    let diff = view.diff()?;
    let stale = diff.not_advanced.iter().map(ToString::to_string);
    let unwalked = view.restart()?.not_walked.iter().cloned();
    let stale: Vec<_> = stale
        .chain(unwalked)
        .collect::<BTreeSet<_>>()
        .into_iter()
        .collect();
    let faults = each(&stale, "lastReconciled did not advance");
    let advanced = diff.common.saturating_sub(count(&faults));
    Ok(Seen::new(
        diff.common,
        faults,
        of(advanced, diff.common, "walked"),
    ))
}

/// DAT-08. Only what was rebuilt writes its conditions anew.
fn conditions(view: &StepView<'_>) -> Judged {
    let diff = view.diff()?;
    let faults = each(&diff.conditions_changed, "conditions changed");
    let same = diff.not_rebuilt - count(&faults);
    let summary = of(same, diff.not_rebuilt, "conditions unchanged");
    Ok(Seen::new(diff.not_rebuilt, faults, summary))
}

/// The round trips of DAT-05 need some in the plan.
fn with_round_trips(outlook: &[Outlook]) -> Option<&'static str> {
    let trips = compare::round_trips(outlook, &BTreeMap::new());
    trips.is_empty().then_some("the plan has no round trip")
}

/// DAT-05, over round trips.
fn round_trips(run: &RunView<'_>) -> Judged {
    let trips = compare::round_trips(run.outlook, run.evidence.snapshots);
    let (mut all, mut kept) = (0, 0);
    let mut faults = Vec::new();
    for trip in &trips {
        let way = format!("steps {} to {}", trip.from, trip.to);
        let diff = trip.diff.as_ref();
        let diff = diff.ok_or_else(|| Blind::new(format!("{way}: an end was not observed")))?;
        let seen = known(&diff.unhashed, of_classes(diff))?;
        all += seen.evaluated;
        kept += diff.same_same;
        let told = seen.faults.into_iter().chain(each(&diff.lost, "lost"));
        faults.extend(told.map(|fault| format!("{way}: {fault}")));
    }
    let summary = format!(
        "{} round trips: {}",
        trips.len(),
        of(kept, all, "kept inputHash and bomHash")
    );
    Ok(Seen::new(all, faults, summary))
}

/// DAT-12.
fn snapshots(run: &RunView<'_>) -> Judged {
    let mut faults = Faults::default();
    for record in run.evidence.steps {
        let there = run.evidence.snapshots.contains_key(&record.step);
        faults.unless(there, || {
            format!("step {}, {}: no snapshot", record.step, record.kind)
        });
    }
    let steps = count(run.evidence.steps);
    let summary = of(steps - count(&faults.0), steps, "steps have a snapshot");
    Ok(Seen::new(steps, faults.0, summary))
}
