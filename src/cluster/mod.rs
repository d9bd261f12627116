//! Everything said to an API server, and what its answers mean.
//!
//! The room knows Kubernetes and nothing of scenarios, runs or how the server was started.

mod ask;
pub mod churn;
pub mod client;
pub mod crd;
pub mod crds;
mod dying;
pub mod events;
pub mod facts;
pub mod fault;
mod follow;
pub mod found;
pub mod meter;
pub mod namespace;
mod outage;
mod release;
mod removal;
pub mod rollout;
#[cfg(test)]
mod scripted;
pub mod state;
pub mod time;
pub mod wait;

pub use self::dying::refuse_dying;
pub use self::namespace::delete_namespace;
pub use self::release::release_secrets;
pub use self::removal::Removal;
