//! The checked-in custom resource definitions against what the releases are documented to serve.
//!
//! The tables are written by hand and share nothing with the generator. A keyword that they do not
//! know shows up in the line of its field, so that nothing can be served in silence.

#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

#[path = "support/tables.rs"]
mod tables;

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use serde_json::{Map, Value, json};
use tables::{AIBOM, AIBOM_COLUMNS, CONDITION, CONFIG, CONFIG_COLUMNS, FILES, ROOT};

fn text(chart: &str, plural: &str) -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("charts")
        .join(chart)
        .join("crds")
        .join(format!("aibom.k8saibom.dev_{plural}.yaml"));
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn parsed(chart: &str, plural: &str) -> Value {
    serde_yaml::from_str(&text(chart, plural)).expect("a definition in YAML")
}

/// The end of a line: what a schema says, keyword by keyword.
fn say(schema: &Map<String, Value>) -> String {
    let mut rest = schema.clone();
    let mut take = |key: &str| rest.remove(key);
    let word = |value: Value| match value {
        Value::String(text) => text,
        other => other.to_string(),
    };
    let mut words = take("type").map(word).unwrap_or_default();
    if let Some(format) = take("format") {
        words += &format!(":{}", word(format));
    }
    for (name, low, high) in [
        ("length", "minLength", "maxLength"),
        ("range", "minimum", "maximum"),
    ] {
        let ends = [take(low), take(high)];
        if ends.iter().any(Option::is_some) {
            let [low, high] = ends.map(|end| end.map(word).unwrap_or_default());
            words += &format!(" {name}={low}..{high}");
        }
    }
    if let Some(Value::Array(values)) = take("enum") {
        let values: Vec<String> = values.into_iter().map(word).collect();
        words += &format!(" enum={}", values.join("|"));
    }
    for (name, key) in [("pattern", "pattern"), ("default", "default")] {
        if let Some(value) = take(key) {
            words += &format!(" {name}={}", word(value));
        }
    }
    if let Some(value) = take("x-kubernetes-list-type") {
        words += &format!(" list={}", word(value));
    }
    if let Some(Value::Array(keys)) = take("x-kubernetes-list-map-keys") {
        let keys: Vec<String> = keys.into_iter().map(word).collect();
        words += &format!("({})", keys.join(","));
    }
    if let Some(value) = take("x-kubernetes-map-type") {
        words += &format!(" map={}", word(value));
    }
    if let Some(rules) = take("x-kubernetes-validations") {
        for rule in rules.as_array().into_iter().flatten() {
            let (condition, message) = (&rule["rule"], &rule["message"]);
            words += &format!(
                " cel=({} => {})",
                word(condition.clone()),
                word(message.clone())
            );
            assert_eq!(rule.as_object().map(Map::len), Some(2), "{rule}");
        }
    }
    for known in [
        "description",
        "properties",
        "required",
        "items",
        "additionalProperties",
    ] {
        take(known);
    }
    for (key, value) in rest {
        words += &format!(" {key}={value}");
    }
    words
}

/// Adds a line for everything below `path`.
fn flatten(path: &str, schema: &Value, lines: &mut BTreeSet<String>) {
    let required: Vec<&str> = schema["required"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let mut add = |path: &str, mark: &str, schema: &Value| {
        let object = schema.as_object().expect("a schema is an object");
        lines.insert(format!("{path}{mark} {}", say(object)));
        flatten(path, schema, lines);
    };
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        let dot = if path.is_empty() { "" } else { "." };
        let mark = if required.contains(&name.as_str()) {
            "!"
        } else {
            ""
        };
        add(&format!("{path}{dot}{name}"), mark, property);
    }
    if let Some(items) = schema.get("items") {
        add(&format!("{path}[]"), "", items);
    }
    if let Some(values) = schema.get("additionalProperties") {
        add(&format!("{path}{{}}"), "", values);
    }
}

fn table(parts: &[&str]) -> BTreeSet<String> {
    let lines = parts.iter().flat_map(|part| part.lines());
    lines
        .filter(|line| !line.is_empty())
        .map(str::to_owned)
        .collect()
}

#[test]
fn every_schema_is_what_its_release_serves() {
    for (chart, plural, _, versions) in FILES {
        let crd = parsed(chart, plural);
        let found = crd["spec"]["versions"].as_array().expect("versions");
        assert_eq!(found.len(), versions.len(), "{chart} {plural}");
        for (version, (name, _, additions)) in found.iter().zip(versions) {
            let common = if plural == "aiboms" { AIBOM } else { CONFIG };
            let mut parts = vec![ROOT, CONDITION, common];
            parts.extend(*additions);
            let wanted = table(&parts);
            let schema = &version["schema"]["openAPIV3Schema"];
            let mut lines = BTreeSet::new();
            flatten("", schema, &mut lines);
            let what = format!("{chart} {plural} {name}");
            let surplus: Vec<_> = lines.difference(&wanted).collect();
            let missing: Vec<_> = wanted.difference(&lines).collect();
            assert!(
                surplus.is_empty() && missing.is_empty(),
                "{what}\nserved but not documented: {surplus:#?}\ndocumented but not served: {missing:#?}"
            );
            let root = schema.as_object().expect("a schema");
            assert_eq!(say(root), "object", "{what}");
            assert!(root.get("required").is_none(), "{what}");
        }
    }
}

#[test]
fn versions_and_names_are_those_of_the_release() {
    for (chart, plural, _, versions) in FILES {
        let what = format!("{chart} {plural}");
        let crd = parsed(chart, plural);
        let (kind, short, scope) = match plural {
            "aiboms" => ("AIBOM", "aibom", "Namespaced"),
            _ => ("AIBOMControllerConfig", "aibomcfg", "Cluster"),
        };
        assert_eq!(crd["apiVersion"], "apiextensions.k8s.io/v1", "{what}");
        assert_eq!(crd["kind"], "CustomResourceDefinition", "{what}");
        assert_eq!(
            crd["metadata"],
            json!({
                "name": format!("{plural}.aibom.k8saibom.dev"),
                "annotations": {
                    "api-approved.kubernetes.io": "unapproved, experimental-only",
                    "controller-gen.kubebuilder.io/version": "v0.16.5",
                },
            }),
            "{what}"
        );
        let mut spec = crd["spec"].clone();
        let served = spec["versions"].take();
        assert_eq!(
            spec,
            json!({
                "group": "aibom.k8saibom.dev",
                "scope": scope,
                "names": {
                    "kind": kind,
                    "listKind": format!("{kind}List"),
                    "plural": plural,
                    "singular": kind.to_lowercase(),
                    "shortNames": [short],
                },
                "versions": null,
            }),
            "{what}"
        );
        let columns: &[&str] = match plural {
            "aiboms" => &AIBOM_COLUMNS,
            _ => &CONFIG_COLUMNS,
        };
        for (version, (name, storage, _)) in served.as_array().into_iter().flatten().zip(versions) {
            let mut version = version.clone();
            version["schema"].take();
            let found: Vec<String> = version["additionalPrinterColumns"]
                .take()
                .as_array()
                .expect("columns")
                .iter()
                .map(|column| {
                    let word = |key: &str| column[key].as_str().unwrap_or_default().to_owned();
                    assert_eq!(column.as_object().map(Map::len), Some(3), "{column}");
                    format!("{} {} {}", word("name"), word("type"), word("jsonPath"))
                })
                .collect();
            assert_eq!(found, columns, "{what}");
            assert_eq!(
                version,
                json!({
                    "name": name,
                    "served": true,
                    "storage": storage,
                    "subresources": {"status": {}},
                    "schema": null,
                    "additionalPrinterColumns": null,
                }),
                "{what}"
            );
        }
    }
}

/// Without it, the files of 1.2.0 concatenated are one broken document.
#[test]
fn only_one_file_lacks_the_separator() {
    for (chart, plural, separated, _) in FILES {
        let begins = text(chart, plural).starts_with("---\n");
        assert_eq!(begins, separated, "{chart} {plural}");
    }
}

#[test]
fn both_versions_of_a_release_are_described_alike() {
    for chart in ["1.3.0", "1.5.1", "1.6.0"] {
        for plural in ["aiboms", "aibomcontrollerconfigs"] {
            let crd = parsed(chart, plural);
            let schema = |index: usize| crd["spec"]["versions"][index]["schema"].clone();
            let (old, mut new) = (schema(0), schema(1));
            if chart == "1.6.0" && plural == "aibomcontrollerconfigs" {
                let removed = new
                    .pointer_mut("/openAPIV3Schema/properties/spec/properties/discovery/properties")
                    .and_then(Value::as_object_mut)
                    .and_then(|properties| properties.remove("workloadKinds"));
                assert!(removed.is_some());
            }
            assert_eq!(old, new, "{chart} {plural}");
        }
    }
}

#[test]
fn later_releases_only_add_lines() {
    let mut added = Vec::new();
    for (from, to) in [("1.3.0", "1.5.1"), ("1.5.1", "1.6.0")] {
        for plural in ["aiboms", "aibomcontrollerconfigs"] {
            let (old, new) = (text(from, plural), text(to, plural));
            let mut rest = new.lines();
            for line in old.lines() {
                assert!(
                    rest.any(|next| next == line),
                    "{from} to {to}, {plural}: {line}"
                );
            }
            added.push(new.lines().count() - old.lines().count());
        }
    }
    let [0, verification, 0, workload_kinds] = added[..] else {
        panic!("{added:?}");
    };
    assert!(
        verification > 0 && verification % 2 == 0,
        "the same in both versions"
    );
    assert!(workload_kinds > 0);
}

/// A reader of `kubectl explain` finds a sentence for every field.
#[test]
fn every_field_is_described() {
    fn look(path: &str, schema: &Value) {
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            let path = format!("{path}.{name}");
            let sentence = property["description"].as_str().unwrap_or_default();
            assert!(sentence.ends_with('.') || path == ".metadata", "{path}");
            look(&path, property);
        }
        if let Some(items) = schema.get("items") {
            look(&format!("{path}[]"), items);
        }
    }
    for (chart, plural, _, _) in FILES {
        let crd = parsed(chart, plural);
        for version in crd["spec"]["versions"].as_array().into_iter().flatten() {
            look("", &version["schema"]["openAPIV3Schema"]);
        }
    }
}
