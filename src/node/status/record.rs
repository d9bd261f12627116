//! What a pod's worker knows of it.

use std::net::Ipv4Addr;

use k8s_openapi::api::core::v1::{
    Container, ContainerState, ContainerStateTerminated, ContainerStatus, Pod,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::phase::RestartPolicy;

/// Everything that a pod's status is made of, beside the pod itself.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::node) struct Record {
    /// When the node took the pod.
    pub(in crate::node) taken: Time,
    /// Given once its folder and volumes are there.
    pub(in crate::node) address: Option<Ipv4Addr>,
    /// In the order of the spec.
    pub(in crate::node) init: Vec<ContainerRecord>,
    /// In the order of the spec.
    pub(in crate::node) main: Vec<ContainerRecord>,
    /// Nothing of it will be started any more.
    pub(in crate::node) over: bool,
    /// It was asked to end and nothing of it runs: the next status is the last one.
    pub(in crate::node) closed: bool,
}

/// One container.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::node) struct ContainerRecord {
    pub(in crate::node) name: String,
    /// As the spec names it.
    pub(in crate::node) image: String,
    /// As it was pulled.
    pub(in crate::node) image_id: String,
    /// Of its last start.
    pub(in crate::node) id: Option<String>,
    pub(in crate::node) state: State,
    /// How the start before ended.
    pub(in crate::node) last: Option<ContainerStateTerminated>,
    /// Starts after the first one.
    pub(in crate::node) restarts: u32,
    /// Whether it has passed its startup probe.
    pub(in crate::node) started: bool,
    /// Whether it has passed its readiness probe.
    pub(in crate::node) ready: bool,
}

/// What a container does.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::node) enum State {
    /// It waits to be started.
    Waiting {
        /// One of the kubelet's reasons.
        reason: &'static str,
        /// More words.
        message: Option<String>,
    },
    /// It runs since then.
    Running(Time),
    /// It ended.
    Terminated(ContainerStateTerminated),
}

impl State {
    /// It waits, without more words than the reason.
    pub(in crate::node) fn waiting(reason: &'static str) -> Self {
        Self::Waiting {
            reason,
            message: None,
        }
    }
}

impl Record {
    /// A pod that this node takes now. If an earlier life of this node had it, its processes ended
    /// with that life, as they would when a machine is switched off.
    pub(in crate::node) fn take(pod: &Pod, now: &Time) -> Self {
        let spec = pod.spec.as_ref();
        let status = pod.status.as_ref();
        let init = spec.and_then(|spec| spec.init_containers.as_deref());
        let init = init.unwrap_or_default();
        let main = spec.map_or(&[][..], |spec| &spec.containers);
        let known = |all: Option<&Vec<ContainerStatus>>, name: &str| {
            all.and_then(|all| all.iter().find(|known| known.name == name).cloned())
        };
        let first = if init.is_empty() {
            "ContainerCreating"
        } else {
            "PodInitializing"
        };
        let take = |container: &Container, before: Option<ContainerStatus>| {
            let fresh = ContainerRecord {
                name: container.name.clone(),
                image: container.image.clone().unwrap_or_default(),
                image_id: String::new(),
                id: None,
                state: State::waiting(first),
                last: None,
                restarts: 0,
                started: false,
                ready: false,
            };
            match before {
                Some(before) => fresh.resume(before, now),
                None => fresh,
            }
        };
        Self {
            taken: status
                .and_then(|status| status.start_time.clone())
                .unwrap_or_else(|| now.clone()),
            address: None,
            init: init
                .iter()
                .map(|container| {
                    let all = status.and_then(|status| status.init_container_statuses.as_ref());
                    take(container, known(all, &container.name))
                })
                .collect(),
            main: main
                .iter()
                .map(|container| {
                    let all = status.and_then(|status| status.container_statuses.as_ref());
                    take(container, known(all, &container.name))
                })
                .collect(),
            over: false,
            closed: false,
        }
    }

    /// Nothing of the pod runs any more, or ever will.
    pub(in crate::node) fn close(&mut self) {
        self.over = true;
        self.closed = true;
        for container in self.init.iter_mut().chain(&mut self.main) {
            container.ready = false;
            container.started = false;
            if let State::Waiting { .. } = container.state {
                let never_seen = || {
                    lost(
                        137,
                        "ContainerStatusUnknown",
                        "The container could not be located when the pod was terminated",
                    )
                };
                let ended = container.last.take().unwrap_or_else(never_seen);
                container.state = State::Terminated(ended);
            }
        }
    }
}

impl ContainerRecord {
    /// Goes on from what an earlier life of the node reported.
    fn resume(self, before: ContainerStatus, now: &Time) -> Self {
        let state = before.state.unwrap_or_default();
        let (state, last) = match state {
            ContainerState {
                terminated: Some(ended),
                ..
            } => (State::Terminated(ended), before.last_state),
            ContainerState {
                running: Some(running),
                ..
            } => {
                let ended = ContainerStateTerminated {
                    container_id: before.container_id.clone(),
                    started_at: running.started_at,
                    finished_at: Some(now.clone()),
                    ..lost(255, "Unknown", "The node was stopped")
                };
                (State::Terminated(ended), before.last_state)
            }
            _ => (self.state.clone(), before.last_state),
        };
        Self {
            state,
            image_id: before.image_id,
            id: before.container_id,
            last: last.and_then(|last| last.terminated),
            restarts: u32::try_from(before.restart_count).unwrap_or(0),
            ..self
        }
    }

    /// Whether it has ever been started.
    pub(in crate::node) fn was_started(&self) -> bool {
        self.id.is_some()
    }

    /// A start that came to nothing, which counts as one all the same: it waits for the next one, if
    /// the policy has one.
    pub(in crate::node) fn fail_to_run(
        &mut self,
        ended: ContainerStateTerminated,
        policy: RestartPolicy,
    ) {
        self.id.get_or_insert_with(String::new);
        if policy.restarts(ended.exit_code) {
            self.state = State::Waiting {
                reason: "RunContainerError",
                message: ended.message.clone(),
            };
            self.last = Some(ended);
        } else {
            self.state = State::Terminated(ended);
        }
    }

    /// How it ended, if this policy does not start it again.
    pub(in crate::node) fn ended_for_good(&self, policy: RestartPolicy) -> Option<i32> {
        self.exit_code().filter(|code| !policy.restarts(*code))
    }

    /// How its last start ended, unless it runs or waits for another one.
    pub(in crate::node) fn exit_code(&self) -> Option<i32> {
        match &self.state {
            State::Terminated(ended) => Some(ended.exit_code),
            _ => None,
        }
    }
}

/// The end of a container that nobody saw.
fn lost(exit_code: i32, reason: &str, message: &str) -> ContainerStateTerminated {
    ContainerStateTerminated {
        exit_code,
        reason: Some(reason.to_owned()),
        message: Some(message.to_owned()),
        ..Default::default()
    }
}
