//! YAML as Helm reads it: version 1.1, in which `no` is false and `0777` is 511 (`prior-art.md` 1.4, 3.2).

use serde_json::Value;
use serde_saphyr::DuplicateKeyPolicy;

/// The depth of a definition's schema is bounded by the API server; this is more than it accepts.
const MOST_LEVELS: usize = 128;

/// A text is not YAML.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct YamlError(String);

/// The documents of a stream. Empty ones are left out; of a repeated key the last one counts.
pub(super) fn documents(text: &str) -> Result<Vec<Value>, YamlError> {
    // Without a snippet: the text may be that of a Secret.
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! { max_depth: MOST_LEVELS },
        duplicate_keys: DuplicateKeyPolicy::LastWins,
        legacy_octal_numbers: true,
        with_snippet: false,
    };
    serde_saphyr::from_multiple_with_options(text, options)
        .map_err(|error| YamlError(error.to_string()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn scalars_are_those_of_yaml_1_1() {
        let text = "{a: no, b: on, c: 0777, d: 007, e: 1_000, f: 0x1F, g: '0777', h: 1:30, i: ~}";
        assert_eq!(
            documents(text).expect("YAML"),
            [json!({
                "a": false, "b": true, "c": 511, "d": 7, "e": 1000, "f": 31,
                "g": "0777", "h": "1:30", "i": null,
            })]
        );
    }

    #[test]
    fn a_stream_holds_several_documents_and_empty_ones_do_not_count() {
        let text = "---\n# Source: a\na: 1\n---\n---\n# only words\n---\na: 2\na: 3\n";
        let expected = [json!({"a": 1}), json!({"a": 3})];
        assert_eq!(documents(text).expect("YAML"), expected);
        assert_eq!(documents("").expect("YAML"), Vec::<Value>::new());
    }

    #[test]
    fn an_error_tells_the_place_and_not_the_text() {
        let error = documents("password: hunter2\n  b: [").expect_err("broken");
        let words = error.to_string();
        assert!(words.contains("line 2"), "{words}");
        assert!(!words.contains("hunter2"), "{words}");
    }
}
