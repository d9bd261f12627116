//! What a run came to: every verdict that is not PASS in full, the others by their number.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use super::RunView;
use crate::record::{CheckResult, Verdict};

/// What a run came to as a whole (`design.md` 4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "SCREAMING-KEBAB-CASE")]
pub enum Standing {
    /// All gates passed.
    Pass,
    /// At least one gate failed.
    Fail,
    /// The measurement is not sound.
    Invalid,
    /// It could not go on.
    CouldNotRun,
    /// Somebody ended it.
    Interrupted,
    /// It was ended from outside, or is under way.
    Unfinished,
}

impl Standing {
    /// What an exit code stands for; [`None`] when the run did not end by itself.
    #[must_use]
    pub fn of(exit: Option<u8>) -> Self {
        match exit {
            None => Self::Unfinished,
            Some(0) => Self::Pass,
            Some(1) => Self::Fail,
            Some(3) => Self::Invalid,
            Some(130) => Self::Interrupted,
            Some(_) => Self::CouldNotRun,
        }
    }
}

impl fmt::Display for Standing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Pass => "PASS",
            Self::Fail => "FAIL",
            Self::Invalid => "INVALID",
            Self::CouldNotRun => "could not run",
            Self::Interrupted => "interrupted",
            Self::Unfinished => "unfinished",
        })
    }
}

/// How many checks of a group came to what.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GroupRow {
    /// What the ids begin with, for example `DAT`.
    pub group: String,
    /// What it is about.
    pub title: String,
    /// PASS, without those that are findings.
    pub pass: u64,
    /// PASS of a check that is only told: what it guards does not hold.
    pub finding: u64,
    /// FAIL.
    pub fail: u64,
    /// INVALID.
    pub invalid: u64,
    /// EXPECTED.
    pub expected: u64,
    /// NOT-APPLICABLE.
    pub not_applicable: u64,
}

/// The verdicts of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Verdicts {
    /// What it came to as a whole.
    pub standing: Standing,
    /// The exit code of the run, if it ended by itself.
    pub exit: Option<u8>,
    /// Why it could not go on, if so.
    pub aborted: Option<String>,
    /// All of them, by group.
    pub groups: Vec<GroupRow>,
    /// Those that are not PASS, and findings: the worst first, then by step.
    pub told: Vec<CheckResult>,
    /// All of them, in the order of the run.
    pub checks: Vec<CheckResult>,
}

impl Verdicts {
    /// The sums over all groups.
    pub(super) fn total(&self) -> GroupRow {
        self.groups
            .iter()
            .fold(GroupRow::default(), |mut total, group| {
                total.pass += group.pass;
                total.finding += group.finding;
                total.fail += group.fail;
                total.invalid += group.invalid;
                total.expected += group.expected;
                total.not_applicable += group.not_applicable;
                total
            })
    }
}

/// In words, as reports print it.
pub(super) fn words(check: &CheckResult) -> &'static str {
    match check.verdict {
        Verdict::Pass if check.finding => "finding",
        Verdict::Pass => "PASS",
        Verdict::Fail => "FAIL",
        Verdict::Invalid => "INVALID",
        Verdict::Expected => "EXPECTED",
        Verdict::NotApplicable => "NOT-APPLICABLE",
    }
}

/// The group that a check belongs to: what its id begins with.
pub(super) fn group(id: &str) -> &str {
    id.split_once('-').map_or(id, |(group, _)| group)
}

/// What the checks of a group are about (`qualification.md` B).
fn title(group: &str) -> &'static str {
    match group {
        "MET" => "the measurement itself",
        "ART" => "charts, images and values",
        "INS" => "install",
        "CNV" => "convergence of the load",
        "UPG" => "upgrades and rollbacks",
        "DAT" => "data preservation",
        "CRD" => "definitions",
        "STS" => "steady state",
        "RST" => "restart cost",
        "CFG" => "configuration and its conditions",
        "EVT" => "events",
        "RDY" => "readiness",
        "NSP" => "namespaces",
        "SEC" => "permissions and security",
        "RES" => "resources",
        "UNI" => "uninstall",
        "REI" => "reinstall",
        "CLN" => "clean-up",
        _ => "",
    }
}

/// Counts and sorts.
pub(super) fn verdicts(view: &RunView<'_>) -> Verdicts {
    let outcome = view.run.outcome.as_ref();
    let exit = outcome.map(|outcome| outcome.exit);
    let mut groups: Vec<GroupRow> = Vec::new();
    let mut places: BTreeMap<&str, usize> = BTreeMap::new();
    for check in view.checks {
        let name = group(&check.id);
        let place = *places.entry(name).or_insert_with(|| {
            groups.push(GroupRow {
                group: name.to_owned(),
                title: title(name).to_owned(),
                ..GroupRow::default()
            });
            groups.len() - 1
        });
        let row = &mut groups[place];
        *match check.verdict {
            Verdict::Pass if check.finding => &mut row.finding,
            Verdict::Pass => &mut row.pass,
            Verdict::Fail => &mut row.fail,
            Verdict::Invalid => &mut row.invalid,
            Verdict::Expected => &mut row.expected,
            Verdict::NotApplicable => &mut row.not_applicable,
        } += 1;
    }
    let mut told: Vec<CheckResult> = view
        .checks
        .iter()
        .filter(|check| check.finding || check.verdict != Verdict::Pass)
        .cloned()
        .collect();
    told.sort_by(|one, other| {
        let key = |check: &CheckResult| (weight(check), check.step);
        key(one)
            .cmp(&key(other))
            .then_with(|| one.id.cmp(&other.id))
    });
    Verdicts {
        standing: Standing::of(exit),
        exit,
        aborted: outcome.and_then(|outcome| outcome.aborted.clone()),
        groups,
        told,
        checks: view.checks.to_vec(),
    }
}

fn weight(check: &CheckResult) -> u8 {
    match check.verdict {
        Verdict::Fail => 0,
        Verdict::Invalid => 1,
        Verdict::Pass => 2,
        Verdict::Expected => 3,
        Verdict::NotApplicable => 4,
    }
}
