//! What a pod's worker is told from outside: to end, in how much time, and whether to say so.

use std::time::Duration;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// Orders to the worker of one pod. Clones share them.
#[derive(Clone, Debug)]
pub(in crate::node) struct Control {
    grace: watch::Sender<Option<Duration>>,
    mute: CancellationToken,
}

impl Control {
    pub(in crate::node) fn new() -> Self {
        Self {
            grace: watch::Sender::new(None),
            mute: CancellationToken::new(),
        }
    }

    /// Ends the pod within this time. A later order may only shorten it.
    pub(in crate::node) fn end(&self, grace: Duration) {
        self.grace.send_if_modified(|known| {
            let sooner = known.is_none_or(|known| grace < known);
            if sooner {
                *known = Some(grace);
            }
            sooner
        });
    }

    /// From now on nothing is reported about the pod: it is gone, or the node goes.
    pub(in crate::node) fn mute(&self) {
        self.mute.cancel();
    }

    pub(super) fn is_mute(&self) -> bool {
        self.mute.is_cancelled()
    }

    /// Waits until nothing is to be reported any more.
    pub(super) async fn muted(&self) {
        self.mute.cancelled().await;
    }

    /// Waits until the pod is to end; tells in how much time.
    pub(super) async fn ended(&self) -> Duration {
        let mut orders = self.grace.subscribe();
        match orders.wait_for(Option::is_some).await.map(|grace| *grace) {
            Ok(Some(grace)) => grace,
            // The sender lives in `self`, so that the channel cannot close while this waits.
            Ok(None) | Err(_) => std::future::pending().await,
        }
    }

    /// Whether the pod is to end.
    pub(super) fn is_ended(&self) -> bool {
        self.grace.borrow().is_some()
    }

    /// Waits until the pod is to end in less than this time.
    pub(super) async fn hurried(&self, than: Duration) -> Duration {
        let mut orders = self.grace.subscribe();
        let sooner = |grace: &Option<Duration>| grace.is_some_and(|grace| grace < than);
        match orders.wait_for(sooner).await.map(|grace| *grace) {
            Ok(Some(grace)) => grace,
            Ok(None) | Err(_) => std::future::pending().await,
        }
    }

    /// Does something unless the pod is to end; [`None`] when that comes first.
    pub(super) async fn unless_ended<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            _ = self.ended() => None,
            done = work => Some(done),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_order_may_only_be_shortened() {
        let control = Control::new();
        assert!(!control.is_ended());
        assert_eq!(control.unless_ended(async { 1 }).await, Some(1));
        let second = Duration::from_secs(1);
        control.end(second * 30);
        control.end(second * 60);
        assert_eq!(control.ended().await, second * 30);
        assert_eq!(control.unless_ended(async { 1 }).await, None);
        control.end(second);
        assert_eq!(control.hurried(second * 30).await, second);
    }
}
