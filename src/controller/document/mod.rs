//! The CycloneDX document that is published for a workload.
//!
//! Its bytes hold the time of the build, the time of the scrape and the version of the controller:
//! two documents of one input differ, and an equal hash only says that nothing was built anew.

mod bom;
pub mod redact;

use chrono::{DateTime, SecondsFormat, Utc};

use super::detect::{Category, Scrape};
use super::profile::DocumentRules;
use super::workload::Workload;
use super::{go_json, sha256};
use redact::Redactor;

/// Format of every document.
pub const FORMAT: &str = "CycloneDX";
/// Version of the format.
pub const SPEC_VERSION: &str = "1.6";

/// Everything a document is made of.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    /// The workload described.
    pub workload: &'a Workload<'a>,
    /// What was detected in it.
    pub scrape: &'a Scrape,
    /// Version text of the running controller: `v1.3.0`.
    pub controller_version: &'a str,
    /// When the workload was looked at. Written in whole seconds.
    pub scraped_at: DateTime<Utc>,
    /// When the document is built. Written in whole seconds.
    pub built_at: DateTime<Utc>,
}

/// A finished document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    /// Compact JSON and a newline.
    pub bytes: Vec<u8>,
    /// The document's hash: SHA-256 of the bytes, as 64 lower-case hexadecimal digits.
    pub sha256: String,
}

impl Document {
    /// Builds the document.
    ///
    /// # Errors
    ///
    /// Never for what this crate detects, whose every map has text for keys.
    pub fn build(
        source: &Source<'_>,
        rules: &DocumentRules,
        redactor: &Redactor,
    ) -> Result<Self, serde_json::Error> {
        let mut bytes = go_json::to_vec(&bom::Bom::new(source, rules, redactor))?;
        bytes.push(b'\n');
        Ok(Self {
            sha256: sha256::hex(&bytes),
            bytes,
        })
    }
}

/// The category that is published: what was detected, or else what the controller looks for.
#[must_use]
pub fn category(scrape: &Scrape) -> Category {
    scrape.category.unwrap_or(Category::Inference)
}

/// A time as documents hold it: RFC 3339 in UTC, whole seconds, `Z`.
#[must_use]
pub fn timestamp(time: DateTime<Utc>) -> String {
    time.to_rfc3339_opts(SecondsFormat::Secs, true)
}
