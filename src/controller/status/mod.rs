//! The status of an AIBOM: what a full build writes, what the fast path refreshes, what a failure
//! changes.
//!
//! The types hold the content in the shape of the API; who writes it, and when, is decided
//! elsewhere. Times have whole seconds.

pub mod condition;
pub mod placement;
pub mod summary;

use chrono::{DateTime, SubsecRound as _, Utc};
use serde::{Deserialize, Serialize};

use super::detect::Scrape;
use super::document::Document;
use super::document::redact::Redactor;
use super::profile::{Reconcile, SinkFailure};
use super::workload::Workload;
use condition::Condition;
pub use placement::{BomDocument, SinkOutcome};
pub use summary::Summary;

/// The status of an AIBOM. What is empty or zero is not written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Status {
    /// Conditions, in the order they are written.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// What was found, in short.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub summary: Option<Summary>,
    /// The document, or where it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bom_document: Option<BomDocument>,
    /// When the workload was last reconciled without an error.
    #[serde(skip_serializing_if = "Option::is_none", with = "seconds")]
    pub last_reconciled: Option<DateTime<Utc>>,
    /// The document's hash.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub bom_hash: String,
    /// The input hash. Empty while a sink fails, under releases that then try again.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub input_hash: String,
    /// Reconciles in a row that recorded errors.
    #[serde(skip_serializing_if = "is_zero")]
    pub consecutive_errors: i32,
    /// The generation of the *workload* that this describes.
    #[serde(skip_serializing_if = "is_zero")]
    pub observed_generation: i64,
}

fn is_zero<N: PartialEq + Default>(number: &N) -> bool {
    *number == N::default()
}

/// A finished build of a workload's document.
#[derive(Clone, Copy, Debug)]
pub struct Build<'a> {
    /// The workload.
    pub workload: &'a Workload<'a>,
    /// What was detected.
    pub scrape: &'a Scrape,
    /// Its hash.
    pub input_hash: &'a str,
    /// The document.
    pub document: &'a Document,
    /// What the sinks made of it, in configured order.
    pub sinks: &'a [SinkOutcome],
    /// `consecutiveErrors` before this build; 0 for a new AIBOM.
    pub previous_errors: i32,
}

/// Limits that the configuration sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Documents larger than this, in bytes, are not kept in the status. What makes no sense is
    /// replaced or clamped when it is used.
    pub inline_threshold_bytes: i64,
    /// From this many consecutive errors on an AIBOM is stale.
    pub stale_threshold: i32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            inline_threshold_bytes: 262_144,
            stale_threshold: 3,
        }
    }
}

impl Status {
    /// The status after a full build. Every condition is written anew, with `now` as its
    /// transition even if nothing changed.
    #[must_use]
    pub fn built(
        build: &Build<'_>,
        limits: Limits,
        rules: &Reconcile,
        redactor: &Redactor,
        now: DateTime<Utc>,
    ) -> Self {
        let errors = &build.scrape.errors;
        let consecutive_errors = if errors.is_empty() {
            0
        } else {
            build.previous_errors.saturating_add(1)
        };
        let sources = errors.iter().map(|error| error.source.as_str());
        let stale = (consecutive_errors >= limits.stale_threshold && !errors.is_empty())
            .then_some(consecutive_errors);
        Self {
            conditions: condition::after_build(build.sinks, stale, sources, now),
            summary: Some(Summary::new(build.workload, build.scrape, redactor)),
            bom_document: Some(BomDocument::place(build.document, limits, build.sinks)),
            last_reconciled: Some(now.trunc_subsecs(0)),
            bom_hash: build.document.sha256.clone(),
            input_hash: stored_hash(build, rules.sink_failure),
            consecutive_errors,
            observed_generation: build.workload.generation,
        }
    }

    /// The status after a reconcile that found the same input: only the time and the generation
    /// move. A failure that an earlier reconcile left is not cleared.
    #[must_use]
    pub fn refreshed(mut self, generation: i64, now: DateTime<Utc>) -> Self {
        self.last_reconciled = Some(now.trunc_subsecs(0));
        self.observed_generation = generation;
        self
    }

    /// The status after a reconcile that failed: one more error, and `Ready` false. Everything
    /// else, the time included, stays as the last good reconcile left it.
    #[must_use]
    pub fn failed(mut self, failure: &Failure, generation: i64, now: DateTime<Utc>) -> Self {
        self.consecutive_errors = self.consecutive_errors.saturating_add(1);
        condition::set(
            &mut self.conditions,
            condition::not_ready(failure, generation, now),
        );
        self
    }
}

/// An empty hash differs from every input, so that the next reconcile builds and sends again.
fn stored_hash(build: &Build<'_>, rule: SinkFailure) -> String {
    match rule {
        SinkFailure::RequeueAfter(_) if build.sinks.iter().any(SinkOutcome::has_failed) => {
            String::new()
        }
        SinkFailure::RequeueAfter(_) | SinkFailure::WaitForChange => build.input_hash.to_owned(),
    }
}

/// Why a reconcile failed, in the words of the error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The workload could not be read.
    Scrape(String),
    /// The document could not be built.
    Build(String),
}

/// An optional time in whole seconds.
mod seconds {
    use chrono::{DateTime, Utc};
    use serde::{Deserialize, Deserializer, Serialize as _, Serializer};

    pub(super) fn serialize<S: Serializer>(
        time: &Option<DateTime<Utc>>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        time.map(crate::controller::document::timestamp)
            .serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<DateTime<Utc>>, D::Error> {
        Option::deserialize(deserializer)
    }
}
