//! Everything said to an API server, and what its answers mean.
//!
//! The room knows Kubernetes and nothing of scenarios, runs or how the server was started.

pub mod client;
pub mod crd;
pub mod fault;
pub mod namespace;
pub mod wait;
