//! What this machine gives: child processes that never outlive their owner ([`process`],
//! [`launch`], [`identity`]), free ports ([`ports`]), files that only we may read ([`files`]) and
//! the kubeconfigs among them ([`kubeconfig`]).
//!
//! The local control plane and the virtual node are both made of these. The room knows nothing of
//! either.

pub mod files;
pub mod identity;
pub mod kubeconfig;
pub mod launch;
pub mod ports;
pub mod process;
