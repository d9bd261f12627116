//! What the node says to the API server: bounded, patient, and silent when it is told to be.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Client;
use tokio::sync::{Semaphore, watch};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::backoff::Backoff;
use super::journal::Journal;
use crate::cluster::fault::{Fault, diagnose};

/// For one answer. A starved API server takes seconds.
const ANSWER_DEADLINE: Duration = Duration::from_secs(10);
/// Requests of pods at a time.
const AT_A_TIME: usize = 24;

/// Who waits for whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lane {
    /// Requests of pods take turns: two hundred that start at once must not flood the API server.
    Pods,
    /// The node's own requests, one at a time each, go past them.
    Node,
}

/// The one way of every write to the API server.
pub(super) struct Uplink {
    client: Client,
    permits: Semaphore,
    silent_until: watch::Sender<Option<Instant>>,
    journal: Arc<Journal>,
}

impl Uplink {
    pub(super) fn new(client: Client, journal: Arc<Journal>) -> Self {
        Self {
            client,
            permits: Semaphore::new(AT_A_TIME),
            silent_until: watch::Sender::new(None),
            journal,
        }
    }

    /// A client with the node's identity.
    pub(super) fn client(&self) -> Client {
        self.client.clone()
    }

    /// Says nothing for this long, as a node that has lost its network. What was to be said is said
    /// afterwards.
    pub(super) fn silence(&self, length: Duration) {
        let until = Instant::now() + length;
        self.journal
            .note(&format!("silent for {:.1} s", length.as_secs_f64()));
        self.silent_until.send_modify(|silent| {
            *silent = Some(silent.map_or(until, |known| known.max(until)));
        });
    }

    /// Waits until a silence is over, so that what is said then is not old.
    pub(super) async fn audible(&self) {
        let mut silences = self.silent_until.subscribe();
        loop {
            let until = *silences.borrow_and_update();
            match until {
                Some(until) if until > Instant::now() => sleep_until(until).await,
                _ => return,
            }
        }
    }

    /// Sends a request, once.
    pub(super) async fn attempt<T>(
        &self,
        lane: Lane,
        request: impl Future<Output = kube::Result<T>>,
    ) -> Result<T, Fault> {
        let _permit = match lane {
            // Closed by nobody; a permit that cannot be had bounds nothing.
            Lane::Pods => self.permits.acquire().await.ok(),
            Lane::Node => None,
        };
        self.audible().await;
        match timeout(ANSWER_DEADLINE, request).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(error)) => Err(diagnose(&error)),
            Err(_) => Err(Fault::Timeout),
        }
    }

    /// Sends a request again and again until it is answered.
    ///
    /// # Errors
    ///
    /// A fault that does not pass by itself.
    pub(super) async fn persist<T, F>(
        &self,
        lane: Lane,
        what: &str,
        mut request: impl FnMut() -> F,
    ) -> Result<T, Fault>
    where
        F: Future<Output = kube::Result<T>>,
    {
        let mut trouble = Trouble::new(&self.journal, what);
        loop {
            match self.attempt(lane, request()).await {
                Err(fault) if passes(&fault) => trouble.wait(&fault).await,
                Err(fault) => return Err(fault),
                Ok(answer) => {
                    trouble.over();
                    return Ok(answer);
                }
            }
        }
    }
}

/// Which of two states of an object is the later one. Resource versions are numbers that grow; one
/// that is not counts as new.
pub(super) fn version(object: &ObjectMeta) -> u64 {
    let version = object.resource_version.as_deref();
    version
        .and_then(|version| version.parse().ok())
        .unwrap_or(u64::MAX)
}

/// Whether a node goes on trying: what nobody can mend from here may be mended elsewhere.
pub(super) fn passes(fault: &Fault) -> bool {
    fault.is_transient() || matches!(fault, Fault::Unreachable(_) | Fault::Unauthorized)
}

/// Failures of the same thing in a row: told once, waited for ever longer.
#[derive(Debug)]
pub(super) struct Trouble<'a> {
    journal: &'a Journal,
    what: &'a str,
    backoff: Backoff,
    since: Option<Instant>,
}

impl<'a> Trouble<'a> {
    pub(super) fn new(journal: &'a Journal, what: &'a str) -> Self {
        Self {
            journal,
            what,
            backoff: Backoff::request(),
            since: None,
        }
    }

    /// Waits before the next attempt.
    pub(super) async fn wait(&mut self, fault: &Fault) {
        let now = Instant::now();
        if self.since.is_none() {
            self.since = Some(now);
            self.journal
                .note(&format!("{} failed, trying on: {fault}", self.what));
        }
        sleep(self.backoff.after(now)).await;
    }

    /// It has succeeded.
    pub(super) fn over(&mut self) {
        if let Some(since) = self.since.take() {
            self.journal.note(&format!(
                "{} succeeded after {:.1} s of trying",
                self.what,
                since.elapsed().as_secs_f64()
            ));
            self.backoff = Backoff::request();
        }
    }
}
