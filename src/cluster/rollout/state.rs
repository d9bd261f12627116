//! A rollout as pure state: changes go in with the time at which they were seen, facts come out.
//!
//! All times are since the watch began, by a clock that never jumps.

use std::collections::BTreeMap;
use std::mem;
use std::time::Duration;

use serde_json::Value;

use super::objects::{Member, Set, Target, Warning};
use crate::cluster::fault::Fault;
use crate::cluster::follow::Change;
use crate::record::RolloutFacts;

/// A change of one of the kinds that make up a rollout.
#[derive(Clone, Debug)]
pub(super) enum Seen {
    Deployments(Change<Target>),
    Sets(Change<Set>),
    Pods(Change<Member>),
    Warnings(Change<Warning>),
}

/// What a rollout has come to, and what it cost on the way.
#[derive(Clone, Debug, Default)]
pub(super) struct Rollout {
    /// By name; there is one, or none.
    deployments: BTreeMap<String, Target>,
    /// By UID.
    sets: BTreeMap<String, Set>,
    /// By UID.
    pods: BTreeMap<String, Pod>,
    /// By UID of the object and reason: the last message.
    warnings: BTreeMap<String, BTreeMap<String, String>>,
    /// How often a watch failed, and why the last time.
    failures: u32,
    last_failure: Option<Fault>,
    /// When helm began.
    mark: Duration,
    template_before: Option<Value>,
    changes: u32,
    without_ready: Span,
    overlap: Span,
    complete: Span,
    completed: Option<Duration>,
}

/// A pod, and since when it has not served.
#[derive(Clone, Debug)]
pub(super) struct Pod {
    pub(super) member: Member,
    pub(super) idle_since: Option<Duration>,
}

/// The Deployment that was asked for when a wait began: what the watch has to have caught up with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Floor {
    pub(super) uid: String,
    pub(super) generation: i64,
}

impl Rollout {
    pub(super) fn take(&mut self, at: Duration, seen: Seen) {
        match seen {
            Seen::Deployments(change) => {
                let key = |target: &Target| target.state.name.clone();
                self.changed(change, |all| &mut all.deployments, key, |target, _| target);
            }
            Seen::Sets(change) => {
                let key = |set: &Set| set.uid.clone();
                self.changed(change, |all| &mut all.sets, key, |set, _| set);
            }
            Seen::Pods(change) => {
                let key = |member: &Member| member.state.uid.clone();
                self.changed(
                    change,
                    |all| &mut all.pods,
                    key,
                    |member, known| {
                        let idle = known.and_then(|pod: &Pod| pod.idle_since).unwrap_or(at);
                        Pod {
                            idle_since: (!member.serves()).then_some(idle),
                            member,
                        }
                    },
                );
            }
            Seen::Warnings(change) => self.warned(change),
        }
        self.account(at);
    }

    /// Helm begins now: whatever was before is where the rollout starts from.
    pub(super) fn mark(&mut self, at: Duration) {
        self.mark = at;
        self.template_before = self.target().map(|target| target.template.clone());
        self.changes = count(self.deployments.len() + self.pods.len());
        self.completed = None;
        // What lasts already counts from now on.
        for span in [
            &mut self.without_ready,
            &mut self.overlap,
            &mut self.complete,
        ] {
            *span = Span::default();
        }
        self.account(at);
    }

    /// The rollout is what was waited for.
    pub(super) fn accept(&mut self) {
        self.completed = self.complete.since;
    }

    pub(super) fn facts(&self, now: Duration) -> RolloutFacts {
        let after = |at: Duration| at.saturating_sub(self.mark).as_secs_f64();
        let template = self.target().map(|target| &target.template);
        let new = self.pods.values().filter(|pod| self.is_new(pod));
        RolloutFacts {
            complete_after: self.completed.map(after),
            longest_without_ready: self.without_ready.longest(now).as_secs_f64(),
            overlap: self.overlap.total(now).as_secs_f64(),
            template_changed: template != self.template_before.as_ref(),
            old_pods_left: self
                .old_pods()
                .map(|pod| pod.member.state.name.clone())
                .collect(),
            restarts: new.map(|pod| pod.member.state.restarts).sum(),
            trouble: self.trouble(),
            last_seen: self.describe(),
            observed: self.changes,
        }
    }

    pub(super) fn target(&self) -> Option<&Target> {
        self.deployments.values().next()
    }

    /// The ReplicaSet of the Deployment's present template. On the way back to an earlier template it
    /// is an old one, so neither age nor order tells it.
    pub(super) fn newest(&self) -> Option<&Set> {
        let target = self.target()?;
        self.sets.values().find(|set| {
            set.owner.as_deref() == Some(target.state.uid.as_str())
                && set.template == target.template
        })
    }

    pub(super) fn is_new(&self, pod: &Pod) -> bool {
        let newest = self.newest().map(|set| set.uid.as_str());
        newest.is_some() && pod.member.set.as_deref() == newest
    }

    pub(super) fn pods(&self) -> impl Iterator<Item = &Pod> {
        self.pods.values()
    }

    /// Pods of an older template that have not ended, those that are about to end included.
    pub(super) fn old_pods(&self) -> impl Iterator<Item = &Pod> {
        let pods = self.pods.values();
        pods.filter(|pod| !pod.member.is_over() && !self.is_new(pod))
    }

    /// Pods of the present template that have not ended.
    pub(super) fn new_pods(&self) -> impl Iterator<Item = &Pod> {
        let pods = self.pods.values();
        pods.filter(|pod| !pod.member.is_over() && self.is_new(pod))
    }

    /// Warnings about an object, by reason.
    pub(super) fn warnings(&self, uid: &str) -> impl Iterator<Item = (&String, &String)> {
        self.warnings.get(uid).into_iter().flatten()
    }

    pub(super) fn failures(&self) -> Option<(u32, &Fault)> {
        self.last_failure
            .as_ref()
            .map(|fault| (self.failures, fault))
    }

    /// Takes over a change of one kind, whose objects are kept by key.
    fn changed<T, O>(
        &mut self,
        change: Change<T>,
        objects: impl Fn(&mut Self) -> &mut BTreeMap<String, O>,
        key: impl Fn(&T) -> String,
        kept: impl Fn(T, Option<&O>) -> O,
    ) {
        match change {
            Change::Listed(all) => {
                self.changes = self.changes.saturating_add(count(all.len()));
                let known = mem::take(objects(self));
                let listed = all.into_iter().map(|object| {
                    let key = key(&object);
                    let object = kept(object, known.get(&key));
                    (key, object)
                });
                *objects(self) = listed.collect();
            }
            Change::Applied(object) => {
                self.changes = self.changes.saturating_add(1);
                let (key, objects) = (key(&object), objects(self));
                let object = kept(object, objects.get(&key));
                objects.insert(key, object);
            }
            Change::Deleted(object) => {
                self.changes = self.changes.saturating_add(1);
                objects(self).remove(&key(&object));
            }
            Change::Failed(fault) => self.failed(fault),
        }
    }

    fn warned(&mut self, change: Change<Warning>) {
        let warnings = match change {
            Change::Listed(all) => all,
            Change::Applied(one) => vec![one],
            // It expired; what it said was so.
            Change::Deleted(_) => Vec::new(),
            Change::Failed(fault) => {
                self.failed(fault);
                Vec::new()
            }
        };
        for Warning {
            about,
            reason,
            message,
        } in warnings
        {
            self.warnings
                .entry(about)
                .or_default()
                .insert(reason, message);
        }
    }

    fn failed(&mut self, fault: Fault) {
        self.failures = self.failures.saturating_add(1);
        self.last_failure = Some(fault);
    }

    fn account(&mut self, at: Duration) {
        let serves = self.pods.values().any(|pod| pod.member.serves());
        let mut sets = self
            .pods
            .values()
            .filter(|pod| pod.member.running && !pod.member.is_over())
            .map(|pod| &pod.member.set);
        let first = sets.next();
        let overlaps = first.is_some_and(|first| sets.any(|set| set != first));
        let complete = self.incomplete().is_none();
        self.without_ready.holds(at, !serves);
        self.overlap.holds(at, overlaps);
        self.complete.holds(at, complete);
    }
}

/// For how long something held, all in all and in one piece.
#[derive(Clone, Copy, Debug, Default)]
struct Span {
    since: Option<Duration>,
    total: Duration,
    longest: Duration,
}

impl Span {
    fn holds(&mut self, at: Duration, holds: bool) {
        match (self.since, holds) {
            (None, true) => self.since = Some(at),
            (Some(_), false) => {
                self.total = self.total(at);
                self.longest = self.longest(at);
                self.since = None;
            }
            _ => {}
        }
    }

    fn open(&self, now: Duration) -> Duration {
        self.since
            .map_or(Duration::ZERO, |since| now.saturating_sub(since))
    }

    fn total(&self, now: Duration) -> Duration {
        self.total + self.open(now)
    }

    fn longest(&self, now: Duration) -> Duration {
        self.longest.max(self.open(now))
    }
}

fn count(objects: usize) -> u32 {
    u32::try_from(objects).unwrap_or(u32::MAX)
}
