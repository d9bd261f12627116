//! Waiting for something in a cluster, with a deadline, a reason and the last state seen.
//!
//! Where one object tells the whole story, [`wait_for_object`] watches it; [`wait_until`] asks again
//! and again for everything else. Failures that pass by themselves are a state like any other, and
//! are what the error tells when the deadline comes first.

use std::fmt;
use std::future::Future;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kube::runtime::wait::await_condition;
use kube::{Api, Resource};
use serde::de::DeserializeOwned;
use tokio::time::{Instant, sleep_until, timeout_at};

use super::fault::{Fault, diagnose, diagnose_chain};

/// Between two questions, and before a broken watch is started again.
const PAUSE: Duration = Duration::from_millis(200);
/// An answer that takes longer than this is worth a word when the deadline cuts it off.
const SLOW_ANSWER: Duration = Duration::from_secs(1);

/// What a look at the cluster showed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Look<T> {
    /// It is there.
    Done(T),
    /// Not yet; the state, in words.
    NotYet(String),
}

/// Something that a waiter's owner may want to show.
#[derive(Clone, Copy, Debug)]
pub struct Progress<'a> {
    /// What is awaited.
    pub what: &'a str,
    /// The state, in words; reported when it changes.
    pub state: &'a str,
    /// Time since the wait began.
    pub elapsed: Duration,
}

/// Receives [`Progress`].
pub type Observer<'a> = &'a (dyn Fn(Progress<'_>) + Send + Sync);

/// How long to wait. Several waits may share one deadline.
#[derive(Clone, Copy)]
pub struct Deadline<'a> {
    begun: Instant,
    at: Instant,
    observer: Option<Observer<'a>>,
}

impl<'a> Deadline<'a> {
    /// From now on for this long.
    #[must_use]
    pub fn within(length: Duration) -> Self {
        let begun = Instant::now();
        Self {
            begun,
            // A century, where the clock cannot count as far as was asked for.
            at: begun
                .checked_add(length)
                .unwrap_or_else(|| begun + Duration::from_secs(100 * 365 * 86_400)),
            observer: None,
        }
    }

    /// The moment of it, for waits that are no series of questions.
    #[must_use]
    pub fn at(&self) -> Instant {
        self.at
    }

    /// The moment from which it counts.
    #[must_use]
    pub fn begun(&self) -> Instant {
        self.begun
    }

    /// Reports every change of state to this function.
    #[must_use]
    pub fn observed_by(self, observer: Observer<'a>) -> Self {
        Self {
            observer: Some(observer),
            ..self
        }
    }
}

impl fmt::Debug for Deadline<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Deadline")
            .field("begun", &self.begun)
            .field("at", &self.at)
            .finish_non_exhaustive()
    }
}

/// Something awaited did not come.
#[derive(Debug, thiserror::Error)]
pub enum WaitError {
    /// The deadline came first.
    #[error("waited {} s for {what}; last seen: {last}", seconds(*waited))]
    TimedOut {
        /// What was awaited.
        what: String,
        /// For how long.
        waited: Duration,
        /// The last state seen.
        last: String,
    },
    /// A namespace that is being deleted, or should be, is still there.
    #[error("the namespace {name} was still there after {} s; last seen: {remains}", seconds(*waited))]
    NamespaceStuck {
        /// The namespace.
        name: String,
        /// For how long its end was awaited.
        waited: Duration,
        /// What it still holds and by which finalizers, in the words of its conditions.
        remains: String,
    },
    /// A request failed in a way that does not pass by itself.
    #[error("cannot wait for {what} (failed after {} s)", seconds(*waited))]
    Failed {
        /// What was awaited.
        what: String,
        /// For how long.
        waited: Duration,
        /// Why the request failed.
        source: Box<Fault>,
    },
}

impl WaitError {
    /// The one thing to do about it, if there is one.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::TimedOut { .. } => Some(
                "the state last seen says what is missing; allow more time if it was about to come"
                    .to_owned(),
            ),
            Self::NamespaceStuck { .. } => Some(
                "let the owner of the finalizers named above clean up, or delete the objects that \
                 remain; nothing is forced, since a finalizer guards what its owner has yet to do"
                    .to_owned(),
            ),
            Self::Failed { source, .. } => source.hint(),
        }
    }
}

impl From<WaitError> for Fault {
    fn from(error: WaitError) -> Self {
        match error {
            WaitError::Failed { source, .. } => *source,
            late => Self::Overdue {
                message: late.to_string(),
            },
        }
    }
}

/// Asks until the answer is [`Look::Done`]: at least once, and at most until the deadline.
///
/// # Errors
///
/// [`WaitError::TimedOut`] at the deadline, also when a question is still unanswered then;
/// [`WaitError::Failed`] on a failure that does not pass by itself ([`Fault::is_transient`]).
pub async fn wait_until<T, F, A>(
    what: impl Into<String>,
    deadline: Deadline<'_>,
    mut ask: F,
) -> Result<T, WaitError>
where
    F: FnMut() -> A,
    A: Future<Output = Result<Look<T>, kube::Error>>,
{
    let wait = Wait::new(what.into(), deadline);
    loop {
        let asked = Instant::now();
        match timeout_at(deadline.at, ask()).await {
            Ok(Ok(Look::Done(found))) => return Ok(found),
            Ok(Ok(Look::NotYet(state))) => wait.saw(state),
            Ok(Err(error)) => wait.failed(diagnose(&error))?,
            Err(_) => return Err(wait.timed_out(Some(asked.elapsed()))),
        }
        wait.pause().await?;
    }
}

/// Watches one object until the look at it is [`Look::Done`]. The look gets `None` while there is no
/// such object.
///
/// # Errors
///
/// As for [`wait_until`].
pub async fn wait_for_object<K, T, F>(
    what: impl Into<String>,
    deadline: Deadline<'_>,
    api: &Api<K>,
    name: &str,
    look: F,
) -> Result<T, WaitError>
where
    K: Resource + Clone + fmt::Debug + DeserializeOwned + Send + 'static,
    F: Fn(Option<&K>) -> Look<T>,
{
    let wait = Wait::new(what.into(), deadline);
    let found = Mutex::new(None);
    let condition = |object: Option<&K>| match look(object) {
        Look::Done(value) => {
            *lock(&found) = Some(value);
            true
        }
        Look::NotYet(state) => {
            wait.saw(state);
            false
        }
    };
    loop {
        match timeout_at(deadline.at, await_condition(api.clone(), name, &condition)).await {
            Ok(Ok(_)) => {
                if let Some(found) = lock(&found).take() {
                    return Ok(found);
                }
            }
            Ok(Err(error)) => wait.failed(diagnose_chain(&error))?,
            Err(_) => return Err(wait.timed_out(None)),
        }
        wait.pause().await?;
    }
}

/// One wait under way.
struct Wait<'a> {
    what: String,
    deadline: Deadline<'a>,
    last: Mutex<Option<String>>,
}

impl<'a> Wait<'a> {
    fn new(what: String, deadline: Deadline<'a>) -> Self {
        Self {
            what,
            deadline,
            last: Mutex::default(),
        }
    }

    fn saw(&self, state: String) {
        let mut last = lock(&self.last);
        if last.as_ref() == Some(&state) {
            return;
        }
        if let Some(observer) = self.deadline.observer {
            observer(Progress {
                what: &self.what,
                state: &state,
                elapsed: self.deadline.begun.elapsed(),
            });
        }
        *last = Some(state);
    }

    fn failed(&self, fault: Fault) -> Result<(), WaitError> {
        if fault.is_transient() {
            self.saw(fault.to_string());
            return Ok(());
        }
        Err(WaitError::Failed {
            what: self.what.clone(),
            waited: self.deadline.begun.elapsed(),
            source: Box::new(fault),
        })
    }

    /// Lets a moment pass; the deadline ends it.
    async fn pause(&self) -> Result<(), WaitError> {
        let next = Instant::now() + PAUSE;
        sleep_until(next.min(self.deadline.at)).await;
        if next >= self.deadline.at {
            return Err(self.timed_out(None));
        }
        Ok(())
    }

    fn timed_out(&self, unanswered: Option<Duration>) -> WaitError {
        let last = lock(&self.last).take();
        let silence = unanswered
            .filter(|silence| *silence >= SLOW_ANSWER)
            .map(|silence| format!("no answer for {} s", seconds(silence)));
        let last = match (last, silence) {
            (Some(last), Some(silence)) => format!("{last}, then {silence}"),
            (Some(last), None) => last,
            (None, Some(silence)) => silence,
            (None, None) => "nothing: no request was answered".to_owned(),
        };
        WaitError::TimedOut {
            what: self.what.clone(),
            waited: self.deadline.begun.elapsed(),
            last,
        }
    }
}

/// What is guarded here is only replaced as a whole, so that a panic elsewhere cannot spoil it.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn seconds(length: Duration) -> String {
    format!("{:.1}", length.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use kube::core::Status;

    use super::*;
    use crate::cluster::{crd, namespace};

    fn status(code: u16) -> kube::Error {
        kube::Error::Api(Status::failure("text", "").with_code(code).boxed())
    }

    const LIMIT: Duration = Duration::from_secs(3);

    #[tokio::test(start_paused = true)]
    async fn the_error_tells_what_for_how_long_and_the_last_state() {
        let error = wait_until::<(), _, _>("the moon", Deadline::within(LIMIT), async || {
            Ok(Look::NotYet("below the horizon".to_owned()))
        })
        .await
        .expect_err("it does not rise");
        assert_eq!(
            error.to_string(),
            "waited 3.0 s for the moon; last seen: below the horizon"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_failure_that_passes_is_a_state_and_no_end() {
        let mut asked = 0;
        let states = Mutex::new(Vec::new());
        let observer = |progress: Progress<'_>| lock(&states).push(progress.state.to_owned());
        let deadline = Deadline::within(LIMIT).observed_by(&observer);
        let found = wait_until("it", deadline, || {
            asked += 1;
            let answer = match asked {
                1 | 2 => Err(status(503)),
                3 => Ok(Look::NotYet("nearly".to_owned())),
                _ => Ok(Look::Done(asked)),
            };
            async { answer }
        })
        .await
        .expect("it comes");
        assert_eq!(found, 4);
        // A state that did not change is reported once.
        assert_eq!(
            *lock(&states),
            ["the server failed with status 503: text", "nearly"]
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_failure_that_stays_ends_the_wait_at_once() {
        let error =
            wait_until::<(), _, _>("it", Deadline::within(LIMIT), async || Err(status(401)))
                .await
                .expect_err("no permission");
        let WaitError::Failed { waited, source, .. } = error else {
            panic!("unexpected error {error}");
        };
        assert_eq!((waited, *source), (Duration::ZERO, Fault::Unauthorized));
    }

    #[tokio::test(start_paused = true)]
    async fn a_question_without_an_answer_does_not_outlast_the_deadline() {
        let error = wait_until::<(), _, _>("it", Deadline::within(LIMIT), pending)
            .await
            .expect_err("no answer");
        assert_eq!(
            error.to_string(),
            "waited 3.0 s for it; last seen: no answer for 3.0 s"
        );
    }

    /// Waits run in tasks of their own; a lock held across one of their pauses would forbid that.
    #[test]
    fn waits_can_be_spawned() {
        fn assert_send<T: Send>(_: fn(kube::Client) -> T) {}
        assert_send(|client| async move {
            namespace::gone(&client, "n", Deadline::within(LIMIT)).await
        });
        assert_send(|client| async move {
            crd::established(&client, "c", Deadline::within(LIMIT)).await
        });
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_there_is_seen_even_without_time() {
        let found = wait_until("it", Deadline::within(Duration::ZERO), async || {
            Ok(Look::Done(7))
        })
        .await;
        assert_eq!(found.expect("it is there"), 7);
    }
}
