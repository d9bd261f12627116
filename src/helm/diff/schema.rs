//! Definitions of two charts, field by field: an upgrade should only add (CRD-06).

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::record::canonical_json;

/// What differs between the definitions of two charts. Fields are told as
/// `DEFINITION VERSION PATH`, everything is sorted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DefinitionDiff {
    /// Definitions, versions of them and fields that only the second chart has.
    pub added: Vec<String>,
    /// Those that only the first one has.
    pub removed: Vec<String>,
    /// What both have with another rule: a type, a bound, a default, whether it is served or stored.
    /// Descriptions do not count.
    pub changed: Vec<String>,
}

impl DefinitionDiff {
    /// Whether nothing differs but words.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Whether nothing is taken away and no rule is another.
    #[must_use]
    pub fn is_additive(&self) -> bool {
        self.removed.is_empty() && self.changed.is_empty()
    }
}

/// Rules of a node by keyword, in canonical JSON.
type Rules = BTreeMap<String, String>;

/// What differs between two sets of definitions.
#[must_use]
pub fn definitions(from: &[Value], to: &[Value]) -> DefinitionDiff {
    let (before, after) = (nodes(from), nodes(to));
    let mut diff = DefinitionDiff::default();
    let names: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    for name in names {
        match (before.get(name), after.get(name)) {
            (None, _) => diff.added.push(name.clone()),
            (_, None) => diff.removed.push(name.clone()),
            (Some(old), Some(new)) => diff.changed.extend(changes(name, old, new)),
        }
    }
    diff
}

fn changes(name: &str, old: &Rules, new: &Rules) -> Vec<String> {
    let keywords: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    let changed = keywords.into_iter().filter_map(|keyword| {
        let told = |rules: &Rules| {
            rules
                .get(keyword)
                .map_or("nothing", String::as_str)
                .to_owned()
        };
        let (before, after) = (told(old), told(new));
        (before != after).then(|| format!("{name}: {keyword} from {before} to {after}"))
    });
    changed.collect()
}

/// Every definition, version and field with its rules.
fn nodes(definitions: &[Value]) -> BTreeMap<String, Rules> {
    let mut nodes = BTreeMap::new();
    for definition in definitions {
        let name = definition["metadata"]["name"].as_str().unwrap_or_default();
        let spec = &definition["spec"];
        nodes.insert(name.to_owned(), rules(spec, &["versions"]));
        for version in spec["versions"].as_array().into_iter().flatten() {
            let number = version["name"].as_str().unwrap_or_default();
            let name = format!("{name} {number}");
            let mut about = rules(version, &["name", "schema"]);
            let schema = &version["schema"]["openAPIV3Schema"];
            about.extend(rules(schema, INNER));
            nodes.insert(name.clone(), about);
            walk(schema, &format!("{name} "), &mut nodes);
        }
    }
    nodes
}

/// Keywords that hold further nodes, or words for people.
const INNER: &[&str] = &[
    "additionalProperties",
    "description",
    "example",
    "items",
    "properties",
    "title",
];

fn walk(schema: &Value, path: &str, nodes: &mut BTreeMap<String, Rules>) {
    for (field, inner) in schema["properties"].as_object().into_iter().flatten() {
        add(inner, format!("{path}.{field}"), nodes);
    }
    if schema["items"].is_object() {
        add(&schema["items"], format!("{path}[]"), nodes);
    }
    match &schema["additionalProperties"] {
        Value::Null => {}
        inner => add(inner, format!("{path}.*"), nodes),
    }
}

fn add(schema: &Value, path: String, nodes: &mut BTreeMap<String, Rules>) {
    walk(schema, &path, nodes);
    nodes.insert(path, rules(schema, INNER));
}

fn rules(node: &Value, without: &[&str]) -> Rules {
    let fields = node.as_object().into_iter().flatten();
    let kept = fields.filter(|(keyword, _)| !without.contains(&keyword.as_str()));
    kept.map(|(keyword, value)| (keyword.clone(), rule(keyword, value)))
        .collect()
}

/// The order of required fields and of values does not matter.
fn rule(keyword: &str, value: &Value) -> String {
    match value {
        Value::Array(items) if matches!(keyword, "required" | "enum") => {
            let mut items: Vec<String> = items.iter().map(canonical_json).collect();
            items.sort();
            format!("[{}]", items.join(","))
        }
        value => canonical_json(value),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn definition(name: &str, versions: Value) -> Value {
        json!({
            "metadata": {"name": name},
            "spec": {"group": "g", "versions": versions},
        })
    }

    fn version(name: &str, properties: Value) -> Value {
        json!({
            "name": name, "served": true, "storage": true,
            "schema": {"openAPIV3Schema": {
                "type": "object", "description": name, "properties": properties,
            }},
        })
    }

    fn one(properties: Value) -> Vec<Value> {
        vec![definition("a.g", json!([version("v1", properties)]))]
    }

    #[test]
    fn fields_that_come_are_additive() {
        let from =
            one(json!({"spec": {"type": "object", "properties": {"a": {"type": "string"}}}}));
        let to = one(json!({"spec": {"type": "object", "properties": {
            "a": {"type": "string", "description": "in other words"},
            "list": {"type": "array", "items": {"type": "object", "properties": {"b": {"type": "string"}}}},
            "map": {"type": "object", "additionalProperties": {"type": "string"}},
        }}}));
        let diff = definitions(&from, &to);
        assert_eq!(
            diff.added,
            [
                "a.g v1 .spec.list",
                "a.g v1 .spec.list[]",
                "a.g v1 .spec.list[].b",
                "a.g v1 .spec.map",
                "a.g v1 .spec.map.*",
            ]
        );
        assert!(diff.is_additive() && !diff.is_empty());
        let back = definitions(&to, &from);
        assert_eq!(back.removed, diff.added);
        assert!(!back.is_additive());
        assert!(definitions(&from, &from).is_empty());
    }

    #[test]
    fn rules_that_are_others_are_told() {
        let from =
            one(json!({"a": {"type": "string", "enum": ["x", "y"]}, "b": {"type": "integer"}}));
        let to = one(
            json!({"a": {"type": "string", "enum": ["y"]}, "b": {"type": "integer", "maximum": 5}}),
        );
        assert_eq!(
            definitions(&from, &to).changed,
            [
                r#"a.g v1 .a: enum from ["x","y"] to ["y"]"#,
                "a.g v1 .b: maximum from nothing to 5",
            ]
        );
        let reordered =
            one(json!({"a": {"type": "string", "enum": ["y", "x"]}, "b": {"type": "integer"}}));
        assert!(definitions(&from, &reordered).is_empty());
    }

    #[test]
    fn versions_and_definitions_are_told() {
        let from = one(json!({}));
        let mut to = one(json!({}));
        to[0]["spec"]["versions"][0]["storage"] = json!(false);
        let versions = to[0]["spec"]["versions"].as_array_mut().expect("versions");
        versions.push(version("v2", json!({"a": {"type": "string"}})));
        to.push(definition("b.g", json!([])));
        let diff = definitions(&from, &to);
        assert_eq!(diff.added, ["a.g v2", "a.g v2 .a", "b.g"]);
        assert_eq!(diff.changed, ["a.g v1: storage from true to false"]);
    }
}
