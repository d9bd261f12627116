//! What a watch says.

use std::time::Duration;

use super::WatchError;

/// What a watch says, in the order in which it has to be applied.
#[derive(Debug)]
pub enum Event<K> {
    /// A list begins. What an unfinished one before it said is void.
    ListBegin,
    /// The list holds this object. A later one of the same name takes its place.
    ListObject(K),
    /// The list holds this object no more.
    ListDeleted(K),
    /// The list is complete: what it does not hold does not exist.
    ListEnd,
    /// An object was made or changed.
    Applied(K),
    /// An object was deleted; this is its last state.
    Deleted(K),
    /// Something went wrong. The watch goes on by itself.
    Trouble(Trouble),
}

/// A failure, and what is done about it.
#[derive(Debug)]
pub struct Trouble {
    /// The failure.
    pub error: WatchError,
    /// Whether a new list follows; otherwise the request is repeated and nothing was missed.
    pub relist: bool,
    /// When.
    pub retry_in: Duration,
}
