//! What a controller is made of before it controls anything: client, watches, caches, queues,
//! workers, metrics and health endpoints.
//!
//! Requests, timing and metrics are those of client-go and controller-runtime, because a measurement
//! counts them (`controller.md` E.7, G and M). Nothing here knows which kinds are watched or what is
//! done with them.

pub mod client;
pub mod metrics;
pub mod queue;
pub mod watch;

#[cfg(test)]
mod scripted;
