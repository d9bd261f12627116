//! What became of a load.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::cluster::fault::Fault;

/// What became of the workloads of a plan. Every one of them is in exactly one of `created`,
/// `existing` and `failed`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Applied {
    /// How many were made.
    pub created: u32,
    /// Names of those that were there already, and were left as they are.
    pub existing: Vec<String>,
    /// Those that were not made, by name.
    pub failed: BTreeMap<String, Failure>,
    /// How often the server asked for a request to be sent again later.
    pub retries: u32,
    /// From the first request to the last answer.
    pub took: Duration,
    /// How long the server took; [`None`] when nothing was made.
    pub latency: Option<Latency>,
}

impl Applied {
    /// Workloads that were made per second.
    #[must_use]
    pub fn rate(&self) -> f64 {
        let seconds = self.took.as_secs_f64();
        if seconds > 0.0 {
            f64::from(self.created) / seconds
        } else {
            0.0
        }
    }
}

/// Why a workload was not made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The request failed.
    #[error(transparent)]
    Refused(#[from] Fault),
    /// The deadline came before the answer: the object may be there.
    #[error("there was no answer by the deadline; it may have been created")]
    NoAnswer,
    /// The deadline came before its turn.
    #[error("it was not sent by the deadline")]
    NotSent,
}

/// Times from sending a request that made an object to the end of its answer. One that was sent again
/// counts from the last time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Latency {
    /// Half of the requests took no longer.
    pub p50: Duration,
    /// 99 in 100 took no longer.
    pub p99: Duration,
}

impl Latency {
    /// Of these times; [`None`] when there are none.
    pub(super) fn of(mut times: Vec<Duration>) -> Option<Self> {
        times.sort_unstable();
        // The smallest time that so many in a hundred do not exceed.
        let rank = |percent: usize| {
            let rank = (times.len() * percent).div_ceil(100);
            times.get(rank.saturating_sub(1)).copied()
        };
        Some(Self {
            p50: rank(50)?,
            p99: rank(99)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_times_that_were_seen() {
        let milliseconds = |range: std::ops::RangeInclusive<u64>| {
            Latency::of(range.rev().map(Duration::from_millis).collect())
        };
        let of = |p50, p99| {
            Some(Latency {
                p50: Duration::from_millis(p50),
                p99: Duration::from_millis(p99),
            })
        };
        assert_eq!(Latency::of(Vec::new()), None);
        assert_eq!(milliseconds(5..=5), of(5, 5));
        assert_eq!(milliseconds(1..=100), of(50, 99));
        assert_eq!(milliseconds(1..=1000), of(500, 990));
        assert_eq!(milliseconds(1..=3), of(2, 3));
    }
}
