//! When a probe is tried and what its attempts add up to: no clock and no network in here.

use std::time::Duration;

use k8s_openapi::api::core::v1::Probe;

use super::Kind;

/// A probe's numbers. The API server fills in its defaults; they are repeated for specs that did not
/// pass through one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Schedule {
    /// Ticks earlier than this after the container's start are skipped.
    pub(super) initial_delay: Duration,
    /// Between two ticks.
    pub(super) period: Duration,
    /// For one attempt.
    pub(super) timeout: Duration,
    /// Successes in a row that make the container healthy.
    pub(super) successes: u32,
    /// Failures in a row that make it unhealthy.
    pub(super) failures: u32,
}

impl Schedule {
    pub(super) fn of(probe: &Probe) -> Self {
        let count = |field: Option<i32>, default: u32| {
            let given = field.and_then(|number| u32::try_from(number).ok());
            given.filter(|number| *number > 0).unwrap_or(default)
        };
        let seconds = |field, default| Duration::from_secs(count(field, default).into());
        Self {
            initial_delay: seconds(probe.initial_delay_seconds, 0),
            period: seconds(probe.period_seconds, 10),
            timeout: seconds(probe.timeout_seconds, 1),
            successes: count(probe.success_threshold, 1),
            failures: count(probe.failure_threshold, 3),
        }
    }

    /// Whether a tick so long after the container's start counts.
    pub(super) fn is_due(&self, since_start: Duration) -> bool {
        since_start >= self.initial_delay
    }
}

/// What the attempts so far add up to.
#[derive(Clone, Debug)]
pub(super) struct Tally {
    successes: u32,
    failures: u32,
    healthy: bool,
    last: bool,
    in_a_row: u32,
}

impl Tally {
    /// Before any attempt: a container is live until shown otherwise, and not started and not ready
    /// until shown to be.
    pub(super) fn new(kind: Kind, schedule: &Schedule) -> Self {
        Self {
            successes: schedule.successes,
            failures: schedule.failures,
            healthy: kind == Kind::Liveness,
            last: false,
            in_a_row: 0,
        }
    }

    pub(super) fn is_healthy(&self) -> bool {
        self.healthy
    }

    /// Counts an attempt, and says whether it completes its threshold (or lies beyond it).
    pub(super) fn count(&mut self, success: bool) -> bool {
        if self.last != success {
            self.last = success;
            self.in_a_row = 0;
        }
        self.in_a_row = self.in_a_row.saturating_add(1);
        let enough = if success {
            self.successes
        } else {
            self.failures
        };
        let complete = self.in_a_row >= enough;
        if complete {
            self.healthy = success;
        }
        complete
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(kind: Kind, successes: i32, failures: i32) -> Tally {
        let schedule = Schedule::of(&Probe {
            success_threshold: Some(successes),
            failure_threshold: Some(failures),
            ..Probe::default()
        });
        Tally::new(kind, &schedule)
    }

    /// What holds after each attempt; `+` is a success.
    fn after(mut tally: Tally, attempts: &str) -> Vec<bool> {
        let held = attempts.chars().map(|attempt| {
            tally.count(attempt == '+');
            tally.is_healthy()
        });
        held.collect()
    }

    #[test]
    fn defaults_are_those_of_the_api() {
        let second = Duration::from_secs(1);
        let expected = Schedule {
            initial_delay: Duration::ZERO,
            period: 10 * second,
            timeout: second,
            successes: 1,
            failures: 3,
        };
        assert_eq!(Schedule::of(&Probe::default()), expected);
        let nonsense = Probe {
            period_seconds: Some(0),
            failure_threshold: Some(-1),
            ..Probe::default()
        };
        assert_eq!(Schedule::of(&nonsense), expected);
    }

    #[test]
    fn a_container_is_live_but_neither_started_nor_ready_before_the_first_attempt() {
        let healthy = |kind| tally(kind, 1, 3).is_healthy();
        assert!(healthy(Kind::Liveness));
        assert!(!healthy(Kind::Startup));
        assert!(!healthy(Kind::Readiness));
    }

    #[test]
    fn thresholds_count_attempts_in_a_row() {
        let ready = after(tally(Kind::Readiness, 2, 3), "+-++--+---+++");
        let expected = [
            false, false, false, true, true, true, true, true, true, false, false, true, true,
        ];
        assert_eq!(ready, expected);
        assert_eq!(
            after(tally(Kind::Liveness, 1, 3), "--+---"),
            [true, true, true, true, true, false]
        );
        assert_eq!(
            after(tally(Kind::Startup, 1, 3), "--+"),
            [false, false, true]
        );
    }

    #[test]
    fn a_completed_threshold_is_told_apart_from_a_state_that_merely_holds() {
        let mut startup = tally(Kind::Startup, 1, 2);
        assert!(!startup.count(false));
        assert!(!startup.is_healthy());
        assert!(startup.count(false));
        assert!(!startup.is_healthy());
    }
}
