//! How often a delivery is tried, and how long at most.

use std::fmt;
use std::time::Duration;

use tokio::time::{sleep, timeout};

use crate::controller::profile::Sinks;

/// Why one attempt did not deliver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// There was no answer.
    Transport(String),
    /// The answer was not a good one.
    Answered {
        /// Status code.
        status: u16,
        /// The beginning of its body, without secrets.
        said: String,
    },
}

impl Refusal {
    /// Whether another attempt may end otherwise. What the receiver says about the request itself,
    /// a redirect included, is its last word.
    const fn may_pass(&self) -> bool {
        match self {
            Self::Transport(_) => true,
            Self::Answered { status, .. } => *status >= 500,
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Transport(cause) => write!(f, "failed: {cause}"),
            Self::Answered { status, said } if said.is_empty() => {
                write!(f, "returned HTTP {status} (empty body)")
            }
            Self::Answered { status, said } => write!(f, "returned HTTP {status}: {said}"),
        }
    }
}

/// Why a document was not delivered, all attempts together.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Undelivered {
    /// The last attempt was refused.
    #[error("{0}")]
    Refused(Refusal),
    /// The attempts took too long.
    #[error("failed: no good answer within {} s{}", .within.as_secs(), before(.last.as_ref()))]
    Late {
        /// The time they had.
        within: Duration,
        /// Why the last attempt that ended was refused.
        last: Option<Refusal>,
    },
}

fn before(last: Option<&Refusal>) -> String {
    last.map_or_else(String::new, |last| format!("; the attempt before {last}"))
}

/// Tries until it is delivered, refused for good, out of attempts or out of time.
///
/// # Errors
///
/// [`Undelivered`], with what is known last.
pub async fn deliver<F, A>(rules: &Sinks, attempt: F) -> Result<(), Undelivered>
where
    F: Fn() -> A,
    A: Future<Output = Result<(), Refusal>>,
{
    let mut last = None;
    let attempts = async {
        let mut waits = rules.webhook_waits.iter();
        loop {
            let Err(refusal) = attempt().await else {
                return Ok(());
            };
            match waits.next() {
                Some(wait) if refusal.may_pass() => {
                    last = Some(refusal);
                    sleep(*wait).await;
                }
                _ => return Err(Undelivered::Refused(refusal)),
            }
        }
    };
    let within = rules.deadline;
    match timeout(within, attempts).await {
        Ok(ended) => ended,
        Err(_) => Err(Undelivered::Late { within, last }),
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use tokio::time::Instant;

    use super::*;
    use crate::controller::profile::V1_3_0;

    fn answered(status: u16) -> Refusal {
        let said = String::new();
        Refusal::Answered { status, said }
    }

    fn transport() -> Refusal {
        Refusal::Transport("connection refused".to_owned())
    }

    /// Delivers to a receiver that answers so in turn, and then always takes it. Also tells when the
    /// attempts began, in milliseconds.
    async fn delivered(
        answers: impl IntoIterator<Item = Refusal>,
    ) -> (Result<(), Undelivered>, Vec<u128>) {
        let answers = RefCell::new(answers.into_iter().collect::<Vec<_>>().into_iter());
        let (start, begun) = (Instant::now(), RefCell::default());
        let result = deliver(&V1_3_0.sinks, || {
            Vec::push(&mut begun.borrow_mut(), start.elapsed().as_millis());
            let answer = answers.borrow_mut().next();
            async { answer.map_or(Ok(()), Err) }
        });
        (result.await, begun.into_inner())
    }

    #[tokio::test(start_paused = true)]
    async fn four_attempts_with_growing_gaps_are_the_end() {
        let all = [answered(500), transport(), answered(502), answered(503)];
        let (result, begun) = delivered(all).await;
        assert_eq!(result, Err(Undelivered::Refused(answered(503))));
        assert_eq!(begun, [0, 250, 1250, 4250]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_receiver_that_recovers_gets_the_document_once() {
        let (result, begun) = delivered([answered(503), transport()]).await;
        assert_eq!(result, Ok(()));
        assert_eq!(begun, [0, 250, 1250]);
    }

    #[tokio::test(start_paused = true)]
    async fn what_the_receiver_says_about_the_request_is_final() {
        for status in [300, 302, 304, 400, 401, 404, 429, 499] {
            let (result, begun) = delivered([answered(status)]).await;
            assert_eq!(result, Err(Undelivered::Refused(answered(status))));
            assert_eq!(begun, [0], "{status}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn all_attempts_share_one_deadline() {
        let start = Instant::now();
        let attempts = RefCell::new(0);
        let result = deliver(&V1_3_0.sinks, || {
            *attempts.borrow_mut() += 1;
            let is_first = *attempts.borrow() == 1;
            async move {
                if is_first {
                    return Err(answered(503));
                }
                std::future::pending().await
            }
        });
        let error = result.await.expect_err("it is late");
        assert_eq!(start.elapsed(), Duration::from_secs(30));
        assert_eq!(
            error.to_string(),
            "failed: no good answer within 30 s; the attempt before returned HTTP 503 (empty body)"
        );
    }
}
