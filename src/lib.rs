//! Qualifies an upgrade of the `k8s-aibom` controller against a real Kubernetes API server.
//!
//! The crate is one package with a library and a thin binary. Its rooms, in the order data flows:
//!
//! - [`cli`]: argument types, one file per verb, exit codes;
//! - [`cluster`]: everything said to an API server;
//! - [`controller`]: the embedded controller;
//! - [`plane`]: the private local control plane.
//!
//! A room's module documentation says what it is responsible for and what it may know of.

#![forbid(unsafe_code)]

pub mod cli;
pub mod cluster;
pub mod controller;
pub mod plane;
