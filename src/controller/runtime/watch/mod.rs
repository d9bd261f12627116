//! List and watch one kind for as long as the process lives, request for request as client-go does.
//!
//! One streaming request lists and goes on as the watch (`sendInitialEvents`); where the server
//! refuses that, a list and a watch take its place. Every watch asks for a timeout of its own between
//! 300 and 600 s and is followed by one from the last resource version seen. What ends a watch in
//! another way leads to a new list, after a jittered backoff.
//!
//! kube's stock watcher asks for one timeout for its whole life, and the number of reconnects is
//! something that a run measures; hence this loop on [`Api::watch`]. It decides nothing about what it
//! delivers: a [store](super::store) does.

mod backoff;
mod error;
mod event;

use std::convert::Infallible;
use std::fmt::Debug;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use kube::api::{Api, ListParams, WatchEvent, WatchParams};
use kube::{Resource, ResourceExt};
use serde::de::DeserializeOwned;
use tokio::time::{Instant, sleep, timeout, timeout_at};

pub use self::backoff::Backoff;
pub use self::error::WatchError;
pub use self::event::{Event, Trouble};

/// The shortest timeout that a watch asks of the server; the longest is twice that.
pub const SHORTEST_TIMEOUT: Duration = Duration::from_secs(300);
/// How long after the timeout it asked for a watch that is still open counts as dead.
const OVERTIME: Duration = Duration::from_secs(30);
/// How long a server may take for one list.
const LIST_DEADLINE: Duration = Duration::from_secs(60);
/// How long a streaming list may be silent. A server that knows of none sends a plain watch.
const LISTING_SILENCE: Duration = Duration::from_secs(30);
/// A watch that ends within this time without an event was no watch.
const VERY_SHORT: Duration = Duration::from_secs(1);
/// Objects in one answer to a list that is read from the database.
const PAGE: u32 = 500;
const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

/// A source of numbers drawn uniformly from [0, 1).
pub type Dice = Box<dyn FnMut() -> f64 + Send>;

/// Dice that differ from run to run.
#[must_use]
pub fn dice() -> Dice {
    Box::new(fastrand::f64)
}

/// The watch of one kind.
pub struct Watch<K> {
    api: Api<K>,
    kind: String,
    dice: Dice,
    backoff: Backoff,
    streaming: bool,
    transform: fn(&mut K),
    /// The last resource version seen, and whether the server has said that it is too old or too new.
    last: Option<String>,
    unavailable: bool,
}

/// An open watch request.
struct Open<K> {
    stream: BoxStream<'static, kube::Result<WatchEvent<K>>>,
    /// Since when it lists or follows.
    since: Instant,
    deadline: Instant,
}

/// How a watch ended without an error.
#[derive(PartialEq)]
enum End {
    /// By the server or the network.
    Closed,
    /// Not at all: its initial list is complete.
    Listed,
}

/// What the events of a watch mean.
#[derive(Clone, Copy, PartialEq)]
enum Phase {
    Listing,
    Following,
}

impl<K> Watch<K>
where
    K: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
{
    /// A watch of what this API leads to; `kind` is for messages.
    pub fn new(api: Api<K>, kind: impl Into<String>, dice: Dice) -> Self {
        Self {
            api,
            kind: kind.into(),
            dice,
            backoff: Backoff::default(),
            streaming: true,
            transform: |_| {},
            last: None,
            unavailable: false,
        }
    }

    /// Never tries the streaming list.
    #[must_use]
    pub fn without_streaming(mut self) -> Self {
        self.streaming = false;
        self
    }

    /// Changes every object before it is delivered, for instance to drop what nobody reads.
    #[must_use]
    pub fn transform(mut self, transform: fn(&mut K)) -> Self {
        self.transform = transform;
        self
    }

    /// Watches until dropped.
    pub async fn run(mut self, mut emit: impl FnMut(Event<K>) + Send) -> Infallible {
        loop {
            let error = self.cycle(&mut emit).await;
            self.pause(error, true, &mut emit).await;
        }
    }

    /// One list and the watches that follow it, up to what makes another list necessary.
    async fn cycle(&mut self, emit: &mut (impl FnMut(Event<K>) + Send)) -> WatchError {
        let mut open = None;
        if self.streaming {
            // An error here is no trouble yet: a plain list may do, and if not, it says why.
            open = self.stream_list(emit).await.ok();
        }
        if open.is_none()
            && let Err(error) = self.list(emit).await
        {
            return error;
        }
        loop {
            let result = match open.take() {
                Some(open) => Ok(open),
                None => self.open(Phase::Following).await,
            };
            let result = match result {
                Ok(mut open) => self.pump(&mut open, Phase::Following, emit).await,
                Err(error) if error.is_refused_connection() => {
                    self.pause(error, false, emit).await;
                    continue;
                }
                Err(error) => Err(error),
            };
            match result {
                Ok(_) => {}
                Err(error) if error.is_too_many_requests() => self.pause(error, false, emit).await,
                Err(error) => return error,
            }
        }
    }

    /// Reports what went wrong and waits.
    async fn pause(
        &mut self,
        error: WatchError,
        relist: bool,
        emit: &mut (impl FnMut(Event<K>) + Send),
    ) {
        let retry_in = self.backoff.next(Instant::now(), (self.dice)());
        emit(Event::Trouble(Trouble {
            error,
            relist,
            retry_in,
        }));
        sleep(retry_in).await;
    }

    /// Lists by a watch that begins with what exists, and returns that watch.
    async fn stream_list(
        &mut self,
        emit: &mut (impl FnMut(Event<K>) + Send),
    ) -> Result<Open<K>, WatchError> {
        loop {
            let error = match self.open(Phase::Listing).await {
                Ok(mut open) => {
                    emit(Event::ListBegin);
                    match self.pump(&mut open, Phase::Listing, emit).await {
                        Ok(End::Listed) => {
                            self.unavailable = false;
                            emit(Event::ListEnd);
                            open.since = Instant::now();
                            return Ok(open);
                        }
                        // Closed half-way: once more from the beginning.
                        Ok(End::Closed) => continue,
                        Err(error) => error,
                    }
                }
                Err(error) => error,
            };
            if error.is_refused_connection() || error.is_too_many_requests() {
                self.pause(error, false, emit).await;
            } else if error.is_version_unavailable() && !self.unavailable {
                self.unavailable = true;
            } else {
                return Err(error);
            }
        }
    }

    /// Lists, page by page where the server may answer so.
    async fn list(&mut self, emit: &mut (impl FnMut(Event<K>) + Send)) -> Result<(), WatchError> {
        // Any state at the first time, later none that is older than what was seen.
        let version = match (&self.last, self.unavailable) {
            (_, true) => None,
            (None, false) => Some("0".to_owned()),
            (Some(last), false) => Some(last.clone()),
        };
        let result = match self.list_at(version.clone(), emit).await {
            Err(error) if error.is_version_unavailable() && version.is_some() => {
                self.unavailable = true;
                self.list_at(None, emit).await
            }
            result => result,
        };
        if result.is_ok() {
            self.unavailable = false;
        }
        result
    }

    async fn list_at(
        &mut self,
        version: Option<String>,
        emit: &mut (impl FnMut(Event<K>) + Send),
    ) -> Result<(), WatchError> {
        // With a version the answer comes from the server's cache, which has it all in one piece.
        let mut params = ListParams {
            limit: version.is_none().then_some(PAGE),
            resource_version: version,
            ..ListParams::default()
        };
        emit(Event::ListBegin);
        loop {
            let page = match timeout(LIST_DEADLINE, self.api.list(&params)).await {
                Ok(Ok(page)) => page,
                Ok(Err(error)) => {
                    let error = self.failed("list", error);
                    if error.is_version_unavailable() && params.continue_token.is_some() {
                        // The list grew too old between two pages: all of it at once.
                        params.continue_token = None;
                        params.limit = None;
                        emit(Event::ListBegin);
                        continue;
                    }
                    return Err(error);
                }
                Err(_) => return Err(self.silent("list", LIST_DEADLINE)),
            };
            for object in page.items {
                emit(Event::ListObject(self.transformed(object)));
            }
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => params.continue_token = Some(token),
                None => {
                    self.last = page.metadata.resource_version;
                    emit(Event::ListEnd);
                    return Ok(());
                }
            }
        }
    }

    /// Sends a watch request.
    async fn open(&mut self, phase: Phase) -> Result<Open<K>, WatchError> {
        let seconds = SHORTEST_TIMEOUT.as_secs_f64() * (1.0 + (self.dice)());
        // Whole seconds are all that the parameter can say.
        let seconds = seconds as u32;
        let params = WatchParams {
            timeout: Some(seconds),
            send_initial_events: phase == Phase::Listing,
            ..WatchParams::default()
        };
        let version = match &self.last {
            Some(last) if phase == Phase::Following || !self.unavailable => last.as_str(),
            _ => "",
        };
        let since = Instant::now();
        let deadline = since + Duration::from_secs(seconds.into()) + OVERTIME;
        match timeout_at(deadline, self.api.watch(&params, version)).await {
            Ok(Ok(stream)) => Ok(Open {
                stream: stream.boxed(),
                since,
                deadline,
            }),
            Ok(Err(error)) => Err(self.failed("watch", error)),
            Err(_) => Err(self.silent("watch", since.elapsed())),
        }
    }

    /// Delivers the events of a watch until it ends, or until it has said all that exists.
    async fn pump(
        &mut self,
        open: &mut Open<K>,
        phase: Phase,
        emit: &mut (impl FnMut(Event<K>) + Send),
    ) -> Result<End, WatchError> {
        let listing = phase == Phase::Listing;
        let mut events = 0_u64;
        loop {
            let deadline = if listing {
                open.deadline.min(Instant::now() + LISTING_SILENCE)
            } else {
                open.deadline
            };
            let event = match timeout_at(deadline, open.stream.next()).await {
                Ok(Some(event)) => event,
                Ok(None) => break,
                Err(_) if listing => return Err(self.silent("watch", LISTING_SILENCE)),
                Err(_) => break,
            };
            events += 1;
            match event {
                Ok(WatchEvent::Added(object) | WatchEvent::Modified(object)) => {
                    self.seen(phase, object.resource_version());
                    let object = self.transformed(object);
                    emit(if listing {
                        Event::ListObject(object)
                    } else {
                        Event::Applied(object)
                    });
                }
                Ok(WatchEvent::Deleted(object)) => {
                    self.seen(phase, object.resource_version());
                    let object = self.transformed(object);
                    emit(if listing {
                        Event::ListDeleted(object)
                    } else {
                        Event::Deleted(object)
                    });
                }
                Ok(WatchEvent::Bookmark(bookmark)) => {
                    let metadata = bookmark.metadata;
                    let end = metadata.annotations.get(INITIAL_EVENTS_END);
                    if listing && end.is_some_and(|end| end == "true") {
                        self.last = Some(metadata.resource_version);
                        return Ok(End::Listed);
                    }
                    self.seen(phase, Some(metadata.resource_version));
                }
                Ok(WatchEvent::Error(status)) => {
                    return Err(self.failed("watch", kube::Error::Api(status)));
                }
                // The connection broke; what was delivered holds.
                Err(kube::Error::ReadEvents(_)) => break,
                Err(error) => return Err(self.failed("watch", error)),
            }
        }
        if events == 0 && open.since.elapsed() < VERY_SHORT {
            return Err(WatchError::VeryShort {
                kind: self.kind.clone(),
            });
        }
        Ok(End::Closed)
    }

    /// Remembers where to resume. Half a list is nothing to resume from.
    fn seen(&mut self, phase: Phase, version: Option<String>) {
        if phase == Phase::Following && version.is_some() {
            self.last = version;
        }
    }

    fn transformed(&self, mut object: K) -> K {
        (self.transform)(&mut object);
        object
    }

    fn failed(&self, verb: &'static str, error: kube::Error) -> WatchError {
        WatchError::from_kube(verb, &self.kind, error)
    }

    fn silent(&self, verb: &'static str, waited: Duration) -> WatchError {
        WatchError::Silent {
            verb,
            kind: self.kind.clone(),
            waited,
        }
    }
}

#[cfg(test)]
mod tests;
