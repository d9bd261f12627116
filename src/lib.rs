//! Qualifies an upgrade of the `k8s-aibom` controller against a real Kubernetes API server.
//!
//! The crate is one package with a library and a thin binary. Its rooms, in the order data flows:
//!
//! - [`cli`]: argument types, one file per verb, exit codes;
//! - [`scenario`]: the YAML that people write, and the plan that it becomes;
//! - [`run`]: the engine, which executes a plan;
//! - [`cluster`]: everything said to an API server;
//! - [`helm`]: Helm 3 and 4 as programs, their release records, and charts;
//! - [`workloads`]: load, generated and applied;
//! - [`observe`]: snapshots, readings of metrics, windows;
//! - [`record`]: what a run leaves behind, as data;
//! - [`compare`]: what differs between snapshots;
//! - [`gates`]: checks and verdicts;
//! - [`report`]: what a person sees of a run;
//! - [`plane`]: the private local control plane;
//! - [`node`]: the virtual node that makes helm moves true rollouts;
//! - [`host`]: what this machine gives to both: child processes, free ports, private files;
//! - [`subject`]: what the harness knows about the thing under test, as data;
//! - [`controller`]: the embedded controller, whose behaviour is that of a chosen release.
//!
//! [`error_chain`] tells an error and its causes in words, for all of them.
//!
//! A room's module documentation says what it is responsible for and what it may know of.

#![forbid(unsafe_code)]

pub mod cli;
pub mod cluster;
pub mod compare;
pub mod controller;
pub mod error_chain;
pub mod gates;
pub mod helm;
pub mod host;
pub mod node;
pub mod observe;
pub mod plane;
pub mod record;
pub mod report;
pub mod run;
pub mod scenario;
pub mod subject;
pub mod workloads;
