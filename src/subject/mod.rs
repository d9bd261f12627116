//! What the harness knows about the thing under test, as data.
//!
//! Nothing else in the harness names the `k8s-aibom` controller, so that another one can be qualified
//! by another subject. The room is pure: it knows no clients, no planes and no nodes.

pub mod images;
