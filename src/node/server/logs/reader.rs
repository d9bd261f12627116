//! Reads a log file, and waits for more of it while its container runs.

use std::io::{self, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::Duration;

use chrono::{DateTime, SecondsFormat, Utc};
use hyper::body::Bytes;
use tokio::fs::File;
use tokio::io::{
    AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncSeek, AsyncSeekExt as _, BufReader,
};
use tokio::time::sleep;

use super::super::connection::Context;
use super::cri;
use super::query::LogQuery;
use crate::node::view::PodKey;

/// Between two looks at a log that is followed: short for a person, cheap for a file.
const INTERVAL: Duration = Duration::from_millis(50);
/// What is gathered before it is sent, if there is more to read.
const CHUNK: usize = 32 * 1024;
/// Read at once, forwards and backwards.
const BLOCK: usize = 32 * 1024;

/// The run of a container that writes a log.
#[derive(Debug)]
pub(super) struct Writer {
    pub(super) context: Context,
    pub(super) key: PodKey,
    pub(super) uid: String,
    pub(super) container: String,
    pub(super) log: PathBuf,
}

impl Writer {
    /// Whether nothing will be added any more, or nobody is there to hear it.
    fn is_done(&self) -> bool {
        if self.context.stop.is_cancelled() {
            return true;
        }
        let Some(pod) = self.context.pods.get(&self.key) else {
            return true;
        };
        let writes = pod.uid == self.uid
            && pod
                .containers
                .get(&self.container)
                .is_some_and(|view| view.running && view.log.as_ref() == Some(&self.log));
        !writes
    }

    async fn wait(&self) {
        tokio::select! {
            () = sleep(INTERVAL) => {}
            () = self.context.stop.cancelled() => {}
        }
    }
}

/// A log that is being read.
#[derive(Debug)]
pub(super) struct Reader {
    file: BufReader<File>,
    /// The line so far.
    line: Vec<u8>,
    /// Who may add more; [`None`] when the next end of the file is the last one.
    writer: Option<Writer>,
    /// Lines that may still be taken.
    lines_left: Option<u64>,
    filter: Filter,
    done: bool,
}

impl Reader {
    /// Opens a log where the query says. With a writer, it is followed.
    pub(super) async fn open(
        path: &Path,
        query: &LogQuery,
        writer: Option<Writer>,
    ) -> io::Result<Self> {
        let mut file = File::open(path).await?;
        if let Some(lines) = query.tail {
            let start = tail_start(&mut file, lines).await?;
            file.seek(SeekFrom::Start(start)).await?;
        }
        Ok(Self {
            file: BufReader::with_capacity(BLOCK, file),
            line: Vec::new(),
            lines_left: query.tail.filter(|_| writer.is_none()),
            writer,
            filter: Filter::new(query),
            done: false,
        })
    }

    /// The next part of it; [`None`] at the end.
    pub(super) async fn next(&mut self) -> io::Result<Option<Bytes>> {
        let mut chunk = Vec::new();
        while !self.done && chunk.len() < CHUNK {
            if self.lines_left == Some(0) {
                self.done = true;
                break;
            }
            self.file.read_until(b'\n', &mut self.line).await?;
            if self.line.ends_with(b"\n") {
                self.take_line(&mut chunk);
                continue;
            }
            // The end of the file, perhaps in the middle of a line.
            match &self.writer {
                None => {
                    self.take_line(&mut chunk);
                    self.done = true;
                }
                Some(_) if !chunk.is_empty() => break,
                // It may have written between the look at the file and the look at it.
                Some(writer) if writer.is_done() => self.writer = None,
                Some(writer) => writer.wait().await,
            }
        }
        Ok((!chunk.is_empty()).then(|| chunk.into()))
    }

    fn take_line(&mut self, chunk: &mut Vec<u8>) {
        if self.line.is_empty() {
            return;
        }
        match cri::parse(&self.line) {
            Some(entry) => {
                self.done |= self.filter.push(&entry, chunk);
                self.lines_left = self.lines_left.map(|left| left.saturating_sub(1));
            }
            None => tracing::debug!("a log has a line that is not of its format"),
        }
        self.line.clear();
    }
}

/// What is left of entries when the query has been applied.
#[derive(Debug)]
struct Filter {
    since: Option<DateTime<Utc>>,
    timestamps: bool,
    bytes_left: Option<u64>,
    /// Whether the next entry begins a line.
    at_start: bool,
}

impl Filter {
    fn new(query: &LogQuery) -> Self {
        Self {
            since: query.since,
            timestamps: query.timestamps,
            bytes_left: query.limit,
            at_start: true,
        }
    }

    /// Adds what is wanted of an entry, and says whether the limit is reached.
    fn push(&mut self, entry: &cri::Entry<'_>, chunk: &mut Vec<u8>) -> bool {
        let begins = self.at_start;
        self.at_start = entry.text.last().is_none_or(|byte| *byte == b'\n');
        if self.since.is_some_and(|since| entry.at < since) {
            return false;
        }
        let before = chunk.len();
        if self.timestamps && begins {
            let at = entry.at.to_rfc3339_opts(SecondsFormat::Nanos, true);
            chunk.extend_from_slice(at.as_bytes());
            chunk.push(b' ');
        }
        chunk.extend_from_slice(entry.text);
        let Some(left) = &mut self.bytes_left else {
            return false;
        };
        let added = chunk.len() - before;
        let kept = usize::try_from(*left).unwrap_or(usize::MAX).min(added);
        chunk.truncate(before + kept);
        *left = left.saturating_sub(kept as u64);
        *left == 0
    }
}

/// Where the last so many lines begin. A line that has not ended yet is not counted.
async fn tail_start<F>(file: &mut F, lines: u64) -> io::Result<u64>
where
    F: AsyncRead + AsyncSeek + Unpin,
{
    let mut position = file.seek(SeekFrom::End(0)).await?;
    let mut ends = 0;
    let mut block = vec![0; BLOCK];
    while position > 0 {
        let length = usize::try_from(position).unwrap_or(BLOCK).min(BLOCK);
        position -= length as u64;
        file.seek(SeekFrom::Start(position)).await?;
        let block = &mut block[..length];
        file.read_exact(block).await?;
        for (index, _) in block.iter().enumerate().rev().filter(|(_, b)| **b == b'\n') {
            // The end of the line before those that are wanted.
            if ends == lines {
                return Ok(position + index as u64 + 1);
            }
            ends += 1;
        }
    }
    Ok(0)
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    #[tokio::test]
    async fn the_tail_is_counted_in_ended_lines() {
        for (text, lines, expected) in [
            ("", 3, ""),
            ("a\nb\nc\n", 0, ""),
            ("a\nb\nc\n", 1, "c\n"),
            ("a\nb\nc\n", 3, "a\nb\nc\n"),
            ("a\nb\nc\n", 9, "a\nb\nc\n"),
            ("a\nb\nope", 0, "ope"),
            ("a\nb\nope", 1, "b\nope"),
            ("\n\n\n", 2, "\n\n"),
            ("ope", 1, "ope"),
        ] {
            let start = tail_start(&mut Cursor::new(text), lines).await;
            let start = usize::try_from(start.expect("readable")).expect("small");
            assert_eq!(&text[start..], expected, "{text:?} {lines}");
        }
    }

    #[tokio::test]
    async fn the_tail_is_found_across_blocks() {
        let line = format!("{}\n", "x".repeat(999));
        let text = line.repeat(100);
        for lines in [1, 32, 33, 66, 99, 100, 101] {
            let start = tail_start(&mut Cursor::new(&text), lines).await;
            let expected = 100_u64.saturating_sub(lines) * 1_000;
            assert_eq!(start.expect("readable"), expected, "{lines}");
        }
    }

    fn filtered(query: LogQuery, entries: &[(&str, &str)]) -> (String, bool) {
        let mut filter = Filter::new(&query);
        let mut chunk = Vec::new();
        let mut full = false;
        for (at, text) in entries {
            let at = DateTime::parse_from_rfc3339(at).expect("a time");
            let text = text.as_bytes();
            full = filter.push(&cri::Entry { at, text }, &mut chunk);
            if full {
                break;
            }
        }
        (String::from_utf8(chunk).expect("text"), full)
    }

    #[test]
    fn a_line_in_parts_has_one_time() {
        let query = LogQuery {
            timestamps: true,
            ..LogQuery::default()
        };
        let (text, _) = filtered(
            query,
            &[
                ("2026-01-01T00:00:00.5Z", "one "),
                ("2026-01-01T00:00:01Z", "line\n"),
                ("2026-01-01T00:00:02+01:00", "\n"),
            ],
        );
        assert_eq!(
            text,
            "2026-01-01T00:00:00.500000000Z one line\n2026-01-01T00:00:02.000000000+01:00 \n"
        );
    }

    #[test]
    fn the_limit_counts_what_is_sent() {
        let query = |limit| LogQuery {
            limit: Some(limit),
            since: Some("2026-01-01T00:00:01Z".parse().expect("a time")),
            ..LogQuery::default()
        };
        let entries = [
            ("2026-01-01T00:00:00Z", "too early\n"),
            ("2026-01-01T00:00:01Z", "abc\n"),
            ("2026-01-01T00:00:02Z", "def\n"),
        ];
        assert_eq!(filtered(query(6), &entries), ("abc\nde".to_owned(), true));
        assert_eq!(filtered(query(4), &entries), ("abc\n".to_owned(), true));
        assert_eq!(
            filtered(query(9), &entries),
            ("abc\ndef\n".to_owned(), false)
        );
    }
}
