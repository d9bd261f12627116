//! Something that opens once all have passed who were announced.

use tokio::sync::watch as latest;

/// Open while nobody holds a [`Ticket`]; clones are handles to the same one.
#[derive(Clone, Debug, Default)]
pub struct Gate(latest::Sender<usize>);

impl Gate {
    /// Closes the gate until the ticket is dropped.
    #[must_use]
    pub fn ticket(&self) -> Ticket {
        self.0.send_modify(|held| *held += 1);
        Ticket(self.0.clone())
    }

    /// Waits until the gate is open.
    pub async fn opened(&self) {
        let mut receiver = self.0.subscribe();
        // An error is impossible as long as this handle lives.
        let _ = receiver.wait_for(|held| *held == 0).await;
    }
}

/// Keeps a [`Gate`] closed.
#[derive(Debug)]
pub struct Ticket(latest::Sender<usize>);

impl Drop for Ticket {
    fn drop(&mut self) {
        self.0.send_modify(|held| *held -= 1);
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[test]
    fn the_last_ticket_opens_it() {
        let gate = Gate::default();
        assert!(gate.opened().now_or_never().is_some());
        let tickets = [gate.ticket(), gate.clone().ticket()];
        let [first, second] = tickets;
        drop(first);
        assert!(gate.opened().now_or_never().is_none());
        drop(second);
        assert!(gate.opened().now_or_never().is_some());
    }
}
