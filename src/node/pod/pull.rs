//! The image of a container: found, waited for, or tried again and again.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::container::Supervisor;
use crate::node::backoff::Backoff;
use crate::node::events::Kind;
use crate::node::image::{ImageError, Pulled};

/// How long a failed attempt can be seen before the wait for the next one.
const SEEN: Duration = Duration::from_secs(1);

impl Supervisor<'_> {
    /// Pulls the image, trying until it is there.
    pub(super) async fn pull(&self) -> Pulled {
        let image = self.image();
        let mut backoff = Backoff::image_pull();
        loop {
            let (reason, error) = match self.pull_once().await {
                Ok(pulled) => return pulled,
                Err(failure) => failure,
            };
            self.event(
                Kind::Warning,
                "Failed",
                format!("Failed to pull image \"{image}\": {error}"),
            );
            self.event(Kind::Warning, "Failed", format!("Error: {reason}"));
            self.wait_as(reason, Some(error.clone()));
            sleep(SEEN).await;
            self.event(
                Kind::Normal,
                "BackOff",
                format!("Back-off pulling image \"{image}\""),
            );
            self.event(
                Kind::Warning,
                "Failed",
                "Error: ImagePullBackOff".to_owned(),
            );
            let message = format!("Back-off pulling image \"{image}\": {reason}: {error}");
            self.wait_as("ImagePullBackOff", Some(message));
            sleep(backoff.after(Instant::now())).await;
        }
    }

    /// One attempt; why it failed, as reason and message.
    async fn pull_once(&self) -> Result<Pulled, (&'static str, String)> {
        let image = self.image();
        let faults = self.worker.faults();
        if faults.image_pull_fails {
            self.event(
                Kind::Normal,
                "Pulling",
                format!("Pulling image \"{image}\""),
            );
            let error = format!("{image}: the pod asks for a failure by annotation");
            return Err(("ErrImagePull", error));
        }
        let pulled = match self.worker.kubelet.options.images.pull(image) {
            Ok(pulled) => pulled,
            Err(error @ ImageError::Invalid(_)) => {
                return Err(("InvalidImageName", error.to_string()));
            }
            Err(error @ ImageError::NotFound(_)) => {
                self.event(
                    Kind::Normal,
                    "Pulling",
                    format!("Pulling image \"{image}\""),
                );
                return Err(("ErrImagePull", error.to_string()));
            }
        };
        let first = !self.record().was_started();
        let message = match faults.slow_start.filter(|_| self.is_main() && first) {
            Some(slow) => {
                self.event(
                    Kind::Normal,
                    "Pulling",
                    format!("Pulling image \"{image}\""),
                );
                sleep(slow).await;
                format!("Successfully pulled image \"{image}\" in {slow:?}")
            }
            None => format!("Container image \"{image}\" already present on machine"),
        };
        self.event(Kind::Normal, "Pulled", message);
        Ok(pulled)
    }
}
