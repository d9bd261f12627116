//! How a run is asked to end early.

use std::sync::Arc;

use tokio::sync::watch;

/// Why a run has to end before its plan does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StopReason {
    /// Somebody asked for it.
    Interrupted,
    /// The control plane that it uses has failed.
    Plane {
        /// What failed.
        message: String,
        /// What to do about it.
        hint: Option<String>,
    },
}

/// Asks a run to end; every clone is the same one.
///
/// Only waits end at once. A write that is under way is finished, so that what it made is known.
#[derive(Clone, Debug)]
pub struct Stop(Arc<watch::Sender<Option<StopReason>>>);

impl Default for Stop {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(None)))
    }
}

impl Stop {
    /// Asks for the end. The first reason stays.
    pub fn request(&self, reason: StopReason) {
        self.0.send_if_modified(|known| {
            let first = known.is_none();
            known.get_or_insert(reason);
            first
        });
    }

    /// The reason, if the end was asked for.
    #[must_use]
    pub fn reason(&self) -> Option<StopReason> {
        self.0.borrow().clone()
    }

    /// Waits until the end is asked for.
    pub async fn requested(&self) -> StopReason {
        let mut seen = self.0.subscribe();
        let found = seen.wait_for(Option::is_some).await;
        let reason = found.ok().and_then(|reason| reason.clone());
        match reason {
            Some(reason) => reason,
            // This very value holds the sender, so that the channel is open.
            None => std::future::pending().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_first_reason_stays_and_is_told_to_all() {
        let stop = Stop::default();
        assert_eq!(stop.reason(), None);
        let other = stop.clone();
        let waiting = tokio::spawn(async move { other.requested().await });
        tokio::task::yield_now().await;
        stop.request(StopReason::Interrupted);
        stop.request(StopReason::Plane {
            message: "later".to_owned(),
            hint: None,
        });
        assert_eq!(waiting.await.expect("told"), StopReason::Interrupted);
        // Whoever asks afterwards hears of it too.
        assert_eq!(stop.requested().await, StopReason::Interrupted);
    }
}
