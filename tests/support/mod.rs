//! What the tests of the real thing have in common. Nothing here skips: a plane that cannot be
//! provisioned fails the test that needs it.

#![allow(
    dead_code,
    unused_imports,
    reason = "each test binary uses a part of this"
)]
#![allow(clippy::print_stderr, reason = "a failed test says where its world is")]

mod owner;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use aibom_qual::host::launch::Launcher;
use aibom_qual::host::ports::PortPicker;
use aibom_qual::plane::dirs::Dirs;
use aibom_qual::plane::event::{Event, Sink};
use aibom_qual::plane::options::PlaneOptions;
use aibom_qual::plane::registry::Registry;
use rustix::process::{Pid, Signal, kill_process};

pub(crate) use owner::Owner;

/// The executable under test.
pub(crate) const EXE: &str = env!("CARGO_BIN_EXE_aibom-qual");

/// Installs the TLS library once, as `main` does.
pub(crate) fn tls() {
    let _ = rustls::crypto::ring::default_provider().install_default();
}

/// The user's own cache of binaries (they take minutes to build), a state folder of this test's own,
/// and a home and a temporary folder in which nothing may appear.
///
/// At its end nothing of it runs any more. Its folder is removed, or kept in `target/test-worlds`
/// when the test failed.
#[derive(Debug)]
pub(crate) struct World {
    root: PathBuf,
    pub(crate) dirs: Dirs,
}

impl World {
    pub(crate) fn new() -> Self {
        tls();
        let test = std::thread::current()
            .name()
            .unwrap_or("unnamed")
            .replace("::", "-");
        let worlds = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("test-worlds");
        fs::create_dir_all(&worlds).expect("a folder below target");
        let root = tempfile::Builder::new()
            .prefix(&format!("{test}-"))
            .tempdir_in(&worlds)
            .expect("a folder below target")
            .keep();
        for name in ["state", "home", "tmp"] {
            fs::create_dir(root.join(name)).expect("a folder");
        }
        let cache = std::env::var_os("AIBOM_QUAL_CACHE_DIR").map(PathBuf::from);
        let dirs = Dirs::resolve(cache, Some(root.join("state"))).expect("a cache folder");
        Self { root, dirs }
    }

    /// The same with an empty cache of its own.
    pub(crate) fn with_empty_cache() -> Self {
        let mut world = Self::new();
        world.dirs = Dirs::new(world.path("cache"), world.state());
        world
    }

    pub(crate) fn state(&self) -> PathBuf {
        self.root.join("state")
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// Options of a throw-away plane in this world.
    pub(crate) fn throw_away(&self) -> PlaneOptions {
        PlaneOptions {
            launcher: Launcher::new(EXE),
            ..PlaneOptions::throw_away(self.dirs.clone())
        }
    }

    /// Options of a persistent plane in this world.
    pub(crate) fn persistent(&self, name: &str) -> PlaneOptions {
        PlaneOptions {
            launcher: Launcher::new(EXE),
            ..PlaneOptions::persistent(self.dirs.clone(), name.to_owned())
        }
    }

    /// The command under test, confined to this world.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(EXE);
        self.confine(&mut command);
        command.args(args);
        command
    }

    /// The same through a shell, which sees the executable as `$EXE`.
    pub(crate) fn shell(&self, script: &str) -> Command {
        let mut command = Command::new("sh");
        self.confine(&mut command);
        command.env("EXE", EXE).args(["-c", script]);
        command
    }

    /// What the caller's shell has set must not reach the command.
    fn confine(&self, command: &mut Command) {
        for (name, _) in std::env::vars_os() {
            let text = name.to_string_lossy();
            if text.starts_with("AIBOM_QUAL_") || text.starts_with("XDG_") || text == "KUBECONFIG" {
                command.env_remove(&name);
            }
        }
        command
            .env("AIBOM_QUAL_CACHE_DIR", self.dirs.cache())
            .env("AIBOM_QUAL_STATE_DIR", self.state())
            .env("HOME", self.path("home"))
            .env("TMPDIR", self.path("tmp"))
            .env("NO_COLOR", "1")
            .current_dir(&self.root);
    }

    /// Runs the command to its end.
    pub(crate) fn run(&self, args: &[&str]) -> Finished {
        Finished::of(self.command(args).output().expect("the command starts"))
    }

    /// Starts the command and leaves it running.
    pub(crate) fn spawn(&self, args: &[&str]) -> Owner {
        Owner::spawn(self.command(args))
    }

    /// Processes of this world: its state folder stands in their command line or, as with a
    /// supervisor, in their environment.
    pub(crate) fn processes(&self) -> Vec<String> {
        let processes = &self.mentioned_in("cmdline") | &self.mentioned_in("environ");
        let described = processes.into_iter().map(|pid| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let line = String::from_utf8_lossy(&line).replace('\0', " ");
            format!("{pid}: {}", line.chars().take(120).collect::<String>())
        });
        described.collect()
    }

    /// Numbers of the processes with this world's state folder in a file of `/proc/PID`.
    fn mentioned_in(&self, file: &str) -> BTreeSet<i32> {
        let needle = self.state().into_os_string().into_encoded_bytes();
        let me = std::process::id().to_string();
        let mut found = BTreeSet::new();
        for entry in fs::read_dir("/proc").expect("/proc").flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let (Ok(pid), false) = (name.parse(), name == me) else {
                continue;
            };
            let Ok(bytes) = fs::read(entry.path().join(file)) else {
                continue;
            };
            if bytes.windows(needle.len()).any(|part| part == needle) {
                found.insert(pid);
            }
        }
        found
    }

    /// Planes on disk.
    pub(crate) fn planes(&self) -> Vec<String> {
        names(&self.dirs.planes())
    }

    /// Asserts that nothing of this world runs, that no plane is on disk, and that nothing appeared
    /// where nothing may appear.
    #[track_caller]
    pub(crate) fn assert_empty(&self, when: &str) {
        assert_eq!(self.processes(), Vec::<String>::new(), "{when}");
        assert_eq!(self.planes(), Vec::<String>::new(), "{when}");
        assert_eq!(self.strays(), Vec::<String>::new(), "{when}");
    }

    /// Whatever appeared where nothing may appear.
    pub(crate) fn strays(&self) -> Vec<String> {
        let mut strays = names(&self.path("home"));
        strays.extend(names(&self.path("tmp")));
        strays
    }

    /// Ends every plane that is left. Those of this very process are in the hands of a `Plane`.
    fn end_planes(&self) {
        let registry = Registry::new(self.dirs.planes());
        for (name, state) in registry.list().into_iter().flatten() {
            if state.is_ok_and(|state| state.owner.pid != std::process::id()) {
                let args = ["-q", "plane", "down", "--force", "--delete", &name];
                let _ = self.command(&args).output();
            }
        }
        // Whatever was not far enough to be a plane. Components of this very process end with it.
        for pid in self.mentioned_in("environ") {
            if let Some(pid) = Pid::from_raw(pid) {
                let _ = kill_process(pid, Signal::KILL);
            }
        }
    }

    /// What `plane down --delete` would remove.
    fn keep_logs(&self) {
        for name in self.planes() {
            let (from, to) = (
                self.dirs.planes().join(&name),
                self.path("failed").join(&name),
            );
            let _ = fs::create_dir_all(&to);
            let _ = fs::copy(from.join("state.json"), to.join("state.json"));
            for log in names(&from.join("logs")) {
                let _ = fs::copy(from.join("logs").join(&log), to.join(&log));
            }
        }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let failed = std::thread::panicking();
        if failed {
            self.keep_logs();
        }
        self.end_planes();
        if failed {
            eprintln!("what the test left is in {}", self.root.display());
        } else {
            let _ = fs::remove_dir_all(&self.root);
        }
    }
}

fn names(dir: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(dir) else {
        return Vec::new();
    };
    entries
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|name| !name.starts_with(".lock"))
        .collect()
}

/// A command that ended.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Finished {
    pub(crate) fn of(output: Output) -> Self {
        Self {
            code: output.status.code(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// Asserts the exit code and that every text stands in the error output.
    #[track_caller]
    pub(crate) fn expect(&self, code: i32, texts: &[&str]) -> &Self {
        assert_eq!(
            self.code,
            Some(code),
            "stdout: {}\nstderr: {}",
            self.stdout,
            self.stderr
        );
        for text in texts {
            assert!(
                self.stderr.contains(text),
                "`{text}` is missing in: {}",
                self.stderr
            );
        }
        self
    }
}

/// Keeps events for a look afterwards.
#[derive(Debug, Default)]
pub(crate) struct Recorder(Mutex<Vec<(Instant, Event)>>);

impl Recorder {
    pub(crate) fn new() -> Arc<Self> {
        Arc::default()
    }

    pub(crate) fn events(&self) -> Vec<Event> {
        self.0
            .lock()
            .expect("not poisoned")
            .iter()
            .map(|(_, event)| event.clone())
            .collect()
    }

    /// When the first event that fits was seen.
    pub(crate) fn first(&self, fits: impl Fn(&Event) -> bool) -> Option<Instant> {
        self.0
            .lock()
            .expect("not poisoned")
            .iter()
            .find(|(_, event)| fits(event))
            .map(|(at, _)| *at)
    }
}

impl Sink for Recorder {
    fn event(&self, event: Event) {
        self.0
            .lock()
            .expect("not poisoned")
            .push((Instant::now(), event));
    }
}

/// Waits until something is so; fails the test with the description otherwise.
#[track_caller]
pub(crate) fn eventually(what: &str, within: Duration, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < within, "not within {within:?}: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Sends a signal to a process.
#[track_caller]
pub(crate) fn signal(pid: u32, signal: Signal) {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    kill_process(pid.expect("a process number"), signal).expect("signalled");
}

/// An address of this machine that nothing uses now, and that no outgoing connection will take.
#[track_caller]
pub(crate) fn free_address() -> String {
    static PICKER: OnceLock<PortPicker> = OnceLock::new();
    let port = PICKER.get_or_init(PortPicker::new).next();
    format!("127.0.0.1:{}", port.expect("a free port"))
}
