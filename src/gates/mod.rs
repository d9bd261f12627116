//! Checks and verdicts.
//!
//! A check has an id from `qualification.md` B, belongs to certain kinds of steps, and looks at what a
//! run left behind: the [`Evidence`]. Nothing here asks a cluster, so that verdicts can be recomputed
//! from a run's folder at any time.
//!
//! - `catalogue`: every check with its id, title, source and severity;
//! - `evaluate`: which check looks at which step, and the rules by which what it saw becomes a verdict;
//! - `view`: what a check may look at;
//! - `seen`: what a check comes to before the rules;
//! - `reconnects`: the model of watches that end and begin anew, which the quiet window is held to;
//! - the other modules: the checks, a module for each group of ids.
//!
//! A check that looked at nothing is INVALID, whatever it says; that holds by construction, since it
//! must tell how much it looked at. Whether a check is NOT-APPLICABLE is decided by functions that are
//! given the plan and the environment, and nothing that was seen.

mod catalogue;
mod cleanup;
mod config;
mod convergence;
mod crds;
mod data;
mod evaluate;
mod events;
mod install;
mod measurement;
mod moves;
mod reconnects;
mod restart;
mod seen;
mod steady;
mod view;

#[cfg(test)]
mod tests;

pub use self::catalogue::{Check, Severity, catalogue};
pub use self::evaluate::{evaluate, exit_code};
pub use self::reconnects::Reconnects;
pub use self::view::Evidence;
