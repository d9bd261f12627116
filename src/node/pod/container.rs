//! One container of a pod: started, judged, ended and started again.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, ContainerStateTerminated};
use tokio::time::{Instant, sleep, timeout};

use super::{Slot, Worker};
use crate::node::backoff::Backoff;
use crate::node::container::{Finished, Running, Sandbox, StartError};
use crate::node::events::{Kind, pod_reference};
use crate::node::image::Pulled;
use crate::node::probe::{self, Probes, Report};
use crate::node::status::{ContainerRecord, HOST, RestartPolicy, State};
use crate::node::time;
use crate::node::view::ContainerView;

/// A container that cannot be configured is tried again this often, as often as a kubelet looks at a
/// pod that it could not bring up; it also reminds of a back-off this often.
const RETRY: Duration = Duration::from_secs(10);

/// Whoever sees to one container.
pub(super) struct Supervisor<'a> {
    pub(super) worker: &'a Worker,
    pub(super) sandbox: &'a Sandbox,
    pub(super) container: &'a Container,
    pub(super) slot: Slot,
    pub(super) policy: RestartPolicy,
}

impl Supervisor<'_> {
    /// Keeps the container in the state that its policy asks for. Returns its exit code when it is
    /// not started any more, or [`None`] when the pod is to end.
    pub(super) async fn run(&self) -> Option<i32> {
        // In an earlier life of the node.
        if let Some(ended) = self.record().ended_for_good(self.policy) {
            return Some(ended);
        }
        let mut backoff = Backoff::crash_loop();
        let mut start = self.first_start();
        loop {
            let pulled = self.worker.control.unless_ended(self.pull()).await?;
            let started = self.start(&pulled, start);
            // Not cut short: a process that was made must be known to be ended.
            let ended = match started.await {
                Ok(running) => self.attend(&pulled, &running).await,
                Err(StartError::Run(message)) => self.failed_to_run(message),
                Err(StartError::Config(message) | StartError::Volume(message)) => {
                    self.cannot_configure(message).await?;
                    continue;
                }
            };
            if self.worker.control.is_ended() {
                return None;
            }
            if !self.policy.restarts(ended) {
                return Some(ended);
            }
            self.back_off(&mut backoff).await?;
            start += 1;
        }
    }

    /// Says, until the pod is to end, that this is a kind of container which this node does not have.
    pub(super) async fn refuse(&self) {
        const WHY: &str = "this node has no init containers that go on running (restartPolicy)";
        while self.cannot_configure(WHY.to_owned()).await.is_some() {}
    }

    /// Counts on from what an earlier life of the node had started.
    fn first_start(&self) -> u32 {
        let record = self.record();
        record.restarts + u32::from(record.was_started())
    }

    pub(super) fn record(&self) -> ContainerRecord {
        let record = self.worker.record.borrow();
        match self.slot {
            Slot::Init(number) => record.init[number].clone(),
            Slot::Main(number) => record.main[number].clone(),
        }
    }

    fn change(&self, change: impl FnOnce(&mut ContainerRecord)) {
        self.worker.record.send_modify(|record| {
            change(match self.slot {
                Slot::Init(number) => &mut record.init[number],
                Slot::Main(number) => &mut record.main[number],
            });
        });
    }

    fn show(&self, change: impl FnOnce(&mut ContainerView)) {
        let name = self.container.name.clone();
        self.worker
            .show(|pod| change(pod.containers.entry(name).or_default()));
    }

    pub(super) fn event(&self, kind: Kind, reason: &'static str, message: String) {
        let part = match self.slot {
            Slot::Init(_) => "initContainers",
            Slot::Main(_) => "containers",
        };
        let mut subject = pod_reference(&self.worker.pod());
        subject.field_path = Some(format!("spec.{part}{{{}}}", self.container.name));
        let recorder = &self.worker.kubelet.recorder;
        recorder.event(subject, kind, reason, message);
    }

    pub(super) fn is_main(&self) -> bool {
        matches!(self.slot, Slot::Main(_))
    }

    pub(super) fn image(&self) -> &str {
        self.container.image.as_deref().unwrap_or_default()
    }

    pub(super) fn wait_as(&self, reason: &'static str, message: Option<String>) {
        self.change(|container| {
            if let State::Terminated(ended) = &container.state {
                container.last = Some(ended.clone());
            }
            container.state = State::Waiting { reason, message };
        });
    }

    async fn start(&self, pulled: &Pulled, start: u32) -> Result<Running, StartError> {
        let mut pod = (*self.worker.pod()).clone();
        // Where the process is reached, and what it may listen on.
        let status = pod.status.get_or_insert_default();
        status.host_ip = Some(HOST.to_owned());
        status.pod_ip = Some(HOST.to_owned());
        let running = self
            .sandbox
            .start(&pod, self.container, pulled, start)
            .await;
        let name = &self.container.name;
        // What was tried counts as a start, also where it came to nothing.
        if !matches!(running, Err(StartError::Config(_) | StartError::Volume(_))) {
            self.change(|container| container.restarts = start);
            self.event(
                Kind::Normal,
                "Created",
                format!("Created container: {name}"),
            );
        }
        running
    }

    async fn cannot_configure(&self, message: String) -> Option<()> {
        self.event(Kind::Warning, "Failed", format!("Error: {message}"));
        self.wait_as("CreateContainerConfigError", Some(message));
        self.worker.control.unless_ended(sleep(RETRY)).await
    }

    /// Accounts for a process that could not be made; its exit code.
    fn failed_to_run(&self, message: String) -> i32 {
        const CANNOT_RUN: i32 = 128;
        self.event(Kind::Warning, "Failed", format!("Error: {message}"));
        let now = time::now();
        let policy = self.policy;
        self.change(|container| {
            container.fail_to_run(
                ContainerStateTerminated {
                    exit_code: CANNOT_RUN,
                    reason: Some("StartError".to_owned()),
                    message: Some(message),
                    started_at: Some(now.clone()),
                    finished_at: Some(now),
                    ..ContainerStateTerminated::default()
                },
                policy,
            );
        });
        CANNOT_RUN
    }

    /// Sees to a process until it has ended; its exit code.
    async fn attend(&self, pulled: &Pulled, running: &Running) -> i32 {
        self.note_start(pulled, running);
        let faults = self.worker.faults();
        if self.is_main()
            && let Some(silence) = faults.silence
            && self.worker.is_first_silence()
        {
            self.worker.kubelet.uplink.silence(silence);
        }
        let crash_after = faults.crash_after.filter(|_| self.is_main());
        let killed = async {
            match crash_after {
                Some(after) => sleep(after).await,
                None => std::future::pending().await,
            }
        };
        let finished = tokio::select! {
            finished = running.exited() => finished,
            finished = self.judge(running) => finished,
            () = killed => as_killed(running.stop(Duration::ZERO).await),
            grace = self.worker.control.ended() => self.end(running, grace).await,
        };
        self.note_end(running, &finished)
    }

    fn note_start(&self, pulled: &Pulled, running: &Running) {
        let name = &self.container.name;
        self.event(Kind::Normal, "Started", format!("Started container {name}"));
        let started =
            running.ports().is_none() || !probe::has(self.container, probe::Kind::Startup);
        let ready = started
            && (running.ports().is_none() || !probe::has(self.container, probe::Kind::Readiness));
        self.change(|container| {
            if let State::Terminated(ended) = &container.state {
                container.last = Some(ended.clone());
            }
            container.state = State::Running(time::at(running.started_at()));
            container.image_id.clone_from(&pulled.id);
            container.id = Some(running.container_id().to_owned());
            container.started = started;
            container.ready = ready;
        });
        self.show(|view| {
            view.previous_log = view.log.replace(running.log().to_owned());
            view.running = true;
            view.ports = running.ports().cloned();
        });
        if self.worker.faults().never_ready && self.is_main() {
            self.event(
                Kind::Warning,
                "Unhealthy",
                "Readiness probe failed: the pod asks for it by annotation".to_owned(),
            );
        }
    }

    fn note_end(&self, running: &Running, finished: &Finished) -> i32 {
        let reason = match finished.exit_code {
            0 => "Completed",
            _ => "Error",
        };
        let ended = ContainerStateTerminated {
            exit_code: finished.exit_code,
            reason: Some(reason.to_owned()),
            started_at: Some(time::at(finished.started_at)),
            finished_at: Some(time::at(finished.finished_at)),
            container_id: Some(running.container_id().to_owned()),
            ..ContainerStateTerminated::default()
        };
        self.change(|container| {
            container.state = State::Terminated(ended);
            container.started = false;
            container.ready = false;
        });
        self.show(|view| {
            view.running = false;
            view.ports = None;
        });
        finished.exit_code
    }

    /// Follows the probes; returns when the container had to be ended because of them.
    async fn judge(&self, running: &Running) -> Finished {
        // Nothing can be asked where there is no process.
        let Some(ports) = running.ports() else {
            return std::future::pending().await;
        };
        let mut probes = Probes::begin(self.container, ports.clone(), Instant::now());
        let has_readiness = probe::has(self.container, probe::Kind::Readiness);
        loop {
            let Report {
                kind,
                failure,
                healthy,
                restart,
            } = probes.next().await;
            if let Some(failure) = failure {
                self.event(Kind::Warning, "Unhealthy", failure);
            }
            if restart {
                return self.restart(running, kind).await;
            }
            match kind {
                probe::Kind::Readiness => {
                    self.change_if(|known| known.ready != healthy, |c| c.ready = healthy);
                }
                probe::Kind::Startup if healthy => self.change_if(
                    |known| !known.started,
                    |container| {
                        container.started = true;
                        container.ready = !has_readiness;
                    },
                ),
                probe::Kind::Startup | probe::Kind::Liveness => {}
            }
        }
    }

    fn change_if(
        &self,
        differs: impl FnOnce(&ContainerRecord) -> bool,
        change: impl FnOnce(&mut ContainerRecord),
    ) {
        if differs(&self.record()) {
            self.change(change);
        }
    }

    async fn restart(&self, running: &Running, kind: probe::Kind) -> Finished {
        let message = failed_probe(&self.container.name, kind, self.policy);
        self.event(Kind::Normal, "Killing", message);
        let probe = match kind {
            probe::Kind::Startup => &self.container.startup_probe,
            probe::Kind::Liveness | probe::Kind::Readiness => &self.container.liveness_probe,
        };
        let own = probe
            .as_ref()
            .and_then(|probe| probe.termination_grace_period_seconds);
        let own = own.and_then(|seconds| u64::try_from(seconds).ok());
        let grace = own.map_or_else(|| self.worker.grace(), Duration::from_secs);
        self.stop(running, grace).await
    }

    /// Ends the container because the pod is to end.
    async fn end(&self, running: &Running, grace: Duration) -> Finished {
        let name = &self.container.name;
        self.event(
            Kind::Normal,
            "Killing",
            format!("Stopping container {name}"),
        );
        let slow = self.worker.faults().slow_termination.unwrap_or_default();
        let slow = slow.min(grace);
        let hurry = self.worker.control.hurried(grace);
        // Like a hook that runs before the signal, on the time of the grace period.
        match timeout(slow, hurry).await {
            Ok(shorter) => self.stop(running, shorter).await,
            Err(_) => self.stop(running, grace - slow).await,
        }
    }

    async fn stop(&self, running: &Running, grace: Duration) -> Finished {
        tokio::select! {
            finished = running.stop(grace) => finished,
            shorter = self.worker.control.hurried(grace) => running.stop(shorter).await,
        }
    }

    /// Waits before the next start.
    async fn back_off(&self, backoff: &mut Backoff) -> Option<()> {
        let delay = backoff.after(Instant::now());
        if delay.is_zero() {
            return Some(());
        }
        let (pod, name) = (self.worker.pod(), &self.container.name);
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        let place = format!(
            "{}_{}({})",
            text(&pod.metadata.name),
            text(&pod.metadata.namespace),
            text(&pod.metadata.uid)
        );
        let message = format!(
            "back-off {} restarting failed container={name} pod={place}",
            time::go_duration(delay)
        );
        self.wait_as("CrashLoopBackOff", Some(message));
        let until = Instant::now() + delay;
        while Instant::now() < until {
            self.event(
                Kind::Warning,
                "BackOff",
                format!("Back-off restarting failed container {name} in pod {place}"),
            );
            let next = RETRY.min(until.saturating_duration_since(Instant::now()));
            self.worker.control.unless_ended(sleep(next)).await?;
        }
        Some(())
    }
}

/// However the process took it, it was killed.
fn as_killed(finished: Finished) -> Finished {
    const KILL: i32 = 9;
    Finished {
        exit_code: 128 + KILL,
        signal: Some(KILL),
        ..finished
    }
}

/// Why a container is killed, in the kubelet's words.
fn failed_probe(name: &str, kind: probe::Kind, policy: RestartPolicy) -> String {
    let kind = kind.to_string().to_lowercase();
    let then = match policy {
        RestartPolicy::Never => "",
        RestartPolicy::OnFailure | RestartPolicy::Always => ", will be restarted",
    };
    format!("Container {name} failed {kind} probe{then}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_restart_is_announced_only_where_one_follows() {
        let message = |policy| failed_probe("app", probe::Kind::Liveness, policy);
        assert_eq!(
            message(RestartPolicy::Always),
            "Container app failed liveness probe, will be restarted"
        );
        assert_eq!(
            message(RestartPolicy::Never),
            "Container app failed liveness probe"
        );
    }
}
