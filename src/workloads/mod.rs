//! Workloads to put load on a controller: which ones ([`Plan`]), and how they get into a cluster
//! ([`Load`]).
//!
//! What a plan makes is a function of the plan alone, so that two runs of it have the same input. The
//! room knows API servers, but nothing of what looks at the workloads: which labels opt a namespace
//! in is said by whoever makes the plan.

mod load;
mod mix;
mod plan;
mod result;

pub use self::load::{Load, LoadError};
pub use self::mix::Mix;
pub use self::plan::{DnsLabel, NotALabel, Plan};
pub use self::result::{Applied, Failure, Latency};
