//! Whether the definitions of third-party kinds are installed: one question for all that are missing.

use std::convert::Infallible;
use std::time::Duration;

use kube::Client;
use kube::core::GroupVersionKind;
use tokio::sync::watch as latest;
use tokio::time::sleep;

use crate::controller::runtime::discovery::Served;
use crate::error_chain::chain;

/// What the server serves, as far as somebody asked; clones are handles to the same knowledge.
#[derive(Clone)]
pub struct Presence {
    client: Client,
    served: latest::Sender<Served>,
}

impl Presence {
    /// Begins with what was served at the start.
    #[must_use]
    pub fn new(client: Client, served: Served) -> Self {
        Self {
            client,
            served: latest::Sender::new(served),
        }
    }

    /// Asks again at this interval as long as somebody waits for a kind, and otherwise not at all.
    /// Works until dropped.
    pub async fn run(self, every: Duration) -> Infallible {
        loop {
            sleep(every).await;
            if self.served.receiver_count() > 0 {
                self.refresh().await;
            }
        }
    }

    /// Asks now. Without an answer, what was known stays.
    pub async fn refresh(&self) {
        match Served::discover_groups(&self.client).await {
            Ok(served) => {
                self.served.send_replace(served);
            }
            Err(error) => tracing::error!(
                logger = "third-party",
                error = chain(&error),
                "cannot look for definitions"
            ),
        }
    }

    /// Whether the kind was served when it was asked for last.
    #[must_use]
    pub fn has(&self, kind: &GroupVersionKind) -> bool {
        self.served.borrow().check(kind).is_ok()
    }

    /// Waits until the kind is served, and is the reason why it is asked for.
    pub async fn wait_for(&self, kind: &GroupVersionKind) {
        let mut receiver = self.served.subscribe();
        // An error is impossible as long as this handle lives.
        let _ = receiver.wait_for(|served| served.check(kind).is_ok()).await;
    }
}
