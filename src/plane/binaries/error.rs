//! Why a program could not be had at all, and what to do about it.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use semver::Version;

use super::pins::pinned_kubernetes;
use super::reason::{Attempt, GoProblem, Problem, Reason};
use super::sha256::Sha256;
use super::source::Source;
use crate::plane::tool::{Family, Tool};

/// A program could not be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BinaryError {
    /// No program is released for this machine.
    #[error("there are no programs for {os}/{arch}")]
    Platform {
        /// The operating system.
        os: &'static str,
        /// The architecture.
        arch: &'static str,
    },
    /// No plane can be made of so old a Kubernetes.
    #[error("kubernetes {version} is too old, the oldest supported version is {oldest}")]
    KubernetesTooOld {
        /// The version asked for.
        version: Version,
        /// The oldest that is supported.
        oldest: Version,
    },
    /// The folder that the user named lacks programs.
    #[error("{} holds no {}", dir.display(), list(tools))]
    MissingInDir {
        /// The folder.
        dir: PathBuf,
        /// What it lacks.
        tools: Vec<Tool>,
    },
    /// A file that must be the program is not it.
    #[error("{tool} from {from}: {} {problem}", path.display())]
    Unusable {
        /// The program.
        tool: Tool,
        /// Where the file came from.
        from: Source,
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: Problem,
    },
    /// What was downloaded is not what was published.
    #[error("{url} has SHA-256 {found}, published is {expected}")]
    Checksum {
        /// The program.
        tool: Tool,
        /// Where it came from.
        url: String,
        /// The digest in the checksum file.
        expected: Sha256,
        /// The digest of what arrived.
        found: Sha256,
    },
    /// Every source was tried.
    #[error("no source has {tool} {version}: {}", list(attempts))]
    NoSource {
        /// The program.
        tool: Tool,
        /// The version that is needed.
        version: Version,
        /// The sources in the order in which they were tried.
        attempts: Vec<Attempt>,
    },
    /// The mirror is not an address that files can be fetched from.
    #[error("the mirror {url} is neither an http nor an https address")]
    Mirror {
        /// The address.
        url: String,
    },
    /// The disk is full.
    #[error("no space left on the disk of {}", path.display())]
    DiskFull {
        /// What was being written.
        path: PathBuf,
    },
    /// A file or folder may not be written.
    #[error("no permission to write {}", path.display())]
    Permission {
        /// What was being written.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
    /// Another failure of the file system.
    #[error("cannot use {}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
    /// Another process held the cache for too long.
    #[error("{} was still locked after {after:?}; its holder says: {holder}", path.display())]
    Lock {
        /// The lock file.
        path: PathBuf,
        /// The deadline that passed.
        after: Duration,
        /// What the holder last wrote.
        holder: String,
    },
    /// Go did not build the program.
    #[error(
        "building {tool} {version} {how}; the end of {}:{}", log.display(),
        tail.iter().map(|line| format!("\n  {line}")).collect::<String>()
    )]
    Build {
        /// The program.
        tool: Tool,
        /// The version.
        version: Version,
        /// How the build ended, in words.
        how: String,
        /// The whole output.
        log: PathBuf,
        /// Its last lines.
        tail: Vec<String>,
    },
}

fn list<T: ToString>(items: &[T]) -> String {
    let words: Vec<_> = items.iter().map(ToString::to_string).collect();
    words.join("; ")
}

impl BinaryError {
    /// Gives a failure of the file system the kind that a user can act on.
    pub(super) fn io(path: &Path, source: io::Error) -> Self {
        let path = path.to_path_buf();
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::DiskFull { path },
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                Self::Permission { path, source }
            }
            _ => Self::Io { path, source },
        }
    }

    /// The one thing to do about it.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::Platform { .. } => "run on Linux, on x86-64 or arm64".to_owned(),
            Self::KubernetesTooOld { oldest, .. } => {
                format!("choose {oldest} or newer with --kubernetes")
            }
            Self::MissingInDir { .. } => {
                "put the missing programs there, or leave --binaries out".to_owned()
            }
            Self::Unusable { problem, from, .. } => return unusable_hint(problem, from),
            Self::Checksum { .. } => {
                "do not use this file; check the mirror or proxy between here and the release, \
                 then try again"
                    .to_owned()
            }
            Self::NoSource { attempts, .. } => no_source_hint(attempts),
            Self::Mirror { .. } => "give --mirror an http:// or https:// address".to_owned(),
            Self::DiskFull { path } => format!(
                "free about 8 GB on the disk of {}, or name another folder with --cache-dir",
                path.display()
            ),
            Self::Permission { .. } => {
                "make it writable for this user, or name another folder with --cache-dir".to_owned()
            }
            Self::Io { .. } => "check the disk, or name another folder with --cache-dir".to_owned(),
            Self::Lock { .. } => {
                "wait for that process or end it, then try again; the lock goes with it".to_owned()
            }
            Self::Build { tail, .. } if tail.iter().any(|line| fetch_failed(line)) => {
                "Go could not fetch the modules; name a module proxy that can be reached \
                 (go env -w GOPROXY=URL), then try again: the build goes on where it stopped"
                    .to_owned()
            }
            Self::Build { log, .. } => format!(
                "read {}, then try again: the build goes on where it stopped",
                log.display()
            ),
        };
        Some(hint)
    }
}

/// Whether Go says in this line that it did not get a module. Compilers do not speak of connections.
fn fetch_failed(line: &str) -> bool {
    [
        "dial tcp",
        "proxyconnect tcp",
        "no such host",
        "i/o timeout",
        "TLS handshake timeout",
        "x509: certificate",
        "module lookup disabled",
        "reading https://",
        "reading http://",
    ]
    .iter()
    .any(|needle| line.contains(needle))
}

fn unusable_hint(problem: &Problem, from: &Source) -> Option<String> {
    if let Problem::Slow { .. } = problem {
        return Some("try again when this machine has less to do".to_owned());
    }
    if *from != Source::Explicit {
        return Some("report this: a release or build does not hold what it names".to_owned());
    }
    Some(match problem {
        Problem::NotExecutable { .. } => "make it executable (chmod +x)".to_owned(),
        Problem::Misfit { wanted, .. } => {
            format!("put version {wanted} there, or leave --binaries out")
        }
        _ => "replace it, or leave --binaries out".to_owned(),
    })
}

/// The last obstacle is the one whose removal helps.
fn no_source_hint(attempts: &[Attempt]) -> String {
    let by_hand = "or put the programs into a folder and name it with --binaries";
    match attempts.last().map(|attempt| &attempt.reason) {
        Some(Reason::Go(GoProblem::TooOld { needed, .. })) => {
            format!("install Go {needed} or newer, {by_hand}")
        }
        Some(Reason::Go(_)) => {
            format!("install Go, or name a reachable mirror with --mirror, {by_hand}")
        }
        Some(Reason::NotPinned { family, .. }) if *family == Family::Kubernetes => {
            let pinned: Vec<_> = pinned_kubernetes().iter().map(Version::to_string).collect();
            format!(
                "choose a version that can be built here ({}), name a reachable mirror with \
                 --mirror, {by_hand}",
                pinned.join(", ")
            )
        }
        Some(Reason::NotDeclared { .. }) => {
            format!("name a reachable mirror with --mirror, {by_hand}")
        }
        _ => format!("allow a download or a build, {by_hand}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_and_a_refused_write_are_kinds_of_their_own() {
        let at = Path::new("/cache/file");
        let of = |errno: rustix::io::Errno| BinaryError::io(at, errno.into());
        assert!(matches!(
            of(rustix::io::Errno::NOSPC),
            BinaryError::DiskFull { .. }
        ));
        assert!(matches!(
            of(rustix::io::Errno::DQUOT),
            BinaryError::DiskFull { .. }
        ));
        assert!(matches!(
            of(rustix::io::Errno::ACCESS),
            BinaryError::Permission { .. }
        ));
        assert!(matches!(
            of(rustix::io::Errno::ROFS),
            BinaryError::Permission { .. }
        ));
        assert!(matches!(of(rustix::io::Errno::IO), BinaryError::Io { .. }));
    }

    #[test]
    fn modules_that_cannot_be_fetched_are_a_matter_of_the_network() {
        let hint = |line: &str| {
            BinaryError::Build {
                tool: Tool::Etcd,
                version: Version::new(3, 6, 15),
                how: "ended with exit status: 1".to_owned(),
                log: "/cache/logs/build-etcd.log".into(),
                tail: vec!["go: downloading x".to_owned(), line.to_owned()],
            }
            .hint()
            .unwrap_or_default()
        };
        for line in [
            "go: x@v1.0.0: Get \"https://proxy.example/x\": dial tcp: lookup proxy.example: no such host",
            "go: x@v1.0.0: reading https://proxy.example/x.zip: 502 Bad Gateway",
            "go: x@v1.0.0: module lookup disabled by GOPROXY=off",
        ] {
            assert!(hint(line).contains("GOPROXY"), "{line}");
        }
        assert!(hint("x.go:1:1: undefined: y").starts_with("read /cache/logs"));
    }

    #[test]
    fn a_slow_machine_is_not_a_broken_release() {
        let hint = |problem| {
            let from = Source::Build;
            BinaryError::Unusable {
                tool: Tool::Etcd,
                from,
                path: "/etcd".into(),
                problem,
            }
            .hint()
        };
        let slow = hint(Problem::Slow {
            after: Duration::from_secs(30),
        });
        assert!(slow.is_some_and(|hint| !hint.contains("report")));
        assert!(hint(Problem::NotAProgram).is_some_and(|hint| hint.contains("report")));
    }

    #[test]
    fn the_last_error_lists_every_source_and_its_reason() {
        let error = BinaryError::NoSource {
            tool: Tool::Etcd,
            version: Version::new(3, 6, 15),
            attempts: vec![
                Attempt {
                    from: Source::SearchPath,
                    reason: Reason::NotFound,
                },
                Attempt {
                    from: Source::Build,
                    reason: GoProblem::Missing.into(),
                },
            ],
        };
        assert_eq!(
            error.to_string(),
            "no source has etcd 3.6.15: PATH: not found; build: there is no go in PATH"
        );
        assert!(
            error
                .hint()
                .is_some_and(|hint| hint.starts_with("install Go"))
        );
    }
}
