//! How long to wait after a failure, by the kubelet's rules.

use std::time::Duration;

use tokio::time::Instant;

/// A delay that doubles with every failure and is forgotten after a quiet time of twice its longest
/// value.
#[derive(Clone, Debug)]
pub(super) struct Backoff {
    /// After the first failure.
    first: Duration,
    /// After the first failure that has to wait.
    step: Duration,
    longest: Duration,
    /// When the attempt after the last failure was due, and the delay after the next one.
    last: Option<(Instant, Duration)>,
}

impl Backoff {
    /// For containers that end: the first restart is at once, then 10 s, 20 s, … 300 s follow. Ten
    /// minutes of running make up for it.
    pub(super) const fn crash_loop() -> Self {
        Self::new(
            Duration::ZERO,
            Duration::from_secs(10),
            Duration::from_secs(300),
        )
    }

    /// For images that cannot be pulled: 10 s, 20 s, … 300 s.
    pub(super) const fn image_pull() -> Self {
        let step = Duration::from_secs(10);
        Self::new(step, step, Duration::from_secs(300))
    }

    /// For volumes that cannot be made: 500 ms, 1 s, … 122 s.
    pub(super) const fn volume() -> Self {
        let step = Duration::from_millis(500);
        Self::new(step, step, Duration::from_secs(122))
    }

    /// For requests that fail: 100 ms, 200 ms, … 5 s. A node never gives up.
    pub(super) const fn request() -> Self {
        let step = Duration::from_millis(100);
        Self::new(step, step, Duration::from_secs(5))
    }

    const fn new(first: Duration, step: Duration, longest: Duration) -> Self {
        Self {
            first,
            step,
            longest,
            last: None,
        }
    }

    /// The delay between this failure and the next attempt.
    pub(super) fn after(&mut self, failure: Instant) -> Duration {
        let quiet = |since: Instant| failure.saturating_duration_since(since) > self.longest * 2;
        let delay = match self.last {
            Some((due, delay)) if !quiet(due) => delay,
            _ => self.first,
        };
        let next = if delay.is_zero() {
            self.step
        } else {
            (delay * 2).min(self.longest)
        };
        self.last = Some((failure + delay, next));
        delay
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Delays in seconds when every attempt lives this long.
    fn delays(mut backoff: Backoff, count: usize, life: Duration) -> Vec<f64> {
        let mut now = Instant::now();
        let delays = (0..count).map(|_| {
            now += life;
            let delay = backoff.after(now);
            now += delay;
            delay.as_secs_f64()
        });
        delays.collect()
    }

    #[test]
    fn a_container_restarts_at_once_and_then_ever_later() {
        assert_eq!(
            delays(Backoff::crash_loop(), 8, Duration::from_secs(1)),
            [0.0, 10.0, 20.0, 40.0, 80.0, 160.0, 300.0, 300.0]
        );
    }

    #[test]
    fn ten_minutes_of_running_are_a_fresh_start() {
        let ten_minutes = Duration::from_secs(600);
        assert_eq!(
            delays(Backoff::crash_loop(), 3, ten_minutes),
            [0.0, 10.0, 20.0]
        );
        let longer = ten_minutes + Duration::from_millis(1);
        assert_eq!(delays(Backoff::crash_loop(), 3, longer), [0.0, 0.0, 0.0]);
    }

    #[test]
    fn a_pull_waits_from_the_first_failure_on() {
        assert_eq!(
            delays(Backoff::image_pull(), 3, Duration::ZERO),
            [10.0, 20.0, 40.0]
        );
        assert_eq!(
            delays(Backoff::volume(), 3, Duration::ZERO),
            [0.5, 1.0, 2.0]
        );
    }
}
