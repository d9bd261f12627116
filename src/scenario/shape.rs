//! Holds a tree against the JSON Schema of the language, and reports everything at once: what the
//! typed read would refuse one by one and without a position.
//!
//! It knows the keywords that the schema of [`file`](super::file) uses, not JSON Schema as a whole.

use serde_json::{Map, Value};

use super::finding::{Finding, Place, Position};
use super::format::Format;
use super::near::{nearest, suggest};
use super::rule::Rule;
use super::tree::{Content, Entry, Node};

/// What is wrong with the shape of a tree.
pub(super) fn check(tree: &Node, schema: &Value) -> Vec<Finding> {
    let mut shape = Shape {
        findings: Vec::new(),
    };
    shape.node(tree, schema, &Place::default(), tree.at);
    shape.findings
}

struct Shape {
    findings: Vec<Finding>,
}

impl Shape {
    /// `named_at` is the key or item that the value belongs to.
    fn node(&mut self, node: &Node, schema: &Value, place: &Place, named_at: Position) {
        let Some(schema) = schema.as_object() else {
            return;
        };
        if let Some(kinds) = alternatives(schema) {
            self.tagged(node, &kinds, place);
            return;
        }
        let of_type = |name: &str| has_type(schema, name);
        let quoted = place.quoted();
        match &node.content {
            Content::Broken => {}
            Content::Map(entries) if of_type("object") => {
                self.map(node, entries, schema, place, named_at);
            }
            Content::List(items) if of_type("array") => {
                if schema.contains_key("minItems") && items.is_empty() {
                    let message = format!("{quoted} is empty");
                    self.report(Rule::BadValue, node.at, message, described(schema));
                }
                if let Some(of_items) = schema.get("items") {
                    for (index, item) in items.iter().enumerate() {
                        self.node(item, of_items, &place.item(index), item.at);
                    }
                }
            }
            Content::Scalar(serde_yaml::Value::String(text)) if of_type("string") => {
                self.text(node, text, schema, place);
            }
            Content::Scalar(serde_yaml::Value::Number(number))
                if of_type("integer") && !number.is_f64() =>
            {
                let least = schema.get("minimum").and_then(Value::as_u64);
                let most = schema.get("maximum").and_then(Value::as_u64);
                let most = most.unwrap_or(match schema.get("format").and_then(Value::as_str) {
                    Some("uint32") => u32::MAX.into(),
                    _ => u64::MAX,
                });
                let range = least.unwrap_or(0)..=most;
                if !number
                    .as_u64()
                    .is_some_and(|number| range.contains(&number))
                {
                    let message = format!("{quoted} is {number}, which is out of range");
                    let hint = format!("write a whole number from {} to {most}", range.start());
                    self.report(Rule::BadValue, node.at, message, Some(hint));
                }
            }
            Content::Scalar(serde_yaml::Value::Bool(_)) if of_type("boolean") => {}
            _ if !schema.contains_key("type") => {}
            other => {
                let message = format!(
                    "{quoted} must be {}, and is {}",
                    wanted(schema),
                    other.noun()
                );
                self.report(Rule::WrongType, node.at, message, mend(schema, other));
            }
        }
    }

    fn map(
        &mut self,
        node: &Node,
        entries: &[Entry],
        schema: &Map<String, Value>,
        place: &Place,
        named_at: Position,
    ) {
        let quoted = place.quoted();
        let none = Map::new();
        let properties = schema.get("properties").and_then(Value::as_object);
        let properties = properties.unwrap_or(&none);
        let others = schema.get("additionalProperties");
        let closed = others == Some(&Value::Bool(false));
        let known: Vec<&str> = properties.keys().map(String::as_str).collect();
        let names = schema.get("propertyNames").and_then(format_of);
        let mut meant = Vec::new();
        for entry in entries {
            let key = entry.key.as_str();
            let inner = place.key(key);
            if let Some(property) = properties.get(key) {
                self.node(&entry.node, property, &inner, entry.key_at);
            } else if closed {
                meant.extend(nearest(key, known.iter().copied()));
                let message = format!("unknown key `{key}` in {quoted}");
                let hint = match known.as_slice() {
                    [] => format!("nothing can be set here: write `{{}}`, without `{key}`"),
                    _ => suggest(key, &known, "keys"),
                };
                self.report(Rule::UnknownKey, entry.key_at, message, Some(hint));
            } else {
                if let Some(format) = names.filter(|format| !format.holds(key)) {
                    let message = format!("`{key}` in {quoted} is not {}", format.noun());
                    let hint = format.hint().to_owned();
                    self.report(format.rule(), entry.key_at, message, Some(hint));
                }
                self.node(
                    &entry.node,
                    others.unwrap_or(&Value::Null),
                    &inner,
                    entry.key_at,
                );
            }
        }
        let required = schema.get("required").and_then(Value::as_array);
        for key in required.into_iter().flatten().filter_map(Value::as_str) {
            // What is misspelt is not missing as well.
            if node.get(key).is_none() && !meant.contains(&key) {
                let message = format!("`{key}` is missing in {quoted}");
                let hint = properties.get(key).and_then(Value::as_object);
                let hint = hint.and_then(described);
                self.report(Rule::MissingKey, named_at, message, hint);
            }
        }
        if schema.contains_key("minProperties") && entries.is_empty() {
            let message = format!("{quoted} is empty");
            self.report(Rule::BadValue, node.at, message, described(schema));
        }
    }

    /// A map with exactly one key, which says what the rest is.
    fn tagged(&mut self, node: &Node, kinds: &[(&str, &Value)], place: &Place) {
        let quoted = place.quoted();
        let known: Vec<&str> = kinds.iter().map(|(kind, _)| *kind).collect();
        match &node.content {
            Content::Broken => {}
            Content::Map(entries) => match entries.as_slice() {
                [entry] => {
                    let kind = kinds.iter().find(|(kind, _)| *kind == entry.key);
                    if let Some((_, schema)) = kind {
                        let inner = place.key(&entry.key);
                        self.node(&entry.node, schema, &inner, entry.key_at);
                    } else {
                        let message = format!("there is no kind of step `{}`", entry.key);
                        let hint = suggest(&entry.key, &known, "kinds");
                        self.report(Rule::UnknownKey, entry.key_at, message, Some(hint));
                    }
                }
                [] => {
                    let message = format!("{quoted} has no kind");
                    let hint = format!("kinds: {}", known.join(", "));
                    self.report(Rule::StepShape, node.at, message, Some(hint));
                }
                many => {
                    let keys: Vec<_> = many.iter().map(|e| format!("`{}`", e.key)).collect();
                    let message = format!("{quoted} has several keys: {}", keys.join(", "));
                    let hint = "a step has one, its kind: begin each step with `- `, and indent \
                                what belongs to it";
                    self.report(Rule::StepShape, node.at, message, Some(hint.to_owned()));
                }
            },
            other => {
                let message = format!("{quoted} must be a map, and is {}", other.noun());
                let hint = match other {
                    Content::Scalar(serde_yaml::Value::String(text))
                        if known.contains(&text.as_str()) =>
                    {
                        format!("write `{text}: {{}}`")
                    }
                    _ => format!("write its kind as the only key: {}", known.join(", ")),
                };
                self.report(Rule::StepShape, node.at, message, Some(hint));
            }
        }
    }

    fn text(&mut self, node: &Node, text: &str, schema: &Map<String, Value>, place: &Place) {
        let quoted = place.quoted();
        if let Some(words) = words(schema) {
            if !words.contains(&text) {
                let message = format!("{quoted} cannot be `{text}`");
                let hint = match words.as_slice() {
                    _ if has_type(schema, "integer") => described(schema),
                    [word] => Some(format!("write `{word}`")),
                    _ => Some(suggest(text, &words, "it is one of")),
                };
                self.report(Rule::BadValue, node.at, message, hint);
            }
        } else if let Some(format) = schema.get("format").and_then(Value::as_str) {
            let format = Format::named(format);
            if let Some(format) = format.filter(|format| !format.holds(text)) {
                let message = format!("{quoted}: `{text}` is not {}", format.noun());
                let hint = format.hint().to_owned();
                self.report(format.rule(), node.at, message, Some(hint));
            }
        } else if schema.contains_key("minLength") && text.trim().is_empty() {
            let message = format!("{quoted} is empty");
            self.report(Rule::BadValue, node.at, message, described(schema));
        }
    }

    fn report(&mut self, rule: Rule, at: Position, message: String, hint: Option<String>) {
        self.findings.push(Finding {
            rule,
            at,
            message,
            hint,
        });
    }
}

/// The kinds of a tagged union, with what belongs to each.
fn alternatives(schema: &Map<String, Value>) -> Option<Vec<(&str, &Value)>> {
    if schema.contains_key("properties") {
        return None;
    }
    let each = schema.get("oneOf")?.as_array()?.iter();
    each.map(|one| {
        let properties = one.get("properties")?.as_object()?;
        let (kind, schema) = properties.iter().next()?;
        Some((kind.as_str(), schema))
    })
    .collect()
}

/// The words that a text may be, if there are such.
fn words(schema: &Map<String, Value>) -> Option<Vec<&str>> {
    if let Some(word) = schema.get("const") {
        return Some(vec![word.as_str()?]);
    }
    if schema.get("pattern").and_then(Value::as_str) == Some("^unlimited$") {
        return Some(vec!["unlimited"]);
    }
    let words = schema.get("enum")?.as_array()?;
    words.iter().map(Value::as_str).collect()
}

fn format_of(schema: &Value) -> Option<Format> {
    Format::named(schema.get("format")?.as_str()?)
}

fn has_type(schema: &Map<String, Value>, name: &str) -> bool {
    match schema.get("type") {
        Some(Value::String(only)) => only == name,
        Some(Value::Array(names)) => names.iter().any(|one| one == name),
        _ => false,
    }
}

/// The types that a schema allows, in words.
fn wanted(schema: &Map<String, Value>) -> String {
    let names = [
        ("object", "a map"),
        ("array", "a list"),
        ("string", "a text"),
        ("integer", "a whole number"),
        ("boolean", "true or false"),
    ];
    let allowed: Vec<&str> = names
        .into_iter()
        .filter(|(name, _)| has_type(schema, name))
        .map(|(_, noun)| noun)
        .collect();
    allowed.join(" or ")
}

/// What to do about a value of the wrong type.
fn mend(schema: &Map<String, Value>, content: &Content) -> Option<String> {
    let format = schema.get("format").and_then(Value::as_str);
    if let Some(format) = format.and_then(Format::named) {
        return Some(format.hint().to_owned());
    }
    match content {
        Content::Scalar(serde_yaml::Value::Null) if has_type(schema, "object") => {
            let needed = schema.contains_key("required") || schema.contains_key("minProperties");
            if needed {
                described(schema)
            } else {
                Some("write `{}`".to_owned())
            }
        }
        Content::Scalar(serde_yaml::Value::Number(_) | serde_yaml::Value::Bool(_))
            if has_type(schema, "string") =>
        {
            Some("write it in quotes".to_owned())
        }
        Content::Scalar(serde_yaml::Value::String(text))
            if has_type(schema, "integer") && text.parse::<u64>().is_ok() =>
        {
            Some(format!("write {text} without quotes"))
        }
        _ => described(schema),
    }
}

/// What the schema says of a value.
fn described(schema: &Map<String, Value>) -> Option<String> {
    let text = schema.get("description")?.as_str()?;
    Some(text.split('\n').collect::<Vec<_>>().join(" "))
}
