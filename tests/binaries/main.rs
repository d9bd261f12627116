//! Where programs are found, in which order, and how they are built.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

#[path = "../support/programs.rs"]
mod programs;
#[path = "../support/mod.rs"]
mod support;

mod build;
mod search;

/// A `go build` that works.
const BUILDS: &str = "printf '#!/bin/sh\\necho Kubernetes v1.36.3\\n' > $out";
