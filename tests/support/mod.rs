//! What the tests of the real thing have in common. Nothing here skips: a plane that cannot be
//! provisioned fails the test that needs it.

#![allow(dead_code, reason = "each test binary uses a part of this")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use aibom_qual::plane::dirs::Dirs;
use aibom_qual::plane::event::{Event, Sink};
use aibom_qual::plane::launch::Launcher;
use aibom_qual::plane::options::PlaneOptions;
use tempfile::TempDir;

/// The executable under test.
pub(crate) const EXE: &str = env!("CARGO_BIN_EXE_aibom-qual");

/// Installs the TLS library once, as `main` does.
pub(crate) fn tls() {
    let _ = rustls::crypto::ring::default_provider().install_default();
}

/// The user's own cache of binaries (they take minutes to build), a state folder of this test's own,
/// and a home and a temporary folder in which nothing may appear.
#[derive(Debug)]
pub(crate) struct World {
    root: TempDir,
    pub(crate) dirs: Dirs,
}

impl World {
    pub(crate) fn new() -> Self {
        tls();
        let root = tempfile::Builder::new()
            .prefix("aibom-qual-test-")
            .tempdir()
            .expect("a temporary folder");
        for name in ["state", "home", "tmp"] {
            fs::create_dir(root.path().join(name)).expect("a folder");
        }
        let cache = std::env::var_os("AIBOM_QUAL_CACHE_DIR").map(PathBuf::from);
        let dirs = Dirs::resolve(cache, Some(root.path().join("state"))).expect("a cache folder");
        Self { root, dirs }
    }

    pub(crate) fn state(&self) -> PathBuf {
        self.root.path().join("state")
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
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

    fn confine(&self, command: &mut Command) {
        command
            .env("AIBOM_QUAL_CACHE_DIR", self.dirs.cache())
            .env("AIBOM_QUAL_STATE_DIR", self.state())
            .env("HOME", self.root.path().join("home"))
            .env("TMPDIR", self.root.path().join("tmp"))
            .env("NO_COLOR", "1")
            .current_dir(self.root.path());
    }

    /// Runs the command to its end.
    pub(crate) fn run(&self, args: &[&str]) -> Finished {
        Finished::of(self.command(args).output().expect("the command starts"))
    }

    /// Processes that mention this world's state folder in their command line.
    pub(crate) fn processes(&self) -> Vec<String> {
        let needle = self.state().display().to_string();
        let me = std::process::id().to_string();
        let mut found = Vec::new();
        for entry in fs::read_dir("/proc").expect("/proc").flatten() {
            let pid = entry.file_name().to_string_lossy().into_owned();
            if pid == me || !pid.bytes().all(|b| b.is_ascii_digit()) {
                continue;
            }
            let Ok(bytes) = fs::read(entry.path().join("cmdline")) else {
                continue;
            };
            let line = String::from_utf8_lossy(&bytes).replace('\0', " ");
            if line.contains(&needle) {
                found.push(format!(
                    "{pid}: {}",
                    line.chars().take(120).collect::<String>()
                ));
            }
        }
        found
    }

    /// Planes on disk.
    pub(crate) fn planes(&self) -> Vec<String> {
        names(&self.dirs.planes())
    }

    /// Whatever appeared where nothing may appear.
    pub(crate) fn strays(&self) -> Vec<String> {
        let mut strays = names(&self.root.path().join("home"));
        strays.extend(names(&self.root.path().join("tmp")));
        strays
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
