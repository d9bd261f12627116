//! From a workload in the cache to its AIBOM on the server.
//!
//! [`kinds`] says how a workload of each kind is read, [`sources`] which changes lead to which
//! workload, [`workload`] what is then done, and [`aibom`] how it is written; a [`controller`] is made
//! of these for each kind (`controller.md` B.5, E). [`lineage`] knows which workloads are reported by
//! their owners.

pub mod aibom;
pub mod controller;
pub mod intermediates;
pub mod kinds;
pub mod lineage;
pub mod replica_sets;
pub mod sources;
pub mod workload;

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Namespace, Pod};

use super::document::redact::Redactor;
use super::profile::Profile;
use super::runtime::metrics::aibom::AibomMetrics;
use super::runtime::store::Informer;
use super::settings::Current;
use super::third_party::gate::Gate;
use aibom::{Aibom, Writer};
use lineage::Lineage;
use replica_sets::ReplicaSets;

/// What the reconcilers of all kinds share.
#[derive(Clone)]
pub struct Shared {
    /// The release.
    pub profile: &'static Profile,
    /// The settings in force.
    pub settings: Current,
    /// Replaces credentials in what is published.
    pub redactor: Arc<Redactor>,
    /// Namespaces.
    pub namespaces: Informer<Namespace>,
    /// Pods.
    pub pods: Informer<Pod>,
    /// ReplicaSets, once somebody needs them.
    pub replica_sets: ReplicaSets,
    /// Which workloads are reported by their owners, if the release asks.
    pub lineage: Option<Lineage>,
    /// AIBOMs.
    pub aiboms: Informer<Aibom>,
    /// Open once every supervised kind has been listed, or will not be for now.
    pub third_party: Gate,
    /// Writes AIBOMs.
    pub writer: Writer,
    /// The controller's own metrics.
    pub metrics: Arc<AibomMetrics>,
}
