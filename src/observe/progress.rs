//! What a long look may show while it lasts.

use std::time::Duration;

/// How far something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress<'a> {
    /// The state, in words.
    pub state: &'a str,
    /// How much of it is there, and how much there will be, where that can be counted.
    pub done: Option<(u64, u64)>,
    /// How long it will still take, where that is known.
    pub left: Option<Duration>,
}

/// Receives [`Progress`].
pub type OnProgress<'a> = &'a (dyn Fn(Progress<'_>) + Send + Sync);
