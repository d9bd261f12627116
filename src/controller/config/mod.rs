//! The configuration object: how it is read, what follows from it, and what its status says.
//!
//! [`load`] turns a spec into settings or into every error in it, with [`sinks`] for the part that
//! needs Secrets. [`state`] is what is in force: the last configuration that was good, or defaults.
//! [`schema`] tells whether the server knows every field, [`degraded`] what is wrong with the
//! controller. [`reconcile`] ties these to the object (`controller.md` F).

pub mod degraded;
pub mod load;
pub mod reconcile;
pub mod schema;
mod selector;
pub mod sinks;
pub mod state;

#[cfg(test)]
mod tests;
