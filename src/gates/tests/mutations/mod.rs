//! For every check, one change that breaks what it guards and one that removes what it looks at.

mod moves;
mod objects;
mod window;

use std::collections::BTreeSet;

use super::fixture::Case;
use super::result;
use crate::gates::{Severity, catalogue};
use crate::record::Verdict;

type Change = fn(&mut Case);

/// How a check is shown to be one.
struct Mutation {
    id: &'static str,
    step: Option<u32>,
    breaks: Change,
    blinds: Change,
}

/// At a step.
const fn at(step: u32, id: &'static str, breaks: Change, blinds: Change) -> Mutation {
    Mutation {
        id,
        step: Some(step),
        breaks,
        blinds,
    }
}

/// Over the whole run.
const fn over(id: &'static str, breaks: Change, blinds: Change) -> Mutation {
    Mutation {
        id,
        step: None,
        breaks,
        blinds,
    }
}

fn mutations() -> impl Iterator<Item = &'static Mutation> {
    let groups: [&[Mutation]; 3] = [&window::MUTATIONS, &moves::MUTATIONS, &objects::MUTATIONS];
    groups.into_iter().flatten()
}

#[test]
fn every_check_has_a_mutation() {
    let checks: BTreeSet<_> = catalogue().iter().map(|check| check.id).collect();
    let mutated: BTreeSet<_> = mutations().map(|mutation| mutation.id).collect();
    assert_eq!(checks, mutated);
}

#[test]
fn what_is_broken_is_seen() {
    for Mutation {
        id, step, breaks, ..
    } in mutations()
    {
        let mut case = Case::sound();
        breaks(&mut case);
        let result = result(&case, id, *step);
        let check = catalogue().iter().find(|check| check.id == *id);
        let wanted = match check.expect("a check").severity {
            Severity::Gate => (Verdict::Fail, false),
            Severity::Finding => (Verdict::Pass, true),
            Severity::Validity => (Verdict::Invalid, false),
        };
        assert_eq!(
            (result.verdict.clone(), result.finding),
            wanted,
            "{result:#?}"
        );
        assert!(
            result.evaluated > 0 && !result.details.is_empty(),
            "{result:#?}"
        );
    }
}

#[test]
fn what_is_not_looked_at_is_invalid() {
    for Mutation {
        id, step, blinds, ..
    } in mutations()
    {
        let mut case = Case::sound();
        blinds(&mut case);
        let result = result(&case, id, *step);
        assert_eq!(result.verdict, Verdict::Invalid, "{result:#?}");
        assert!(!result.summary.is_empty(), "{result:#?}");
        // This one looks at the others, and there are always some.
        assert!(result.evaluated == 0 || *id == "MET-13", "{result:#?}");
    }
}
