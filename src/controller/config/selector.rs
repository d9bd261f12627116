//! From the namespace selector of a configuration to one that matches.
//!
//! The server takes any text for keys and values; what no label can be called is an error here, as in
//! apimachinery. Else a mistyped selector would match nothing, and every AIBOM would be deleted.

use k8s_openapi::apimachinery::pkg::apis::meta::v1 as k8s;
use kube::core::Selector;

use crate::controller::api::meta::LabelSelector;

/// Longest name of a key, and longest value, in bytes.
const LONGEST_NAME: usize = 63;
/// Longest prefix of a key, in bytes.
const LONGEST_PREFIX: usize = 253;

/// What names of keys and values are made of.
const NAME_RULE: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and \
                         end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or \
                         '123-abc', regex used for validation is \
                         '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const PREFIX_RULE: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric \
                           characters, '-' or '.', and must start and end with an alphanumeric \
                           character (e.g. 'example.com', regex used for validation is \
                           '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const VALUE_RULE: &str = "a valid label must be an empty string or consist of alphanumeric characters, \
                          '-', '_' or '.', and must start and end with an alphanumeric character (e.g. \
                          'MyValue',  or 'my_value',  or '12345', regex used for validation is \
                          '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

/// The selector, or what is wrong with the first requirement that cannot be met by any label.
pub(super) fn selector(wanted: &LabelSelector) -> Result<Selector, String> {
    for (key, value) in &wanted.match_labels {
        fine(labels(key, [value]))?;
    }
    for requirement in &wanted.match_expressions {
        let (key, values) = (&requirement.key, &requirement.values);
        let takes_values = match requirement.operator.as_str() {
            "In" | "NotIn" => true,
            "Exists" | "DoesNotExist" => false,
            other => return Err(format!("{other:?} is not a valid label selector operator")),
        };
        if takes_values == values.is_empty() {
            let rule = if takes_values {
                "for 'in', 'notin' operators, values set can't be empty"
            } else {
                "values set must be empty for exists and does not exist"
            };
            return Err(format!("{rule} (key {key:?})"));
        }
        fine(labels(key, values))?;
    }
    let expressions =
        wanted
            .match_expressions
            .iter()
            .map(|requirement| k8s::LabelSelectorRequirement {
                key: requirement.key.clone(),
                operator: requirement.operator.clone(),
                values: Some(requirement.values.clone()),
            });
    let wanted = k8s::LabelSelector {
        match_expressions: Some(expressions.collect()),
        match_labels: Some(wanted.match_labels.clone()),
    };
    Selector::try_from(wanted).map_err(|error| error.to_string())
}

fn fine(mut wrong: Vec<String>) -> Result<(), String> {
    match wrong.len() {
        0 => Ok(()),
        1 => Err(wrong.swap_remove(0)),
        _ => Err(format!("[{}]", wrong.join(", "))),
    }
}

/// What is wrong with a key and its values.
fn labels<'v>(key: &str, values: impl IntoIterator<Item = &'v String>) -> Vec<String> {
    let invalid = |field: String, text: &str, wrong: &[String]| {
        (!wrong.is_empty())
            .then(|| format!("{field}: Invalid value: {text:?}: {}", wrong.join("; ")))
    };
    let mut errors: Vec<_> = invalid("key".to_owned(), key, &wrong_key(key))
        .into_iter()
        .collect();
    for (index, value) in values.into_iter().enumerate() {
        let field = format!("values[{index}][{key}]");
        errors.extend(invalid(field, value, &wrong_value(value)));
    }
    errors
}

fn wrong_key(key: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    let name = match key.split('/').collect::<Vec<_>>()[..] {
        [name] => name,
        [prefix, name] => {
            if prefix.is_empty() {
                wrong.push("prefix part must be non-empty".to_owned());
            } else {
                let longest = (prefix.len() > LONGEST_PREFIX).then(|| too_long(LONGEST_PREFIX));
                let rule = (!is_subdomain(prefix)).then(|| PREFIX_RULE.to_owned());
                let rules = longest.into_iter().chain(rule);
                wrong.extend(rules.map(|rule| format!("prefix part {rule}")));
            }
            name
        }
        _ => {
            return vec![format!(
                "a qualified name {NAME_RULE} with an optional DNS subdomain prefix and '/' (e.g. \
                 'example.com/MyName')"
            )];
        }
    };
    if name.is_empty() {
        wrong.push("name part must be non-empty".to_owned());
    } else if name.len() > LONGEST_NAME {
        wrong.push(format!("name part {}", too_long(LONGEST_NAME)));
    }
    if !is_name(name) {
        wrong.push(format!("name part {NAME_RULE}"));
    }
    wrong
}

fn wrong_value(value: &str) -> Vec<String> {
    let longest = (value.len() > LONGEST_NAME).then(|| too_long(LONGEST_NAME));
    let rule = (!value.is_empty() && !is_name(value)).then(|| VALUE_RULE.to_owned());
    longest.into_iter().chain(rule).collect()
}

fn too_long(longest: usize) -> String {
    format!("must be no more than {longest} bytes")
}

fn is_name(text: &str) -> bool {
    let ends = |end: Option<u8>| end.is_some_and(|end| end.is_ascii_alphanumeric());
    let inside = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    ends(text.bytes().next()) && ends(text.bytes().next_back()) && text.bytes().all(inside)
}

fn is_subdomain(text: &str) -> bool {
    text.split('.').all(|part| {
        is_name(part) && !part.contains('_') && !part.bytes().any(|byte| byte.is_ascii_uppercase())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_names_with_or_without_a_domain() {
        let longest = "n".repeat(LONGEST_NAME);
        for key in ["a", "A_b.c-1", "example.com/Name", longest.as_str()] {
            assert_eq!(wrong_key(key), [""; 0], "{key}");
        }
        for key in [
            "",
            "a b",
            "-a",
            "a-",
            "/a",
            "a/",
            "A.com/a",
            "a..b/c",
            "a_b/c",
            "a/b/c",
            "ä",
            &format!("{longest}n"),
            &format!("{}/a", "p".repeat(LONGEST_PREFIX + 1)),
        ] {
            assert!(!wrong_key(key).is_empty(), "{key}");
        }
        assert_eq!(wrong_key("a b"), [format!("name part {NAME_RULE}")]);
    }

    #[test]
    fn values_may_be_empty() {
        for value in ["", "true", "1.0", &"v".repeat(LONGEST_NAME)] {
            assert_eq!(wrong_value(value), [""; 0], "{value}");
        }
        for value in ["a b", ".a", "a/b", &"v".repeat(LONGEST_NAME + 1)] {
            assert!(!wrong_value(value).is_empty(), "{value}");
        }
        let [value] = ["a b".to_owned()];
        assert_eq!(
            labels("k", [&value]),
            [format!(
                "values[0][k]: Invalid value: \"a b\": {VALUE_RULE}"
            )]
        );
    }
}
