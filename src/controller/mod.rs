//! The embedded controller: it behaves like a chosen release of `k8s-aibom`, to the byte.
//!
//! What differs between releases is data, in [`profile`]; the code consults it and never compares
//! version numbers. Data flows one way: a [`workload`] is [detected](detect) as components, their
//! [input hash](input_hash) says whether anything changed, and if so they become a CycloneDX
//! [document] and a [status]. All of that is pure: no client, no clock, no randomness. Around it,
//! [reconcile] ties that to caches and requests, and a [process] is made of it all.
//!
//! The room knows nothing of the harness that measures it and shares no code with it, or the tool
//! would check itself with itself. `docs/fidelity.md` says which behaviour was measured, which is
//! documented and which is inferred.

pub mod api;
pub mod config;
pub mod detect;
pub mod document;
pub mod events;
pub mod go_json;
pub mod go_regexp;
pub mod input_hash;
pub mod leader;
pub mod log;
pub mod name;
pub mod process;
pub mod profile;
pub mod reconcile;
pub mod roll_up;
pub mod runtime;
pub mod settings;
pub mod sha256;
pub mod sink;
pub mod status;
pub mod third_party;
pub mod workload;
pub mod workload_kinds;
