//! One pod: its worker takes it from the first look to the final DELETE.
//!
//! Two things go on at the same time: [`life`](Worker::live) does what the pod's spec asks for and
//! keeps a [`Record`] of it; [`publish`] makes the API server know.

mod container;
mod control;
mod publish;
mod pull;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use k8s_openapi::api::core::v1::{Container, Pod, PodSpec};
use kube::api::{Api, DeleteParams, Preconditions};
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use super::addresses::{Address, Addresses};
use super::backoff::Backoff;
use super::container::{Containers, Sandbox, StartError};
use super::events::{Kind, Recorder, pod_reference};
use super::faults::Faults;
use super::journal::Journal;
use super::options::NodeOptions;
use super::status::{Record, RestartPolicy};
use super::time;
use super::uplink::{Lane, Trouble, Uplink};
use super::view::{ContainerView, PodKey, PodView, Pods};

use container::Supervisor;
pub(super) use control::Control;
use publish::is_gone;

/// What all pods of a node share.
pub(super) struct Kubelet {
    pub(super) options: NodeOptions,
    pub(super) uplink: Arc<Uplink>,
    pub(super) journal: Arc<Journal>,
    pub(super) recorder: Recorder,
    pub(super) containers: Containers,
    pub(super) pods: Pods,
    pub(super) addresses: Addresses,
}

/// The worker of one pod.
pub(super) struct Worker {
    kubelet: Arc<Kubelet>,
    key: PodKey,
    uid: String,
    pod: watch::Receiver<Arc<Pod>>,
    record: watch::Sender<Record>,
    view: Mutex<PodView>,
    control: Control,
    /// Whether the pod has already made the node go silent.
    was_silent: AtomicBool,
}

/// Which of a pod's containers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Slot {
    /// The n-th init container.
    Init(usize),
    /// The n-th other one.
    Main(usize),
}

impl Worker {
    pub(super) fn new(
        kubelet: Arc<Kubelet>,
        pod: watch::Receiver<Arc<Pod>>,
        control: Control,
    ) -> Self {
        let first = Arc::clone(&pod.borrow());
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        Self {
            kubelet,
            key: PodKey {
                namespace: text(&first.metadata.namespace),
                name: text(&first.metadata.name),
            },
            uid: text(&first.metadata.uid),
            record: watch::Sender::new(Record::take(&first, &time::now())),
            view: Mutex::new(view(&first)),
            pod,
            control,
            was_silent: AtomicBool::new(false),
        }
    }

    /// The pod as it is now.
    fn pod(&self) -> Arc<Pod> {
        Arc::clone(&self.pod.borrow())
    }

    fn spec(&self) -> PodSpec {
        self.pod().spec.clone().unwrap_or_default()
    }

    fn faults(&self) -> Faults {
        Faults::of(&self.pod()).0
    }

    /// A pod makes the node go silent once, not with every restart.
    fn is_first_silence(&self) -> bool {
        !self.was_silent.swap(true, Ordering::SeqCst)
    }

    fn event(&self, kind: Kind, reason: &'static str, message: String) {
        let subject = pod_reference(&self.pod());
        self.kubelet.recorder.event(subject, kind, reason, message);
    }

    /// Takes the pod from now to its end.
    pub(super) async fn run(self) {
        self.show_first();
        let what = format!("{}/{} ({})", self.key.namespace, self.key.name, self.uid);
        self.kubelet.journal.note(&format!("takes {what}"));
        let before = self.pod();
        let phase = before.status.as_ref().and_then(|s| s.phase.as_deref());
        // What ended in an earlier life of the node stays as it was reported then.
        let is_over = matches!(phase, Some("Succeeded" | "Failed"));
        let sandbox = if is_over {
            self.control.ended().await;
            None
        } else {
            let (sandbox, ()) = tokio::join!(self.live(), self.publish());
            sandbox
        };
        if let Some(sandbox) = sandbox
            && let Err(error) = sandbox.remove().await
        {
            let line = format!("the folder of {what} cannot be removed: {error}");
            self.kubelet.journal.note(&line);
        }
        if !self.control.is_mute() {
            tokio::select! {
                () = self.control.muted() => {}
                () = self.delete() => {}
            }
        }
        self.kubelet.pods.hide(&self.key, &self.uid);
        self.kubelet.journal.note(&format!("is done with {what}"));
    }

    /// Does what the spec asks for until the pod is to end, and ends what runs then.
    async fn live(&self) -> Option<Sandbox> {
        for fault in Faults::of(&self.pod()).1 {
            self.event(Kind::Warning, "UnknownFault", fault.to_string());
        }
        let mut address = None;
        let sandbox = self.prepare().await;
        if let Some(sandbox) = &sandbox {
            address = self.kubelet.addresses.give();
            let ip = address.as_ref().map(Address::ip);
            self.record.send_modify(|record| record.address = ip);
            self.run_containers(sandbox).await;
        }
        self.record.send_modify(|record| record.over = true);
        self.control.ended().await;
        self.record.send_modify(Record::close);
        drop(address);
        sandbox
    }

    /// Makes the pod's folder and volumes, trying until they can be made; [`None`] when the pod is
    /// to end before.
    async fn prepare(&self) -> Option<Sandbox> {
        let mut backoff = Backoff::volume();
        while !self.control.is_ended() {
            // Not cut short: what was made, secrets among it, must be known to be removed. No
            // request of it waits for long.
            let error = match self.kubelet.containers.prepare(&self.pod()).await {
                Ok(sandbox) => return Some(sandbox),
                Err(error) => error,
            };
            let reason = match &error {
                StartError::Volume(_) => "FailedMount",
                StartError::Config(_) | StartError::Run(_) => "FailedCreatePodSandBox",
            };
            self.event(Kind::Warning, reason, error.to_string());
            let pause = sleep(backoff.after(Instant::now()));
            self.control.unless_ended(pause).await?;
        }
        None
    }

    /// Init containers one after another, then the others side by side; returns when none of them
    /// runs or will run again.
    async fn run_containers(&self, sandbox: &Sandbox) {
        let spec = self.spec();
        let policy = RestartPolicy::parse(spec.restart_policy.as_deref());
        let init = spec.init_containers.as_deref().unwrap_or_default();
        for (number, container) in init.iter().enumerate() {
            let supervisor = Supervisor {
                worker: self,
                sandbox,
                container,
                slot: Slot::Init(number),
                policy: policy.of_init(),
            };
            if container.restart_policy.is_some() {
                return supervisor.refuse().await;
            }
            if supervisor.run().await != Some(0) {
                return;
            }
        }
        let main = spec.containers.iter().enumerate();
        let supervisors: Vec<Supervisor<'_>> = main
            .map(|(number, container)| Supervisor {
                worker: self,
                sandbox,
                container,
                slot: Slot::Main(number),
                policy,
            })
            .collect();
        join_all(supervisors.iter().map(Supervisor::run)).await;
    }

    /// The last word on a pod: its object may go. One that is not there any more has gone already.
    async fn delete(&self) {
        let api: Api<Pod> = Api::namespaced(self.kubelet.uplink.client(), &self.key.namespace);
        let params = DeleteParams::default()
            .grace_period(0)
            .preconditions(Preconditions {
                uid: Some(self.uid.clone()),
                resource_version: None,
            });
        let PodKey { namespace, name } = &self.key;
        let what = format!("the deletion of {namespace}/{name}");
        let mut trouble = Trouble::new(&self.kubelet.journal, &what);
        loop {
            let request = api.delete(name, &params);
            match self.kubelet.uplink.attempt(Lane::Pods, request).await {
                // Nobody else deletes it: there is no answer after which to give up.
                Err(fault) if !is_gone(&fault) => trouble.wait(&fault).await,
                Ok(_) | Err(_) => return trouble.over(),
            }
        }
    }

    /// Lets the kubelet port see this pod instead of an earlier one of its name.
    fn show_first(&self) {
        let view = self.view.lock().unwrap_or_else(PoisonError::into_inner);
        self.kubelet.pods.show(self.key.clone(), view.clone());
    }

    /// Changes what the kubelet port sees of the pod.
    fn show(&self, change: impl FnOnce(&mut PodView)) {
        let mut view = self.view.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut view);
        self.kubelet.pods.update(&self.key, view.clone());
    }

    /// The time that a pod's containers have to end.
    fn grace(&self) -> Duration {
        let seconds = self.spec().termination_grace_period_seconds;
        let seconds = seconds.and_then(|seconds| u64::try_from(seconds).ok());
        // What the API server fills in.
        Duration::from_secs(seconds.unwrap_or(30))
    }
}

/// What the kubelet port sees of a pod of which nothing was started.
fn view(pod: &Pod) -> PodView {
    let spec = pod.spec.clone().unwrap_or_default();
    let init = spec.init_containers.unwrap_or_default();
    let declared = |container: &Container| {
        let ports = container.ports.iter().flatten();
        let numbers = ports.filter_map(|port| u16::try_from(port.container_port).ok());
        let view = ContainerView {
            declared_ports: numbers.collect(),
            ..ContainerView::default()
        };
        (container.name.clone(), view)
    };
    let all = init.iter().chain(&spec.containers).map(declared);
    let containers: BTreeMap<String, ContainerView> = all.collect();
    PodView {
        uid: pod.metadata.uid.clone().unwrap_or_default(),
        containers,
        order: spec.containers.into_iter().map(|c| c.name).collect(),
    }
}
