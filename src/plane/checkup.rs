//! What `doctor` finds out about this machine: facts and advice as data, nothing is changed and no
//! network is used.

use std::env;
use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::time::{Duration, SystemTime};

use rustix::process::Resource;
use serde::Serialize;

use super::binaries::{Availability, BinaryError, Located, Obtainable, Origin, Reason};
use super::dirs::Dirs;
use crate::host::launch::WANTED_FILES;
use crate::host::ports::PortPicker;
use crate::host::process::PROXY_VARIABLES;

/// A plane's folder: etcd reserves 64 MB for its log and grows to a few hundred.
const STATE_BYTES: u64 = 1 << 30;
/// The binaries alone take 420 MB.
const CACHE_BYTES: u64 = 1 << 30;
/// Modules and build cache take 6.5 GB while programs are built.
const BUILD_BYTES: u64 = 8 << 30;
/// A file cannot be younger than now, but for the difference between two machines' clocks.
const CLOCK_TOLERANCE: Duration = Duration::from_secs(24 * 3600);

/// How a check came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Health {
    /// As it should be.
    Ok,
    /// It works, but somebody should know.
    Warning,
    /// No plane can start.
    Failed,
}

/// One thing that was looked at.
#[derive(Clone, Debug, Serialize)]
pub struct Check {
    /// What.
    pub name: String,
    /// How it came out.
    pub health: Health,
    /// What was found.
    pub found: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

impl Check {
    fn new(name: impl Into<String>, health: Health, found: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            health,
            found: found.into(),
            hint: None,
        }
    }

    fn hint(self, hint: impl Into<String>) -> Self {
        Self {
            hint: Some(hint.into()),
            ..self
        }
    }
}

/// Looks at everything but the programs.
#[must_use]
pub fn machine(dirs: &Dirs, will_build: bool) -> Vec<Check> {
    let cache_need = if will_build { BUILD_BYTES } else { CACHE_BYTES };
    let mut checks = vec![
        processes(),
        files_limit(rustix::process::getrlimit(Resource::Nofile).maximum),
        disk("disk for binaries", dirs.cache(), cache_need, "--cache-dir"),
        disk(
            "disk for planes",
            &dirs.planes(),
            STATE_BYTES,
            "--state-dir",
        ),
        ports(),
        clock(SystemTime::now(), executable_written()),
    ];
    checks.push(proxies(|name| env::var(name).ok()));
    checks
}

/// Looks at one program. `flags` are those in force, as they are to be repeated in a hint; `verbose`
/// also tells of places that simply do not hold it.
#[must_use]
pub fn program(located: &Located, flags: &str, verbose: bool) -> Check {
    let name = located.tool.to_string();
    let mut check = match &located.availability {
        Availability::Found(binary) => {
            let cached = if binary.from_cache { ", cached" } else { "" };
            let origin = match &binary.origin {
                Origin::Downloaded { url } => format!("downloaded from {}", host(url)),
                other => other.to_string(),
            };
            let (version, path) = (&binary.version, binary.path.display());
            Check::new(
                name,
                Health::Ok,
                format!("{version} {origin}{cached}\n{path}"),
            )
        }
        Availability::Obtainable(ways) => {
            let ways: Vec<String> = ways
                .iter()
                .map(|way| match way {
                    Obtainable::Download { url } => format!("download from {}", host(url)),
                    other => other.to_string(),
                })
                .collect();
            let found = format!(
                "{} is not here yet\nwould {}",
                located.wanted,
                ways.join(", else ")
            );
            Check::new(name, Health::Warning, found).hint(format!(
                "aibom-qual plane install --only {}{flags}",
                located.tool
            ))
        }
        Availability::Refused(error) => {
            let found = match error {
                // The sources follow, a line each.
                BinaryError::NoSource { version, .. } => format!("no source has {version}"),
                other => other.to_string(),
            };
            let check = Check::new(name, Health::Failed, found);
            Check {
                hint: BinaryError::hint(error),
                ..check
            }
        }
    };
    let failed = check.health == Health::Failed;
    for attempt in &located.passed_over {
        // That a place does not hold a program is news only when nothing holds it.
        if attempt.reason == Reason::NotFound && !failed && !verbose {
            continue;
        }
        check
            .found
            .push_str(&format!("\nnot from {}: {}", attempt.from, attempt.reason));
    }
    check
}

/// The host of an address, which says enough for a line; all of it where there is none.
fn host(url: &str) -> String {
    reqwest::Url::parse(url)
        .ok()
        .and_then(|url| url.host_str().map(str::to_owned))
        .unwrap_or_else(|| url.to_owned())
}

/// Start times from `/proc` are what tells a recorded process from a recycled number.
fn processes() -> Check {
    match crate::host::identity::ProcessIdentity::current() {
        Some(identity) if !identity.boot_id.is_empty() => Check::new(
            "processes",
            Health::Ok,
            "/proc tells start times and the boot",
        ),
        _ => Check::new(
            "processes",
            Health::Failed,
            "/proc does not tell this process's start time",
        )
        .hint("mount /proc: mount -t proc proc /proc"),
    }
}

fn files_limit(hard: Option<u64>) -> Check {
    let name = "open files";
    match hard {
        None => Check::new(name, Health::Ok, "no limit"),
        Some(hard) if hard >= WANTED_FILES => Check::new(name, Health::Ok, format!("limit {hard}")),
        Some(hard) => Check::new(
            name,
            Health::Failed,
            format!("limit {hard}, a plane needs {WANTED_FILES}"),
        )
        .hint(format!(
            "as root: ulimit -Hn {WANTED_FILES}; for good: nofile in /etc/security/limits.conf"
        )),
    }
}

fn disk(name: &str, dir: &Path, need: u64, flag: &str) -> Check {
    // The folder may not exist yet; its nearest existing ancestor is on the same disk.
    let existing = dir
        .ancestors()
        .find(|dir| dir.exists())
        .unwrap_or(Path::new("/"));
    match rustix::fs::statvfs(existing) {
        Ok(stat) => {
            let free = stat.f_bavail.saturating_mul(stat.f_frsize);
            let found = format!("{:.1} GiB free at {}", gib(free), existing.display());
            if free >= need {
                Check::new(name, Health::Ok, found)
            } else {
                Check::new(
                    name,
                    Health::Failed,
                    format!("{found}, {:.0} GiB are needed", gib(need)),
                )
                .hint(format!(
                    "free some space, or choose another disk with {flag}"
                ))
            }
        }
        Err(error) => Check::new(
            name,
            Health::Failed,
            format!("{}: {error}", existing.display()),
        )
        .hint(format!("choose another folder with {flag}")),
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "one decimal of a size for people"
)]
fn gib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 30)
}

fn ports() -> Check {
    let picked = PortPicker::new().next();
    match picked.map(|port| TcpListener::bind(("127.0.0.1", port)).map(|_| port)) {
        Ok(Ok(port)) => Check::new(
            "ports",
            Health::Ok,
            format!("127.0.0.1:{port} can be listened on"),
        ),
        Ok(Err(error)) => Check::new(
            "ports",
            Health::Failed,
            format!("cannot listen on 127.0.0.1: {error}"),
        )
        .hint("bring the loopback interface up: ip link set lo up"),
        Err(error) => {
            let check = Check::new("ports", Health::Failed, error.to_string());
            Check {
                hint: error.hint(),
                ..check
            }
        }
    }
}

fn proxies(variable: impl Fn(&str) -> Option<String>) -> Check {
    let set: Vec<&str> = PROXY_VARIABLES
        .into_iter()
        .filter(|name| variable(name).is_some_and(|value| !value.is_empty()))
        .collect();
    if set.is_empty() {
        return Check::new("proxies", Health::Ok, "none set");
    }
    let found = format!("{} set; used for downloads only", set.join(", "));
    let loopback_exempt = ["NO_PROXY", "no_proxy"]
        .iter()
        .filter_map(|name| variable(name))
        .any(|value| {
            value
                .split(',')
                .any(|host| matches!(host.trim(), "127.0.0.1" | "127.0.0.0/8" | "*"))
        });
    if loopback_exempt || set.iter().all(|name| name.eq_ignore_ascii_case("no_proxy")) {
        Check::new("proxies", Health::Ok, found)
    } else {
        Check::new("proxies", Health::Warning, found)
            .hint("for kubectl and helm of your own: export NO_PROXY=127.0.0.1,localhost")
    }
}

fn executable_written() -> Option<SystemTime> {
    fs::metadata("/proc/self/exe")
        .and_then(|meta| meta.modified())
        .ok()
}

/// A clock that is far behind makes fresh certificates "not yet valid" elsewhere. Without a network
/// the youngest date known for certain is that of this executable.
fn clock(now: SystemTime, written: Option<SystemTime>) -> Check {
    let shown = chrono::DateTime::<chrono::Utc>::from(now)
        .format("%Y-%m-%dT%H:%M:%SZ")
        .to_string();
    match written.and_then(|written| written.duration_since(now).ok()) {
        Some(ahead) if ahead > CLOCK_TOLERANCE => {
            let days = ahead.as_secs() / 86_400;
            Check::new(
                "clock",
                Health::Failed,
                format!("{shown}, {days} days before this program was made"),
            )
            .hint("set the clock: timedatectl set-ntp true")
        }
        _ => Check::new("clock", Health::Ok, shown),
    }
}

#[cfg(test)]
mod tests {
    use semver::Version;

    use super::*;
    use crate::plane::binaries::{Attempt, Source};
    use crate::plane::tool::Tool;

    #[test]
    fn a_low_limit_names_the_command_that_raises_it() {
        let check = files_limit(Some(1024));
        assert_eq!(check.health, Health::Failed);
        let hint = check.hint.unwrap_or_default();
        assert!(hint.starts_with("as root: ulimit -Hn 4096;"), "{hint}");
        assert_eq!(files_limit(None).health, Health::Ok);
    }

    #[test]
    fn a_program_that_is_not_here_names_hosts_and_repeats_the_flags() {
        let located = Located {
            tool: Tool::KubeControllerManager,
            wanted: Version::new(1, 36, 3),
            availability: Availability::Obtainable(vec![
                Obtainable::Download {
                    url:
                        "https://dl.k8s.io/release/v1.36.3/bin/linux/amd64/kube-controller-manager"
                            .to_owned(),
                },
                Obtainable::Build {
                    go: "go1.26.8".to_owned(),
                },
            ]),
            passed_over: vec![Attempt {
                from: Source::SearchPath,
                reason: Reason::NotFound,
            }],
        };
        let check = program(&located, " --no-download", false);
        assert_eq!(
            check.found,
            "1.36.3 is not here yet\nwould download from dl.k8s.io, else build with go1.26.8"
        );
        assert_eq!(
            check.hint.as_deref(),
            Some("aibom-qual plane install --only kube-controller-manager --no-download")
        );
        let check = program(&located, "", true);
        assert!(check.found.ends_with("\nnot from PATH: not found"));
    }

    #[test]
    fn a_proxy_without_an_exception_for_the_loopback_is_a_warning() {
        let only = |name: &'static str, value: &'static str| {
            move |asked: &str| (asked == name).then(|| value.to_owned())
        };
        assert_eq!(
            proxies(only("HTTPS_PROXY", "http://p")).health,
            Health::Warning
        );
        assert_eq!(proxies(only("NO_PROXY", "127.0.0.1")).health, Health::Ok);
        assert_eq!(proxies(|_| None).health, Health::Ok);
        let both = |asked: &str| match asked {
            "http_proxy" => Some("http://p".to_owned()),
            "no_proxy" => Some("localhost, 127.0.0.1".to_owned()),
            _ => None,
        };
        assert_eq!(proxies(both).health, Health::Ok);
    }

    #[test]
    fn a_clock_before_the_executable_is_wrong() {
        let written = SystemTime::UNIX_EPOCH + Duration::from_secs(40 * 86_400);
        assert_eq!(
            clock(SystemTime::UNIX_EPOCH, Some(written)).health,
            Health::Failed
        );
        assert_eq!(clock(written, Some(written)).health, Health::Ok);
    }

    #[test]
    fn a_disk_that_is_too_small_says_how_much_is_needed() {
        let check = disk("disk", Path::new("/"), u64::MAX, "--cache-dir");
        assert_eq!(check.health, Health::Failed);
        assert!(check.hint.is_some_and(|hint| hint.contains("--cache-dir")));
    }
}
