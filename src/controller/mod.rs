//! The embedded AIBOM controller: behaves like the controller under test, in the version of a profile.
//!
//! The room shares nothing with the rooms that observe, compare and judge, so that the tool never
//! checks itself with itself.

pub mod runtime;
