//! The worker of one controller: takes keys from its queue and reconciles them, one at a time.
//!
//! It begins when all of the controller's sources have synced, and fails when they have not done so in
//! time; the process ends with that (`controller.md` E.7). What comes of a reconcile decides what
//! happens to its key, and is counted as controller-runtime counts it.

use std::any::Any;
use std::fmt::Display;
use std::future::Future;
use std::hash::Hash;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::sync::CancellationToken;

use super::metrics::{ControllerMetrics, Metrics};
use super::queue::{Queue, Taken};
use super::store::SyncFlag;
use crate::error_chain::chain;

/// How long a controller waits for its sources.
pub const SYNC_TIMEOUT: Duration = Duration::from_secs(120);

/// What a reconcile that did not fail wants for its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing until something happens.
    Done,
    /// Another try under the key's backoff, for instance after a conflict.
    Requeue,
    /// Another try after this time.
    RequeueAfter(Duration),
}

/// Brings the world in line with one object.
pub trait Reconciler<K>: Send + Sync {
    /// Why it could not; the key is tried again under its backoff.
    type Error: std::error::Error + Send + 'static;

    /// Reconciles the object of this key, which may be gone.
    fn reconcile(&self, key: &K) -> impl Future<Output = Result<Outcome, Self::Error>> + Send;
}

/// A controller cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum WorkerError {
    /// A source did not sync in time.
    #[error(
        "failed to wait for {controller} caches to sync kind source: {source_name}: timed out \
         waiting for cache to be synced for Kind {source_name}"
    )]
    NotSynced {
        /// The controller.
        controller: String,
        /// The kind.
        source_name: String,
    },
}

impl WorkerError {
    /// Writes it into the log, as a controller does before it ends.
    pub fn log(&self) {
        let Self::NotSynced { controller, .. } = self;
        tracing::error!(controller, error = %self, "Could not wait for Cache to sync");
    }

    /// The one thing to do about it, if there is one.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::NotSynced { source_name, .. } => Some(format!(
                "check that {source_name} is served and that the controller may list and watch it"
            )),
        }
    }
}

/// A controller: a queue, what it waits for, and what it does.
pub struct Worker<K: Eq + Hash + Clone, R> {
    name: String,
    queue: Queue<K>,
    sources: Vec<SyncFlag>,
    reconciler: R,
    deadline: Option<Duration>,
    metrics: ControllerMetrics,
}

/// Why a reconcile counts as failed.
enum Failure<E> {
    Error(E),
    Deadline(Duration),
    Panic(String),
}

impl<E: std::error::Error + 'static> Failure<E> {
    fn describe(&self) -> String {
        match self {
            Self::Error(error) => chain(error),
            Self::Deadline(deadline) => format!("no result within {} s", deadline.as_secs()),
            Self::Panic(message) => format!("panic: {message} [recovered]"),
        }
    }
}

impl<K, R> Worker<K, R>
where
    K: Eq + Hash + Clone + Display + Send + Sync,
    R: Reconciler<K>,
{
    /// A controller that has not started. Its series exist from now on.
    #[must_use]
    pub fn new(name: &str, queue: Queue<K>, reconciler: R, metrics: &Metrics) -> Self {
        Self {
            name: name.to_owned(),
            queue,
            sources: Vec::new(),
            reconciler,
            deadline: None,
            metrics: metrics.controller(name),
        }
    }

    /// Waits for this as well before it begins.
    #[must_use]
    pub fn source(mut self, flag: SyncFlag) -> Self {
        self.sources.push(flag);
        self
    }

    /// Ends every reconcile that takes longer.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = Some(deadline);
        self
    }

    /// Works until told to stop; the reconcile that is running then is broken off, since nothing waits
    /// for a delivery when the process ends (`controller.md` M).
    ///
    /// # Errors
    ///
    /// [`WorkerError`] when the sources do not sync within [`SYNC_TIMEOUT`].
    pub async fn run(self, stop: CancellationToken) -> Result<(), WorkerError> {
        let synced = tokio::select! {
            synced = self.wait_for_sources() => synced,
            () = stop.cancelled() => return Ok(()),
        };
        if let Err(error) = synced {
            error.log();
            return Err(error);
        }
        tracing::info!(controller = self.name, "Starting Controller");
        tracing::info!(
            controller = self.name,
            "worker count" = 1,
            "Starting workers"
        );
        loop {
            let taken = tokio::select! {
                biased;
                () = stop.cancelled() => None,
                taken = self.queue.next() => taken,
            };
            let Some(taken) = taken else {
                self.queue.close();
                tracing::info!(controller = self.name, "All workers finished");
                return Ok(());
            };
            tokio::select! {
                biased;
                () = self.work(&taken) => {}
                // The next turn ends the worker.
                () = stop.cancelled() => {}
            }
        }
    }

    async fn wait_for_sources(&self) -> Result<(), WorkerError> {
        let deadline = Instant::now() + SYNC_TIMEOUT;
        for flag in &self.sources {
            if timeout_at(deadline, flag.clone().wait()).await.is_err() {
                return Err(WorkerError::NotSynced {
                    controller: self.name.clone(),
                    source_name: flag.name().to_owned(),
                });
            }
        }
        Ok(())
    }

    /// Reconciles one key and files the result.
    async fn work(&self, taken: &Taken<K>) {
        self.metrics.active.inc();
        let start = Instant::now();
        let result = self.reconcile(taken.key()).await;
        match result {
            Ok(Outcome::Done) => {
                taken.forget();
                self.metrics.success.inc();
            }
            Ok(Outcome::Requeue) => {
                taken.retry();
                self.metrics.requeue.inc();
            }
            Ok(Outcome::RequeueAfter(time)) if time.is_zero() => {
                taken.forget();
                self.metrics.success.inc();
            }
            Ok(Outcome::RequeueAfter(time)) => {
                taken.again_after(time);
                self.metrics.requeue_after.inc();
            }
            Err(failure) => {
                taken.retry();
                self.metrics.errors.inc();
                self.metrics.error.inc();
                match failure {
                    Failure::Deadline(_) => self.metrics.timeouts.inc(),
                    Failure::Panic(_) => self.metrics.panics.inc(),
                    Failure::Error(_) => {}
                }
                tracing::error!(
                    controller = self.name,
                    object = %taken.key(),
                    error = failure.describe(),
                    "Reconciler error"
                );
            }
        }
        self.metrics.took(start.elapsed());
        self.metrics.active.dec();
    }

    async fn reconcile(&self, key: &K) -> Result<Outcome, Failure<R::Error>> {
        let reconcile = AssertUnwindSafe(self.reconciler.reconcile(key)).catch_unwind();
        let ended = match self.deadline {
            Some(deadline) => timeout(deadline, reconcile)
                .await
                .map_err(|_| Failure::Deadline(deadline))?,
            None => reconcile.await,
        };
        match ended {
            Ok(result) => result.map_err(Failure::Error),
            Err(panic) => Err(Failure::Panic(said(&*panic))),
        }
    }
}

/// What a panic said.
fn said(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "without a message".to_owned())
}

#[cfg(test)]
mod tests;
