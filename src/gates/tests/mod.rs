//! The rules on sound evidence, and on evidence that is broken in one place.

mod fixture;
mod mutations;
mod rules;

use self::fixture::Case;
use crate::record::{CheckResult, Verdict};

/// What this check came to at this step.
#[track_caller]
fn result(case: &Case, id: &str, step: Option<u32>) -> CheckResult {
    let results = case.results();
    let found = results
        .into_iter()
        .find(|result| result.id == id && result.step == step);
    found.unwrap_or_else(|| panic!("{id} does not look at step {step:?}"))
}

#[track_caller]
fn verdict(case: &Case, id: &str, step: Option<u32>) -> Verdict {
    result(case, id, step).verdict
}
