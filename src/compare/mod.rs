//! What differs between snapshots, and which chart's definitions are served.
//!
//! Everything here is a function of recorded data and says what is, not whether it is good: verdicts
//! are [`gates`](crate::gates)' business. What differs is kept by name, however much it is; what is
//! equal is only counted.

mod diff;
mod round_trip;
mod served;

pub use self::diff::{AibomName, Diff, diff};
pub use self::round_trip::{RoundTrip, round_trips};
pub use self::served::{Served, served, serving, stranded};
