//! A watch that fails again and again: when that is worth a word.

use std::time::Duration;

use tokio::time::Instant;

use super::fault::Fault;

/// An outage that lasts as long is told. A shorter one loses nothing: the watch goes on where it ended.
const LONG: Duration = Duration::from_secs(30);
/// The pause before the next attempt never grows as long: failures that lie further apart are two
/// outages.
const APART: Duration = Duration::from_secs(75);

/// Failures without a success in between, as far as that can be told.
#[derive(Debug, Default)]
pub(super) struct Outage {
    failures: Option<Failures>,
}

#[derive(Debug)]
struct Failures {
    first: Instant,
    last: Instant,
    told: bool,
}

impl Outage {
    /// Takes note of a failure. Returns what is to be told: at once what does not pass by itself, else
    /// what has lasted; and each outage once.
    pub(super) fn failed(&mut self, fault: &Fault) -> Option<String> {
        let now = Instant::now();
        let begun = Failures {
            first: now,
            last: now,
            told: false,
        };
        let mut failures = self.failures.take().unwrap_or(begun);
        if now.duration_since(failures.last) > APART {
            failures = Failures {
                first: now,
                last: now,
                told: false,
            };
        }
        failures.last = now;
        let lasted = now.duration_since(failures.first);
        let worth = !failures.told && (lasted >= LONG || !fault.is_transient());
        failures.told |= worth;
        self.failures = Some(failures);
        worth.then(|| format!("the watch has failed for {} s: {fault}", lasted.as_secs()))
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_short_outage_is_no_news_and_a_long_one_is_told_once() {
        let mut outage = Outage::default();
        let mut told = Vec::new();
        for _ in 0..6 {
            told.extend(outage.failed(&Fault::ConnectionRefused));
            advance(Duration::from_secs(10)).await;
        }
        assert_eq!(told.len(), 1);
        assert!(
            told[0].starts_with("the watch has failed for 30 s"),
            "{told:?}"
        );
        advance(Duration::from_secs(300)).await;
        assert_eq!(outage.failed(&Fault::ConnectionRefused), None);
    }

    #[tokio::test(start_paused = true)]
    async fn what_does_not_pass_is_told_at_once() {
        let mut outage = Outage::default();
        assert!(outage.failed(&Fault::Unauthorized).is_some());
        assert_eq!(outage.failed(&Fault::Unauthorized), None);
    }
}
