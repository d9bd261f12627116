//! Everything said to an API server, and what its answers mean.
//!
//! The room knows Kubernetes and nothing of scenarios, runs or how the server was started.

pub mod client;
pub mod fault;
