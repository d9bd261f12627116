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

use super::tool::Tool;

mod cause;

use cause::{any_cause, cause_of_end, classify, is_panic};

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
    /// etcd's disk takes too long to write.
    SlowDisk,
    /// A certificate or key cannot be used, or not at this time.
    Certificate,
    /// A certificate was issued by another authority than the one that counts for it.
    UnknownAuthority,
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
            Self::EtcdData => format!(
                "etcd cannot use this data; remove the plane with `aibom-qual plane down {}--delete` and \
                 start a fresh one",
                plane_of(log).map(|name| format!("{name} ")).unwrap_or_default()
            ),
            Self::SlowDisk => "point --state-dir at a faster disk, or end what keeps this one busy".to_owned(),
            Self::Certificate => {
                "check the machine's clock; `plane up` issues fresh certificates at every start".to_owned()
            }
            // A plane has an authority for servers, one for clients and one for the API server as a
            // proxy. Which one refused is told by who did: the API server checks clients, the others
            // check the API server.
            Self::UnknownAuthority if is_log_of(log, Tool::KubeApiserver) => {
                "a client showed a certificate that the plane's authority for clients did not issue; give \
                 every client the plane's present kubeconfig"
                    .to_owned()
            }
            Self::UnknownAuthority => {
                "the API server shows a certificate that the plane's authority for servers did not issue; \
                 stop the plane and start it again, which issues fresh ones"
                    .to_owned()
            }
            Self::Killed => {
                "it was killed from outside, most often because memory ran out; see the kernel's log".to_owned()
            }
            Self::Panic | Self::Other => format!("the whole log is {}", log.display()),
        }
    }
}

/// The plane whose folder holds this log in its folder of logs.
fn plane_of(log: &Path) -> Option<&str> {
    log.parent()?.parent()?.file_name()?.to_str()
}

fn is_log_of(log: &Path, tool: Tool) -> bool {
    log.file_name()
        .and_then(|name| name.to_str())
        .is_some_and(|name| name.starts_with(tool.file_name()))
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
        let text = read_end(log, READ_LIMIT)
            .unwrap_or_else(|error| format!("(its log cannot be read: {error})"));
        let killed = status.and_then(|status| status.signal()) == Some(9);
        let cause = cause_of_end(&text, killed);
        Self {
            tool,
            status: status.map_or_else(|| "exit status unknown".to_owned(), describe),
            kind: classify(&text, cause, killed),
            excerpt: excerpt(&text, cause),
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
/// that tells it. It has just begun, so that all of its log counts.
#[must_use]
pub fn known_cause(log: &Path) -> Option<(FailureKind, String)> {
    let text = read_end(log, READ_LIMIT).ok()?;
    any_cause(&text).map(|(kind, line)| (kind, readable(line)))
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
            Some(named) => {
                let name = format!("{named:?}");
                format!("signal {signal} ({})", name.trim_start_matches("Signal::"))
            }
            None => format!("signal {signal}"),
        },
        (None, None) => "exit status unknown".to_owned(),
    }
}

/// The last `limit` bytes of a log as text.
pub(crate) fn read_end(log: &Path, limit: u64) -> io::Result<String> {
    let mut file = File::open(log)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(limit)))?;
    let mut bytes = Vec::new();
    file.take(limit).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The last non-empty lines of a text, at most `count`.
pub(crate) fn last_lines(text: &str, count: usize) -> Vec<&str> {
    let mut lines: Vec<&str> = text
        .lines()
        .rev()
        .filter(|line| !line.trim().is_empty())
        .take(count)
        .collect();
    lines.reverse();
    lines
}

/// From the first panic on: at the start of a line, as the Go runtime prints it.
fn panic_lines(log: &str) -> Option<impl Iterator<Item = &str>> {
    let mut lines = log.lines().skip_while(|line| !is_panic(line)).peekable();
    lines.peek().is_some().then_some(lines)
}

fn excerpt(log: &str, cause: Option<(FailureKind, &str)>) -> Vec<String> {
    match (cause, panic_lines(log)) {
        // The traceback only tells where the program noticed; the cause is known.
        (Some((_, line)), Some(panic)) => {
            let message = panic
                .take_while(|line| !line.trim().is_empty())
                .filter(|said| *said != line)
                .take(PANIC_LINES);
            std::iter::once(readable(line))
                .chain(message.map(cut))
                .collect()
        }
        (Some((_, line)), None) => vec![readable(line)],
        (None, Some(panic)) => panic.take(PANIC_LINES).map(cut).collect(),
        (None, None) => last_lines(log, LAST_LINES)
            .into_iter()
            .map(readable)
            .collect(),
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
mod tests;
