//! Two snapshots, AIBOM by AIBOM.

use std::cmp::Ordering;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::record::{AibomState, DocumentState, Snapshot};

/// The name of an AIBOM. It is written as `NAMESPACE/NAME`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AibomName {
    /// Its namespace.
    pub namespace: String,
    /// Its name there.
    pub name: String,
}

impl fmt::Display for AibomName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

impl From<&AibomState> for AibomName {
    fn from(aibom: &AibomState) -> Self {
        Self {
            namespace: aibom.namespace.clone(),
            name: aibom.name.clone(),
        }
    }
}

/// What differs between the AIBOMs of two snapshots (`qualification.md` B.5). Every list is sorted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Diff {
    /// AIBOMs before.
    pub before: u64,
    /// AIBOMs after.
    pub after: u64,
    /// AIBOMs of the same name in both; the rest of this is about them.
    pub common: u64,
    /// Only before (DAT-01).
    pub lost: Vec<AibomName>,
    /// Only after (DAT-01).
    pub added: Vec<AibomName>,
    /// Another object under the same name (DAT-02).
    pub uid_changed: Vec<AibomName>,
    /// Owned by another object.
    pub owner_changed: Vec<AibomName>,
    /// How many kept both hashes: nothing changed, nothing was rebuilt (DAT-05).
    pub same_same: u64,
    /// Equal `inputHash`, other `bomHash`: rebuilt without a reason (DAT-04).
    pub same_changed: Vec<AibomName>,
    /// Both hashes are others (DAT-03).
    pub changed_changed: Vec<AibomName>,
    /// Other `inputHash`, equal `bomHash` (DAT-03).
    pub changed_same: Vec<AibomName>,
    /// Without one of the hashes before as well as after: they belong to no class.
    pub unhashed: Vec<AibomName>,
    /// How many documents could be compared.
    pub documents: u64,
    /// Documents that differ in more than the time of their generation (DAT-06).
    pub document_drift: Vec<AibomName>,
    /// How many were not rebuilt: those of equal `bomHash`.
    pub not_rebuilt: u64,
    /// Not rebuilt, but with other conditions, times of transition included (DAT-08).
    pub conditions_changed: Vec<AibomName>,
    /// `status.lastReconciled` is not later than before (DAT-07).
    pub not_advanced: Vec<AibomName>,
}

impl Diff {
    /// How many belong to one of the four classes.
    #[must_use]
    pub fn classed(&self) -> u64 {
        let others = [
            &self.same_changed,
            &self.changed_changed,
            &self.changed_same,
        ];
        self.same_same + others.into_iter().map(|names| count(names)).sum::<u64>()
    }

    fn pair(&mut self, before: &AibomState, after: &AibomState) {
        self.common += 1;
        let name = || AibomName::from(after);
        if before.uid != after.uid {
            self.uid_changed.push(name());
        }
        if before.owner != after.owner {
            self.owner_changed.push(name());
        }
        let advanced = match (before.last_reconciled, after.last_reconciled) {
            (Some(before), Some(after)) => after > before,
            (None, after) => after.is_some(),
            (Some(_), None) => false,
        };
        if !advanced {
            self.not_advanced.push(name());
        }
        match same(&before.document, &after.document) {
            Some(true) => self.documents += 1,
            Some(false) => {
                self.documents += 1;
                self.document_drift.push(name());
            }
            None => {}
        }
        let input = Hashes::of(before.input_hash.as_ref(), after.input_hash.as_ref());
        let bom = Hashes::of(before.bom_hash.as_ref(), after.bom_hash.as_ref());
        match (input, bom) {
            (Hashes::Absent, _) | (_, Hashes::Absent) => self.unhashed.push(name()),
            (Hashes::Same, Hashes::Same) => self.same_same += 1,
            (Hashes::Same, Hashes::Changed) => self.same_changed.push(name()),
            (Hashes::Changed, Hashes::Changed) => self.changed_changed.push(name()),
            (Hashes::Changed, Hashes::Same) => self.changed_same.push(name()),
        }
        if matches!(bom, Hashes::Same) {
            self.not_rebuilt += 1;
            if before.conditions_sha256 != after.conditions_sha256 {
                self.conditions_changed.push(name());
            }
        }
    }
}

#[derive(Clone, Copy)]
enum Hashes {
    Same,
    Changed,
    /// Absent at both ends: equal, but of nothing.
    Absent,
}

impl Hashes {
    fn of(before: Option<&String>, after: Option<&String>) -> Self {
        match (before, after) {
            (None, None) => Self::Absent,
            _ if before == after => Self::Same,
            _ => Self::Changed,
        }
    }
}

/// Whether two documents say the same; [`None`] when neither can be read.
fn same(before: &DocumentState, after: &DocumentState) -> Option<bool> {
    let canonical = |document: &DocumentState| match document {
        DocumentState::Inline {
            canonical_sha256, ..
        } => Some(canonical_sha256.clone()),
        DocumentState::Truncated | DocumentState::Absent | DocumentState::Unreadable { .. } => None,
    };
    match (canonical(before), canonical(after)) {
        (None, None) => None,
        (before, after) => Some(before == after),
    }
}

/// What differs between the AIBOMs of two snapshots. The work is that of a merge: lists come sorted,
/// as [`AibomList`](crate::record::AibomList) wants them; another order costs a sort, not the truth.
#[must_use]
pub fn diff(before: &Snapshot, after: &Snapshot) -> Diff {
    let (old, new) = (sorted(before), sorted(after));
    let mut diff = Diff {
        before: count(&old),
        after: count(&new),
        ..Diff::default()
    };
    let (mut old, mut new) = (old.into_iter().peekable(), new.into_iter().peekable());
    loop {
        let order = match (old.peek(), new.peek()) {
            (Some(old), Some(new)) => old.key().cmp(&new.key()),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) => break,
        };
        if order.is_eq() {
            if let (Some(before), Some(after)) = (old.next(), new.next()) {
                diff.pair(before, after);
            }
        } else if order.is_lt() {
            diff.lost.extend(old.next().map(AibomName::from));
        } else {
            diff.added.extend(new.next().map(AibomName::from));
        }
    }
    diff
}

/// Costs one look at each that is in order already.
fn sorted(snapshot: &Snapshot) -> Vec<&AibomState> {
    let mut aiboms: Vec<_> = snapshot.aiboms().iter().collect();
    aiboms.sort_by(|one, other| one.key().cmp(&other.key()));
    aiboms
}

fn count<T>(items: &[T]) -> u64 {
    items.len() as u64
}

#[cfg(test)]
mod tests;
