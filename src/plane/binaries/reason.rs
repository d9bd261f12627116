//! Why one source could not deliver a program, so that the next one is tried.

use std::path::PathBuf;
use std::time::Duration;

use semver::Version;

use super::source::Source;
use crate::plane::tool::{Family, Tool};

/// Why a file cannot serve as the wanted program.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// There is no such file, or it is not a regular file.
    #[error("is not a file")]
    NotAFile,
    /// No execute permission.
    #[error("is not executable (mode {mode:04o})")]
    NotExecutable {
        /// The permission bits.
        mode: u32,
    },
    /// Neither an ELF program nor a script.
    #[error("is neither an ELF program nor a script")]
    NotAProgram,
    /// An ELF program for another machine.
    #[error("is built for {found}, this machine runs {wanted}")]
    WrongArchitecture {
        /// What its header says.
        found: String,
        /// What this machine runs.
        wanted: &'static str,
    },
    /// Another version than the wanted one.
    #[error("is version {found}, wanted {wanted}")]
    Misfit {
        /// The version it prints.
        found: Version,
        /// The version that is needed.
        wanted: Version,
    },
    /// It does not tell its version.
    #[error("does not tell its version: {why}")]
    NoVersion {
        /// What happened instead.
        why: String,
    },
    /// It did not tell its version in time.
    #[error("does not tell its version: it was still running after {after:?}")]
    Slow {
        /// The deadline that passed.
        after: Duration,
    },
    /// It cannot be read.
    #[error("cannot be read: {why}")]
    Unreadable {
        /// The operating system's words.
        why: String,
    },
}

/// Why Go cannot build here.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GoProblem {
    /// There is no `go` in `PATH`.
    #[error("there is no go in PATH")]
    Missing,
    /// It does not tell its version.
    #[error("{} does not tell its version: {why}", path.display())]
    NoVersion {
        /// The program found.
        path: PathBuf,
        /// What happened instead.
        why: String,
    },
    /// It does not tell the settings that its user made with `go env -w`.
    #[error("{} does not tell its settings: {why}", path.display())]
    NoSettings {
        /// The program found.
        path: PathBuf,
        /// What happened instead.
        why: String,
    },
    /// It is older than the modules demand.
    #[error("{} is Go {found}, the modules need Go {needed} or newer", path.display())]
    TooOld {
        /// The program found.
        path: PathBuf,
        /// Its version.
        found: Version,
        /// The `go` directive of the modules.
        needed: Version,
    },
}

/// Why one source was passed over.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Reason {
    /// The source does not hold the program.
    #[error("not found")]
    NotFound,
    /// The source holds a file that does not fit.
    #[error("{} {problem}", path.display())]
    Unfit {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: Problem,
    },
    /// The file in the cache is not what was once put there.
    #[error("the cached file is damaged: {why}")]
    Damaged {
        /// What differs.
        why: String,
    },
    /// The caller does not want this source.
    #[error("switched off")]
    Disabled,
    /// The host cannot be reached.
    #[error("{host} cannot be reached: {why}")]
    Unreachable {
        /// Host and port.
        host: String,
        /// What happened.
        why: String,
    },
    /// The server answered with something else than the file.
    #[error("{url} answered {status}")]
    Status {
        /// The file asked for.
        url: String,
        /// The answer's status.
        status: String,
    },
    /// The body ended early, again and again.
    #[error(
        "{url} ended early after {received} of {} bytes, {resumes} times resumed",
        total.map_or_else(|| "?".to_owned(), |total| total.to_string())
    )]
    Truncated {
        /// The file asked for.
        url: String,
        /// Bytes received so far.
        received: u64,
        /// Bytes expected, if the server said so.
        total: Option<u64>,
        /// How often it was resumed.
        resumes: u32,
    },
    /// The server stopped sending.
    #[error("{url} sent nothing for {after:?} (after {received} bytes)")]
    Stalled {
        /// The file asked for.
        url: String,
        /// Bytes received so far.
        received: u64,
        /// The deadline that passed.
        after: Duration,
    },
    /// The whole download took too long.
    #[error("{url} was not complete after {after:?}")]
    Overdue {
        /// The file asked for.
        url: String,
        /// The deadline that passed.
        after: Duration,
    },
    /// Too many redirects, or one to a place that is not allowed.
    #[error("{url} redirects without end or to a place that is not allowed: {why}")]
    Redirect {
        /// The file asked for.
        url: String,
        /// What was refused.
        why: String,
    },
    /// The request failed in another way.
    #[error("{url}: {why}")]
    Transfer {
        /// The file asked for.
        url: String,
        /// What happened.
        why: String,
    },
    /// The checksum file does not name the file.
    #[error("{url} holds no SHA-256 of {file}")]
    ChecksumFile {
        /// The checksum file.
        url: String,
        /// The file whose digest was looked for.
        file: String,
    },
    /// The archive is not what it should be.
    #[error("the archive {url} cannot be used: {why}")]
    Archive {
        /// Where it came from.
        url: String,
        /// What is wrong with it.
        why: String,
    },
    /// There are no pinned modules of this version.
    #[error("there are no pinned Go modules of {family} {version}")]
    NotPinned {
        /// The family.
        family: Family,
        /// The version asked for.
        version: Version,
    },
    /// There are pinned modules of this version, but not all that the program is built from.
    #[error("the pinned Go modules of {family} {version} lack some of what {tool} is built from")]
    NotDeclared {
        /// The program.
        tool: Tool,
        /// Its family.
        family: Family,
        /// The version asked for.
        version: Version,
    },
    /// Go cannot build here.
    #[error(transparent)]
    Go(#[from] GoProblem),
}

/// One source that was tried, and why it did not deliver.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{from}: {reason}")]
pub struct Attempt {
    /// The source.
    pub from: Source,
    /// Why it was passed over.
    pub reason: Reason,
}
