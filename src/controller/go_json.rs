//! Compact JSON with the bytes of Go's `encoding/json`.
//!
//! `serde_json` writes the same bytes but for five characters that Go escapes so that its output
//! can stand inside HTML and JavaScript. Key order and omitted keys are a matter of the types
//! serialised: structs keep the order of their fields, and a `BTreeMap` iterates in byte order, as
//! Go sorts the keys of a map.
//!
//! Go replaces bytes that are not UTF-8 by `\ufffd`. A `str` has none; a replacement character that
//! *is* in the text is written raw by both.

use std::io;

use serde::Serialize;
use serde_json::Serializer;
use serde_json::ser::Formatter;

/// Encodes `value` without white space and without a newline at the end.
///
/// # Errors
///
/// When the value has no JSON form, such as a map whose keys are not strings.
pub fn to_vec<T: Serialize + ?Sized>(value: &T) -> Result<Vec<u8>, serde_json::Error> {
    let mut bytes = Vec::with_capacity(4096);
    value.serialize(&mut Serializer::with_formatter(&mut bytes, GoFormatter))?;
    Ok(bytes)
}

struct GoFormatter;

impl Formatter for GoFormatter {
    /// `fragment` is a part of a string that JSON itself does not need escaped.
    fn write_string_fragment<W>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()>
    where
        W: ?Sized + io::Write,
    {
        let mut rest = fragment;
        while let Some((at, special, escape)) = rest
            .char_indices()
            .find_map(|(at, c)| html_escape(c).map(|escape| (at, c, escape)))
        {
            writer.write_all(&rest.as_bytes()[..at])?;
            writer.write_all(escape.as_bytes())?;
            rest = &rest[at + special.len_utf8()..];
        }
        writer.write_all(rest.as_bytes())
    }
}

const fn html_escape(c: char) -> Option<&'static str> {
    match c {
        '<' => Some("\\u003c"),
        '>' => Some("\\u003e"),
        '&' => Some("\\u0026"),
        '\u{2028}' => Some("\\u2028"),
        '\u{2029}' => Some("\\u2029"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn encoded<T: Serialize + ?Sized>(value: &T) -> String {
        String::from_utf8(to_vec(value).expect("encodes")).expect("is UTF-8")
    }

    #[test]
    fn every_kind_of_character_is_escaped_as_go_does() {
        for (text, expected) in [
            ("", r#""""#),
            ("a/b ü € 🦀", r#""a/b ü € 🦀""#),
            (r#"say "x\y""#, r#""say \"x\\y\"""#),
            ("\u{8}\u{c}\n\r\t", r#""\b\f\n\r\t""#),
            ("\u{0}\u{b}\u{1f}", r#""\u0000\u000b\u001f""#),
            ("\u{7f}\u{80}\u{fffd}", "\"\u{7f}\u{80}\u{fffd}\""),
            ("a<b>&c", r#""a\u003cb\u003e\u0026c""#),
            ("<>", r#""\u003c\u003e""#),
            (
                "\u{2027}\u{2028}\u{2029}\u{202a}",
                "\"\u{2027}\\u2028\\u2029\u{202a}\"",
            ),
        ] {
            assert_eq!(encoded(text), expected, "{text:?}");
        }
    }

    #[test]
    fn keys_are_sorted_by_bytes_and_escaped_like_values() {
        let map: BTreeMap<&str, &str> = [("é", "1"), ("z", ""), ("Z", "3"), ("a<", "4")].into();
        assert_eq!(encoded(&map), r#"{"Z":"3","a\u003c":"4","z":"","é":"1"}"#);
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back_and_holds_no_special_character(text in any::<String>()) {
            let json = encoded(&text);
            prop_assert_eq!(serde_json::from_str::<String>(&json).expect("is JSON"), text);
            let special = ['<', '>', '&', '\u{2028}', '\u{2029}'];
            prop_assert!(!json.contains(special));
        }
    }
}
