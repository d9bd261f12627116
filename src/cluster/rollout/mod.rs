//! The rollout of the controller's Deployment, seen by watch from before Helm begins (UPG-03 to 08,
//! UPG-14).
//!
//! Conditions of a Deployment come late and say little: a stalled rollout looks well for ten minutes.
//! So the Deployment, its ReplicaSets, their pods and the warnings about them are followed, and the
//! rules are our own. `state` is the rollout as pure state, `words` is how it is told, and here is the
//! thin part that listens.

mod objects;
mod state;
#[cfg(test)]
mod tests;
mod words;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::api::ListParams;
use kube::core::PartialObjectMeta;
use kube::runtime::watcher::Config;
use kube::{Api, Client};
use tokio::sync::OnceCell;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use self::objects::{Member, Set, Target, Warning};
use self::state::{Floor, Rollout, Seen};
use super::fault::Fault;
use super::follow::{Change, Follow};
use super::wait::{Deadline, Look, WaitError, wait_until};
use crate::record::RolloutFacts;

/// A rollout that was not complete in time.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.words())]
pub struct RolloutStall {
    /// Why it counts as stalled, by rule UPG-14; [`None`] when it was only late.
    pub stalled: Option<String>,
    /// How long it was waited for.
    pub waited: Duration,
    /// The state of the Deployment and its pods, in words; why a request failed, when one did.
    pub last_seen: String,
    /// What troubles the new pod, if something does.
    pub trouble: Option<String>,
}

impl RolloutStall {
    fn words(&self) -> String {
        let waited = self.waited.as_secs_f64();
        let mut words = match &self.stalled {
            Some(why) => format!("the rollout is STALLED, {why}"),
            None => "the rollout was not complete".to_owned(),
        };
        words.push_str(&format!(
            " (waited {waited:.1} s); last seen: {}",
            self.last_seen
        ));
        if let Some(trouble) = &self.trouble {
            words.push_str(&format!("; trouble: {trouble}"));
        }
        words
    }

    /// The one thing to do about it, if there is one.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        let hint = if self.stalled.is_some() {
            "look into the new pod's log for why it is not ready; the old pod still serves, so that there \
             is time to repair it or to roll back"
        } else {
            "the state last seen says what is missing; allow more time if it was about to come"
        };
        Some(hint.to_owned())
    }
}

/// A watch of one Deployment and its pods. It ends when it is dropped.
#[derive(Debug)]
pub struct RolloutWatch {
    deployments: Api<PartialObjectMeta<Deployment>>,
    selector: String,
    begun: Instant,
    state: Arc<Mutex<Rollout>>,
    _task: AbortOnDropHandle<()>,
}

impl RolloutWatch {
    /// Begins, and returns when all that exists is known. The Deployment and its pods are those with
    /// all of these labels; there may be none yet.
    ///
    /// # Errors
    ///
    /// The [`Fault`] for which one of the kinds cannot be listed.
    pub async fn start(
        client: &Client,
        namespace: &str,
        labels: &[(String, String)],
    ) -> Result<Self, Fault> {
        let terms: Vec<String> = labels
            .iter()
            .map(|(key, value)| format!("{key}={value}"))
            .collect();
        let selector = terms.join(",");
        let mut follows = Follows::new(client, namespace, &selector);
        let begun = Instant::now();
        let mut state = Rollout::default();
        for seen in follows.first().await? {
            state.take(begun.elapsed(), seen);
        }
        state.mark(begun.elapsed());
        let state = Arc::new(Mutex::new(state));
        let shared = Arc::clone(&state);
        let task = tokio::spawn(async move {
            loop {
                let seen = follows.next().await;
                lock(&shared).take(begun.elapsed(), seen);
            }
        });
        Ok(Self {
            deployments: Api::namespaced(client.clone(), namespace),
            selector,
            begun,
            state,
            _task: AbortOnDropHandle::new(task),
        })
    }

    /// Helm begins now: all times and comparisons are from here on.
    pub fn mark(&self) {
        lock(&self.state).mark(self.begun.elapsed());
    }

    /// Waits until the rollout is complete: all five terms of the Deployment, as many ready pods of its
    /// present template as wanted, none of another template, not even one that is about to end, and
    /// this image in all of them (INS-06, UPG-03, UPG-04).
    ///
    /// The Deployment is asked for once, so that a watch which lags behind cannot pass off what was
    /// before as the result.
    ///
    /// # Errors
    ///
    /// [`RolloutStall`] at the deadline, or when a request fails in a way that does not pass by itself.
    pub async fn complete(&self, image: &str, deadline: Deadline<'_>) -> Result<(), RolloutStall> {
        let floor = OnceCell::new();
        let ended = wait_until("the rollout to be complete", deadline, async || {
            let floor = floor.get_or_try_init(|| self.floor()).await?;
            let mut state = lock(&self.state);
            let Some(missing) = state.obstacle(image, floor.as_ref()) else {
                state.accept();
                return Ok(Look::Done(()));
            };
            Ok(Look::NotYet(format!("{missing}; {}", state.describe())))
        });
        let (waited, last_seen) = match ended.await {
            Ok(()) => return Ok(()),
            Err(WaitError::Failed { waited, source, .. }) => (waited, source.to_string()),
            Err(WaitError::TimedOut { waited, last, .. }) => (waited, last),
            Err(WaitError::NamespaceStuck {
                waited, remains, ..
            }) => (waited, remains),
        };
        let state = lock(&self.state);
        Err(RolloutStall {
            stalled: state.stall(self.begun.elapsed()),
            waited,
            last_seen,
            trouble: state.trouble(),
        })
    }

    /// What was seen since [`mark`](Self::mark), or since the start without one. The rollout counts as
    /// completed only when [`complete`](Self::complete) said so.
    #[must_use]
    pub fn finish(self) -> RolloutFacts {
        lock(&self.state).facts(self.begun.elapsed())
    }

    async fn floor(&self) -> Result<Option<Floor>, kube::Error> {
        let params = ListParams::default().labels(&self.selector);
        let found = self.deployments.list(&params).await?;
        Ok(found.items.into_iter().next().map(|found| Floor {
            uid: found.metadata.uid.unwrap_or_default(),
            generation: found.metadata.generation.unwrap_or_default(),
        }))
    }
}

/// Everything that is followed.
struct Follows {
    deployments: Follow<Target>,
    sets: Follow<Set>,
    pods: Follow<Member>,
    warnings: Follow<Warning>,
}

impl Follows {
    fn new(client: &Client, namespace: &str, selector: &str) -> Self {
        let labelled = Config::default().labels(selector);
        let warnings = Config::default().fields("type=Warning");
        let deployments = Api::<Deployment>::namespaced(client.clone(), namespace);
        let sets = Api::<ReplicaSet>::namespaced(client.clone(), namespace);
        let pods = Api::<Pod>::namespaced(client.clone(), namespace);
        let events = Api::<Event>::namespaced(client.clone(), namespace);
        Self {
            deployments: Follow::new(deployments, labelled.clone(), Target::from),
            sets: Follow::new(sets, labelled.clone(), Set::from),
            pods: Follow::new(pods, labelled, Member::from),
            warnings: Follow::new(events, warnings, Warning::from),
        }
    }

    async fn first(&mut self) -> Result<[Seen; 4], Fault> {
        let (deployments, sets, pods, warnings) = tokio::try_join!(
            self.deployments.first(),
            self.sets.first(),
            self.pods.first(),
            self.warnings.first(),
        )?;
        Ok([
            Seen::Deployments(Change::Listed(deployments)),
            Seen::Sets(Change::Listed(sets)),
            Seen::Pods(Change::Listed(pods)),
            Seen::Warnings(Change::Listed(warnings)),
        ])
    }

    async fn next(&mut self) -> Seen {
        tokio::select! {
            change = self.deployments.next() => Seen::Deployments(change),
            change = self.sets.next() => Seen::Sets(change),
            change = self.pods.next() => Seen::Pods(change),
            change = self.warnings.next() => Seen::Warnings(change),
        }
    }
}

/// The state is changed by single calls that do not panic.
fn lock(state: &Mutex<Rollout>) -> MutexGuard<'_, Rollout> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}
