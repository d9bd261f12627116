//! The kubelet port over real TLS connections, with the certificates of a plane.

#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests fail like the tests themselves"
)]

mod access;
mod forward;
mod kubelet;
mod logs;
