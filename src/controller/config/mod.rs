//! The configuration object: how it is read, what follows from it, and what its status says.
//!
//! [`load`] turns a spec into settings or into every error in it. [`state`] is what is in force: the
//! last configuration that was good, or defaults. [`schema`] tells whether the server knows every field.
//! [`reconcile`] ties them to the object (`controller.md` F).

pub mod load;
pub mod reconcile;
pub mod schema;
pub mod state;
