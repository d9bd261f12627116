//! What a controller is made of before it controls anything: client, watches, caches, queues,
//! workers, metrics and health endpoints.
//!
//! Requests, timing and metrics are those of client-go and controller-runtime, because a measurement
//! counts them (`controller.md` E.7, G and M). Nothing here knows which kinds are watched or what is
//! done with them. Data flows one way: after [`discovery`], a [`watch`] fills a [`store`], whose
//! handlers put keys on a [`queue`], which a [`worker`] empties into a reconciler.
//!
//! Time is tokio's, so that tests can pause it; randomness is passed in as [`watch::Dice`].

pub mod client;
pub mod discovery;
pub mod health;
pub mod metrics;
pub mod queue;
pub mod store;
pub mod watch;
pub mod worker;

#[cfg(test)]
pub(super) mod scripted;
