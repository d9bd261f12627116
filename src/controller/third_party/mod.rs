//! Kinds whose definitions others install: each is watched by itself, so that a broken one stops
//! nothing else.
//!
//! A [`supervisor`] waits for [`presence`] and keeps the watch of one kind alive; [`health`] is what is
//! known of all of them, for the condition of the configuration (`controller.md` F.5). A [`gate`] tells
//! when each has had its first chance.

pub mod gate;
pub mod health;
pub mod presence;
pub mod supervisor;
