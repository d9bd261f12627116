//! A strict reader of the Prometheus text format.
//!
//! It reads format 0.0.4, and of OpenMetrics 1.0 what a server may send in its place: exemplars,
//! fractional timestamps, further types and `# EOF`. A line that is neither is told with its number,
//! column and reason, and the reader goes on with the next one: a strange family must not hide the
//! others, and nothing is dropped without a word.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// The labels of a sample.
pub type Labels<'a> = BTreeMap<&'a str, Cow<'a, str>>;

/// One sample.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample<'a> {
    /// The name as it is written, suffixes such as `_bucket` included.
    pub name: &'a str,
    /// Its labels.
    pub labels: Labels<'a>,
    /// Its value; may be NaN or infinite.
    pub value: f64,
    /// The number of its line, from 1.
    pub line: usize,
}

/// A line that is not in the format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadLine<'a> {
    /// Its number, from 1.
    pub line: usize,
    /// Where it goes wrong, in characters from 1.
    pub column: usize,
    /// The name that it is about; [`None`] when that cannot be told.
    pub family: Option<&'a str>,
    /// What is wrong.
    pub reason: &'static str,
}

impl fmt::Display for BadLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}:{}: {}", self.line, self.column, self.reason)?;
        match self.family {
            Some(family) => write!(f, " ({family})"),
            None => Ok(()),
        }
    }
}

/// A text, read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Exposition<'a> {
    /// All samples, in the order of the text.
    pub samples: Vec<Sample<'a>>,
    /// All lines that are not in the format, in the order of the text.
    pub bad: Vec<BadLine<'a>>,
}

/// Reads a text.
#[must_use]
pub fn parse(text: &str) -> Exposition<'_> {
    let mut reader = Reader::default();
    for (index, line) in text.split_inclusive('\n').enumerate() {
        reader.line(index + 1, line);
    }
    reader.exposition
}

/// The types of both formats.
const TYPES: [&str; 10] = [
    "counter",
    "gauge",
    "histogram",
    "summary",
    "untyped",
    "unknown",
    "info",
    "stateset",
    "gaugehistogram",
    "native_histogram",
];

#[derive(Default)]
struct Reader<'a> {
    exposition: Exposition<'a>,
    types: BTreeSet<&'a str>,
    series: BTreeSet<(&'a str, Labels<'a>)>,
    ended: bool,
}

impl<'a> Reader<'a> {
    fn line(&mut self, number: usize, line: &'a str) {
        let Some(whole) = line.strip_suffix('\n') else {
            // What it would have said is not known, so neither is what it was about.
            let wrong = Wrong::at(line, "the text ends in the middle of this line");
            return self.bad(number, line, wrong, None);
        };
        let line = whole.trim_end_matches(['\r', ' ', '\t']);
        let start = line.trim_start_matches([' ', '\t']);
        if start.is_empty() {
            return;
        }
        if self.ended {
            let wrong = Wrong::at(start, "there is more after the end that `# EOF` marks");
            return self.bad(number, line, wrong, None);
        }
        if let Some(comment) = start.strip_prefix('#') {
            return self.comment(number, line, comment);
        }
        match sample(start) {
            Ok((name, labels, value)) => {
                if !self.series.insert((name, labels.clone())) {
                    let wrong = Wrong::at(start, "this series was there already");
                    return self.bad(number, line, wrong, Some(name));
                }
                self.exposition.samples.push(Sample {
                    name,
                    labels,
                    value,
                    line: number,
                });
            }
            Err(wrong) => self.bad(number, line, wrong, family(start)),
        }
    }

    fn comment(&mut self, number: usize, line: &'a str, comment: &'a str) {
        let (word, rest) = word(blanks(comment));
        match word {
            "EOF" => self.ended = true,
            "TYPE" => self.type_(number, line, rest),
            // Everything else is for people.
            _ => {}
        }
    }

    fn type_(&mut self, number: usize, line: &'a str, text: &'a str) {
        let (name, rest) = word(text);
        if name.is_empty() {
            let wrong = Wrong::at(text, "a type without a name");
            return self.bad(number, line, wrong, None);
        }
        let (kind, more) = word(rest);
        if !TYPES.contains(&kind) || !more.is_empty() {
            let wrong = Wrong::at(rest, "not a type of a family");
            return self.bad(number, line, wrong, Some(name));
        }
        if !self.types.insert(name) {
            let wrong = Wrong::at(text, "this family has a type already");
            self.bad(number, line, wrong, Some(name));
        }
    }

    fn bad(&mut self, line: usize, text: &str, wrong: Wrong<'_>, family: Option<&'a str>) {
        let before = text.len().saturating_sub(wrong.rest.len());
        let column = text
            .get(..before)
            .map_or(0, |before| before.chars().count())
            + 1;
        self.exposition.bad.push(BadLine {
            line,
            column,
            family,
            reason: wrong.reason,
        });
    }
}

/// What is wrong, and the rest of the line from there.
struct Wrong<'a> {
    rest: &'a str,
    reason: &'static str,
}

impl<'a> Wrong<'a> {
    fn at(rest: &'a str, reason: &'static str) -> Self {
        Self { rest, reason }
    }
}

/// The name that a line which is no sample is about, if it begins with a whole one.
fn family(line: &str) -> Option<&str> {
    let (name, rest) = name(line, true)?;
    let whole = rest.is_empty() || rest.starts_with(['{', ' ', '\t']);
    whole.then_some(name)
}

/// `NAME{LABELS} VALUE [TIMESTAMP] [# {LABELS} VALUE [TIMESTAMP]]`
fn sample(line: &str) -> Result<(&str, Labels<'_>, f64), Wrong<'_>> {
    let (name, rest) = name(line, true).ok_or_else(|| Wrong::at(line, "not a metric's name"))?;
    let start = blanks(rest);
    let (labels, rest) = match start.strip_prefix('{') {
        Some(inner) => labels(inner)?,
        None if start.len() == rest.len() => {
            return Err(Wrong::at(rest, "not a metric's name"));
        }
        None => (Labels::new(), start),
    };
    let (value, rest) = number(blanks(rest), "not a value")?;
    let rest = timestamp(rest)?;
    let Some(exemplar) = rest.strip_prefix('#') else {
        return match rest.is_empty() {
            true => Ok((name, labels, value)),
            false => Err(Wrong::at(
                rest,
                "there is more than a value and a timestamp",
            )),
        };
    };
    let open = blanks(exemplar);
    let inner = open.strip_prefix('{');
    let inner = inner.ok_or_else(|| Wrong::at(open, "not an exemplar"))?;
    let (_, rest) = self::labels(inner)?;
    let (_, rest) = number(blanks(rest), "not an exemplar's value")?;
    match timestamp(rest)? {
        "" => Ok((name, labels, value)),
        rest => Err(Wrong::at(rest, "there is more than an exemplar")),
    }
}

/// What is between braces, and what comes after them.
fn labels(mut rest: &str) -> Result<(Labels<'_>, &str), Wrong<'_>> {
    let mut labels = Labels::new();
    loop {
        rest = blanks(rest);
        if let Some(after) = rest.strip_prefix('}') {
            return Ok((labels, after));
        }
        let begin = rest;
        let (key, after) = name(rest, false).ok_or_else(|| Wrong::at(begin, "not a label"))?;
        let after = blanks(after);
        let equals = after.strip_prefix('=');
        let value = equals.ok_or_else(|| Wrong::at(after, "a label without `=`"))?;
        let value = blanks(value);
        let quoted = value.strip_prefix('"');
        let quoted = quoted.ok_or_else(|| Wrong::at(value, "a label's value without quotes"))?;
        let (value, after) = unquote(quoted)?;
        if labels.insert(key, value).is_some() {
            return Err(Wrong::at(begin, "this label was there already"));
        }
        rest = blanks(after);
        // The last one may have a comma, too.
        match rest.strip_prefix(',') {
            Some(after) => rest = after,
            None if rest.starts_with('}') => {}
            None => return Err(Wrong::at(rest, "neither `,` nor `}` after a label")),
        }
    }
}

/// A value up to its closing quote, and what comes after that.
fn unquote(text: &str) -> Result<(Cow<'_, str>, &str), Wrong<'_>> {
    let mut value = Cow::Borrowed("");
    let mut rest = text;
    loop {
        let Some(end) = rest.find(['"', '\\']) else {
            return Err(Wrong::at(text, "a label's value without an end"));
        };
        let (plain, special) = rest.split_at(end);
        if value.is_empty() {
            value = Cow::Borrowed(plain);
        } else {
            value.to_mut().push_str(plain);
        }
        let Some(escaped) = special.strip_prefix('\\') else {
            return Ok((value, &special[1..]));
        };
        let (character, after) = match escaped.as_bytes().first() {
            Some(b'\\') => ('\\', &escaped[1..]),
            Some(b'"') => ('"', &escaped[1..]),
            Some(b'n') => ('\n', &escaped[1..]),
            _ => return Err(Wrong::at(special, "no such escape in a label's value")),
        };
        value.to_mut().push(character);
        rest = after;
    }
}

/// A number, and what comes after it and its blanks.
fn number<'a>(text: &'a str, reason: &'static str) -> Result<(f64, &'a str), Wrong<'a>> {
    let (token, rest) = word(text);
    let value = float(token).ok_or_else(|| Wrong::at(text, reason))?;
    Ok((value, rest))
}

/// What comes after a timestamp, if there is one.
fn timestamp(rest: &str) -> Result<&str, Wrong<'_>> {
    if rest.is_empty() || rest.starts_with('#') {
        return Ok(rest);
    }
    match number(rest, "not a timestamp")? {
        (moment, after) if moment.is_finite() => Ok(after),
        _ => Err(Wrong::at(rest, "not a timestamp")),
    }
}

/// A number as Go writes and reads it. One that does not fit is none.
fn float(token: &str) -> Option<f64> {
    let word = token.strip_prefix(['+', '-']).unwrap_or(token);
    let is_word = ["nan", "inf", "infinity"]
        .iter()
        .any(|known| word.eq_ignore_ascii_case(known));
    let is_number = word.bytes().any(|byte| byte.is_ascii_digit())
        && word
            .bytes()
            .all(|byte| byte.is_ascii_digit() || b".eE+-".contains(&byte));
    let value: f64 = token.parse().ok()?;
    (is_word || is_number && value.is_finite()).then_some(value)
}

/// A metric's or a label's name, and what comes after it.
fn name(text: &str, colons: bool) -> Option<(&str, &str)> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || colons && byte == b':';
    let end = text.bytes().position(|byte| !allowed(byte));
    let (name, rest) = text.split_at(end.unwrap_or(text.len()));
    let first = name.bytes().next()?;
    (!first.is_ascii_digit()).then_some((name, rest))
}

/// The first word, and what comes after it and its blanks.
fn word(text: &str) -> (&str, &str) {
    let end = text.find([' ', '\t']).unwrap_or(text.len());
    let (word, rest) = text.split_at(end);
    (word, blanks(rest))
}

fn blanks(text: &str) -> &str {
    text.trim_start_matches([' ', '\t'])
}
