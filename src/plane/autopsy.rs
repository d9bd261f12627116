//! Why a component ended: what its log says, cut down to what a person needs, and which of the known
//! kinds of failure it is.

use std::fmt;
use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::launch::CANNOT_EXECUTE_MARK;
use super::tool::Tool;

/// How much of a log's end is read. A panic is the last thing a program says, and a Go traceback of
/// all goroutines stays far below this.
const READ_LIMIT: u64 = 4 * 1024 * 1024;
/// Lines shown when no panic is found.
const LAST_LINES: usize = 12;
/// Lines shown of a panic.
const PANIC_LINES: usize = 16;
/// A longer line is cut: klog prints whole objects.
const LINE_LIMIT: usize = 400;

/// The kinds of failure that are known to happen, each with its own advice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FailureKind {
    /// Somebody else listens on the port.
    PortTaken,
    /// The program does not know a flag that it was given.
    UnknownFlag,
    /// The file is not a program for this machine, or may not be executed.
    CannotExecute,
    /// No space left on the device.
    DiskFull,
    /// The limit on open files was reached.
    TooManyFiles,
    /// etcd's own size limit was reached.
    EtcdQuota,
    /// etcd's data is damaged or belongs to another cluster.
    EtcdData,
    /// A certificate or key was not accepted.
    Certificate,
    /// The Go runtime gave up (`panic:` or `fatal error:`).
    Panic,
    /// SIGKILL, which nobody here sent: most often the kernel's out-of-memory killer.
    Killed,
    /// None of the above.
    Other,
}

/// A component that ended though nobody asked it to.
#[derive(Clone, Debug)]
pub struct ComponentFailure {
    /// The component.
    pub tool: Tool,
    /// How it ended, in words.
    pub status: String,
    /// Which kind of failure its status and log show.
    pub kind: FailureKind,
    /// The first panic in its log, else the last lines.
    pub excerpt: Vec<String>,
    /// The whole log.
    pub log: PathBuf,
    /// How long it had run.
    pub ran_for: Duration,
}

impl ComponentFailure {
    /// Reads the log of a component that has just ended.
    #[must_use]
    pub fn examine(tool: Tool, status: Option<ExitStatus>, log: &Path, ran_for: Duration) -> Self {
        let text =
            read_end(log).unwrap_or_else(|error| format!("(its log cannot be read: {error})"));
        let killed = status.and_then(|status| status.signal()) == Some(9);
        Self {
            tool,
            status: status.map_or_else(|| "exit status unknown".to_owned(), describe),
            kind: classify(&text, killed),
            excerpt: excerpt(&text),
            log: log.to_owned(),
            ran_for,
        }
    }

    /// What to do about it.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        Some(match self.kind {
            FailureKind::PortTaken => {
                "end the program that listens there, or leave the port to be chosen".to_owned()
            }
            FailureKind::UnknownFlag => {
                "the flag is not known to this version; if it was given with --component-arg, correct it, \
                 otherwise choose a pinned version with --kubernetes"
                    .to_owned()
            }
            FailureKind::CannotExecute => {
                "run `aibom-qual doctor` to see which file was used; it must be an executable for this machine"
                    .to_owned()
            }
            FailureKind::DiskFull => {
                "free some space, or point --state-dir at a larger disk (etcd alone reserves 64 MB)".to_owned()
            }
            FailureKind::TooManyFiles => "raise the limit on open files (`ulimit -n 4096`)".to_owned(),
            FailureKind::EtcdQuota => {
                "etcd is full; start a fresh plane, or raise --quota-backend-bytes with --component-arg".to_owned()
            }
            FailureKind::EtcdData => "etcd cannot use this data; remove the plane with `aibom-qual plane down \
                                      --delete` and start a fresh one"
                .to_owned(),
            FailureKind::Certificate => {
                "check the machine's clock; `plane up` issues fresh certificates at every start".to_owned()
            }
            FailureKind::Killed => {
                "it was killed from outside, most often because memory ran out; see the kernel's log".to_owned()
            }
            FailureKind::Panic | FailureKind::Other => format!("the whole log is {}", self.log.display()),
        })
    }
}

impl fmt::Display for ComponentFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} ended with {} after {:.1} s",
            self.tool,
            self.status,
            self.ran_for.as_secs_f64()
        )?;
        for line in &self.excerpt {
            write!(f, "\n  | {line}")?;
        }
        Ok(())
    }
}

impl std::error::Error for ComponentFailure {}

fn describe(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit status {code}"),
        (None, Some(signal)) => match rustix::process::Signal::from_named_raw(signal) {
            Some(named) => format!("signal {signal} ({named:?})"),
            None => format!("signal {signal}"),
        },
        (None, None) => "exit status unknown".to_owned(),
    }
}

fn read_end(log: &Path) -> io::Result<String> {
    let mut file = File::open(log)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(READ_LIMIT)))?;
    let mut bytes = Vec::new();
    file.take(READ_LIMIT).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The texts are those of the programs themselves (`prior-art.md` 5.9). The more specific ones come
/// first: a server without disk space may panic because of it.
fn classify(log: &str, killed: bool) -> FailureKind {
    let has = |needle: &str| log.contains(needle);
    if has("address already in use") {
        FailureKind::PortTaken
    } else if has("no space left on device") {
        FailureKind::DiskFull
    } else if has("too many open files") {
        FailureKind::TooManyFiles
    } else if has("database space exceeded") {
        FailureKind::EtcdQuota
    } else if has(CANNOT_EXECUTE_MARK) {
        FailureKind::CannotExecute
    } else if has("unknown flag:")
        || has("flag provided but not defined")
        || has("unknown shorthand flag")
    {
        FailureKind::UnknownFlag
    } else if [
        "cluster ID mismatch",
        "walpb: crc mismatch",
        "wal: crc mismatch",
        "snap: ",
        "invalid database",
        "file checksum error",
    ]
    .iter()
    .any(|needle| has(needle))
        || has("member count is unequal")
    {
        FailureKind::EtcdData
    } else if has("tls: failed to find any PEM data")
        || has("x509: ")
        || has("private key does not match")
    {
        FailureKind::Certificate
    } else if panic_at(log).is_some() {
        FailureKind::Panic
    } else if killed {
        FailureKind::Killed
    } else {
        FailureKind::Other
    }
}

/// Where the first panic begins: at the start of a line, as the Go runtime prints it.
fn panic_at(log: &str) -> Option<usize> {
    let mut offset = 0;
    for line in log.split_inclusive('\n') {
        if line.starts_with("panic:") || line.starts_with("fatal error:") {
            return Some(offset);
        }
        offset += line.len();
    }
    None
}

fn excerpt(log: &str) -> Vec<String> {
    let lines: Vec<&str> = match panic_at(log) {
        Some(at) => log[at..].lines().take(PANIC_LINES).collect(),
        None => {
            let all: Vec<&str> = log.lines().filter(|line| !line.trim().is_empty()).collect();
            all[all.len().saturating_sub(LAST_LINES)..].to_vec()
        }
    };
    lines.into_iter().map(cut).collect()
}

fn cut(line: &str) -> String {
    match line.char_indices().nth(LINE_LIMIT) {
        Some((at, _)) => format!("{}…", &line[..at]),
        None => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_panic_is_shown_and_not_the_last_lines() {
        let log = "I1 started\npanic: first\n\ngoroutine 1 [running]:\npanic: second\nI1 after\n";
        let lines = excerpt(log);
        assert_eq!(lines.first().map(String::as_str), Some("panic: first"));
        assert_eq!(classify(log, false), FailureKind::Panic);
    }

    #[test]
    fn without_a_panic_the_last_lines_are_shown() {
        let log: String = (0..40).map(|n| format!("line {n}\n")).collect();
        let lines = excerpt(&log);
        assert_eq!(lines.len(), LAST_LINES);
        assert_eq!(lines.last().map(String::as_str), Some("line 39"));
    }

    #[test]
    fn the_word_panic_inside_a_line_is_not_a_panic() {
        assert_eq!(panic_at("I1130 recovered from panic: x\n"), None);
    }

    #[test]
    fn a_cause_wins_over_the_panic_it_led_to() {
        let log =
            "{\"level\":\"panic\",\"msg\":\"write wal: no space left on device\"}\npanic: x\n";
        assert_eq!(classify(log, false), FailureKind::DiskFull);
    }

    #[test]
    fn a_long_line_is_cut_at_a_character() {
        let line = "ä".repeat(LINE_LIMIT + 5);
        assert_eq!(cut(&line).chars().count(), LINE_LIMIT + 1);
    }
}
