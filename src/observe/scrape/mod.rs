//! One reading of the metrics of the one process that counts.
//!
//! Each reading chooses its pod anew, looks at it before and after, and opens a port-forward of its
//! own: a forward that is kept stays bound to a pod that is gone, or about to go
//! (`qualification.md` E 20). The raw bytes are on disk before anybody parses them.

mod exchange;
mod files;
#[cfg(test)]
mod tests;

use std::future::pending;
use std::path::PathBuf;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use tokio::time::{Instant, sleep, timeout_at};

use self::exchange::Answer;
pub use self::files::{Purpose, ScrapeFiles};
use super::error::ObserveError;
use super::metrics;
pub use super::rollout::Unready;
use super::rollout::{Candidates, Identity};
use super::target::Target;
use crate::cluster::fault::{Fault, diagnose};
use crate::cluster::wait::Deadline;
use crate::error_chain::chain;
use crate::record::Scrape;

/// How often one reading is tried.
const TRIES: u32 = 3;
/// Between two tries.
const PAUSE: Duration = Duration::from_millis(300);
/// For one try. A body is 50 to 100 kB, from memory.
const LIMIT: Duration = Duration::from_secs(10);

/// There is no reading.
#[derive(Debug, thiserror::Error)]
pub enum ScrapeError {
    /// No try succeeded.
    #[error("the controller's metrics could not be read in {tries} tries")]
    Unread {
        /// How often it was tried.
        tries: u32,
        /// Why the last one failed.
        source: Miss,
    },
    /// The bytes cannot be kept.
    #[error("cannot write {}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
}

impl ScrapeError {
    /// The one thing to do about it, if there is one.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Write { .. } => {
                Some("free some space on that disk, or choose another --out".to_owned())
            }
            Self::Unread { source, .. } => source.hint(),
        }
    }
}

/// Why one try failed.
#[derive(Debug, thiserror::Error)]
pub enum Miss {
    /// There is no process to ask.
    #[error(transparent)]
    Unready(#[from] Unready),
    /// The API server does not answer.
    #[error(transparent)]
    Api(Box<ObserveError>),
    /// The pod is not there any more.
    #[error("the pod {pod} cannot be read")]
    Pod {
        /// Its name.
        pod: String,
        /// Why not.
        source: Box<Fault>,
    },
    /// No forward to the pod.
    #[error("no port-forward to port {port} of the pod {pod}: {reason}")]
    Forward {
        /// Its name.
        pod: String,
        /// The port.
        port: u16,
        /// Why not.
        reason: String,
    },
    /// The answer is not one that can be relied on.
    #[error("the answer of the pod {pod} is not whole: {reason}")]
    Answer {
        /// Its name.
        pod: String,
        /// What is wrong.
        reason: String,
    },
    /// Another process was there afterwards (MET-01).
    #[error("the pod {pod} or its container was replaced during the reading")]
    Replaced {
        /// Its name.
        pod: String,
    },
    /// It took too long.
    #[error("no answer within {:.1} s", .0.as_secs_f64())]
    Slow(Duration),
}

impl Miss {
    /// The one thing to do about it, if there is one.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Unready(Unready::NoPod(_)) => {
                Some("look at the pods of the release: kubectl describe pod".to_owned())
            }
            Self::Unready(Unready::Pods(_)) => {
                Some("set replicaCount to 1: the counters of one process are measured".to_owned())
            }
            Self::Api(error) => error.hint(),
            Self::Pod { source, .. } => source.hint(),
            Self::Forward { .. } => Some(
                "allow get and create on pods/portforward, and check that the node's kubelet can be \
                 reached from the API server"
                    .to_owned(),
            ),
            _ => None,
        }
    }

    /// Whether another try is in vain: nobody lets us.
    pub(in crate::observe) fn is_final(&self) -> bool {
        let fault = match self {
            Self::Api(error) => match &**error {
                ObserveError::Api { source, .. } => source,
                _ => return false,
            },
            Self::Pod { source, .. } => source,
            _ => return false,
        };
        matches!(**fault, Fault::Forbidden { .. } | Fault::Unauthorized)
    }
}

/// Reads the metrics of the one ready pod of the newest template, in at most three tries.
///
/// A reading that must not decide a verdict is no error: its [`Scrape::unsound`] says why.
///
/// # Errors
///
/// [`ScrapeError::Unread`] with the reason of the last try when no try succeeds or the deadline comes
/// first, [`ScrapeError::Write`] when the bytes cannot be kept.
pub async fn scrape(
    target: &Target,
    files: &ScrapeFiles,
    purpose: Purpose<'_>,
    deadline: Deadline<'_>,
) -> Result<Scrape, ScrapeError> {
    let mut tries = 0;
    loop {
        tries += 1;
        let begun = Instant::now();
        let limit = deadline.at().min(begun + LIMIT);
        let miss = match timeout_at(limit, attempt(target, files)).await {
            Ok(Ok(reading)) => return keep(reading, files, purpose).await,
            Ok(Err(miss)) => miss,
            Err(_) => Miss::Slow(begun.elapsed()),
        };
        let late = Instant::now() + PAUSE >= deadline.at();
        if tries >= TRIES || late || miss.is_final() {
            return Err(ScrapeError::Unread {
                tries,
                source: miss,
            });
        }
        sleep(PAUSE).await;
    }
}

struct Raw {
    identity: Identity,
    answer: Answer,
}

async fn attempt(target: &Target, files: &ScrapeFiles) -> Result<Raw, Miss> {
    let candidates = Candidates::read(target).await;
    let candidates = candidates.map_err(|error| Miss::Api(Box::new(error)))?;
    let identity = candidates.choose()?;
    let pods = Api::<Pod>::namespaced(target.client.clone(), &target.namespace);
    let answer = ask(&pods, &identity.pod, target.subject.metrics_port, files).await?;
    let after = pods.get(&identity.pod).await.map_err(|error| Miss::Pod {
        pod: identity.pod.clone(),
        source: Box::new(diagnose(&error)),
    })?;
    if Identity::of(&after) != identity {
        return Err(Miss::Replaced { pod: identity.pod });
    }
    Ok(Raw { identity, answer })
}

/// One question through a forward of its own.
async fn ask(pods: &Api<Pod>, pod: &str, port: u16, files: &ScrapeFiles) -> Result<Answer, Miss> {
    let refused = |reason: String| Miss::Forward {
        pod: pod.to_owned(),
        port,
        reason,
    };
    let mut forward = pods
        .portforward(pod, &[port])
        .await
        .map_err(|error| refused(chain(&error)))?;
    let stream = forward.take_stream(port);
    let stream = stream.ok_or_else(|| refused("it has no such port".to_owned()))?;
    let complaint = forward.take_error(port);
    let complaint = async {
        // The channel of errors also closes without one.
        match complaint {
            Some(complaint) => match complaint.await {
                Some(complaint) => complaint,
                None => pending().await,
            },
            None => pending().await,
        }
    };
    // The stream ends with the exchange, and the forward with the stream.
    tokio::select! {
        biased;
        answer = exchange::get(stream, files) => answer.map_err(|reason| Miss::Answer {
            pod: pod.to_owned(),
            reason,
        }),
        complaint = complaint => Err(refused(complaint)),
    }
}

async fn keep(raw: Raw, files: &ScrapeFiles, purpose: Purpose<'_>) -> Result<Scrape, ScrapeError> {
    let Raw { identity, answer } = raw;
    let file = files.write(purpose, &answer.body).await?;
    let reading = metrics::read(&answer.body);
    for line in &reading.bad_lines {
        tracing::debug!(file, line, "a line of the metrics is not in the format");
    }
    Ok(Scrape {
        file,
        at: answer.at,
        at_ms: answer.at_ms,
        pod: identity.pod,
        pod_uid: identity.uid,
        container_id: identity.container_id,
        restarts: identity.restarts,
        process_start: reading.process_start,
        counters: reading.counters,
        unsound: reading.unsound,
    })
}
