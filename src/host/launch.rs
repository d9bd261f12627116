//! The step between our process and a child: a hidden verb of our own executable.
//!
//! A parent-death signal can only be set by the child itself, after the fork; doing that in
//! `pre_exec` needs unsafe code. So a child starts as `aibom-qual __child …`, which sets the signal,
//! checks that its owner is still alive (it may have died before the signal was set), raises the
//! file-descriptor limit and then becomes the real program.

use std::env;
use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use rustix::process::{Pid, Resource, Rlimit, Signal};

/// The hidden verb. Not part of the command-line contract.
const VERB: &str = "__child";

/// Exit code of a launcher whose owner was gone before the child could start.
const OWNER_GONE: u8 = 125;
/// Exit code of a launcher that could not execute the program, as shells use it.
const CANNOT_EXECUTE: u8 = 126;

/// Starts the line that a launcher writes to the child's log when it cannot execute the program.
pub(crate) const CANNOT_EXECUTE_MARK: &str = "aibom-qual: cannot execute ";

/// File descriptors that a component may need: each watch of a client is a connection.
pub(crate) const WANTED_FILES: u64 = 4096;

/// What becomes of the launcher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// It becomes the program, which is killed when the owner dies. For programs without children.
    Exec,
    /// It stays beside the program, which leads a process group of its own, and kills the whole
    /// group when the owner dies or when it is itself asked to stop. For programs that fork
    /// (`go build` runs compilers).
    Group,
}

impl Mode {
    fn as_str(self) -> &'static str {
        match self {
            Self::Exec => "exec",
            Self::Group => "group",
        }
    }

    fn parse(text: &OsStr) -> Option<Self> {
        [Self::Exec, Self::Group]
            .into_iter()
            .find(|mode| text == mode.as_str())
    }
}

/// The executable that understands the hidden verb.
#[derive(Clone, Debug)]
pub struct Launcher {
    exe: PathBuf,
}

impl Launcher {
    /// This very process's executable. The link is resolved by the child between fork and exec, so
    /// that it works even after the file on disk was replaced or deleted.
    #[must_use]
    pub fn current() -> Self {
        Self {
            exe: PathBuf::from("/proc/self/exe"),
        }
    }

    /// Another `aibom-qual` executable, for programs that use this library (tests among them).
    #[must_use]
    pub fn new(exe: impl Into<PathBuf>) -> Self {
        Self { exe: exe.into() }
    }

    /// A command that starts `program` as a child of this process.
    #[must_use]
    pub fn command(&self, mode: Mode, program: &Path, args: &[OsString]) -> Command {
        let mut command = Command::new(&self.exe);
        command
            .arg0("aibom-qual")
            .arg(VERB)
            .arg(mode.as_str())
            .arg(std::process::id().to_string())
            .arg(program)
            .args(args);
        command
    }
}

/// Runs the hidden verb if this process was started with it; `None` otherwise.
///
/// Must be called first thing in `main`, before any thread exists.
pub fn intercept() -> Option<ExitCode> {
    close_inherited();
    let mut args = env::args_os().skip(1);
    if args.next().as_deref() != Some(OsStr::new(VERB)) {
        return None;
    }
    let parsed = (|| {
        let mode = Mode::parse(&args.next()?)?;
        let owner: i32 = args.next()?.to_str()?.parse().ok()?;
        Some((mode, owner, args.next()?))
    })();
    let Some((mode, owner, program)) = parsed else {
        complain("malformed launcher arguments");
        return Some(ExitCode::from(2));
    };
    let args: Vec<OsString> = args.collect();
    Some(ExitCode::from(launch(mode, owner, &program, &args)))
}

fn launch(mode: Mode, owner: i32, program: &OsStr, args: &[OsString]) -> u8 {
    let death_signal = match mode {
        Mode::Exec => Signal::KILL,
        Mode::Group => Signal::TERM,
    };
    if let Err(error) = rustix::process::set_parent_process_death_signal(Some(death_signal)) {
        complain(&format!("cannot tie the child to its owner: {error}"));
        return CANNOT_EXECUTE;
    }
    // The owner may have died before the signal was set; then nobody would ever end the child.
    if rustix::process::getppid().map(Pid::as_raw_pid) != Some(owner) {
        complain("the owner is gone");
        return OWNER_GONE;
    }
    raise_file_limit();
    match mode {
        Mode::Exec => {
            let error = Command::new(program).args(args).exec();
            complain_cannot_execute(program, &error);
            CANNOT_EXECUTE
        }
        Mode::Group => group(program, args),
    }
}

/// Closes every descriptor beyond standard error that the caller left open. A plane may live for
/// days; a lock or a pipe of the script that started it must not. Nothing of ours is open yet.
fn close_inherited() {
    let Ok(entries) = std::fs::read_dir("/proc/self/fd") else {
        return;
    };
    let open: Vec<i32> = entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|descriptor| *descriptor > 2)
        .collect();
    for descriptor in open {
        // The one that listed the others is closed already.
        let _ = nix::unistd::close(descriptor);
    }
}

/// Raises the soft limit of file descriptors to the hard one: of a child before it becomes the
/// component, whose message is recognised when that fails, and of a process that holds a plane or a
/// node, with two pipes and a log per container.
pub(crate) fn raise_file_limit() {
    let limit = rustix::process::getrlimit(Resource::Nofile);
    let _ = rustix::process::setrlimit(
        Resource::Nofile,
        Rlimit {
            current: limit.maximum,
            maximum: limit.maximum,
        },
    );
}

fn group(program: &OsStr, args: &[OsString]) -> u8 {
    let runtime = match tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => {
            complain(&format!("cannot watch for signals: {error}"));
            return CANNOT_EXECUTE;
        }
    };
    runtime.block_on(async {
        use tokio::signal::unix::{SignalKind, signal};
        // Handlers first: a signal that arrives before them would end only the launcher.
        let (Ok(mut term), Ok(mut interrupt)) = (
            signal(SignalKind::terminate()),
            signal(SignalKind::interrupt()),
        ) else {
            complain("cannot watch for signals");
            return CANNOT_EXECUTE;
        };
        let mut child = match tokio::process::Command::new(program)
            .args(args)
            .process_group(0)
            .spawn()
        {
            Ok(child) => child,
            Err(error) => {
                complain_cannot_execute(program, &error);
                return CANNOT_EXECUTE;
            }
        };
        let leader = child
            .id()
            .and_then(|id| i32::try_from(id).ok())
            .and_then(Pid::from_raw);
        tokio::select! {
            status = child.wait() => match status {
                Ok(status) => status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1),
                Err(_) => 1,
            },
            () = async { tokio::select! { _ = term.recv() => {}, _ = interrupt.recv() => {} } } => {
                if let Some(leader) = leader {
                    let _ = rustix::process::kill_process_group(leader, Signal::KILL);
                }
                let _ = child.wait().await;
                143
            }
        }
    })
}

fn complain_cannot_execute(program: &OsStr, error: &std::io::Error) {
    write_line(&format!(
        "{CANNOT_EXECUTE_MARK}{}: {error}",
        program.display()
    ));
}

fn complain(what: &str) {
    write_line(&format!("aibom-qual: {what}"));
}

/// The launcher's standard error is the child's log; a failure to write there has no better place.
fn write_line(line: &str) {
    use std::io::Write as _;
    let _ = writeln!(std::io::stderr(), "{line}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_limit_is_raised_to_what_is_allowed() {
        raise_file_limit();
        let limit = rustix::process::getrlimit(Resource::Nofile);
        assert_eq!(limit.current, limit.maximum);
    }
}
