//! A container's log in the container runtime interface's format: one line `TIME STREAM TAG TEXT` per
//! line of the container, where the tag is `F` for a full line and `P` for a part of one.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use chrono::{DateTime, SecondsFormat, Utc};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::host::process::Pipes;

/// A longer line is cut into parts of this many bytes, as container runtimes do.
const LONGEST_PART: usize = 16 * 1024;
/// How much a log may hold. What is written later is read and forgotten, so that the process does
/// not stand still before a full pipe.
pub(super) const LARGEST_LOG: u64 = 100 * 1024 * 1024;
/// How much is read at a time.
const CHUNK: usize = 32 * 1024;

/// Makes an empty log that only we may read.
///
/// # Errors
///
/// When the file cannot be made.
pub(super) fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .create(true)
        .write(true)
        .truncate(true)
        .mode(0o600)
        .open(path)
}

/// Copies both streams into the log until they end, at most `largest` bytes. A disk that is full
/// ends the log, not the process.
pub(super) async fn copy(mut pipes: Pipes, log: File, largest: u64) {
    let mut log = Log {
        file: tokio::fs::File::from_std(log),
        room: Some(largest),
    };
    let (mut stdout, mut stderr) = (Lines::new("stdout"), Lines::new("stderr"));
    let (mut out_chunk, mut err_chunk) = (vec![0; CHUNK], vec![0; CHUNK]);
    while !(stdout.ended && stderr.ended) {
        let mut text = Vec::new();
        // Reading is cancelled without loss: what was not read stays in the pipe. A pipe that cannot
        // be read has ended.
        tokio::select! {
            count = pipes.stdout.read(&mut out_chunk), if !stdout.ended => {
                stdout.take(&out_chunk[..count.unwrap_or(0)], Utc::now(), &mut text);
            }
            count = pipes.stderr.read(&mut err_chunk), if !stderr.ended => {
                stderr.take(&err_chunk[..count.unwrap_or(0)], Utc::now(), &mut text);
            }
        }
        log.write(&text).await;
    }
}

#[derive(Debug)]
struct Log {
    file: tokio::fs::File,
    /// Bytes that may still be written; [`None`] when nothing may be written any more.
    room: Option<u64>,
}

impl Log {
    async fn write(&mut self, text: &[u8]) {
        let Some(room) = self.room else { return };
        let rest = u64::try_from(text.len()).ok();
        let rest = rest.and_then(|length| room.checked_sub(length));
        let written = match rest {
            Some(_) => self.append(text).await,
            None => self.append(&no_more(Utc::now())).await,
        };
        self.room = rest.filter(|_| written.is_ok());
    }

    async fn append(&mut self, text: &[u8]) -> io::Result<()> {
        self.file.write_all(text).await?;
        // A reader of the log is to see the line now.
        self.file.flush().await
    }
}

fn no_more(at: DateTime<Utc>) -> Vec<u8> {
    let mut line = Vec::new();
    let text = "aibom-qual: this log has reached its largest size; what follows is not kept";
    record(at, "stderr", "F", text.as_bytes(), &mut line);
    line
}

/// Cuts a stream into lines.
#[derive(Debug)]
struct Lines {
    stream: &'static str,
    /// The begin of a line whose end has not come yet.
    pending: Vec<u8>,
    ended: bool,
}

impl Lines {
    fn new(stream: &'static str) -> Self {
        Self {
            stream,
            pending: Vec::new(),
            ended: false,
        }
    }

    /// Writes the lines that these bytes complete; nothing means that the stream has ended.
    fn take(&mut self, bytes: &[u8], at: DateTime<Utc>, text: &mut Vec<u8>) {
        if bytes.is_empty() {
            self.ended = true;
            if !self.pending.is_empty() {
                // The stream ended within a line, which is therefore no full one.
                record(at, self.stream, "P", &self.pending, text);
                self.pending.clear();
            }
            return;
        }
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let (content, full) = match piece.strip_suffix(b"\n") {
                Some(content) => (content, true),
                None => (piece, false),
            };
            self.pending.extend_from_slice(content);
            while self.pending.len() > LONGEST_PART {
                let rest = self.pending.split_off(LONGEST_PART);
                record(at, self.stream, "P", &self.pending, text);
                self.pending = rest;
            }
            if full {
                record(at, self.stream, "F", &self.pending, text);
                self.pending.clear();
            }
        }
    }
}

fn record(at: DateTime<Utc>, stream: &str, tag: &str, content: &[u8], text: &mut Vec<u8>) {
    let at = at.to_rfc3339_opts(SecondsFormat::Nanos, true);
    text.extend_from_slice(format!("{at} {stream} {tag} ").as_bytes());
    text.extend_from_slice(content);
    text.push(b'\n');
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    /// What is written for these chunks and the end of the stream, without the times.
    fn lines(chunks: &[&[u8]]) -> Vec<String> {
        let mut lines = Lines::new("stdout");
        let mut text = Vec::new();
        for chunk in chunks.iter().chain([&&b""[..]]) {
            lines.take(chunk, DateTime::UNIX_EPOCH, &mut text);
        }
        assert!(lines.ended);
        let text = String::from_utf8(text).expect("it is text");
        let without_time = text.lines().map(|line| {
            let line = line.strip_prefix("1970-01-01T00:00:00.000000000Z stdout ");
            line.expect("time and stream").to_owned()
        });
        without_time.collect()
    }

    #[test]
    fn lines_are_put_together_from_chunks() {
        assert_eq!(lines(&[b"a\nb", b"c\n", b"\n"]), ["F a", "F bc", "F "]);
        assert_eq!(lines(&[b"a\nno end"]), ["F a", "P no end"]);
        assert_eq!(lines(&[]), Vec::<String>::new());
        assert_eq!(lines(&[b"a\r\n"]).len(), 1);
    }

    #[test]
    fn a_long_line_is_cut_into_parts() {
        let part = "x".repeat(LONGEST_PART);
        let exactly = format!("{part}\n");
        assert_eq!(lines(&[exactly.as_bytes()]), [format!("F {part}")]);
        let longer = format!("{part}{part}yz\n");
        let expected = [format!("P {part}"), format!("P {part}"), "F yz".to_owned()];
        assert_eq!(lines(&[longer.as_bytes()]), expected);
        let (head, tail) = longer.as_bytes().split_at(LONGEST_PART + 3);
        assert_eq!(lines(&[head, tail]), expected);
    }

    #[tokio::test]
    async fn a_full_log_says_so_once_and_nothing_more() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let path = dir.path().join("0.log");
        let mut log = Log {
            file: create(&path).expect("a file").into(),
            room: Some(10),
        };
        for text in ["first\n", "second\n", "third\n", "4\n"] {
            log.write(text.as_bytes()).await;
        }
        let text = std::fs::read_to_string(&path).expect("it is text");
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "first");
        assert!(lines[1].ends_with(
            " F aibom-qual: this log has reached its largest size; what follows is not kept"
        ));
        assert_eq!(lines.len(), 2);
        let mode = path.metadata().expect("it exists").permissions().mode();
        assert_eq!(mode & 0o7777, 0o600);
    }
}
