//! The engine: executes a plan, step by step, and owns everything that changes while it does: the log
//! of events, the ledger of what was made, and the verdicts at the end.
//!
//! A run is [`Run::begin`] (a folder, before anything else happens), then [`Run::execute`] on a
//! [`Site`]. Everybody else gets messages: each entry of the log is on disk before it is sent. What a
//! check can judge never ends a run early: a step that failed is recorded with what was seen, and only
//! what cannot be judged (a cluster that refuses, a full disk, a release that somebody else is at work
//! on) is a [`RunError`].
//!
//! The room knows no output: [`report`](crate::report) makes one of the folder.

mod book;
mod charts;
mod course;
mod draft;
mod engine;
mod error;
mod journal;
pub mod limits;
mod namespaces;
mod preview;
mod removal;
mod site;
mod start;
mod steps;
mod stop;

pub use self::charts::{Charts, OpenChart};
pub use self::error::RunError;
pub use self::preview::{ChartChanges, Preview, PreviewStep};
pub use self::removal::Leavings;
pub use self::site::Site;
pub use self::start::{Finished, Run, RunOptions};
pub use self::stop::{Stop, StopReason};
