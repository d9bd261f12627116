//! A pod's phase, by the kubelet's rules.

use super::record::{ContainerRecord, Record, State};

/// When ended containers are started again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::node) enum RestartPolicy {
    /// Always.
    Always,
    /// When they ended badly.
    OnFailure,
    /// Never.
    Never,
}

impl RestartPolicy {
    /// Of a pod's spec; the API server has filled in what was left out.
    pub(in crate::node) fn parse(text: Option<&str>) -> Self {
        match text {
            Some("Never") => Self::Never,
            Some("OnFailure") => Self::OnFailure,
            _ => Self::Always,
        }
    }

    /// For init containers: one that ended well is done in any case.
    pub(in crate::node) fn of_init(self) -> Self {
        match self {
            Self::Never => Self::Never,
            Self::Always | Self::OnFailure => Self::OnFailure,
        }
    }

    /// Whether a container that ended so is started again.
    pub(in crate::node) fn restarts(self, exit_code: i32) -> bool {
        match self {
            Self::Always => true,
            Self::OnFailure => exit_code != 0,
            Self::Never => false,
        }
    }
}

/// Where a pod is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::node) enum Phase {
    /// Not all of its containers have been started.
    Pending,
    /// All have been started, and some run or will again.
    Running,
    /// All ended well and none is started again.
    Succeeded,
    /// All ended, one of them badly, and none is started again.
    Failed,
}

impl Phase {
    /// As the API spells it.
    pub(in crate::node) fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Running => "Running",
            Self::Succeeded => "Succeeded",
            Self::Failed => "Failed",
        }
    }

    pub(super) fn of(record: &Record, policy: RestartPolicy) -> Self {
        let init_failed = |container: &ContainerRecord| {
            container.exit_code().is_some_and(|code| code != 0) && policy == RestartPolicy::Never
        };
        if record.init.iter().any(init_failed) {
            return Self::Failed;
        }
        let main_began = record.main.iter().any(ContainerRecord::was_started);
        let init_done = record.init.iter().all(|c| c.exit_code() == Some(0));
        if !record.closed && !main_began && !init_done {
            return Self::Pending;
        }
        let count = |which: &dyn Fn(&ContainerRecord) -> bool| {
            record
                .main
                .iter()
                .filter(|container| which(container))
                .count()
        };
        // One that waits to be started again has had its first start.
        let waiting = count(&|container| {
            matches!(container.state, State::Waiting { .. }) && container.last.is_none()
        });
        let running = count(&|container| matches!(container.state, State::Running(_)));
        let well = count(&|container| container.exit_code() == Some(0));
        let all_well = well == record.main.len();
        match (waiting, running) {
            (1.., _) => Self::Pending,
            (0, 1..) => Self::Running,
            (0, 0) if record.closed && all_well => Self::Succeeded,
            (0, 0) if record.closed => Self::Failed,
            (0, 0) if policy == RestartPolicy::Always => Self::Running,
            (0, 0) if all_well => Self::Succeeded,
            (0, 0) if policy == RestartPolicy::Never => Self::Failed,
            (0, 0) => Self::Running,
        }
    }
}
