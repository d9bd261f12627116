//! A virtual node: what a kubelet is to an API server, with processes of this machine for containers.
//!
//! The real scheduler binds pods to it; it starts what stands behind their images ([`image`]) as
//! child processes ([`container`]), judges them by their own probes ([`probe`]), reports their life
//! ([`pod`](self)) and answers on its kubelet port ([`server`]). It may use the rooms `host` and
//! `cluster`; it knows nothing of scenarios, charts or the controller under test.

mod addresses;
mod backoff;
pub mod container;
mod digest;
mod dispatch;
mod error;
mod events;
mod faults;
mod handle;
mod heartbeat;
pub mod image;
mod journal;
pub mod options;
mod pod;
pub mod port_map;
pub mod probe;
mod registration;
pub mod server;
mod status;
mod time;
mod uplink;
pub mod view;

pub use error::NodeError;
pub use handle::Node;
