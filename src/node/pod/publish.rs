//! Keeps a pod's status on the API server equal to what is known here, whoever changes it there.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Pod, PodCondition, PodStatus};
use kube::api::{Api, Patch, PatchParams};
use tokio::time::sleep;

use super::Worker;
use crate::cluster::fault::Fault;
use crate::node::uplink::{Lane, Trouble, passes, version};
use crate::node::{status, time};

/// After a refusal that a later attempt may not meet.
const REFUSED_PAUSE: Duration = Duration::from_secs(5);

/// What the API server has, as far as it is known.
struct Desk {
    /// The newest object seen.
    newest: Pod,
    /// The conditions that were decided on last, for their times.
    conditions: Vec<PodCondition>,
    /// What was sent last, and what the server made of it: it may know fewer fields.
    sent: Option<(PodStatus, PodStatus)>,
}

impl Desk {
    fn new(pod: Pod) -> Self {
        let status = pod.status.as_ref();
        let conditions = status.and_then(|status| status.conditions.clone());
        Self {
            newest: pod,
            conditions: conditions.unwrap_or_default(),
            sent: None,
        }
    }

    /// A watch may deliver what an answer has shown before.
    fn see(&mut self, pod: &Pod) {
        if version(&pod.metadata) >= version(&self.newest.metadata) {
            self.newest = pod.clone();
        }
    }

    fn is_current(&self, wanted: &PodStatus) -> bool {
        let served = || self.newest.status.as_ref().map(status::owned);
        self.sent.as_ref().is_some_and(|(sent, made)| {
            sent == wanted && served().is_some_and(|served| served == *made)
        })
    }

    fn wrote(&mut self, wanted: PodStatus, answer: Pod) {
        let made = answer.status.as_ref().map(status::owned);
        self.see(&answer);
        self.sent = Some((wanted, made.unwrap_or_default()));
    }
}

/// Whether a fault says that the pod is not there any more, or another one has its name.
pub(super) fn is_gone(fault: &Fault) -> bool {
    match fault {
        Fault::NotFound { .. } => true,
        Fault::Rejected { message } => message.contains("metadata.uid"),
        Fault::Conflict { message } => message.contains("UID"),
        _ => false,
    }
}

impl Worker {
    /// Writes the pod's status whenever it has to; returns when the last one is written, or when
    /// nothing is to be reported any more.
    pub(super) async fn publish(&self) {
        tokio::select! {
            () = self.control.muted() => {}
            () = self.keep_published() => {}
        }
    }

    async fn keep_published(&self) {
        let mut records = self.record.subscribe();
        let mut pods = self.pod.clone();
        let mut desk = Desk::new((*self.pod()).clone());
        let api: Api<Pod> = Api::namespaced(self.kubelet.uplink.client(), &self.key.namespace);
        let what = format!("the status of {}/{}", self.key.namespace, self.key.name);
        let mut trouble = Trouble::new(&self.kubelet.journal, &what);
        loop {
            self.kubelet.uplink.audible().await;
            let record = records.borrow_and_update().clone();
            desk.see(&pods.borrow_and_update().clone());
            let now = time::now();
            let wanted = status::compose(&desk.newest, &record, &desk.conditions, &now);
            if desk.is_current(&wanted) {
                if record.closed {
                    return;
                }
                tokio::select! {
                    // Neither sender goes away before the worker does.
                    _ = records.changed() => {}
                    _ = pods.changed() => {}
                }
                continue;
            }
            desk.conditions = wanted.conditions.clone().unwrap_or_default();
            let written = self.write(&api, &wanted).await;
            match written {
                Ok(answer) => {
                    trouble.over();
                    desk.wrote(wanted, answer);
                }
                Err(fault) if is_gone(&fault) => {
                    self.control.end(Duration::ZERO);
                    self.control.mute();
                }
                Err(fault) if passes(&fault) || matches!(fault, Fault::Conflict { .. }) => {
                    trouble.wait(&fault).await;
                }
                Err(fault) => {
                    self.kubelet
                        .journal
                        .note(&format!("{what} is refused: {fault}"));
                    sleep(REFUSED_PAUSE).await;
                }
            }
        }
    }

    async fn write(&self, api: &Api<Pod>, wanted: &PodStatus) -> Result<Pod, Fault> {
        let patch = status::patch(&self.uid, wanted);
        let patch = Patch::Strategic(patch.map_err(|error| Fault::Other(error.to_string()))?);
        let params = PatchParams::default();
        let request = api.patch_status(&self.key.name, &params, &patch);
        self.kubelet.uplink.attempt(Lane::Pods, request).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(version: &str, phase: &str) -> Pod {
        let mut pod = Pod::default();
        pod.metadata.resource_version = Some(version.to_owned());
        pod.status = Some(status(phase));
        pod
    }

    fn status(phase: &str) -> PodStatus {
        let status = PodStatus {
            phase: Some(phase.to_owned()),
            ..PodStatus::default()
        };
        status::owned(&status)
    }

    #[test]
    fn nothing_is_current_before_it_was_written() {
        let mut desk = Desk::new(pod("1", "Running"));
        assert!(!desk.is_current(&status("Running")));
        desk.wrote(status("Running"), pod("2", "Running"));
        assert!(desk.is_current(&status("Running")));
        assert!(!desk.is_current(&status("Failed")));
    }

    #[test]
    fn an_echo_of_the_past_is_no_contradiction() {
        let mut desk = Desk::new(pod("1", "Pending"));
        desk.wrote(status("Running"), pod("9", "Running"));
        desk.see(&pod("5", "Pending"));
        assert!(desk.is_current(&status("Running")));
        desk.see(&pod("10", "Failed"));
        assert!(!desk.is_current(&status("Running")));
    }

    #[test]
    fn what_the_server_does_not_know_is_not_sent_for_ever() {
        let mut desk = Desk::new(pod("1", "Pending"));
        let wanted = PodStatus {
            observed_generation: Some(1),
            ..status("Running")
        };
        desk.wrote(wanted.clone(), pod("2", "Running"));
        assert!(desk.is_current(&wanted));
    }
}
