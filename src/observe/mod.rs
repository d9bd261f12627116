//! What can be seen of the controller and its inventory: [snapshots](snapshot()), readings of its
//! metrics ([`scrape`](mod@scrape)), the moment when it has [settled](settle()), quiet
//! [windows](window), and the [convergence](converged) of the inventory.
//!
//! The room looks and never judges: what is missing or late is a fact for the
//! [gates](crate::gates), and an error here means that nothing could be seen at all. It writes
//! nothing to the cluster. It shares nothing with the embedded [controller](crate::controller), so
//! that the tool does not check itself with itself.

mod config;
mod converge;
mod definitions;
mod document;
mod error;
mod expected;
mod inventory;
mod list;
pub mod metrics;
mod progress;
mod release;
mod rollout;
pub mod scrape;
#[cfg(test)]
mod scripted;
mod settle;
mod snapshot;
mod target;
pub mod window;
mod workloads;

pub use self::converge::{Convergence, converged};
pub use self::error::ObserveError;
pub use self::expected::{Expected, WorkloadName};
pub use self::progress::{OnProgress, Progress};
pub use self::scrape::{Purpose, ScrapeError, ScrapeFiles, scrape};
pub use self::settle::{Settled, Settling, settle};
pub use self::snapshot::snapshot;
pub use self::target::Target;
pub use self::workloads::{TRACKED_KINDS, opted_in, workloads};
