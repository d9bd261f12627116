//! The convergence of the inventory, by watch: the moment when the last expected AIBOM became Ready
//! (CNV-03).

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::time::Duration;

use futures_util::StreamExt as _;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::ApiResource;
use kube::core::DynamicResourceScope;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{Config, Event, watcher};
use kube::{Api, Resource};
use serde::Deserialize;
use tokio::time::{Instant, sleep, timeout_at};

use super::definitions::served;
use super::error::ObserveError;
use super::expected::{Expected, WorkloadName};
use super::progress::{OnProgress, Progress};
use super::target::Target;
use crate::cluster::fault::{Fault, diagnose_chain};
use crate::cluster::wait::Deadline;
use crate::record::ConditionStatus;

/// Before a definition that is not served is asked for again, and before a watch begins anew.
const PAUSE: Duration = Duration::from_millis(200);
/// Between two reports of progress.
const REPORT: Duration = Duration::from_millis(100);
/// Names that are told of workloads without a Ready AIBOM.
const NAMES: usize = 100;

/// How far the inventory came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Convergence {
    /// How many AIBOMs are expected.
    pub expected: u64,
    /// How many of them were Ready at the end.
    pub ready: u64,
    /// When the last one was seen to be Ready; [`None`] when that was not reached by the deadline.
    pub reached: Option<Instant>,
    /// Workloads without a Ready AIBOM, at most a hundred.
    pub missing: Vec<String>,
}

/// Watches until every expected workload has a Ready AIBOM, or until the deadline. That it was not
/// reached is a result, not an error. To be begun together with the load: what is seen later than the
/// first list is seen as it happens.
///
/// # Errors
///
/// [`ObserveError`] when something is refused that no waiting changes.
pub async fn converged(
    target: &Target,
    expected: &Expected,
    deadline: Deadline<'_>,
    on_progress: OnProgress<'_>,
) -> Result<Convergence, ObserveError> {
    let mut readiness = Readiness::new(expected);
    let watched = watch(target, &mut readiness, on_progress);
    let reached = match timeout_at(deadline.at(), watched).await {
        Ok(reached) => Some(reached?),
        Err(_) => None,
    };
    Ok(readiness.result(reached))
}

async fn watch(
    target: &Target,
    readiness: &mut Readiness<'_>,
    on_progress: OnProgress<'_>,
) -> Result<Instant, ObserveError> {
    let mut reported: Option<Instant> = None;
    let mut report = |readiness: &Readiness<'_>, state: &str, always: bool| {
        let now = Instant::now();
        if always || reported.is_none_or(|last| now - last >= REPORT) {
            reported = Some(now);
            on_progress(Progress {
                state,
                done: Some(readiness.counts()),
                left: None,
            });
        }
    };
    loop {
        let resource = match served(target).await {
            Ok(served) => served.inventory,
            Err(ObserveError::Api { source, .. }) if source.is_transient() => {
                report(readiness, &source.to_string(), true);
                sleep(PAUSE).await;
                continue;
            }
            Err(error) => return Err(error),
        };
        let Some(resource) = resource else {
            report(readiness, "the inventory is not served", true);
            sleep(PAUSE).await;
            continue;
        };
        let api = Api::<Entry>::all_with(target.client.clone(), &resource);
        let mut events = pin!(watcher(api, Config::default()).default_backoff());
        while let Some(event) = events.next().await {
            match event {
                Ok(event) => readiness.see(event),
                Err(error) => match diagnose_chain(&error) {
                    // Another version, no definition, or a state that the watcher would ask for
                    // for ever: all of it is found out anew.
                    Fault::NoSuchResource | Fault::Expired { .. } => break,
                    fault if fault.is_transient() => report(readiness, &fault.to_string(), true),
                    fault => return Err(ObserveError::api("the inventory", fault)),
                },
            }
            if readiness.is_complete() {
                let reached = Instant::now();
                report(readiness, "all Ready", true);
                return Ok(reached);
            }
            report(readiness, "AIBOMs Ready", false);
        }
        sleep(PAUSE).await;
    }
}

/// Which of the expected workloads have a Ready AIBOM.
struct Readiness<'a> {
    expected: &'a Expected,
    ready: Ready,
    /// What a list that is under way has shown so far.
    listing: Option<Ready>,
}

/// The UIDs of the Ready AIBOMs of each workload.
type Ready = BTreeMap<WorkloadName, BTreeSet<String>>;

impl<'a> Readiness<'a> {
    fn new(expected: &'a Expected) -> Self {
        Self {
            expected,
            ready: Ready::new(),
            // Nothing is known before the first list is complete, not even that nothing is missing.
            listing: Some(Ready::new()),
        }
    }

    fn see(&mut self, event: Event<Entry>) {
        match event {
            Event::Init => self.listing = Some(Ready::new()),
            Event::InitApply(entry) => {
                let listing = self.listing.get_or_insert_default();
                put(listing, self.expected, entry.readiness());
            }
            Event::InitDone => {
                if let Some(listing) = self.listing.take() {
                    self.ready = listing;
                }
            }
            Event::Apply(entry) => put(&mut self.ready, self.expected, entry.readiness()),
            Event::Delete(entry) => {
                let gone = entry
                    .readiness()
                    .map(|(workload, uid, _)| (workload, uid, false));
                put(&mut self.ready, self.expected, gone);
            }
        }
    }

    /// How many are Ready, and how many are expected.
    fn counts(&self) -> (u64, u64) {
        (self.ready.len() as u64, self.expected.len() as u64)
    }

    fn is_complete(&self) -> bool {
        self.listing.is_none() && self.ready.len() == self.expected.len()
    }

    fn result(&self, reached: Option<Instant>) -> Convergence {
        let (ready, expected) = self.counts();
        let missing = self.expected.iter();
        let missing = missing.filter(|workload| !self.ready.contains_key(workload));
        Convergence {
            expected,
            ready,
            reached,
            missing: missing.take(NAMES).map(ToString::to_string).collect(),
        }
    }
}

fn put(all: &mut Ready, expected: &Expected, entry: Option<(WorkloadName, String, bool)>) {
    let Some((workload, uid, ready)) = entry.filter(|(owner, ..)| expected.contains(owner)) else {
        return;
    };
    if ready {
        all.entry(workload).or_default().insert(uid);
    } else if let Some(uids) = all.get_mut(&workload) {
        uids.remove(&uid);
        if uids.is_empty() {
            all.remove(&workload);
        }
    }
}

/// An AIBOM by its owner and its conditions: its document is not even read.
#[derive(Clone, Debug, Deserialize)]
struct Entry {
    metadata: ObjectMeta,
    status: Option<Status>,
}

#[derive(Clone, Debug, Deserialize)]
struct Status {
    conditions: Option<Vec<Condition>>,
}

#[derive(Clone, Debug, Deserialize)]
struct Condition {
    #[serde(rename = "type")]
    type_: String,
    status: ConditionStatus,
}

impl Entry {
    /// The workload that owns it, its UID, and whether it is Ready.
    fn readiness(&self) -> Option<(WorkloadName, String, bool)> {
        let metadata = &self.metadata;
        let owners = metadata.owner_references.iter().flatten();
        let owner = owners
            .into_iter()
            .find(|owner| owner.controller == Some(true))?;
        let workload = WorkloadName::new(metadata.namespace.as_deref()?, &owner.kind, &owner.name);
        let conditions = self
            .status
            .as_ref()
            .and_then(|status| status.conditions.as_ref());
        let ready = conditions.into_iter().flatten().any(|condition| {
            condition.type_ == "Ready" && condition.status == ConditionStatus::True
        });
        Some((workload, metadata.uid.clone()?, ready))
    }
}

impl Resource for Entry {
    type DynamicType = ApiResource;
    type Scope = DynamicResourceScope;

    fn kind(resource: &ApiResource) -> Cow<'_, str> {
        Cow::Borrowed(&resource.kind)
    }

    fn group(resource: &ApiResource) -> Cow<'_, str> {
        Cow::Borrowed(&resource.group)
    }

    fn version(resource: &ApiResource) -> Cow<'_, str> {
        Cow::Borrowed(&resource.version)
    }

    fn api_version(resource: &ApiResource) -> Cow<'_, str> {
        Cow::Borrowed(&resource.api_version)
    }

    fn plural(resource: &ApiResource) -> Cow<'_, str> {
        Cow::Borrowed(&resource.plural)
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}
