//! A rollout in words: what is missing, what troubles it, and whether it is stalled.

use std::time::Duration;

use super::objects::Member;
use super::state::{Floor, Pod, Rollout};
use crate::record::ConditionStatus;

/// A new pod that has not been ready for so long, beside an old one that serves, makes a stall. It is
/// two periods of the chart's readiness probe; a rollout that goes well needs one (`helm-moves.md` A).
pub(super) const STALL: Duration = Duration::from_secs(20);

impl Rollout {
    /// The first thing that is missing until the rollout is complete, whatever its image.
    pub(super) fn incomplete(&self) -> Option<String> {
        let Some(target) = self.target() else {
            return Some("there is no Deployment".to_owned());
        };
        let state = &target.state;
        if state.observed_generation < state.generation {
            return Some(format!(
                "generation {} of the Deployment is not observed yet",
                state.generation
            ));
        }
        if !state.is_complete() {
            return Some("the counts of the Deployment are not all as wanted".to_owned());
        }
        if self.newest().is_none() {
            return Some("the present template has no ReplicaSet yet".to_owned());
        }
        let old: Vec<&str> = self
            .old_pods()
            .map(|pod| pod.member.state.name.as_str())
            .collect();
        if !old.is_empty() {
            return Some(format!("old pods are left: {}", old.join(", ")));
        }
        let serving = self.new_pods().filter(|pod| pod.member.serves()).count();
        let wanted = usize::try_from(state.wanted).unwrap_or(usize::MAX);
        (serving < wanted).then(|| format!("{serving} of {wanted} new pods are ready"))
    }

    /// The same with this image, and with a watch that has caught up.
    pub(super) fn obstacle(&self, image: &str, floor: Option<&Floor>) -> Option<String> {
        let state = self.target().map(|target| &target.state);
        if let (Some(state), Some(floor)) = (state, floor)
            && (state.uid != floor.uid || state.generation < floor.generation)
        {
            return Some(format!(
                "generation {} of the Deployment has not reached the watch",
                floor.generation
            ));
        }
        if let Some(missing) = self.incomplete() {
            return Some(missing);
        }
        let images = state.into_iter().map(|state| &state.image);
        let images = images.chain(self.new_pods().map(|pod| &pod.member.state.image));
        let mut others = images.filter(|other| other.as_str() != image);
        others
            .next()
            .map(|other| format!("the image is {other} and not {image}"))
    }

    /// Why the rollout is stalled, by rule UPG-14, if it is: a new pod is not ready for long, an old one
    /// serves, and there are more pods than wanted. The Deployment itself says so after its progress
    /// deadline only, which is ten minutes.
    pub(super) fn stall(&self, now: Duration) -> Option<String> {
        let state = &self.target()?.state;
        let idle = |pod: &&Pod| {
            let since = pod.idle_since.filter(|_| !pod.member.serves());
            since.is_some_and(|since| now.saturating_sub(since) >= STALL)
        };
        let new = self.new_pods().find(idle)?;
        let old = self.old_pods().find(|pod| pod.member.serves())?;
        if state.replicas <= state.wanted {
            return None;
        }
        let since = new.idle_since.unwrap_or(now);
        Some(format!(
            "the new pod {} has not been ready for {:.0} s while the old pod {} serves, with {} pods \
             where {} is wanted",
            new.member.state.name,
            now.saturating_sub(since).as_secs_f64(),
            old.member.state.name,
            state.replicas,
            state.wanted,
        ))
    }

    /// What troubles the new pods, if something does; without one, what keeps them from being made.
    pub(super) fn trouble(&self) -> Option<String> {
        let mut words: Vec<String> = self
            .new_pods()
            .filter_map(|pod| Some(format!("{}: {}", pod.member.state.name, self.ails(pod)?)))
            .collect();
        if self.new_pods().next().is_none() {
            let set = self.newest();
            let warnings = set.into_iter().flat_map(|set| self.warnings(&set.uid));
            words.extend(warnings.map(|(reason, message)| format!("{reason}: {message}")));
        }
        (!words.is_empty()).then(|| words.join("; "))
    }

    fn ails(&self, pod: &Pod) -> Option<String> {
        let Member {
            state, unscheduled, ..
        } = &pod.member;
        // How a container ended that runs again and serves is still worth a word; a probe that failed
        // before it was ready is not.
        let mut words: Vec<String> = state.trouble.clone().into_iter().collect();
        if !pod.member.serves() {
            words.extend(unscheduled.clone());
            let told = self.warnings(&state.uid);
            words.extend(told.map(|(reason, message)| format!("{reason}: {message}")));
        }
        (!words.is_empty()).then(|| words.join("; "))
    }

    /// The Deployment and its pods as they are.
    pub(super) fn describe(&self) -> String {
        let mut words = vec![self.target().map_or_else(
            || "there is no Deployment".to_owned(),
            |target| {
                let state = &target.state;
                let progress = state.conditions.iter().find(|condition| {
                    condition.type_ == "Progressing" && condition.status == ConditionStatus::False
                });
                let progress = progress.map_or_else(String::new, |condition| {
                    format!(
                        ", Progressing is False ({}: {})",
                        condition.reason, condition.message
                    )
                });
                format!(
                    "Deployment {}: {} wanted, {} in all, {} updated, {} ready, {} available, \
                     generation {} of {} observed{progress}",
                    state.name,
                    state.wanted,
                    state.replicas,
                    state.updated,
                    state.ready,
                    state.available,
                    state.observed_generation,
                    state.generation,
                )
            },
        )];
        words.extend(self.pods().map(|pod| {
            let age = if self.is_new(pod) { "new" } else { "old" };
            let state = &pod.member.state;
            let ready = if state.ready { "ready" } else { "not ready" };
            let end = if state.terminating {
                ", terminating"
            } else {
                ""
            };
            let phase = &state.phase;
            format!("{age} pod {} {phase}, {ready}{end}", state.name)
        }));
        if let Some((times, fault)) = self.failures() {
            words.push(format!(
                "failures of a watch: {times}, the last one: {fault}"
            ));
        }
        words.join("; ")
    }
}
