//! The embedded controller as a process against a real API server, and what its own metrics say of it.
//!
//! One binary, so that the tests overlap: most of them wait for something most of the time.

#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests fail like the tests themselves"
)]
#![allow(clippy::print_stderr, reason = "a run tells its numbers")]

#[path = "../support/configuration.rs"]
mod configuration;
#[path = "../support/controller.rs"]
mod controller;
#[path = "../support/definitions.rs"]
mod definitions;
#[path = "../support/helm.rs"]
mod helm;
#[path = "../support/http.rs"]
mod http;
#[path = "../support/process.rs"]
mod process;
#[path = "../support/proxy.rs"]
mod proxy;
#[path = "../support/mod.rs"]
mod support;
#[path = "../support/workloads.rs"]
mod workloads;

mod configuration_states;
mod denied;
mod faults;
mod kinds;
mod releases;
mod restarts;
mod scope;
mod sinks;
mod starts;
