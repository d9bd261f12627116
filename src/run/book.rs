//! The ledger while the run writes it: an entry is on disk before the request that makes the object
//! (CLN-05).

use super::journal::Journal;
use crate::record::{Created, FolderError, Ledger};

/// The ledger of this run.
#[derive(Debug)]
pub(super) struct Book {
    ledger: Ledger,
}

impl Book {
    /// Opens the ledger and writes it once, so that a disk that refuses is noticed before anything is
    /// made.
    pub(super) fn open(ledger: Ledger, journal: &Journal) -> Result<Self, FolderError> {
        journal.write_ledger(&ledger)?;
        Ok(Self { ledger })
    }

    pub(super) fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Notes that an object is about to be made. Noting it twice is noting it once.
    pub(super) fn note(&mut self, created: Created, journal: &Journal) -> Result<(), FolderError> {
        let known = |other: &Created| names(other) == names(&created);
        if self.ledger.created.iter().any(known) {
            return Ok(());
        }
        self.ledger.created.push(created);
        journal.write_ledger(&self.ledger)
    }

    /// The object was made, and this is its UID.
    pub(super) fn confirm(
        &mut self,
        created: &Created,
        made: Option<String>,
        journal: &Journal,
    ) -> Result<(), FolderError> {
        for known in &mut self.ledger.created {
            if names(known) == names(created)
                && let Created::Namespace { uid, .. } | Created::Crd { uid, .. } = known
            {
                uid.clone_from(&made);
            }
        }
        journal.write_ledger(&self.ledger)
    }

    /// The object was not made after all.
    pub(super) fn strike(
        &mut self,
        created: &Created,
        journal: &Journal,
    ) -> Result<(), FolderError> {
        self.ledger
            .created
            .retain(|known| names(known) != names(created));
        journal.write_ledger(&self.ledger)
    }

    /// All of it is gone again.
    pub(super) fn cleaned(&mut self, journal: &Journal) -> Result<(), FolderError> {
        self.ledger.cleaned = true;
        journal.write_ledger(&self.ledger)
    }
}

/// What tells entries apart: kind, namespace and name.
fn names(created: &Created) -> (u8, &str, &str) {
    match created {
        Created::Namespace { name, .. } => (0, "", name),
        Created::Release { name, namespace } => (1, namespace, name),
        Created::Crd { name, .. } => (2, "", name),
    }
}
