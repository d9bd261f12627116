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

impl FailureKind {
    /// What to do about a component whose log is `log`.
    #[must_use]
    pub fn hint(self, log: &Path) -> String {
        match self {
            Self::PortTaken => "end the program that listens there, or leave the port to be chosen".to_owned(),
            Self::UnknownFlag => "this version does not know the flag; if it was given with --component-arg, \
                                  correct it, otherwise choose a pinned version with --kubernetes"
                .to_owned(),
            Self::CannotExecute => "run `aibom-qual doctor` to see which file was used; it must be an executable \
                                    for this machine"
                .to_owned(),
            Self::DiskFull => "free some space, or point --state-dir at a larger disk (etcd alone reserves 64 MB)"
                .to_owned(),
            Self::TooManyFiles => "raise the limit on open files (`ulimit -n 4096`)".to_owned(),
            Self::EtcdQuota => "etcd is full; start a fresh plane, or raise --quota-backend-bytes with \
                                --component-arg"
                .to_owned(),
            Self::EtcdData => "etcd cannot use this data; remove the plane with \
                               `aibom-qual plane down NAME --delete` and start a fresh one"
                .to_owned(),
            Self::Certificate => {
                "check the machine's clock; `plane up` issues fresh certificates at every start".to_owned()
            }
            Self::Killed => {
                "it was killed from outside, most often because memory ran out; see the kernel's log".to_owned()
            }
            Self::Panic | Self::Other => format!("the whole log is {}", log.display()),
        }
    }
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
    /// The line that tells the cause and the first panic, else the last lines.
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
    pub fn hint(&self) -> String {
        self.kind.hint(&self.log)
    }
}

/// What the log of a component says that runs but does not become ready: a known cause and the line
/// that tells it.
#[must_use]
pub fn known_cause(log: &Path) -> Option<(FailureKind, String)> {
    let text = read_end(log).ok()?;
    cause(&text).map(|(kind, line)| (kind, readable(line)))
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

/// Texts of the programs themselves (`prior-art.md` 5.9), by what they mean.
const SIGNATURES: [(FailureKind, &[&str]); 8] = [
    (FailureKind::PortTaken, &["address already in use"]),
    (FailureKind::DiskFull, &["no space left on device"]),
    (FailureKind::TooManyFiles, &["too many open files"]),
    (FailureKind::EtcdQuota, &["database space exceeded"]),
    (FailureKind::CannotExecute, &[CANNOT_EXECUTE_MARK]),
    (
        FailureKind::UnknownFlag,
        &[
            "unknown flag:",
            "flag provided but not defined",
            "unknown shorthand flag",
        ],
    ),
    (
        FailureKind::EtcdData,
        &[
            "cluster ID mismatch",
            "crc mismatch",
            "invalid database",
            "checksum error",
            "member count is unequal",
            // A write-ahead log cut at a damaged record: etcd starts, and then never has a leader.
            ".wal.broken",
        ],
    ),
    (
        FailureKind::Certificate,
        &[
            "failed to find any PEM data",
            "private key does not match",
            "certificate has expired",
            "not yet valid",
        ],
    ),
];

/// The first line that tells a known cause. Causes are tried in the order above, since a server
/// without disk space may complain of much else.
fn cause(log: &str) -> Option<(FailureKind, &str)> {
    SIGNATURES.iter().find_map(|(kind, needles)| {
        let tells = |line: &&str| needles.iter().any(|needle| line.contains(needle));
        log.lines().find(tells).map(|line| (*kind, line))
    })
}

/// A cause wins over the panic that it led to, and both over the signal.
fn classify(log: &str, killed: bool) -> FailureKind {
    match cause(log) {
        Some((kind, _)) => kind,
        None if panic_lines(log).is_some() => FailureKind::Panic,
        None if killed => FailureKind::Killed,
        None => FailureKind::Other,
    }
}

/// From the first panic on: at the start of a line, as the Go runtime prints it.
fn panic_lines(log: &str) -> Option<impl Iterator<Item = &str>> {
    let panics = |line: &str| line.starts_with("panic:") || line.starts_with("fatal error:");
    let mut lines = log.lines().skip_while(move |line| !panics(line)).peekable();
    lines.peek().is_some().then_some(lines)
}

fn excerpt(log: &str) -> Vec<String> {
    match (cause(log), panic_lines(log)) {
        // The traceback only tells where the program noticed; the cause is known.
        (Some((_, line)), Some(panic)) => {
            let message = panic
                .take_while(|line| !line.trim().is_empty())
                .take(PANIC_LINES);
            std::iter::once(readable(line))
                .chain(message.map(cut))
                .collect()
        }
        (Some((_, line)), None) => vec![readable(line)],
        (None, Some(panic)) => panic.take(PANIC_LINES).map(cut).collect(),
        (None, None) => {
            let all: Vec<&str> = log.lines().filter(|line| !line.trim().is_empty()).collect();
            all.iter()
                .skip(all.len().saturating_sub(LAST_LINES))
                .map(|line| readable(line))
                .collect()
        }
    }
}

/// etcd logs JSON with whole stack traces in it; what it says is in three of the fields.
fn readable(line: &str) -> String {
    let fields: Option<serde_json::Map<String, serde_json::Value>> =
        serde_json::from_str(line).ok();
    let said = fields.and_then(|fields| {
        let field = |name: &str| fields.get(name).and_then(serde_json::Value::as_str);
        let said: Vec<&str> = ["level", "msg", "path", "error"]
            .into_iter()
            .filter_map(field)
            .collect();
        field("msg").map(|_| said.join(": "))
    });
    cut(said.as_deref().unwrap_or(line))
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
        assert!(panic_lines("I1130 recovered from panic: x\n").is_none());
    }

    #[test]
    fn a_cause_wins_over_the_panic_it_led_to() {
        let log = "{\"level\":\"panic\",\"msg\":\"cannot write\",\"error\":\"no space left on device\"}\n\
                   panic: cannot write\n\ngoroutine 1 [running]:\n";
        assert_eq!(classify(log, false), FailureKind::DiskFull);
        assert_eq!(
            excerpt(log),
            [
                "panic: cannot write: no space left on device",
                "panic: cannot write"
            ]
        );
    }

    #[test]
    fn every_signature_is_found() {
        for (kind, needles) in SIGNATURES {
            for needle in needles {
                assert_eq!(classify(&format!("x {needle} y"), true), kind, "{needle}");
            }
        }
    }

    #[test]
    fn a_signal_counts_only_when_the_log_says_nothing() {
        assert_eq!(classify("I1 fine", true), FailureKind::Killed);
        assert_eq!(classify("panic: x", true), FailureKind::Panic);
        assert_eq!(classify("I1 fine", false), FailureKind::Other);
    }

    #[test]
    fn a_long_line_is_cut_at_a_character() {
        let line = "ä".repeat(LINE_LIMIT + 5);
        assert_eq!(cut(&line).chars().count(), LINE_LIMIT + 1);
    }
}
