//! Everything at one moment.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use chrono::Utc;
use tokio::time::{Instant, sleep, timeout_at};

use super::config::config;
use super::definitions::{Served, definitions, served};
use super::error::ObserveError;
use super::expected::Expected;
use super::inventory::inventory;
use super::release::release;
use super::rollout::rollout;
use super::target::Target;
use super::workloads;
use crate::cluster::wait::Deadline;
use crate::record::{CrdState, Scrape, Snapshot};

/// How often the server is asked for kinds whose definitions exist.
const TRIES: u32 = 10;
/// Between two of these questions.
const PAUSE: Duration = Duration::from_millis(200);

/// Reads everything about the installation, all parts at the same time.
///
/// # Errors
///
/// [`ObserveError`] of the first part that cannot be read; [`ObserveError::Late`] names the parts that
/// the deadline cut off.
pub async fn snapshot(
    target: &Target,
    step: u32,
    expected: &Expected,
    scrape: Option<Scrape>,
    deadline: Deadline<'_>,
) -> Result<Snapshot, ObserveError> {
    let (at, begun) = (Utc::now(), Instant::now());
    let parts = Parts::default();
    let client = &target.client;
    let of_kinds = async {
        let (crds, served) = kinds(target).await?;
        let config = async {
            match &served.config {
                Some(resource) => config(target, resource).await,
                None => Ok(None),
            }
        };
        let aiboms = async {
            match &served.inventory {
                Some(resource) => inventory(client, resource).await.map(Some),
                None => Ok(None),
            }
        };
        let (config, aiboms) = tokio::try_join!(
            parts.part("the configuration", config),
            parts.part("the AIBOMs", aiboms),
        )?;
        Ok((crds, config, aiboms))
    };
    let all = async {
        tokio::try_join!(
            parts.part("the release", release(target)),
            parts.part("the Deployment and its pods", rollout(target)),
            parts.part("the definitions and their objects", of_kinds),
            parts.part("the workloads", workloads::expected(client, expected)),
        )
    };
    let read = match timeout_at(deadline.at(), all).await {
        Ok(read) => read,
        Err(_) => return Err(parts.late(begun.elapsed())),
    };
    let (release, (deployment, pods), (crds, config, aiboms), expected) = read?;
    Ok(Snapshot {
        step,
        at,
        took_ms: u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX),
        release,
        deployment,
        pods,
        config,
        crds,
        expected,
        aiboms,
        scrape,
    })
}

/// The definitions, and what is served of them. A server needs a moment from one to the other.
async fn kinds(target: &Target) -> Result<(Vec<CrdState>, Served), ObserveError> {
    let mut tries = 1;
    loop {
        let (crds, served) = tokio::try_join!(definitions(target), served(target))?;
        match unserved(target, &crds, &served) {
            None => return Ok((crds, served)),
            Some(_) if tries < TRIES => tries += 1,
            // It would look as if there were no objects of it.
            Some(crd) => {
                return Err(ObserveError::NotServed {
                    crd,
                    versions: target.subject.versions,
                });
            }
        }
        sleep(PAUSE).await;
    }
}

/// A definition that exists, is not on its way out, and has no version that can be read.
fn unserved(target: &Target, crds: &[CrdState], served: &Served) -> Option<String> {
    let subject = target.subject;
    let kinds = [
        (subject.inventory_crd(), &served.inventory),
        (subject.config_crd(), &served.config),
    ];
    let unserved = kinds.into_iter().find(|(name, resource)| {
        let mut known = crds.iter();
        resource.is_none() && known.any(|crd| crd.name == *name && !crd.terminating)
    });
    unserved.map(|(name, _)| name)
}

/// The parts that are still being read.
#[derive(Default)]
struct Parts(Mutex<BTreeSet<&'static str>>);

impl Parts {
    async fn part<T>(
        &self,
        name: &'static str,
        read: impl Future<Output = Result<T, ObserveError>>,
    ) -> Result<T, ObserveError> {
        self.change(|parts| parts.insert(name));
        let read = read.await;
        self.change(|parts| parts.remove(name));
        read
    }

    fn change(&self, change: impl FnOnce(&mut BTreeSet<&'static str>) -> bool) {
        // A set of names is whole at every moment, whatever panics elsewhere.
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }

    fn late(&self, waited: Duration) -> ObserveError {
        let parts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let open: Vec<&str> = parts.iter().copied().collect();
        ObserveError::Late {
            what: "a snapshot".to_owned(),
            waited,
            last: format!("no answer yet about {}", open.join(", ")),
        }
    }
}
