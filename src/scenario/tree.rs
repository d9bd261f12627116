//! YAML as a tree whose every value knows its line and column.
//!
//! Positions come from the parser's events. What a plain scalar means is asked of the library that
//! reads the scenario's types, so that the two never differ in it.

use granit_parser::{Event, Marker, Parser, ScalarStyle, ScanError, Span, StrInput};
use serde::de::DeserializeOwned;
use serde_yaml::Value;

use super::finding::{Finding, Place, Position, Segment};
use super::rule::Rule;

/// How deep collections may lie in each other. The language needs six levels; what is merged into a
/// configuration needs some more.
const DEPTH: usize = 64;

/// A value with its place.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) at: Position,
    pub(super) content: Content,
}

#[derive(Clone, Debug)]
pub(super) enum Content {
    /// Null, a truth value, a number or a text.
    Scalar(Value),
    List(Vec<Node>),
    Map(Vec<Entry>),
    /// What was found to be at fault already.
    Broken,
}

/// A key and its value.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) key: String,
    pub(super) key_at: Position,
    pub(super) node: Node,
}

impl Node {
    /// What a key of a map holds.
    pub(super) fn get(&self, key: &str) -> Option<&Self> {
        let entry = self.entries().iter().find(|entry| entry.key == key);
        entry.map(|entry| &entry.node)
    }

    /// The entries; none when it is no map.
    pub(super) fn entries(&self) -> &[Entry] {
        match &self.content {
            Content::Map(entries) => entries,
            _ => &[],
        }
    }

    /// The items; [`None`] when it is no list.
    pub(super) fn items(&self) -> Option<&[Self]> {
        match &self.content {
            Content::List(items) => Some(items),
            _ => None,
        }
    }

    /// Reads a type; [`None`] when the value is not of it.
    pub(super) fn read<T: DeserializeOwned>(&self) -> Option<T> {
        serde_yaml::from_value(self.value()?).ok()
    }

    /// The value without places; [`None`] when a part of it is broken.
    fn value(&self) -> Option<Value> {
        match &self.content {
            Content::Scalar(value) => Some(value.clone()),
            Content::List(items) => {
                let items: Option<_> = items.iter().map(Self::value).collect();
                items.map(Value::Sequence)
            }
            Content::Map(entries) => {
                let entry = |entry: &Entry| {
                    let value = entry.node.value()?;
                    Some((Value::String(entry.key.clone()), value))
                };
                let entries: Option<_> = entries.iter().map(entry).collect();
                entries.map(Value::Mapping)
            }
            Content::Broken => None,
        }
    }

    /// Where a place is: the scalar or item itself, and the key of a list or map. As much of the path as
    /// there is, if it ends early.
    pub(super) fn locate(&self, place: &Place) -> Position {
        let mut at = self.at;
        let mut node = self;
        for segment in place.segments() {
            let next = match segment {
                Segment::Key(key) => {
                    let entry = node.entries().iter().find(|entry| entry.key == *key);
                    entry.map(|entry| (entry.key_at, &entry.node))
                }
                Segment::Item(index) => {
                    let item = node.items().and_then(|items| items.get(*index));
                    item.map(|item| (item.at, item))
                }
            };
            let Some((named_at, child)) = next else {
                break;
            };
            at = match child.content {
                Content::Scalar(_) => child.at,
                _ => named_at,
            };
            node = child;
        }
        at
    }
}

/// Reads the only document of a text. There is no tree when the text is not YAML, or empty.
pub(super) fn parse(text: &str) -> (Option<Node>, Vec<Finding>) {
    let options = granit_parser::options! {
        emit_comments: false,
        emit_unresolved_aliases: true,
        block_nesting_limit: DEPTH,
        flow_nesting_limit: DEPTH,
    };
    let mut builder = Builder {
        parser: Parser::new_from_str_with_options(text, options),
        ends: text.lines().map(|line| line.chars().count()).collect(),
        findings: Vec::new(),
    };
    let document = builder.document().unwrap_or_else(|error| {
        let at = builder.position(*error.marker());
        let hint = "what comes after this place was not looked at";
        builder.report(Rule::Syntax, at, error.info(), Some(hint));
        None
    });
    (document, builder.findings)
}

struct Builder<'t> {
    parser: Parser<'t, StrInput<'t>>,
    /// The length of each line, in characters.
    ends: Vec<usize>,
    findings: Vec<Finding>,
}

impl<'t> Builder<'t> {
    fn document(&mut self) -> Result<Option<Node>, ScanError> {
        let mut document = None;
        while let Some((event, span)) = self.next()? {
            match event {
                Event::StreamStart
                | Event::DocumentStart(..)
                | Event::DocumentEnd
                | Event::StreamEnd => {}
                event if document.is_none() => document = Some(self.node(event, span)?),
                _ => {
                    let at = self.position(span.start);
                    let message = "a second document".to_owned();
                    let hint = "write one scenario per file";
                    self.report(Rule::UnsupportedYaml, at, message, Some(hint));
                    break;
                }
            }
        }
        if document.is_none() {
            let message = "there is no scenario in this text".to_owned();
            let hint = "`aibom-qual scenarios export` gives one to begin with";
            self.report(Rule::MissingKey, Position::START, message, Some(hint));
        }
        Ok(document)
    }

    fn next(&mut self) -> Result<Option<(Event<'t>, Span)>, ScanError> {
        self.parser.next_event().transpose()
    }

    /// The value that begins with this event. The parser limits how deep this goes.
    fn node(&mut self, event: Event<'t>, span: Span) -> Result<Node, ScanError> {
        let at = self.position(span.start);
        let content = match event {
            Event::Scalar(text, style, anchor, tag) => {
                self.properties(anchor, tag.is_some(), at);
                let value = match style {
                    ScalarStyle::Plain => resolve(&text),
                    _ => Value::String(text.into_owned()),
                };
                // JSON has no such numbers; they would become null on their way to a cluster.
                if value.as_f64().is_some_and(|number| !number.is_finite()) {
                    let message = "a number that is not finite".to_owned();
                    let hint = "write a number that JSON has";
                    self.report(Rule::UnsupportedYaml, at, message, Some(hint));
                }
                Content::Scalar(value)
            }
            Event::SequenceStart(_, anchor, tag) => {
                self.properties(anchor, tag.is_some(), at);
                let mut items = Vec::new();
                while let Some((event, span)) = self.next()? {
                    if event == Event::SequenceEnd {
                        break;
                    }
                    items.push(self.node(event, span)?);
                }
                Content::List(items)
            }
            Event::MappingStart(_, anchor, tag) => {
                self.properties(anchor, tag.is_some(), at);
                Content::Map(self.entries()?)
            }
            Event::Alias(_) | Event::UnresolvedAlias(_) => {
                let message = "an alias".to_owned();
                let hint = "write the value out";
                self.report(Rule::UnsupportedYaml, at, message, Some(hint));
                Content::Broken
            }
            _ => Content::Broken,
        };
        Ok(Node { at, content })
    }

    fn entries(&mut self) -> Result<Vec<Entry>, ScanError> {
        let mut entries: Vec<Entry> = Vec::new();
        while let Some((event, span)) = self.next()? {
            if event == Event::MappingEnd {
                break;
            }
            let key = self.node(event, span)?;
            let Some((event, span)) = self.next()? else {
                break;
            };
            let node = self.node(event, span)?;
            match key.content {
                Content::Scalar(Value::String(text)) => {
                    if let Some(first) = entries.iter().find(|entry| entry.key == text) {
                        let message = format!("the key `{text}` stands here a second time");
                        let hint = format!("the first one is at {}", first.key_at);
                        self.report(Rule::DuplicateKey, key.at, message, Some(&hint));
                    } else {
                        entries.push(Entry {
                            key: text,
                            key_at: key.at,
                            node,
                        });
                    }
                }
                Content::Broken => {}
                other => {
                    let message = format!("a key must be a text, and is {}", other.noun());
                    let hint = "write it in quotes";
                    self.report(Rule::WrongType, key.at, message, Some(hint));
                }
            }
        }
        Ok(entries)
    }

    fn properties(&mut self, anchor: usize, tagged: bool, at: Position) {
        let found = [(anchor != 0, "an anchor"), (tagged, "a tag")];
        for (_, what) in found.into_iter().filter(|(found, _)| *found) {
            let hint = "leave it out";
            self.report(Rule::UnsupportedYaml, at, what.to_owned(), Some(hint));
        }
    }

    /// Where a marker is. What ends too early is reported at its end by the parser, which may be a line
    /// that there is not.
    fn position(&self, marker: Marker) -> Position {
        let line = marker.line().clamp(1, self.ends.len().max(1));
        let end = self.ends.get(line - 1).copied().unwrap_or(0) + 1;
        let column = if marker.line() > line {
            end
        } else {
            (marker.col() + 1).min(end)
        };
        Position { line, column }
    }

    fn report(&mut self, rule: Rule, at: Position, message: String, hint: Option<&str>) {
        self.findings.push(Finding {
            rule,
            at,
            message,
            hint: hint.map(str::to_owned),
        });
    }
}

impl Content {
    /// What it is, for people.
    pub(super) fn noun(&self) -> &'static str {
        match self {
            Self::Scalar(Value::Null) => "empty",
            Self::Scalar(Value::Bool(_)) => "true or false",
            Self::Scalar(Value::Number(number)) if number.is_f64() => "a fraction",
            Self::Scalar(Value::Number(_)) => "a number",
            Self::Scalar(_) => "a text",
            Self::List(_) => "a list",
            Self::Map(_) => "a map",
            Self::Broken => "not readable",
        }
    }
}

/// What a plain scalar means.
fn resolve(text: &str) -> Value {
    match serde_yaml::from_str(text) {
        Ok(value @ (Value::Null | Value::Bool(_) | Value::Number(_))) => value,
        _ => Value::String(text.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_know_their_place() {
        let text = "spec:\n  steps:\n    - baseline: {}\n    - upgrade: {chart: to}\n";
        let (tree, findings) = parse(text);
        assert_eq!(findings, []);
        let tree = tree.expect("a tree");
        let steps = Place::of(&["spec", "steps"]);
        let at = |place: &Place| tree.locate(place).to_string();
        assert_eq!(at(&steps), "2:3");
        assert_eq!(at(&steps.item(1)), "4:7");
        assert_eq!(at(&steps.item(1).key("upgrade")), "4:7");
        assert_eq!(at(&steps.item(1).key("upgrade").key("chart")), "4:24");
        assert_eq!(at(&steps.item(1).key("upgrade").key("other")), "4:7");
        assert_eq!(at(&steps.item(7).key("upgrade")), "2:3");
    }

    #[test]
    fn what_the_language_leaves_out_is_found() {
        let (_, findings) = parse("a: &x 1\nb: *x\nc: !!str 2\n? [d]\n: .inf\n---\nf: g\n");
        let found: Vec<_> = findings
            .iter()
            .map(|finding| (finding.rule, finding.at.line))
            .collect();
        let unsupported = |line| (Rule::UnsupportedYaml, line);
        let expected = [
            unsupported(1),
            unsupported(2),
            unsupported(3),
            unsupported(5),
            (Rule::WrongType, 4),
            unsupported(7),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn too_deep_a_text_is_refused_and_not_followed() {
        let (tree, findings) = parse(&"[".repeat(100_000));
        assert!(tree.is_none());
        assert_eq!(findings[0].rule, Rule::Syntax);
    }
}
