//! Leader election by a lease, as client-go does it: of several processes, one controls.
//!
//! A candidate asks for the lease until it gets it; the leader renews it and stops being one when it
//! cannot for [`RENEW_DEADLINE`]. A lease counts as free when its content has not changed for its
//! duration, measured by the candidate's own clock. It is not given up at the end of a process
//! (`controller.md` G.1).

use std::future::Future;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use k8s_openapi::jiff::Timestamp;
use kube::api::PostParams;
use kube::{Api, Client};
use prometheus::IntGauge;
use tokio::time::{Instant, sleep, timeout};

use super::events::{Happening, Recorder, Severity};
use super::runtime::metrics::Metrics;
use super::runtime::store::ObjectKey;
use super::runtime::watch::Dice;
use crate::error_chain::chain;

/// The name of the lease.
pub const LEASE: &str = "k8s-aibom.aibom.k8saibom.dev";
/// How long a lease holds after its last change.
const LEASE_DURATION: Duration = Duration::from_secs(15);
/// How long a leader tries to renew it.
pub const RENEW_DEADLINE: Duration = Duration::from_secs(10);
/// The time between two tries; a candidate's is up to 2.2 times as long.
const RETRY: Duration = Duration::from_secs(2);
/// The share of [`RETRY`] by which a candidate's waits differ.
const JITTER: f64 = 1.2;
/// How long the server may take for one request.
const REQUEST_DEADLINE: Duration = Duration::from_secs(5);

/// The lease was not renewed in time.
#[derive(Debug, thiserror::Error)]
#[error("leader election lost")]
pub struct LeadershipLost;

impl LeadershipLost {
    /// The one thing to do about it, if there is one.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        None
    }
}

/// Why one try failed.
#[derive(Debug, thiserror::Error)]
enum LeaseError {
    #[error(transparent)]
    Request(#[from] kube::Error),
    #[error("no answer within {} s", REQUEST_DEADLINE.as_secs())]
    Deadline,
}

/// A lease as last seen, and since when it has been so.
struct Observed {
    lease: Lease,
    since: Instant,
}

/// A process that wants to lead.
pub struct Candidate {
    api: Api<Lease>,
    lease: ObjectKey,
    identity: String,
    recorder: Recorder,
    dice: Dice,
    is_leader: IntGauge,
    observed: Option<Observed>,
}

impl Candidate {
    /// A candidate for the lease in this namespace.
    #[must_use]
    pub fn new(
        client: Client,
        namespace: &str,
        recorder: Recorder,
        metrics: &Metrics,
        mut dice: Dice,
    ) -> Self {
        Self {
            api: Api::namespaced(client, namespace),
            lease: ObjectKey::new(namespace, LEASE),
            identity: identity(&mut dice),
            recorder,
            dice,
            is_leader: metrics.leader(LEASE),
            observed: None,
        }
    }

    /// Waits until this process leads, for ever if it never does.
    pub async fn acquire(mut self) -> Leader {
        let lock = self.lease.to_string();
        tracing::info!(lock, "Attempting to acquire leader lease...");
        while !self.attempt().await {
            sleep(RETRY.mul_f64(1.0 + JITTER * (self.dice)())).await;
        }
        self.tell("became leader");
        self.is_leader.set(1);
        tracing::info!(lock, "Successfully acquired lease");
        Leader(self)
    }

    fn is_leader(&self) -> bool {
        let holder = self.observed.as_ref().and_then(|o| holder(&o.lease));
        holder == Some(&self.identity)
    }

    /// Whether whoever holds the lease still may.
    fn is_held(&self) -> bool {
        self.observed.as_ref().is_some_and(|observed| {
            let spec = observed.lease.spec.as_ref();
            let seconds = spec.and_then(|spec| spec.lease_duration_seconds);
            let seconds = seconds.and_then(|seconds| u64::try_from(seconds).ok());
            let duration = Duration::from_secs(seconds.unwrap_or_default());
            holder(&observed.lease).is_some() && observed.since.elapsed() < duration
        })
    }

    /// Acquires or renews the lease; false if that is not possible now.
    async fn attempt(&mut self) -> bool {
        // A leader knows what it wrote, and needs no look at it.
        if self.is_leader()
            && self.is_held()
            && let Some(observed) = &self.observed
        {
            let known = observed.lease.clone();
            match self.update(known).await {
                Ok(()) => return true,
                Err(error) => {
                    let lock = self.lease.to_string();
                    tracing::error!(
                        lock,
                        error = chain(&error),
                        "Failed to update lease optimistically, falling back to slow path"
                    );
                }
            }
        }
        let lock = self.lease.to_string();
        let known = match within(self.api.get_opt(LEASE)).await {
            Ok(known) => known,
            Err(error) => {
                tracing::error!(lock, error = chain(&error), "Error retrieving lease lock");
                return false;
            }
        };
        let Some(known) = known else {
            let new = Lease {
                metadata: ObjectMeta {
                    name: Some(LEASE.to_owned()),
                    namespace: Some(self.lease.namespace.clone()),
                    ..ObjectMeta::default()
                },
                spec: Some(self.claim(None)),
            };
            let created = within(self.api.create(&PostParams::default(), &new)).await;
            return match created {
                Ok(lease) => {
                    self.observe(lease);
                    true
                }
                Err(error) => {
                    let error = chain(&error);
                    tracing::error!(lock, error, "Error initially creating lease lock");
                    false
                }
            };
        };
        if self.observed.as_ref().map(|observed| &observed.lease.spec) != Some(&known.spec) {
            self.observe(known.clone());
        }
        if self.is_held() && !self.is_leader() {
            tracing::debug!(
                lock,
                holder = holder(&known),
                "Lock is held and has not yet expired"
            );
            return false;
        }
        match self.update(known).await {
            Ok(()) => true,
            Err(error) => {
                tracing::error!(lock, error = chain(&error), "Failed to update lock");
                false
            }
        }
    }

    /// Writes this process into a lease as it was seen.
    async fn update(&mut self, mut lease: Lease) -> Result<(), LeaseError> {
        lease.spec = Some(self.claim(lease.spec.as_ref()));
        let parameters = PostParams::default();
        let written = within(self.api.replace(LEASE, &parameters, &lease)).await?;
        self.observe(written);
        Ok(())
    }

    /// The content of a lease that this process holds, after this one.
    fn claim(&self, before: Option<&LeaseSpec>) -> LeaseSpec {
        let now = MicroTime(Timestamp::now());
        let mut claim = before.cloned().unwrap_or_default();
        if claim.holder_identity.as_ref() != Some(&self.identity) {
            claim.acquire_time = Some(now.clone());
            let transitions = claim.lease_transitions.unwrap_or_default();
            claim.lease_transitions = Some(before.map_or(0, |_| transitions.saturating_add(1)));
        }
        claim.holder_identity = Some(self.identity.clone());
        claim.lease_duration_seconds = i32::try_from(LEASE_DURATION.as_secs()).ok();
        claim.renew_time = Some(now);
        claim
    }

    fn observe(&mut self, lease: Lease) {
        self.observed = Some(Observed {
            lease,
            since: Instant::now(),
        });
    }

    fn tell(&self, what: &str) {
        let uid = self.observed.as_ref();
        let uid = uid.and_then(|observed| observed.lease.metadata.uid.clone());
        self.recorder.record(Happening {
            component: "k8s-aibom",
            regarding: ObjectReference {
                api_version: Some("coordination.k8s.io/v1".to_owned()),
                kind: Some("Lease".to_owned()),
                namespace: Some(self.lease.namespace.clone()),
                name: Some(self.lease.name.clone()),
                uid,
                ..ObjectReference::default()
            },
            severity: Severity::Normal,
            reason: "LeaderElection",
            message: format!("{} {what}", self.identity),
        });
    }
}

/// The process that leads.
pub struct Leader(Candidate);

impl Leader {
    /// Renews the lease until that fails.
    pub async fn hold(self) -> LeadershipLost {
        let Self(mut candidate) = self;
        loop {
            let renewed = timeout(RENEW_DEADLINE, async {
                while !candidate.attempt().await {
                    sleep(RETRY).await;
                }
            });
            if renewed.await.is_err() {
                candidate.tell("stopped leading");
                candidate.is_leader.set(0);
                let lock = candidate.lease.to_string();
                tracing::error!(lock, "Failed to renew lease");
                return LeadershipLost;
            }
            sleep(RETRY).await;
        }
    }
}

fn holder(lease: &Lease) -> Option<&String> {
    let holder = lease.spec.as_ref()?.holder_identity.as_ref();
    holder.filter(|holder| !holder.is_empty())
}

async fn within<T>(request: impl Future<Output = kube::Result<T>>) -> Result<T, LeaseError> {
    let answer = timeout(REQUEST_DEADLINE, request).await;
    Ok(answer.map_err(|_| LeaseError::Deadline)??)
}

/// The name of this machine and a random UUID, so that a restarted process is another candidate.
fn identity(dice: &mut Dice) -> String {
    let uname = rustix::system::uname();
    let host = uname.nodename().to_string_lossy();
    // Version 4: all bits are random but those of the version and of the variant.
    let mut random = |bits: u32| (dice() * f64::from(bits)) as u64;
    let uuid = format!(
        "{:08x}-{:04x}-4{:03x}-{:x}{:03x}-{:06x}{:06x}",
        random(u32::MAX),
        random(0x1_0000),
        random(0x1000),
        8 + random(4),
        random(0x1000),
        random(0x100_0000),
        random(0x100_0000),
    );
    format!("{host}_{uuid}")
}

#[cfg(test)]
mod tests;
