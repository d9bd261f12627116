//! A virtual node: what a kubelet is to an API server, with processes of this machine for containers.
//!
//! The real scheduler binds pods to it; it starts what stands behind their images ([`image`]) as
//! child processes ([`container`]), judges them by their own probes ([`probe`]), reports their life
//! ([`pod`](self)) and answers on its kubelet port ([`server`]). It may use the rooms `host` and
//! `cluster`; it knows nothing of scenarios, charts or the controller under test.

pub mod container;
mod digest;
pub mod image;
pub mod options;
pub mod port_map;
pub mod probe;
pub mod server;
pub mod view;
