//! Lines of the container runtime interface's log format:
//! `2016-10-06T00:17:09.669794202Z stdout F text`.

use chrono::{DateTime, FixedOffset};

/// One entry of a log.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Entry<'a> {
    /// When it was written.
    pub(super) at: DateTime<FixedOffset>,
    /// What was written, the end of the line included; a part of a line (`P`) has none.
    pub(super) text: &'a [u8],
}

/// Reads a line, its end included; [`None`] when it has another form.
pub(super) fn parse(line: &[u8]) -> Option<Entry<'_>> {
    let (at, rest) = split(line)?;
    let (stream, rest) = split(rest)?;
    let (tags, text) = split(rest)?;
    if !matches!(stream, b"stdout" | b"stderr") {
        return None;
    }
    let at = std::str::from_utf8(at).ok()?;
    // More tags may come after the first one.
    let partial = tags.split(|byte| *byte == b':').next() == Some(b"P".as_slice());
    let text = match text.strip_suffix(b"\n") {
        Some(text) if partial => text,
        _ => text,
    };
    Some(Entry {
        at: DateTime::parse_from_rfc3339(at).ok()?,
        text,
    })
}

fn split(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let space = bytes.iter().position(|byte| *byte == b' ')?;
    Some((&bytes[..space], &bytes[space + 1..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: &str = "2016-10-06T00:17:09.669794202Z";

    fn text(rest: &str) -> Option<String> {
        let line = format!("{AT} {rest}");
        let entry = parse(line.as_bytes())?;
        assert_eq!(entry.at.timestamp_subsec_nanos(), 669_794_202);
        Some(String::from_utf8_lossy(entry.text).into_owned())
    }

    #[test]
    fn full_lines_keep_their_end_and_parts_lose_it() {
        for (rest, expected) in [
            ("stdout F a b \n", "a b \n"),
            ("stderr F \n", "\n"),
            ("stdout F cut short", "cut short"),
            ("stdout P part\n", "part"),
            ("stdout P:later part\n", "part"),
            ("stdout F:P whole\n", "whole\n"),
        ] {
            assert_eq!(text(rest).as_deref(), Some(expected), "{rest}");
        }
    }

    #[test]
    fn other_forms_are_not_entries() {
        for rest in ["stdout F\n", "stdin F text\n", "stdout\n", "\n"] {
            assert_eq!(text(rest), None, "{rest}");
        }
        for line in ["", "\n", "yesterday stdout F text\n"] {
            assert_eq!(parse(line.as_bytes()), None, "{line}");
        }
        assert_eq!(parse(b"\xff stdout F text\n"), None);
    }
}
