//! How long each part of a run may take. Every one of them is many times what it takes on two cores
//! (`helm-moves.md` A, E, W), so that only what is stuck meets its limit.

use std::time::Duration;

/// For one run of the helm program: what `--timeout` gets. A sound move takes 10 to 25 s; the
/// container of a controller that crashes at once has been tried five times by then.
pub const HELM: Duration = Duration::from_secs(180);
/// For the rollout after helm has come back with success: helm has waited for it.
pub const ROLLOUT: Duration = Duration::from_secs(60);
/// For a look at a rollout after helm has come back with an error.
pub const LOOK: Duration = Duration::from_secs(2);
/// Without a write or a reconcile for so long, a process has settled (`design.md` 7).
pub const QUIET: Duration = Duration::from_secs(5);
/// So long nothing may have been written or reconciled before a window (STS-01).
pub const QUIET_BEFORE_WINDOW: Duration = Duration::from_secs(30);
/// So long that is waited for; the window then opens all the same.
pub const PATIENCE: Duration = Duration::from_secs(180);
/// For definitions to be accepted and served.
pub const DEFINITIONS: Duration = Duration::from_secs(60);
/// For the controller to have read its configuration.
pub const CONFIGURATION: Duration = Duration::from_secs(120);
/// For a rollout that had stalled to go on by itself once its definitions are there: its pod is tried
/// again every few minutes, and ready at the next tick of its probe.
pub const RECOVERY: Duration = Duration::from_secs(300);
/// For pods to vanish after helm has uninstalled them.
pub const PODS_GONE: Duration = Duration::from_secs(60);
/// For all namespaces to vanish (CLN-02).
pub const NAMESPACES_GONE: Duration = Duration::from_secs(300);
/// For one reading of the controller's metrics.
pub const SCRAPE: Duration = Duration::from_secs(20);
/// For what the server keeps by itself, such as the APIService of a definition, to follow.
pub const AS_FOUND: Duration = Duration::from_secs(20);
/// For a helm that was asked to end to write down that it did.
pub const HELM_ENDS: Duration = Duration::from_secs(20);

/// Between two looks whether it has.
pub const HELM_PAUSE: Duration = Duration::from_millis(500);
/// For the answer to one request.
pub const ANSWER: Duration = Duration::from_secs(30);

/// The slowest walk over workloads that is still waited for, per second. A real controller does 130.
const WALKED_PER_SECOND: u64 = 10;
/// The slowest load that is still waited for, per second, without a rate of the user's.
const MADE_PER_SECOND: u64 = 10;

/// For a process to settle that looks at so many workloads.
#[must_use]
pub fn settle(workloads: u64) -> Duration {
    Duration::from_secs(60 + workloads / WALKED_PER_SECOND)
}

/// For so many workloads to be made, at so many per second.
#[must_use]
pub fn load(workloads: u32, rate: Option<std::num::NonZeroU32>) -> Duration {
    let paced = rate.map_or(0, |rate| u64::from(workloads) / u64::from(rate.get()));
    Duration::from_secs(60 + paced + u64::from(workloads) / MADE_PER_SECOND)
}

/// For a snapshot of so many workloads.
#[must_use]
pub fn snapshot(workloads: u64) -> Duration {
    Duration::from_secs(60 + workloads / 100)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_of_the_users_has_its_time() {
        let slow = std::num::NonZeroU32::new(1);
        assert_eq!(load(100, None), Duration::from_secs(70));
        assert_eq!(load(100, slow), Duration::from_secs(170));
    }
}
