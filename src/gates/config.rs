//! The configuration's conditions: the CFG checks (`qualification.md` B.9).

use super::catalogue::Severity::Gate;
use super::catalogue::{Check, Judge, RUNNING, with_controller};
use super::seen::{Faults, Judged, Seen, count};
use super::view::StepView;
use crate::record::ConditionStatus;

/// The checks of this module.
pub(super) static CHECKS: [Check; 4] = [
    Check {
        id: "CFG-01",
        title: "the configuration's status is of its generation",
        source: "qualification.md B.9",
        severity: Gate,
        judges: &[Judge::Steps(RUNNING, with_controller, current)],
    },
    Check {
        id: "CFG-02",
        title: "the configuration is Ready",
        source: "qualification.md B.9",
        severity: Gate,
        judges: &[Judge::Steps(RUNNING, with_controller, ready)],
    },
    Check {
        id: "CFG-03",
        title: "the configuration is not Degraded",
        source: "qualification.md B.9",
        severity: Gate,
        judges: &[Judge::Steps(RUNNING, with_controller, not_degraded)],
    },
    Check {
        id: "CFG-06",
        title: "Degraded only for a documented reason",
        source: "qualification.md B.9",
        severity: Gate,
        judges: &[Judge::Steps(RUNNING, with_controller, known_reason)],
    },
];

const MISSING: &str = "configuration object";

/// CFG-01.
fn current(view: &StepView<'_>) -> Judged {
    let Some(config) = &view.after()?.config else {
        return Seen::missing(MISSING);
    };
    let wanted = Some(config.generation);
    let mut faults = Faults::default();
    faults.unless(config.observed_generation == wanted, || {
        format!("the status is not of generation {}", config.generation)
    });
    for condition in &config.conditions {
        faults.unless(condition.observed_generation == wanted, || {
            format!(
                "{} is not of generation {}",
                condition.type_, config.generation
            )
        });
    }
    let summary = format!("generation {}", config.generation);
    Ok(Seen::new(1 + count(&config.conditions), faults.0, summary))
}

/// CFG-02.
fn ready(view: &StepView<'_>) -> Judged {
    condition(view, "Ready", ConditionStatus::True, Some("ConfigLoaded"))
}

/// CFG-03. A condition that is absent is not False.
fn not_degraded(view: &StepView<'_>) -> Judged {
    condition(view, "Degraded", ConditionStatus::False, None)
}

fn condition(
    view: &StepView<'_>,
    type_: &str,
    status: ConditionStatus,
    reason: Option<&str>,
) -> Judged {
    let Some(config) = &view.after()?.config else {
        return Seen::missing(MISSING);
    };
    let Some(found) = config.condition(type_) else {
        return Seen::missing(&format!("condition {type_}"));
    };
    let told = format!("{type_}={:?}, {}", found.status, found.reason);
    let mut faults = Faults::default();
    let holds = found.status == status && reason.is_none_or(|reason| found.reason == reason);
    faults.unless(holds, || format!("{told}: {}", found.message));
    Ok(Seen::new(1, faults.0, told))
}

/// CFG-06.
fn known_reason(view: &StepView<'_>) -> Judged {
    let (_, release) = view.costs()?;
    let Some(config) = &view.after()?.config else {
        return Seen::missing(MISSING);
    };
    let degraded = config.condition("Degraded");
    let degraded = degraded.filter(|known| known.status == ConditionStatus::True);
    let mut faults = Faults::default();
    if let Some(found) = degraded {
        faults.unless(release.degraded.contains(&found.reason.as_str()), || {
            format!("Degraded for {}: {}", found.reason, found.message)
        });
    }
    let summary = match degraded {
        Some(found) => format!("Degraded for {}", found.reason),
        None => "not Degraded".to_owned(),
    };
    Ok(Seen::new(1, faults.0, summary))
}
