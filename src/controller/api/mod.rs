//! The kinds of the API group, as Rust types and as custom resource definitions.
//!
//! One type per kind holds every field that any release has ([`aibom`], [`config`]). [`release`] says
//! as data what a release serves, and [`crd`] makes its definitions: the derived schema, corrected,
//! minus what the release lacks. [`object`] reads and writes a kind in the version that a profile uses.

pub mod aibom;
pub mod config;
pub mod crd;
pub mod meta;
pub mod object;
pub mod release;

/// The API group of both kinds.
pub const GROUP: &str = "aibom.k8saibom.dev";

/// Whether a field is left out of an object: as in the controller under test, every optional field
/// with the zero value of its type is.
fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
