//! What the process answers over HTTP: `/healthz`, `/readyz` and `/metrics`.
//!
//! Texts are controller-runtime's (`controller.md` M): `ok`, or on failure one line per check. What
//! makes a release ready is data, [`Readiness`]; the checks that follow from it are [`checks`].

mod check;
mod server;

pub use self::check::{Check, Endpoint, Latch, Readiness, checks};
pub use self::server::{Bind, BindError, Routes, bind, serve};
