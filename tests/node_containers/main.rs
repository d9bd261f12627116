//! Containers of the virtual node as real processes, with an API server that answers by a table.

#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests fail like the tests themselves"
)]

mod bench;
mod life;
mod spec;
#[path = "../support/mod.rs"]
mod support;
