//! Whether a workload is reported by itself or under the tracked workload that owns it.
//!
//! Reading owners is the caller's: a [`Walk`] says whom to read next and what the answer means.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

use super::api::meta::group;
use super::detect::pods::controller_of;
use super::profile::RollUp;

/// What becomes of a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is reported: nothing that is reported owns it.
    Reported,
    /// A reported workload owns it, and tells of it.
    RolledUp,
    /// It is reported, because its owners could not be followed to an end.
    Unresolved,
}

/// What to do next.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Read this owner, and tell what was found.
    Read(OwnerReference),
    /// Nothing: this is the result.
    Done(Outcome),
}

/// Follows the owners of one workload.
#[derive(Clone, Debug)]
pub struct Walk {
    rules: RollUp,
    hops: usize,
}

impl Walk {
    /// Begins at the workload itself.
    #[must_use]
    pub fn begin(rules: RollUp, workload: &ObjectMeta) -> (Self, Step) {
        let mut walk = Self { rules, hops: 0 };
        let step = walk.above(workload);
        (walk, step)
    }

    /// Goes on with the owner that was read; `None` when it does not exist or may not be read.
    ///
    /// `is_reported` tells for a group and a kind whether such objects are reported themselves.
    #[must_use]
    pub fn resume(
        &mut self,
        owner: &OwnerReference,
        found: Option<&ObjectMeta>,
        is_reported: impl FnOnce(&str, &str) -> bool,
    ) -> Step {
        // An object of the same name with another UID is not the owner but a later one.
        let Some(object) = found.filter(|object| object.uid.as_deref() == Some(&owner.uid)) else {
            return Step::Done(Outcome::Unresolved);
        };
        if is_reported(group(&owner.api_version), &owner.kind) {
            return Step::Done(Outcome::RolledUp);
        }
        self.above(object)
    }

    fn above(&mut self, object: &ObjectMeta) -> Step {
        let Some(owner) = controller_of(object) else {
            return Step::Done(Outcome::Reported);
        };
        if self.hops == self.rules.max_hops {
            return Step::Done(Outcome::Unresolved);
        }
        self.hops += 1;
        Step::Read(owner.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owned_by(uid: &str, owner: Option<(&str, &str)>) -> ObjectMeta {
        ObjectMeta {
            uid: Some(uid.to_owned()),
            owner_references: owner.map(|(kind, uid)| {
                vec![OwnerReference {
                    api_version: "example.com/v1".to_owned(),
                    kind: kind.to_owned(),
                    uid: uid.to_owned(),
                    controller: Some(true),
                    ..OwnerReference::default()
                }]
            }),
            ..ObjectMeta::default()
        }
    }

    /// Walks up from the first of `objects`, each of which is owned by the next.
    fn outcome(objects: &[ObjectMeta]) -> Outcome {
        let (mut walk, mut step) = Walk::begin(RollUp { max_hops: 3 }, &objects[0]);
        let mut next = objects[1..].iter();
        while let Step::Read(owner) = step {
            step = walk.resume(&owner, next.next(), |group, kind| {
                (group, kind) == ("example.com", "Root")
            });
        }
        match step {
            Step::Done(outcome) => outcome,
            Step::Read(_) => unreachable!("the loop ends with a result"),
        }
    }

    #[test]
    fn a_workload_is_rolled_up_to_a_reported_owner_at_any_distance() {
        let child = owned_by("c", Some(("Root", "r")));
        assert_eq!(outcome(&[child, owned_by("r", None)]), Outcome::RolledUp);
        let chain = [
            owned_by("c", Some(("Middle", "m"))),
            owned_by("m", Some(("Root", "r"))),
            owned_by("r", None),
        ];
        assert_eq!(outcome(&chain), Outcome::RolledUp);
    }

    #[test]
    fn a_workload_without_reported_owner_is_reported() {
        assert_eq!(outcome(&[owned_by("c", None)]), Outcome::Reported);
        let chain = [owned_by("c", Some(("Other", "o"))), owned_by("o", None)];
        assert_eq!(outcome(&chain), Outcome::Reported);
    }

    #[test]
    fn owners_that_are_gone_replaced_or_too_many_leave_it_unresolved() {
        let child = || owned_by("c", Some(("Root", "r")));
        assert_eq!(outcome(&[child()]), Outcome::Unresolved);
        assert_eq!(
            outcome(&[child(), owned_by("later", None)]),
            Outcome::Unresolved
        );
        let middle = |uid, next| owned_by(uid, Some(("Middle", next)));
        let long = [
            middle("a", "b"),
            middle("b", "c"),
            middle("c", "d"),
            middle("d", "e"),
            owned_by("e", None),
        ];
        assert_eq!(outcome(&long), Outcome::Unresolved);
    }
}
