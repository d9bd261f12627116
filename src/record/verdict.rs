//! Verdicts (`design.md` 2).

use serde::{Deserialize, Serialize};

/// What a check came to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING-KEBAB-CASE")]
pub enum Verdict {
    /// What was to hold does.
    Pass,
    /// It does not.
    Fail,
    /// The measurement itself is not sound, or nothing was looked at: no verdict is given.
    Invalid,
    /// A failure that the scenario declares, and that did happen.
    Expected,
    /// Decided from the plan and the environment before the run; the reason is in the summary.
    NotApplicable,
}

/// What one check came to, at one step or over the whole run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CheckResult {
    /// Its id in `qualification.md` B, for example `DAT-03`.
    pub id: String,
    /// The step that it is about; [`None`] when it is about the whole run.
    pub step: Option<u32>,
    /// The verdict.
    pub verdict: Verdict,
    /// How many objects or numbers were looked at (MET-13).
    pub evaluated: u64,
    /// Whether it is [`Verdict::Pass`] only because the check is a finding: what it guards does not hold,
    /// which is told but decides nothing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub finding: bool,
    /// The measured value, or what is wrong, in a line: `1,002 of 1,002 equal`.
    pub summary: String,
    /// Every object that is at fault, or every reason, one line each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub details: Vec<String>,
}
