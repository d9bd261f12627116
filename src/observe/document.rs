//! The document of an AIBOM: decoded, hashed and dropped.
//!
//! It lies base64-encoded in `status.bomDocument.inline.data`; one that was too large for that is in
//! an external sink, or nowhere (`controller.md` A.3, D.3). Its hash is over the very bytes, a
//! trailing newline included (D.2).

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;

use crate::record::{DocumentState, schema_sha256, sha256_hex};

/// `status.bomDocument`.
#[derive(Debug, Default, Deserialize)]
pub(super) struct StoredDocument<'a> {
    #[serde(borrow)]
    sha256: Option<Cow<'a, str>>,
    size: Option<i64>,
    #[serde(borrow)]
    inline: Option<Inline<'a>>,
    external: Option<IgnoredAny>,
    truncated: Option<bool>,
}

#[derive(Debug, Deserialize)]
struct Inline<'a> {
    #[serde(borrow)]
    data: Option<Cow<'a, str>>,
}

impl StoredDocument<'_> {
    /// What is there, recomputed from the bytes.
    pub(super) fn state(&self) -> DocumentState {
        let inline = self
            .inline
            .as_ref()
            .and_then(|inline| inline.data.as_deref());
        match inline {
            Some(data) => self
                .decode(data)
                .unwrap_or_else(|reason| DocumentState::Unreadable { reason }),
            None if self.truncated == Some(true) || self.external.is_some() => {
                DocumentState::Truncated
            }
            None => DocumentState::Absent,
        }
    }

    fn decode(&self, data: &str) -> Result<DocumentState, String> {
        let bytes = STANDARD
            .decode(data)
            .map_err(|error| format!("it is not base64: {error}"))?;
        let document: Value =
            serde_json::from_slice(&bytes).map_err(|error| format!("it is not JSON: {error}"))?;
        if !document.is_object() {
            return Err("it is not a JSON object".to_owned());
        }
        Ok(DocumentState::Inline {
            sha256: sha256_hex(&bytes),
            canonical_sha256: schema_sha256(&timeless(document)),
            bytes: bytes.len() as u64,
            stated_sha256: self
                .sha256
                .as_deref()
                .filter(|hash| !hash.is_empty())
                .map(str::to_owned),
            stated_bytes: self.size.and_then(|size| u64::try_from(size).ok()),
        })
    }
}

/// The document without what differs between two of equal content (DAT-06).
fn timeless(mut document: Value) -> Value {
    if let Some(fields) = document.as_object_mut() {
        fields.remove("serialNumber");
        if let Some(metadata) = fields.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("timestamp");
        }
    }
    document
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn stored(value: &Value) -> DocumentState {
        let text = value.to_string();
        let stored: StoredDocument<'_> = serde_json::from_str(&text).expect("a status");
        stored.state()
    }

    fn inline(bytes: &str) -> DocumentState {
        stored(&json!({"inline": {"data": STANDARD.encode(bytes)}, "sha256": "ab", "size": 7}))
    }

    #[test]
    fn the_hash_is_over_the_bytes_and_the_canonical_one_over_the_content() {
        let DocumentState::Inline {
            sha256,
            canonical_sha256,
            bytes,
            stated_sha256,
            stated_bytes,
        } = inline("{\"b\":1,\"metadata\":{\"timestamp\":\"now\",\"x\":2}}\n")
        else {
            panic!("not inline");
        };
        assert_eq!(bytes, 45);
        assert_eq!(
            sha256,
            sha256_hex(b"{\"b\":1,\"metadata\":{\"timestamp\":\"now\",\"x\":2}}\n")
        );
        assert_eq!(
            (stated_sha256.as_deref(), stated_bytes),
            (Some("ab"), Some(7))
        );
        let later = inline(
            "{\"metadata\":{\"x\":2,\"timestamp\":\"later\"},\"serialNumber\":\"n\",\"b\":1}",
        );
        let DocumentState::Inline {
            sha256: other,
            canonical_sha256: same,
            ..
        } = later
        else {
            panic!("not inline");
        };
        assert_ne!(sha256, other);
        assert_eq!(canonical_sha256, same);
        let DocumentState::Inline {
            canonical_sha256: different,
            ..
        } = inline("{\"b\":1,\"metadata\":{\"x\":3}}")
        else {
            panic!("not inline");
        };
        assert_ne!(canonical_sha256, different);
    }

    #[test]
    fn what_cannot_be_decoded_says_why() {
        let reason = |state| match state {
            DocumentState::Unreadable { reason } => reason,
            other => panic!("{other:?}"),
        };
        let bad = stored(&json!({"inline": {"data": "n@t base64"}}));
        assert!(reason(bad).starts_with("it is not base64: "));
        assert!(reason(inline("")).starts_with("it is not JSON: "));
        assert!(reason(inline("{\"a\":")).starts_with("it is not JSON: "));
        assert_eq!(reason(inline("[]")), "it is not a JSON object");
    }

    #[test]
    fn a_document_elsewhere_and_none_at_all_are_told_apart() {
        let truncated = [
            json!({"sha256": "ab", "truncated": true, "truncationReason": "too large"}),
            json!({"external": {"sink": "gcs"}}),
        ];
        for state in truncated {
            assert_eq!(stored(&state), DocumentState::Truncated);
        }
        for state in [
            json!({}),
            json!({"truncated": false}),
            json!({"inline": {}}),
        ] {
            assert_eq!(stored(&state), DocumentState::Absent);
        }
    }
}
