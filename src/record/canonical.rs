//! One text for one JSON value, and its SHA-256: what `schemaSha256`, `valuesSha256` and the other
//! digests of structured data in a run's folder are made of.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::Value;
use sha2::Digest as _;

use super::cluster::CrdVersion;

/// The value as JSON with sorted keys and without white space.
///
/// Keys are sorted by their UTF-8 bytes at every level; strings and numbers are written as `serde_json`
/// writes them, so that `1` and `1.0` stay different.
#[must_use]
pub fn canonical_json(value: &Value) -> String {
    let mut text = String::new();
    write_value(&mut text, value);
    text
}

/// SHA-256 as 64 lower-case hexadecimal digits without a prefix.
#[must_use]
pub fn sha256_hex(bytes: &[u8]) -> String {
    let digest = sha2::Sha256::digest(bytes);
    digest
        .iter()
        .fold(String::with_capacity(2 * digest.len()), |mut text, byte| {
            // Writing to a `String` cannot fail.
            let _ = write!(text, "{byte:02x}");
            text
        })
}

/// SHA-256 of a schema, or of any other value, in canonical JSON: equal for equal values, however they
/// were written down (CRD-02).
#[must_use]
pub fn schema_sha256(value: &Value) -> String {
    sha256_hex(canonical_json(value).as_bytes())
}

/// The versions of a `CustomResourceDefinition`, by name: the same for a definition in a chart and for
/// the served one, so that both can be compared (CRD-02). The schema that is hashed is
/// `schema.openAPIV3Schema`, or `null` where there is none. A version without a name is left out; the
/// API server accepts none.
#[must_use]
pub fn crd_versions(definition: &Value) -> BTreeMap<String, CrdVersion> {
    let versions = definition["spec"]["versions"].as_array();
    let named = versions.into_iter().flatten().filter_map(|version| {
        let facts = CrdVersion {
            served: version["served"].as_bool().unwrap_or(false),
            storage: version["storage"].as_bool().unwrap_or(false),
            schema_sha256: schema_sha256(&version["schema"]["openAPIV3Schema"]),
        };
        Some((version["name"].as_str()?.to_owned(), facts))
    });
    named.collect()
}

fn write_value(text: &mut String, value: &Value) {
    match value {
        Value::Array(items) => {
            text.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    text.push(',');
                }
                write_value(text, item);
            }
            text.push(']');
        }
        Value::Object(fields) => {
            // The map keeps its own order when a feature of `serde_json` says so.
            let mut sorted: Vec<_> = fields.iter().collect();
            sorted.sort_unstable_by_key(|(key, _)| *key);
            text.push('{');
            for (index, (key, field)) in sorted.into_iter().enumerate() {
                if index > 0 {
                    text.push(',');
                }
                write_string(text, key);
                text.push(':');
                write_value(text, field);
            }
            text.push('}');
        }
        Value::String(string) => write_string(text, string),
        Value::Null | Value::Bool(_) | Value::Number(_) => {
            let _ = write!(text, "{value}");
        }
    }
}

fn write_string(text: &mut String, string: &str) {
    // The only place that knows how JSON escapes is `serde_json`.
    let _ = write!(text, "{}", Value::from(string));
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn keys_are_sorted_at_every_level_and_nothing_else_is_touched() {
        let value: Value = serde_json::from_str(
            r#" { "b": [ {"z": 1, "a": "x\"\u00e9\n"}, 1.0, -0.5 ], "": null, "B": true } "#,
        )
        .expect("JSON");
        assert_eq!(
            canonical_json(&value),
            r#"{"":null,"B":true,"b":[{"a":"x\"é\n","z":1},1.0,-0.5]}"#
        );
    }

    #[test]
    fn equal_values_have_equal_digests_and_others_do_not() {
        let one: Value = serde_json::from_str(r#"{"a":1,"b":2}"#).expect("JSON");
        let other: Value = serde_json::from_str(r#"{"b":2,"a":1}"#).expect("JSON");
        assert_eq!(schema_sha256(&one), schema_sha256(&other));
        assert_ne!(schema_sha256(&one), schema_sha256(&json!({"a": 1, "b": 3})));
        assert_ne!(
            schema_sha256(&json!(["a", "b"])),
            schema_sha256(&json!(["b", "a"]))
        );
    }

    #[test]
    fn versions_are_told_apart_by_their_schemas() {
        let definition = json!({"spec": {"versions": [
            {"name": "v1beta1", "served": true, "storage": true,
             "schema": {"openAPIV3Schema": {"type": "object"}}},
            {"name": "v1alpha1", "served": false, "storage": false,
             "schema": {"openAPIV3Schema": {"type": "object"}}},
            {"name": "v1", "served": true, "storage": false},
        ]}});
        let versions = crd_versions(&definition);
        assert_eq!(
            versions.keys().collect::<Vec<_>>(),
            ["v1", "v1alpha1", "v1beta1"]
        );
        let (alpha, beta) = (&versions["v1alpha1"], &versions["v1beta1"]);
        assert_eq!(alpha.schema_sha256, beta.schema_sha256);
        assert_ne!(versions["v1"].schema_sha256, beta.schema_sha256);
        assert!(beta.served && beta.storage && !alpha.served && !alpha.storage);
    }

    #[test]
    fn the_vector_of_the_standard() {
        assert_eq!(
            sha256_hex(b"abc"),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
    }
}
