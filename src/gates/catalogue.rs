//! Every check: its id, what it asks, where the rule comes from, how much it weighs, and the steps that
//! it looks at.

use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

use super::seen::Judged;
use super::view::{Evidence, Planned, RunView, StepView};
use super::{
    cleanup, config, convergence, crds, data, events, install, measurement, moves, restart, steady,
};
use crate::record::CheckResult;
use crate::record::StepKind::{
    self, Cleanup, Config, Crds, Hold, Install, Load, Restart, Rollback, Steady, Uninstall, Upgrade,
};
use crate::scenario::{Expect, Outlook};

/// How much a check weighs, unless the scenario says otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// What does not hold is a FAIL.
    Gate,
    /// What does not hold is told, and decides nothing.
    Finding,
    /// It is about the measurement: where it does not hold, no verdict is given (INVALID).
    Validity,
}

/// A check of one step.
pub(super) type StepJudge = fn(&StepView<'_>) -> Judged;
/// Why a check does not apply to a step, decided by what is planned alone.
pub(super) type StepApplies = fn(&Planned<'_>) -> Option<&'static str>;

/// A check of the run as a whole.
pub(super) type RunJudge = fn(&RunView<'_>) -> Judged;
/// Why a check of the run does not apply, decided by what is planned alone.
pub(super) type RunApplies = fn(&[Outlook]) -> Option<&'static str>;

/// What a check looks at.
#[derive(Clone, Copy)]
pub(super) enum Judge {
    /// Every step of these kinds.
    Steps(&'static [StepKind], StepApplies, StepJudge),
    /// The run as a whole.
    Run(RunApplies, RunJudge),
    /// All other results.
    Results(fn(&Evidence<'_>, &[CheckResult]) -> Judged),
}

/// One check.
#[derive(Clone)]
pub struct Check {
    /// Its id in `qualification.md` B.
    pub id: &'static str,
    /// What holds when it passes.
    pub title: &'static str,
    /// Where the rule comes from.
    pub source: &'static str,
    /// How much it weighs.
    pub severity: Severity,
    pub(super) judges: &'static [Judge],
}

impl Check {
    /// The kinds of steps that it looks at; none when it only looks at the run as a whole.
    #[must_use]
    pub fn steps(&self) -> &'static [StepKind] {
        let steps = self.judges.iter().find_map(|judge| match judge {
            Judge::Steps(kinds, ..) => Some(*kinds),
            Judge::Run(..) | Judge::Results(_) => None,
        });
        steps.unwrap_or_default()
    }

    /// Whether it looks at the run as a whole.
    #[must_use]
    pub fn whole_run(&self) -> bool {
        let mut judges = self.judges.iter();
        judges.any(|judge| !matches!(judge, Judge::Steps(..)))
    }
}

impl std::fmt::Debug for Check {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Check")
            .field("id", &self.id)
            .field("title", &self.title)
            .field("source", &self.source)
            .field("severity", &self.severity)
            .field("steps", &self.steps())
            .finish_non_exhaustive()
    }
}

pub(super) const MOVES: &[StepKind] = &[Upgrade, Rollback];
pub(super) const ALL_MOVES: &[StepKind] = &[Install, Upgrade, Rollback];
pub(super) const ROLLOUTS: &[StepKind] = &[Upgrade, Rollback, Restart];
pub(super) const RUNNING: &[StepKind] = &[
    Install, Load, Upgrade, Rollback, Crds, Steady, Restart, Config, Hold,
];
pub(super) const KEEPING: &[StepKind] = &[
    Upgrade, Rollback, Crds, Steady, Restart, Config, Hold, Uninstall,
];
pub(super) const KEEPING_OR_LOAD: &[StepKind] = &[
    Load, Upgrade, Rollback, Crds, Steady, Restart, Config, Hold, Uninstall,
];
pub(super) const DEFINED: &[StepKind] = &[
    Install, Load, Upgrade, Rollback, Crds, Steady, Restart, Config, Hold, Uninstall,
];
pub(super) const MEASURED: &[StepKind] = &[Install, Upgrade, Rollback, Restart, Steady];
pub(super) const WATCHED: &[StepKind] = &[
    Install, Load, Upgrade, Rollback, Crds, Steady, Restart, Config, Hold, Uninstall, Cleanup,
];

/// A check that always applies.
pub(super) fn always(_: &Planned<'_>) -> Option<&'static str> {
    None
}

pub(super) fn with_aiboms_before(planned: &Planned<'_>) -> Option<&'static str> {
    (planned.aiboms_before() == 0).then_some("the plan has no AIBOM before the step")
}

pub(super) fn with_aiboms(planned: &Planned<'_>) -> Option<&'static str> {
    (planned.outlook.aiboms == 0).then_some("the plan has no AIBOM yet")
}

pub(super) fn with_controller(planned: &Planned<'_>) -> Option<&'static str> {
    let chart = planned.outlook.chart.as_ref();
    chart
        .is_none()
        .then_some("the plan runs no controller here")
}

/// A controller that is given its own definitions may well notice; others' must not disturb it.
pub(super) fn with_foreign_definitions(planned: &Planned<'_>) -> Option<&'static str> {
    let running = planned.before.and_then(|outlook| outlook.chart.as_ref());
    if running.is_none() {
        return Some("the plan runs no controller here");
    }
    let own = running == planned.outlook.crds.as_ref();
    own.then_some("the definitions are those of the running chart")
}

/// A rollout that is to stall, by the scenario's own words, leads to no new process at work.
pub(super) fn with_new_process(planned: &Planned<'_>) -> Option<&'static str> {
    let mut expectations = planned.run.plan.expectations.iter();
    let stalls = expectations.any(|expectation| {
        ["INS-06", "UPG-03"].contains(&expectation.check.as_str())
            && expectation.expect == Expect::Fail
            && expectation.step.is_none_or(|step| step == planned.number)
    });
    let moves = MEASURED.contains(&planned.kind()) && planned.kind() != Steady;
    (stalls && moves).then_some("the scenario expects the rollout to stall")
}

pub(super) fn with_walked_aiboms(planned: &Planned<'_>) -> Option<&'static str> {
    with_aiboms_before(planned).or_else(|| with_new_process(planned))
}

pub(super) fn with_definitions(planned: &Planned<'_>) -> Option<&'static str> {
    let crds = planned.outlook.crds.as_ref();
    crds.is_none().then_some("the plan has no definitions yet")
}

pub(super) fn with_running_aiboms(planned: &Planned<'_>) -> Option<&'static str> {
    with_controller(planned).or_else(|| with_aiboms(planned))
}

static CATALOGUE: LazyLock<Vec<Check>> = LazyLock::new(|| {
    let groups: [&[Check]; 11] = [
        &measurement::CHECKS,
        &install::CHECKS,
        &convergence::CHECKS,
        &moves::CHECKS,
        &data::CHECKS,
        &crds::CHECKS,
        &steady::CHECKS,
        &restart::CHECKS,
        &config::CHECKS,
        &events::CHECKS,
        &cleanup::CHECKS,
    ];
    groups.concat()
});

/// All checks, in the order of their groups.
#[must_use]
pub fn catalogue() -> &'static [Check] {
    &CATALOGUE
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_id_is_well_formed_and_there_once() {
        let ids: BTreeSet<_> = catalogue().iter().map(|check| check.id).collect();
        assert_eq!(ids.len(), catalogue().len());
        for id in ids {
            let (group, number) = id.split_once('-').expect("GROUP-NUMBER");
            assert!(group.len() == 3 && group.chars().all(|letter| letter.is_ascii_uppercase()));
            assert!(number.len() == 2 && number.parse::<u8>().is_ok(), "{id}");
        }
    }

    #[test]
    fn every_check_looks_at_something() {
        for check in catalogue() {
            assert!(check.whole_run() || !check.steps().is_empty(), "{check:?}");
            assert!(
                !check.title.is_empty() && check.source.contains("B."),
                "{check:?}"
            );
        }
    }
}
