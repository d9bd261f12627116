//! What a helm process was told and what it said, in a file of its own.
//!
//! The file exists from before the process starts, so that a run that was killed still tells what it was
//! about to do. It holds no kubeconfig and no values: both reach Helm by paths, and notes of charts,
//! which may show a password, are not asked for.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use chrono::{DateTime, SecondsFormat, Utc};

use super::error::HelmError;
use super::process::Ended;

/// The folder of transcripts, and the number that the next one gets.
#[derive(Debug)]
pub(super) struct Transcripts {
    folder: PathBuf,
    next: AtomicU32,
}

/// One file.
#[derive(Debug)]
pub(super) struct Transcript {
    path: PathBuf,
    head: String,
}

impl Transcripts {
    /// Goes on after the highest number that is there: a run that is resumed keeps what it has.
    pub(super) fn new(folder: PathBuf) -> Self {
        let highest = fs::read_dir(&folder)
            .into_iter()
            .flatten()
            .flatten()
            .filter_map(|entry| number(entry.file_name().to_str()?))
            .max();
        Self {
            folder,
            next: AtomicU32::new(highest.unwrap_or(0).saturating_add(1)),
        }
    }

    /// Begins a file for a process that is about to start.
    pub(super) async fn begin(
        &self,
        verb: &str,
        version: &str,
        args: &[String],
        at: DateTime<Utc>,
    ) -> Result<Transcript, HelmError> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let path = self.folder.join(format!("{number:02}-helm-{verb}.txt"));
        let mut head = String::new();
        // Writing to a `String` cannot fail.
        let _ = writeln!(head, "$ helm {}", quoted(args));
        let _ = writeln!(head, "version: {version}");
        let _ = writeln!(head, "started: {}", time(at));
        let transcript = Transcript { path, head };
        transcript.write(&transcript.head).await?;
        Ok(transcript)
    }
}

impl Transcript {
    /// Adds how the process ended and all that it said.
    pub(super) async fn end(&self, ended: &Ended, at: DateTime<Utc>) -> Result<(), HelmError> {
        let mut text = self.head.clone();
        let seconds = ended.took.as_secs_f64();
        let _ = writeln!(text, "ended: {} (after {seconds:.3} s)", time(at));
        let _ = match (ended.exit, ended.signal) {
            (Some(code), _) => writeln!(text, "exit: {code}"),
            (None, Some(signal)) => writeln!(text, "ended by signal {signal}"),
            (None, None) => writeln!(text, "exit: unknown"),
        };
        if let Some(limit) = ended.stopped_after {
            let limit = limit.as_secs();
            let _ = writeln!(text, "stopped by aibom-qual: still running after {limit} s");
        }
        for (name, output) in [("stdout", &ended.stdout), ("stderr", &ended.stderr)] {
            let _ = writeln!(text, "\n--- {name}");
            text.push_str(&output.text());
            if !text.ends_with('\n') {
                text.push('\n');
            }
            if output.cut {
                text.push_str("[more was written than is kept]\n");
            }
        }
        self.write(&text).await
    }

    /// `FOLDER/FILE`: relative to the parent of the folder of transcripts.
    pub(super) fn name(&self) -> String {
        let part = |path: Option<&Path>| {
            let name = path.and_then(Path::file_name)?;
            Some(name.to_string_lossy().into_owned())
        };
        let parts = [part(self.path.parent()), part(Some(&self.path))];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        parts.join("/")
    }

    async fn write(&self, text: &str) -> Result<(), HelmError> {
        tokio::fs::write(&self.path, text)
            .await
            .map_err(|source| HelmError::Transcript {
                path: self.path.clone(),
                source,
            })
    }
}

/// The number of a transcript, from its name.
fn number(name: &str) -> Option<u32> {
    name.split_once("-helm-")?.0.parse().ok()
}

fn time(at: DateTime<Utc>) -> String {
    at.to_rfc3339_opts(SecondsFormat::Millis, true)
}

/// As a shell would read it again.
fn quoted(args: &[String]) -> String {
    // Only a NUL byte cannot be quoted, and no argument holds one.
    shlex::try_join(args.iter().map(String::as_str)).unwrap_or_else(|_| args.join(" "))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::helm::process::Captured;

    fn at(text: &str) -> DateTime<Utc> {
        text.parse().expect("a time")
    }

    #[tokio::test]
    async fn a_transcript_tells_the_start_at_once_and_the_rest_at_the_end() {
        let run = tempfile::tempdir().expect("a folder");
        let folder = run.path().join("logs");
        fs::create_dir(&folder).expect("a folder");
        fs::write(folder.join("07-helm-upgrade.txt"), "").expect("written");
        fs::write(folder.join("controller.log"), "").expect("written");
        let transcripts = Transcripts::new(folder.clone());
        let args = ["rollback", "a b"].map(str::to_owned);
        let begun = transcripts.begin("rollback", "v4.3.1", &args, at("2026-11-30T10:00:00Z"));
        let begun = begun.await.expect("written");
        assert_eq!(begun.name(), "logs/08-helm-rollback.txt");
        let read = || fs::read_to_string(folder.join("08-helm-rollback.txt")).expect("it is there");
        let head = "$ helm rollback 'a b'\nversion: v4.3.1\nstarted: 2026-11-30T10:00:00.000Z\n";
        assert_eq!(read(), head);
        let ended = Ended {
            exit: None,
            signal: Some(9),
            stdout: Captured::whole(b""),
            stderr: Captured {
                bytes: b"words".to_vec(),
                cut: true,
            },
            took: Duration::from_millis(1_500),
            stopped_after: Some(Duration::from_secs(1)),
        };
        let end = begun.end(&ended, at("2026-11-30T10:00:01.5Z"));
        end.await.expect("written");
        assert_eq!(
            read(),
            format!(
                "{head}ended: 2026-11-30T10:00:01.500Z (after 1.500 s)\nended by signal 9\n\
                 stopped by aibom-qual: still running after 1 s\n\n--- stdout\n\n--- stderr\nwords\n\
                 [more was written than is kept]\n"
            )
        );
    }
}
