//! Warnings: the EVT checks (`qualification.md` B.10).
//!
//! In scope is what happens in the release's namespace, in namespaces with workloads, and to the
//! configuration object, which is outside of namespaces.

use super::catalogue::Severity::Gate;
use super::catalogue::{Check, Judge, WATCHED, always};
use super::seen::{Blind, Judged, Seen, count};
use super::view::{StepView, costs_of};
use crate::record::{KubernetesEvent, StepKind, grouped};
use crate::subject::cost::{Costs, KnownWarning};

/// The checks of this module.
pub(super) static CHECKS: [Check; 2] = [
    Check {
        id: "EVT-01",
        title: "no Warning was seen",
        source: "qualification.md B.10",
        severity: Gate,
        judges: &[Judge::Steps(WATCHED, always, no_warning)],
    },
    Check {
        id: "EVT-02",
        title: "documented Warnings come only where they may",
        source: "qualification.md B.10",
        severity: Gate,
        judges: &[Judge::Steps(WATCHED, always, in_place)],
    },
];

/// EVT-01.
fn no_warning(view: &StepView<'_>) -> Judged {
    let seen = Reported::of(view)?;
    let warnings = seen.warnings().filter(|event| !seen.allowed(event));
    let faults: Vec<_> = warnings.map(told).collect();
    let allowed = seen.warnings().count() - faults.len();
    let mut summary = format!(
        "{} Warnings seen among {} events",
        faults.len(),
        grouped(count(&seen.events))
    );
    if allowed > 0 {
        summary = format!("{summary}, and {allowed} that are documented");
    }
    // The watch itself was looked through, also when it had nothing to say.
    Ok(Seen::new(1 + count(&seen.events), faults, summary))
}

/// EVT-02.
fn in_place(view: &StepView<'_>) -> Judged {
    let seen = Reported::of(view)?;
    let documented = seen.warnings().filter(|event| seen.documented(event));
    let misplaced = documented.clone().filter(|event| !seen.allowed(event));
    let faults: Vec<_> = misplaced.map(told).collect();
    let summary = format!("{} documented Warnings", documented.count());
    Ok(Seen::new(1 + count(&seen.events), faults, summary))
}

fn told(event: &KubernetesEvent) -> String {
    format!(
        "{} {}/{}: {}, {} times: {}",
        event.kind, event.namespace, event.name, event.reason, event.count, event.message
    )
}

/// What was reported in a step, and what may be.
struct Reported<'a> {
    kind: StepKind,
    costs: &'static Costs,
    events: Vec<&'a KubernetesEvent>,
}

impl<'a> Reported<'a> {
    fn of(view: &StepView<'a>) -> Result<Self, Blind> {
        let log = view.log.filter(|log| log.whole);
        let log = log.ok_or_else(|| Blind::new("the log does not have the whole step"))?;
        if let Some(reason) = log.missed.first() {
            return Err(Blind::new(format!("events may have been missed: {reason}")));
        }
        let run = view.planned.run;
        let chart = run.charts.values().next();
        let costs = costs_of(chart.ok_or_else(|| Blind::new("no chart was read"))?)?;
        let in_scope = |event: &&KubernetesEvent| {
            event.namespace == run.plan.namespace
                || view.opted_in.contains(event.namespace.as_str())
                || event.kind == costs.subject.config_kind
        };
        let events: Vec<_> = log.reported.iter().copied().filter(in_scope).collect();
        let kind = view.kind();
        if events.is_empty() && (kind.is_move() || kind == StepKind::Restart) {
            let why = "no event was seen, though a pod was started: the watch is blind";
            return Err(Blind::new(why));
        }
        Ok(Self {
            kind,
            costs,
            events,
        })
    }

    fn warnings(&self) -> impl Iterator<Item = &'a KubernetesEvent> + Clone {
        let events = self.events.iter().copied();
        let warnings: Vec<_> = events.filter(|event| event.type_ == "Warning").collect();
        warnings.into_iter()
    }

    fn documented(&self, event: &KubernetesEvent) -> bool {
        let mut known = self.costs.warnings.iter();
        known.any(|known| known.reason == event.reason)
    }

    fn allowed(&self, event: &KubernetesEvent) -> bool {
        let mut known = self.costs.warnings.iter();
        known.any(|known: &KnownWarning| {
            let mut messages = known.messages.iter();
            known.reason == event.reason
                && known.steps.contains(&self.kind)
                && known.about.is_none_or(|kind| event.kind == kind)
                && (known.messages.is_empty()
                    || messages.any(|start| event.message.starts_with(start)))
        })
    }
}
