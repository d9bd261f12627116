//! Whether caches have synced.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::watch as latest;

/// Whether one informer has synced. It never goes back.
#[derive(Debug, Clone)]
pub struct SyncFlag {
    name: Arc<str>,
    synced: latest::Receiver<bool>,
}

impl SyncFlag {
    pub(super) fn new(name: Arc<str>, synced: latest::Receiver<bool>) -> Self {
        Self { name, synced }
    }

    /// The kind, as messages name it.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether it has.
    #[must_use]
    pub fn is_synced(&self) -> bool {
        *self.synced.borrow()
    }

    /// Waits until it has; for ever if the informer is gone before that.
    pub async fn wait(mut self) {
        if self.synced.wait_for(|synced| *synced).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// The informers that a process has started so far; clones are handles to the same set.
#[derive(Debug, Clone, Default)]
pub struct SyncSet {
    flags: Arc<Mutex<Vec<SyncFlag>>>,
}

impl SyncSet {
    /// Adds an informer.
    pub fn add(&self, flag: SyncFlag) {
        let mut flags = self.flags.lock().unwrap_or_else(PoisonError::into_inner);
        flags.push(flag);
    }

    /// The informer of this name, if it has been started.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<SyncFlag> {
        let flags = self.flags.lock().unwrap_or_else(PoisonError::into_inner);
        flags.iter().find(|flag| flag.name() == name).cloned()
    }

    /// Waits for those that are in the set *now*. An empty set is synced at once, which is how 1.2 and
    /// older can be ready too early.
    pub async fn wait_for_present(&self) {
        let present = {
            let flags = self.flags.lock().unwrap_or_else(PoisonError::into_inner);
            flags.clone()
        };
        for flag in present {
            flag.wait().await;
        }
    }
}
