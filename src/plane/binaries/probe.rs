//! Asks a program for its version: with a deadline, and without leaving anything behind.

use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal};
use semver::Version;
use tokio::io::{AsyncRead, AsyncReadExt as _};

use super::platform::Platform;
use super::reason::Problem;
use crate::host::launch::{CANNOT_EXECUTE_MARK, Launcher, Mode};
use crate::plane::tool::Tool;

/// No version is longer; a program that prints more is not the one we look for.
const MOST_OUTPUT: u64 = 64 * 1024;

/// How near a version has to be to the wanted one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Demand {
    /// The very same.
    Equal,
    /// Kubernetes: the very same. etcd and Helm: a release with the same major and minor.
    Compatible,
}

impl Demand {
    fn accepts(self, tool: Tool, found: &Version, wanted: &Version) -> bool {
        let near = matches!(tool, Tool::Etcd | Tool::Helm3 | Tool::Helm4)
            && self == Self::Compatible
            && found.pre.is_empty();
        found == wanted || (near && (found.major, found.minor) == (wanted.major, wanted.minor))
    }
}

/// Looks at candidate programs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Probe<'a> {
    pub(super) launcher: &'a Launcher,
    pub(super) platform: Platform,
    pub(super) deadline: Duration,
}

impl Probe<'_> {
    /// The version of a file that can run here and fits.
    pub(super) async fn inspect(
        &self,
        tool: Tool,
        wanted: &Version,
        demand: Demand,
        path: &Path,
    ) -> Result<Version, Problem> {
        self.platform.can_run(path)?;
        let found = self.version(tool, path).await?;
        if demand.accepts(tool, &found, wanted) {
            Ok(found)
        } else {
            Err(Problem::Misfit {
                found,
                wanted: wanted.clone(),
            })
        }
    }

    async fn version(&self, tool: Tool, path: &Path) -> Result<Version, Problem> {
        let args: &[&str] = match tool {
            Tool::Helm3 | Tool::Helm4 => &["version", "--template", "{{.Version}}"],
            Tool::Kubectl => &["version", "--client"],
            _ => &["--version"],
        };
        let printed = output(self.launcher, path, args, &[], self.deadline)
            .await
            .map_err(|error| match error {
                OutputError::Slow { after } => Problem::Slow { after },
                other => Problem::NoVersion {
                    why: other.to_string(),
                },
            })?;
        parse(tool, &printed).ok_or_else(|| Problem::NoVersion {
            why: format!("it printed {:?}", first_line(&printed)),
        })
    }
}

/// Reads exactly what each program prints; anything else is not that program.
fn parse(tool: Tool, printed: &str) -> Option<Version> {
    let line = first_line(printed);
    let version = match tool {
        Tool::Etcd => line.strip_prefix("etcd Version: ")?,
        Tool::KubeApiserver | Tool::KubeControllerManager | Tool::KubeScheduler => {
            line.strip_prefix("Kubernetes v")?
        }
        Tool::Helm3 | Tool::Helm4 => line.strip_prefix('v')?,
        Tool::Kubectl => line.strip_prefix("Client Version: v")?,
    };
    Version::parse(version).ok()
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default().trim_end()
}

/// Why a program gave no output.
#[derive(Debug, thiserror::Error)]
pub(super) enum OutputError {
    /// The operating system did not execute it.
    #[error("it cannot be executed: {0}")]
    NotExecuted(io::Error),
    /// It did not end by itself.
    #[error("it was still running after {after:?}")]
    Slow {
        /// The deadline that passed.
        after: Duration,
    },
    /// It failed.
    #[error("it ended with {status}{}", complaint_after_colon(complaint))]
    Failed {
        /// How it ended.
        status: std::process::ExitStatus,
        /// The first line that it wrote to standard error; may be empty.
        complaint: String,
    },
    /// The operating system lost track of it.
    #[error("its end was lost: {0}")]
    Lost(io::Error),
}

fn complaint_after_colon(complaint: &str) -> String {
    match complaint {
        "" => String::new(),
        words => format!(": {words}"),
    }
}

/// Standard output of a program that ends by itself within the deadline, or why there is none.
///
/// A program that does not end is killed with everything in its process group.
pub(super) async fn output(
    launcher: &Launcher,
    program: &Path,
    args: &[&str],
    env: &[(OsString, OsString)],
    deadline: Duration,
) -> Result<String, OutputError> {
    // A file that was written a moment ago can still be open for writing in a child that another
    // thread has forked but that has not yet executed its program. That passes by itself.
    for _ in 0..10 {
        match output_once(launcher, program, args, env, deadline).await {
            Err(OutputError::NotExecuted(error))
                if error.kind() == io::ErrorKind::ExecutableFileBusy =>
            {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            result => return result,
        }
    }
    output_once(launcher, program, args, env, deadline).await
}

async fn output_once(
    launcher: &Launcher,
    program: &Path,
    args: &[&str],
    env: &[(OsString, OsString)],
    deadline: Duration,
) -> Result<String, OutputError> {
    let args: Vec<OsString> = args.iter().map(OsString::from).collect();
    let mut command = launcher.command(Mode::Exec, program, &args);
    command
        .envs(env.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    let mut child = tokio::process::Command::from(command)
        .kill_on_drop(true)
        .spawn()
        .map_err(OutputError::NotExecuted)?;
    let group = Group::of(&child);
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let finished = tokio::time::timeout(deadline, async {
        let (stdout, stderr) = tokio::join!(read(stdout), read(stderr));
        (stdout, stderr, child.wait().await)
    });
    let Ok((stdout, stderr, status)) = finished.await else {
        drop(group);
        return Err(OutputError::Slow { after: deadline });
    };
    group.ended();
    let status = status.map_err(OutputError::Lost)?;
    if status.success() {
        return Ok(stdout);
    }
    let complaint = first_line(&stderr);
    Err(match complaint.strip_prefix(CANNOT_EXECUTE_MARK) {
        Some(words) => OutputError::NotExecuted(launcher_error(words)),
        None => OutputError::Failed {
            status,
            complaint: complaint.to_owned(),
        },
    })
}

/// The error of the operating system behind the launcher's complaint, which ends as the standard
/// library shows it: `TEXT (os error NUMBER)`.
fn launcher_error(words: &str) -> io::Error {
    let number = words
        .rsplit_once("(os error ")
        .and_then(|(_, rest)| rest.strip_suffix(')')?.parse().ok());
    number.map_or_else(|| io::Error::other(words), io::Error::from_raw_os_error)
}

async fn read(pipe: Option<impl AsyncRead + Unpin>) -> String {
    let mut bytes = Vec::new();
    if let Some(pipe) = pipe {
        // What was read before an error is all there is to say.
        let _ = pipe.take(MOST_OUTPUT).read_to_end(&mut bytes).await;
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Kills a program's process group when dropped, unless the program ended by itself.
struct Group(Option<Pid>);

impl Group {
    fn of(child: &tokio::process::Child) -> Self {
        let pid = child.id().and_then(|pid| i32::try_from(pid).ok());
        Self(pid.and_then(Pid::from_raw))
    }

    fn ended(mut self) {
        self.0 = None;
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(leader) = self.0 {
            let _ = rustix::process::kill_process_group(leader, Signal::KILL);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_program_is_read_in_its_own_words() {
        let parsed = |tool, text: &str| parse(tool, text).map(|version| version.to_string());
        assert_eq!(
            parsed(Tool::KubeScheduler, "Kubernetes v1.36.3\n").as_deref(),
            Some("1.36.3")
        );
        assert_eq!(
            parsed(Tool::Etcd, "etcd Version: 3.6.15\nGit SHA: Not provided\n").as_deref(),
            Some("3.6.15")
        );
        assert_eq!(parsed(Tool::Helm4, "v4.3.1").as_deref(), Some("4.3.1"));
        assert_eq!(
            parsed(
                Tool::Kubectl,
                "Client Version: v1.36.3\nKustomize Version: v5.8.1\n"
            )
            .as_deref(),
            Some("1.36.3")
        );
        assert_eq!(parsed(Tool::Helm3, "3.22.0"), None);
        assert_eq!(parsed(Tool::KubeApiserver, "Kubernetes 1.36.3"), None);
        assert_eq!(parsed(Tool::KubeApiserver, "Kubernetes v1.36"), None);
        assert_eq!(parsed(Tool::Etcd, ""), None);
    }

    #[test]
    fn the_launcher_s_complaint_is_an_error_of_the_operating_system_again() {
        let busy = io::Error::from_raw_os_error(26);
        let again = launcher_error(&format!("/cache/x: {busy}"));
        assert_eq!(again.kind(), io::ErrorKind::ExecutableFileBusy);
        assert_eq!(launcher_error("/x: odd").kind(), io::ErrorKind::Other);
    }

    #[test]
    fn only_etcd_and_helm_may_differ_in_the_patch() {
        let version = |text: &str| Version::parse(text).expect("a version");
        let accepts = |tool, found: &str, wanted: &str| {
            Demand::Compatible.accepts(tool, &version(found), &version(wanted))
        };
        assert!(accepts(Tool::Etcd, "3.6.4", "3.6.15"));
        assert!(!accepts(Tool::Etcd, "3.5.16", "3.6.15"));
        assert!(!accepts(Tool::Etcd, "3.6.0-rc.1", "3.6.15"));
        assert!(!accepts(Tool::Helm4, "3.22.0", "4.3.1"));
        assert!(!accepts(Tool::KubeApiserver, "1.36.2", "1.36.3"));
        assert!(!accepts(Tool::KubeApiserver, "1.36.3+k3s1", "1.36.3"));
        assert!(!Demand::Equal.accepts(Tool::Etcd, &version("3.6.4"), &version("3.6.15")));
    }
}
