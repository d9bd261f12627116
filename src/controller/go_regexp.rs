//! Regular expressions as Go reads them, on top of the `regex` crate.
//!
//! Both come from RE2 and differ in little that image patterns use: in Go the classes `\d`, `\w`,
//! `\s` and the boundary `\b` are ASCII, inside brackets `[`, `&` and `~` are ordinary characters,
//! and so is a brace that begins no count. A pattern is rewritten accordingly. One that Go refuses is
//! refused with Go's words, since they reach the user in a condition.

use regex::Regex;
use regex_syntax::ast::{self, Ast, ErrorKind, Flag, Flags, FlagsItemKind, GroupKind};
use regex_syntax::ast::{RepetitionKind, RepetitionRange, Span};

/// A pattern that does not compile. Shown as Go's `regexp` package shows it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("error parsing regexp: {reason}: `{excerpt}`")]
pub struct PatternError {
    reason: &'static str,
    excerpt: String,
}

impl PatternError {
    /// The one thing to do.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        Some("anchor the pattern (^vllm/.*) and escape metacharacters in literal paths".to_owned())
    }
}

/// Compiles `pattern`, to be searched for anywhere in a text.
///
/// # Errors
///
/// When Go would refuse it, or the compiled program would be too large.
pub fn compile(pattern: &str) -> Result<Regex, PatternError> {
    let regex = Regex::new(&to_rust(pattern)).map_err(|_| explain(pattern))?;
    // What only Rust accepts. A pattern that only Go can parse holds none of it.
    if let Ok(ast) = ast::parse::Parser::new().parse(pattern) {
        ast::visit(&ast, RustOnly(pattern))?;
    }
    Ok(regex)
}

/// Rewrites what the two dialects read differently.
fn to_rust(pattern: &str) -> String {
    let mut out = String::with_capacity(pattern.len() + 16);
    let mut chars = pattern.chars().peekable();
    let mut in_class = false;
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some(escaped) => match ascii_class(escaped, in_class) {
                    Some(class) => out.push_str(class),
                    None => out.extend(['\\', escaped]),
                },
                None => out.push('\\'),
            },
            '[' if !in_class => {
                in_class = true;
                out.push('[');
                if chars.next_if_eq(&'^').is_some() {
                    out.push('^');
                }
                // A bracket right at the start of a class is one of its members.
                if chars.next_if_eq(&']').is_some() {
                    out.push_str("\\]");
                }
            }
            // `[:alpha:]` is a class in both dialects; up to its end nothing is special.
            '[' if chars.peek() == Some(&':') => {
                out.push('[');
                for inner in chars.by_ref() {
                    out.push(inner);
                    if inner == ']' {
                        break;
                    }
                }
            }
            '[' | '&' | '~' if in_class => out.extend(['\\', c]),
            ']' if in_class => {
                in_class = false;
                out.push(']');
            }
            '{' if !in_class && !is_count(chars.clone()) => out.push_str("\\{"),
            _ => out.push(c),
        }
    }
    out
}

/// Whether what follows a brace makes it a count: `3}`, `3,}` or `3,5}`.
fn is_count(rest: impl Iterator<Item = char>) -> bool {
    let mut closed = false;
    let body: String = rest
        .take_while(|c| {
            closed = *c == '}';
            !closed
        })
        .collect();
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let (least, most) = body.split_once(',').unwrap_or((&body, ""));
    closed && !least.is_empty() && digits(least) && digits(most)
}

const fn ascii_class(escaped: char, in_class: bool) -> Option<&'static str> {
    Some(match (escaped, in_class) {
        ('d', false) => "[0-9]",
        ('d', true) => "0-9",
        ('D', _) => "[^0-9]",
        ('w', false) => "[0-9A-Za-z_]",
        ('w', true) => "0-9A-Za-z_",
        ('W', _) => "[^0-9A-Za-z_]",
        ('s', false) => r"[\t\n\f\r ]",
        ('s', true) => r"\t\n\f\r ",
        ('S', _) => r"[^\t\n\f\r ]",
        ('b', false) => r"(?-u:\b)",
        _ => return None,
    })
}

/// Go's reason for refusing `pattern`, with the part of it that Go quotes.
fn explain(pattern: &str) -> PatternError {
    let Err(error) = ast::parse::Parser::new().parse(pattern) else {
        return PatternError {
            reason: "expression too large",
            excerpt: pattern.to_owned(),
        };
    };
    let from = &pattern[error.span().start.offset..];
    let span = &pattern[error.span().start.offset..error.span().end.offset];
    let (reason, excerpt) = match error.kind() {
        ErrorKind::GroupUnclosed => ("missing closing )", pattern),
        ErrorKind::GroupUnopened => ("unexpected )", pattern),
        ErrorKind::ClassUnclosed => ("missing closing ]", from),
        ErrorKind::ClassRangeInvalid => ("invalid character class range", span),
        ErrorKind::RepetitionMissing => ("missing argument to repetition operator", operator(from)),
        ErrorKind::RepetitionCountInvalid => ("invalid repeat count", span),
        ErrorKind::EscapeUnexpectedEof => ("trailing backslash at end of expression", ""),
        ErrorKind::EscapeUnrecognized => ("invalid escape sequence", span),
        ErrorKind::UnsupportedLookAround => ("invalid or unsupported Perl syntax", span),
        ErrorKind::FlagUnrecognized | ErrorKind::FlagUnexpectedEof => {
            ("invalid or unsupported Perl syntax", span)
        }
        _ => ("invalid regular expression", pattern),
    };
    PatternError {
        reason,
        excerpt: excerpt.to_owned(),
    }
}

/// The repetition operator at the start of `text`, with the mark that makes it lazy.
fn operator(text: &str) -> &str {
    let length = match text.find('}') {
        Some(end) if text.starts_with('{') => end + 1,
        _ => 1,
    };
    let lazy = text.get(length..).is_some_and(|rest| rest.starts_with('?'));
    text.get(..length + usize::from(lazy)).unwrap_or(text)
}

/// Refuses what Rust accepts and Go does not. Holds the pattern.
struct RustOnly<'p>(&'p str);

impl RustOnly<'_> {
    fn refuse(&self, reason: &'static str, from: &Span, to: &Span) -> Result<(), PatternError> {
        Err(PatternError {
            reason,
            excerpt: self.0[from.start.offset..to.end.offset].to_owned(),
        })
    }

    fn flags(&self, group: &Span, flags: &Flags) -> Result<(), PatternError> {
        let unknown = flags.items.iter().find(|item| {
            matches!(
                item.kind,
                FlagsItemKind::Flag(Flag::Unicode | Flag::CRLF | Flag::IgnoreWhitespace)
            )
        });
        match unknown {
            Some(item) => self.refuse("invalid or unsupported Perl syntax", group, &item.span),
            None => Ok(()),
        }
    }
}

impl ast::Visitor for RustOnly<'_> {
    type Output = ();
    type Err = PatternError;

    fn finish(self) -> Result<(), PatternError> {
        Ok(())
    }

    fn visit_pre(&mut self, ast: &Ast) -> Result<(), PatternError> {
        match ast {
            Ast::Flags(set) => self.flags(&set.span, &set.flags),
            Ast::Group(group) => match &group.kind {
                GroupKind::NonCapturing(flags) => self.flags(&group.span, flags),
                GroupKind::CaptureIndex(_) | GroupKind::CaptureName { .. } => Ok(()),
            },
            Ast::Repetition(outer) => {
                if let Ast::Repetition(inner) = &*outer.ast {
                    let (from, to) = (&inner.op.span, &outer.op.span);
                    return self.refuse("invalid nested repetition operator", from, to);
                }
                match &outer.op.kind {
                    RepetitionKind::Range(range) if most(range) > LARGEST_COUNT => {
                        self.refuse("invalid repeat count", &outer.op.span, &outer.op.span)
                    }
                    _ => Ok(()),
                }
            }
            _ => Ok(()),
        }
    }
}

/// Go's limit for a count.
const LARGEST_COUNT: u32 = 1000;

const fn most(range: &RepetitionRange) -> u32 {
    match *range {
        RepetitionRange::Exactly(count)
        | RepetitionRange::AtLeast(count)
        | RepetitionRange::Bounded(_, count) => count,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, text: &str) -> bool {
        compile(pattern).expect("compiles").is_match(text)
    }

    #[test]
    fn perl_classes_are_ascii() {
        assert!(matches(r"^\d\w\s$", "7_ "));
        assert!(!matches(r"\d", "٣"));
        assert!(!matches(r"\w", "é"));
        assert!(!matches(r"\s", "\u{a0}"));
        assert!(!matches(r"[\w\d\s]", "é"));
        assert!(matches(r"^[\w.]+$", "a.b_9"));
        assert!(matches(r"^\W\D\S$", "é٣\u{a0}"));
        assert!(matches(r"é\bx", "éx"));
    }

    #[test]
    fn a_class_holds_brackets_and_doubled_operators_literally() {
        assert!(matches(r"^[[a]$", "["));
        assert!(matches(r"^[]a]$", "]"));
        assert!(matches(r"^[a&&b]$", "&"));
        assert!(matches(r"^[a~~b]$", "~"));
        assert!(matches(r"^[[:digit:]x]+$", "1x"));
        assert!(matches(r"^[^]a]$", "b"));
    }

    #[test]
    fn a_brace_that_begins_no_count_is_itself() {
        assert!(matches("^a{$", "a{"));
        assert!(matches("^a{,2}$", "a{,2}"));
        assert!(matches("^a{2,}$", "aaa"));
        assert!(matches("^a{1,2}$", "aa"));
        assert!(matches(r"^a\{2}$", "a{2}"));
    }

    #[test]
    fn a_dot_is_a_character_and_not_a_byte() {
        assert!(matches("^.$", "é"));
    }

    #[test]
    fn a_refused_pattern_is_explained_in_gos_words() {
        for (pattern, message) in [
            ("(unclosed", "missing closing ): `(unclosed`"),
            ("x)", "unexpected ): `x)`"),
            ("^[a-z", "missing closing ]: `[a-z`"),
            ("[z-a]", "invalid character class range: `z-a`"),
            ("*", "missing argument to repetition operator: `*`"),
            ("a|*?b", "missing argument to repetition operator: `*?`"),
            ("a**", "invalid nested repetition operator: `**`"),
            ("a{1001}", "invalid repeat count: `{1001}`"),
            ("(?x)a", "invalid or unsupported Perl syntax: `(?x`"),
            (r"a\", "trailing backslash at end of expression: ``"),
            ("(?=a)", "invalid or unsupported Perl syntax: `(?=`"),
        ] {
            let error = compile(pattern).expect_err("refused");
            assert_eq!(
                error.to_string(),
                format!("error parsing regexp: {message}")
            );
        }
    }
}
