//! Known kinds of failure in the words of the programs: texts of three families, and where in a log
//! they count.

use serde::Deserialize;

use super::{FailureKind, PANIC_LINES, last_lines, panic_lines};
use crate::host::launch::CANNOT_EXECUTE_MARK;

/// A line can be the cause of a component's end only so near to it: an older one did not end it.
const NEAR_LINES: usize = 40;

/// What the flag parsers of cobra and of Go's own library say.
const UNKNOWN_FLAG: &[&str] = &[
    "unknown flag:",
    "flag provided but not defined",
    "unknown shorthand flag",
];

/// Texts of the programs themselves, by what they mean.
pub(super) const SIGNATURES: [(FailureKind, &[&str]); 10] = [
    (FailureKind::PortTaken, &["address already in use"]),
    (FailureKind::DiskFull, &["no space left on device"]),
    (FailureKind::TooManyFiles, &["too many open files"]),
    (FailureKind::EtcdQuota, &["database space exceeded"]),
    (FailureKind::CannotExecute, &[CANNOT_EXECUTE_MARK]),
    (FailureKind::UnknownFlag, UNKNOWN_FLAG),
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
    (
        FailureKind::UnknownAuthority,
        &["certificate signed by unknown authority"],
    ),
    (FailureKind::SlowDisk, SLOW_DISK),
];

/// What etcd says of its disk, always as a warning.
const SLOW_DISK: &[&str] = &[
    "apply request took too long",
    "waiting for ReadIndex response took too long",
    "slow fdatasync",
    "likely from slow disk",
];

fn has(line: &str, needles: &[&str]) -> bool {
    needles.iter().any(|needle| line.contains(needle))
}

/// The first line that tells a known cause. Causes are tried in the order above, since a server
/// without disk space may complain of much else.
pub(super) fn any_cause(log: &str) -> Option<(FailureKind, &str)> {
    SIGNATURES.iter().find_map(|(kind, needles)| {
        log.lines()
            .find(|line| has(line, needles))
            .map(|line| (*kind, line))
    })
}

/// How much a line of a log means by its own account.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Weight {
    /// Information, a warning, or nothing that is known.
    Light,
    /// An error, after which a program may well go on.
    Error,
    /// The program ends here.
    Fatal,
}

fn weight(line: &str) -> Weight {
    #[derive(Deserialize)]
    struct Zap {
        level: String,
    }
    // etcd
    if let Ok(Zap { level }) = serde_json::from_str(line) {
        return match level.as_str() {
            "fatal" | "panic" | "dpanic" => Weight::Fatal,
            "error" => Weight::Error,
            _ => Weight::Light,
        };
    }
    // klog: the severity, then month and day.
    if let [severity, date @ ..] = line.as_bytes()
        && date.len() > 4
        && date[..4].iter().all(u8::is_ascii_digit)
    {
        match severity {
            b'F' => return Weight::Fatal,
            b'E' => return Weight::Error,
            b'I' | b'W' => return Weight::Light,
            _ => {}
        }
    }
    // A command line that was refused, or a program that did not begin at all.
    let start = ["Error:", "error:", CANNOT_EXECUTE_MARK];
    if start.iter().any(|start| line.starts_with(start)) || has(line, UNKNOWN_FLAG) {
        return Weight::Fatal;
    }
    Weight::Light
}

/// The last grave line near the end that tells a known cause, the message of a panic included.
///
/// A program that was killed did not end by an error, so that only what it says of its end counts.
pub(super) fn cause_of_end(log: &str, killed: bool) -> Option<(FailureKind, &str)> {
    let panic = log.lines().position(is_panic).unwrap_or(usize::MAX);
    let message = log
        .lines()
        .skip(panic)
        .take_while(|line| !line.trim().is_empty())
        .take(PANIC_LINES)
        .map(|line| (Weight::Fatal, line));
    let before: Vec<&str> = log
        .lines()
        .take(panic)
        .filter(|line| !line.trim().is_empty())
        .collect();
    let near = before.iter().skip(before.len().saturating_sub(NEAR_LINES));
    let least = if killed { Weight::Fatal } else { Weight::Error };
    let mut grave: Vec<&str> = near
        .map(|line| (weight(line), *line))
        .chain(message)
        .filter(|(weight, _)| *weight >= least)
        .map(|(_, line)| line)
        .collect();
    grave.reverse();
    grave.into_iter().find_map(|line| {
        let mut known = SIGNATURES.iter();
        known
            .find(|(_, needles)| has(line, needles))
            .map(|(kind, _)| (*kind, line))
    })
}

/// A cause wins over the panic that it led to, and both over the signal.
pub(super) fn classify(log: &str, cause: Option<(FailureKind, &str)>, killed: bool) -> FailureKind {
    match cause {
        Some((kind, _)) => kind,
        None if panic_lines(log).is_some() => FailureKind::Panic,
        None if killed => FailureKind::Killed,
        None if last_lines(log, NEAR_LINES)
            .iter()
            .any(|line| has(line, SLOW_DISK)) =>
        {
            FailureKind::SlowDisk
        }
        None => FailureKind::Other,
    }
}

pub(super) fn is_panic(line: &str) -> bool {
    line.starts_with("panic:") || line.starts_with("fatal error:")
}
