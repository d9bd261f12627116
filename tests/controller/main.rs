//! The pure part of the embedded controller against exact vectors, properties and a schema.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "in a test, a panic is the verdict"
)]
#![allow(
    clippy::print_stdout,
    reason = "a test that counts says how much it looked at"
)]

#[path = "../support/http.rs"]
mod http;

mod attribution;
mod cyclonedx;
mod detection;
mod fixtures;
mod profiles;
mod properties;
mod scrapers;
mod sinks;
mod status;
mod vectors;
