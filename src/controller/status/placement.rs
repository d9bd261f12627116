//! Where a document is kept: in the status, at a sink, or, if neither can hold it, nowhere.

use k8s_openapi::ByteString;
use serde::{Deserialize, Serialize};

use super::Limits;
use crate::controller::document::{Document, FORMAT, SPEC_VERSION};

/// Smallest and largest threshold for documents inside an AIBOM, in bytes.
const THRESHOLDS: (i64, i64) = (1024, 1_048_576);

/// What a sink made of a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SinkOutcome {
    /// The kind of sink, `gcs` or `webhook`, whatever the configuration calls it.
    pub name: &'static str,
    /// Whether a document that went in cannot be read back.
    pub write_only: bool,
    /// The address of the document, or why it was not delivered.
    pub delivered: Result<String, String>,
}

impl SinkOutcome {
    /// Whether the document was not delivered.
    #[must_use]
    pub const fn has_failed(&self) -> bool {
        self.delivered.is_err()
    }
}

/// The document as the status holds it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BomDocument {
    /// Format.
    pub format: String,
    /// Version of the format.
    pub spec_version: String,
    /// The document's hash.
    pub sha256: String,
    /// Size in bytes.
    pub size: usize,
    /// The bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inline: Option<Inline>,
    /// The sink that has the bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external: Option<External>,
    /// Whether the bytes are lost.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
    /// Why they are.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub truncation_reason: String,
}

/// A document kept in the status.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Inline {
    /// The exact bytes; base64 when written.
    pub data: ByteString,
}

/// A document kept by a sink.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct External {
    /// The kind of sink.
    pub sink: String,
    /// The address of the document.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub url: String,
    /// Whether it cannot be read back from there.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub write_only: bool,
}

impl BomDocument {
    pub(super) fn place(document: &Document, limits: Limits, sinks: &[SinkOutcome]) -> Self {
        let size = document.bytes.len();
        let threshold = threshold(limits.inline_threshold_bytes);
        let fits = i64::try_from(size).is_ok_and(|size| size <= threshold);
        let external = if fits { None } else { keeper(sinks) };
        let truncated = !fits && external.is_none();
        Self {
            format: FORMAT.to_owned(),
            spec_version: SPEC_VERSION.to_owned(),
            sha256: document.sha256.clone(),
            size,
            inline: fits.then(|| Inline {
                data: ByteString(document.bytes.clone()),
            }),
            external,
            truncated,
            truncation_reason: if truncated {
                lost(size, threshold, sinks)
            } else {
                String::new()
            },
        }
    }
}

fn threshold(configured: i64) -> i64 {
    let (least, most) = THRESHOLDS;
    if configured <= 0 {
        Limits::default().inline_threshold_bytes
    } else {
        configured.clamp(least, most)
    }
}

/// The first sink that took the document; one that can be read back is preferred.
fn keeper(sinks: &[SinkOutcome]) -> Option<External> {
    let taken = |write_only| {
        sinks
            .iter()
            .filter(move |sink| sink.write_only == write_only)
            .find_map(|sink| Some((sink, sink.delivered.as_ref().ok()?)))
    };
    let (sink, url) = taken(false).or_else(|| taken(true))?;
    Some(External {
        sink: sink.name.to_owned(),
        url: url.clone(),
        write_only: sink.write_only,
    })
}

fn lost(size: usize, threshold: i64, sinks: &[SinkOutcome]) -> String {
    let exceeds = format!("BOM size {size} bytes exceeds inline threshold {threshold} bytes");
    if sinks.is_empty() {
        format!(
            "{exceeds} and no external sink is configured. Configure a GCS or webhook sink in \
             AIBOMControllerConfig to retrieve the full BOM."
        )
    } else {
        format!(
            "{exceeds} and no configured external sink succeeded this cycle (see the SinkFailed \
             condition). The full BOM was not delivered and will be retried on the next reconcile."
        )
    }
}
