//! How long a watch waits after trouble.

use std::time::Duration;

use tokio::time::Instant;

const FIRST: Duration = Duration::from_millis(800);
const LONGEST: Duration = Duration::from_secs(30);
const RESET: Duration = Duration::from_secs(120);

/// Doubles from 0.8 s to 30 s, each up to doubled again by chance, and begins anew after two minutes
/// without trouble: client-go's reflector.
#[derive(Debug)]
pub struct Backoff {
    base: Duration,
    last: Option<Instant>,
}

impl Default for Backoff {
    fn default() -> Self {
        Self {
            base: FIRST,
            last: None,
        }
    }
}

impl Backoff {
    /// The next wait; `chance` is drawn from [0, 1).
    pub fn next(&mut self, now: Instant, chance: f64) -> Duration {
        if self
            .last
            .is_some_and(|last| now.duration_since(last) > RESET)
        {
            self.base = FIRST;
        }
        self.last = Some(now);
        let base = self.base;
        self.base = (base * 2).min(LONGEST);
        base.mul_f64(1.0 + chance)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_stay_bounded_and_begin_anew_after_calm() {
        let mut backoff = Backoff::default();
        let mut now = Instant::now();
        for base in [0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30.0, 30.0] {
            for chance in [0.0, 0.999] {
                let mut copy = Backoff { ..backoff };
                let wait = copy.next(now, chance).as_secs_f64();
                assert!(
                    (wait - base * (1.0 + chance)).abs() < 1e-6,
                    "{wait} for {base}"
                );
            }
            backoff.next(now, 0.5);
            now += Duration::from_secs(60);
        }
        now += RESET - Duration::from_secs(60);
        assert_eq!(
            backoff.next(now, 0.0),
            LONGEST,
            "not yet calm for long enough"
        );
        now += RESET + Duration::from_millis(1);
        assert_eq!(backoff.next(now, 0.0), FIRST);
    }
}
