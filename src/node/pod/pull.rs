//! The image of a container: found, waited for, or tried again and again.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::container::Supervisor;
use crate::node::backoff::Backoff;
use crate::node::events::Kind;
use crate::node::image::{ImageError, Pulled};

/// How long a failed attempt can be seen before the wait for the next one.
const SEEN: Duration = Duration::from_secs(1);

/// Why an attempt failed.
enum Failure {
    /// The spec names no image.
    Name(String),
    /// The image cannot be had.
    Pull(String),
}

impl Supervisor<'_> {
    /// Pulls the image, trying until it is there.
    pub(super) async fn pull(&self) -> Pulled {
        let image = self.image();
        let mut backoff = Backoff::image_pull();
        loop {
            let error = match self.pull_once().await {
                Ok(pulled) => return pulled,
                Err(Failure::Pull(error)) => error,
                Err(Failure::Name(error)) => {
                    self.refuse_name(error);
                    sleep(backoff.after(Instant::now())).await;
                    continue;
                }
            };
            let reason = "ErrImagePull";
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

    /// Nothing is pulled where there is no name for it, so that nothing is backed off from either.
    fn refuse_name(&self, error: String) {
        let reason = "InvalidImageName";
        let image = self.image();
        let message = format!("Failed to apply default image tag \"{image}\": {error}");
        self.event(Kind::Warning, "InspectFailed", message);
        self.event(Kind::Warning, "Failed", format!("Error: {reason}"));
        self.wait_as(reason, Some(error));
    }

    /// One attempt.
    async fn pull_once(&self) -> Result<Pulled, Failure> {
        let image = self.image();
        let faults = self.worker.faults();
        if faults.image_pull_fails {
            self.event(
                Kind::Normal,
                "Pulling",
                format!("Pulling image \"{image}\""),
            );
            let error = format!("{image}: the pod asks for a failure by annotation");
            return Err(Failure::Pull(error));
        }
        let pulled = match self.worker.kubelet.options.images.pull(image) {
            Ok(pulled) => pulled,
            Err(error @ ImageError::Invalid(_)) => {
                return Err(Failure::Name(error.to_string()));
            }
            Err(error @ ImageError::NotFound(_)) => {
                self.event(
                    Kind::Normal,
                    "Pulling",
                    format!("Pulling image \"{image}\""),
                );
                return Err(Failure::Pull(error.to_string()));
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
