//! A private local control plane: real etcd, kube-apiserver, kube-controller-manager and
//! kube-scheduler as supervised child processes.
//!
//! The room finds, downloads or builds the programs ([`binaries`]), makes the certificates, starts
//! and watches the processes, keeps one folder per plane, and clears what an interrupted owner left.
//! It knows nothing of scenarios, charts or the controller under test.

pub mod autopsy;
pub mod binaries;
pub mod checkup;
mod component;
pub mod control;
pub mod dirs;
mod error;
pub mod event;
mod guard;
mod health;
pub mod layout;
mod node;
pub mod options;
pub mod pki;
pub mod registry;
mod shared;
mod start;
mod starter;
pub mod state;
pub mod tool;

pub use error::PlaneError;
pub use guard::{Plane, StopReport};
pub use node::NodeIdentity;
