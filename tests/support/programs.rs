//! Programs that only tell a version, and a `go` that makes them.

#![allow(dead_code, reason = "each test binary uses a part of this")]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use aibom_qual::host::identity::ProcessIdentity;
use aibom_qual::host::launch::Launcher;
use aibom_qual::plane::binaries::{
    Binaries, BinaryError, DEFAULT_KUBERNETES, Environment, Request, Sources, ensure,
};
use aibom_qual::plane::dirs::Dirs;
use aibom_qual::plane::event::{Event, Sink};
use aibom_qual::plane::tool::Tool;
use semver::Version;
use tempfile::TempDir;

use crate::support::{EXE, Recorder, tls};

/// Through which children start.
pub(crate) fn launcher() -> Launcher {
    Launcher::new(EXE)
}

/// Why sources were skipped, each as `ORIGIN: REASON`.
pub(crate) fn skipped(events: &Recorder) -> Vec<String> {
    let skipped = events.events().into_iter().filter_map(|event| match event {
        Event::SourceSkipped { origin, reason, .. } => Some(format!("{origin}: {reason}")),
        _ => None,
    });
    skipped.collect()
}

/// A script that prints what the real program prints.
pub(crate) fn program(tool: Tool, version: &str) -> String {
    let words = match tool {
        Tool::Etcd => format!("etcd Version: {version}"),
        Tool::Helm3 | Tool::Helm4 => format!("v{version}"),
        Tool::Kubectl => format!("Client Version: v{version}"),
        _ => format!("Kubernetes v{version}"),
    };
    format!("#!/bin/sh\necho '{words}'\nexit 0\n")
}

/// The same, long enough to be cut.
pub(crate) fn long_program(tool: Tool, version: &str) -> Vec<u8> {
    let mut text = program(tool, version).into_bytes();
    text.extend((0..2_000_000_u32).map(|i| b'a' + (i % 23) as u8));
    text
}

pub(crate) fn write_program(path: &Path, text: impl AsRef<[u8]>) {
    fs::create_dir_all(path.parent().expect("the test's own files can be used"))
        .expect("the test's own files can be used");
    fs::write(path, text).expect("the test's own files can be used");
    fs::set_permissions(path, fs::Permissions::from_mode(0o755))
        .expect("the test's own files can be used");
}

/// A `go` with this script for `go build`, which finds the output file in `$out` and the package in
/// `$package`.
pub(crate) fn go(build: &str) -> String {
    format!(
        "#!/bin/sh\n\
         if [ \"$1\" = version ]; then echo 'go version go1.26.8 linux/amd64'; exit 0; fi\n\
         for package; do if [ \"$before\" = -o ]; then out=$package; fi; before=$package; done\n\
         {build}\n"
    )
}

/// A `go build` that runs a compiler for a long time and writes who is who.
pub(crate) fn long_build(pids: &Path) -> String {
    format!(
        "sleep 300 & echo $$ $! > {0}.new; mv {0}.new {0}; wait",
        pids.display()
    )
}

pub(crate) async fn pause() {
    tokio::time::sleep(Duration::from_millis(20)).await;
}

/// Asserts that the processes of a [`long_build`] end.
pub(crate) async fn assert_gone(pids: &Path) {
    let pids = fs::read_to_string(pids).expect("the build began");
    for pid in pids.split_whitespace() {
        let pid = pid.parse().expect("a process number");
        for _ in 0..250 {
            if ProcessIdentity::of(pid).is_none() {
                break;
            }
            pause().await;
        }
        assert_eq!(ProcessIdentity::of(pid), None, "still runs");
    }
}

/// Private folders and a request that uses no source yet.
pub(crate) struct World {
    pub(crate) root: TempDir,
    pub(crate) dirs: Dirs,
    pub(crate) request: Request,
}

impl World {
    pub(crate) fn new(tools: &[Tool]) -> Self {
        tls();
        let root = tempfile::tempdir().expect("the test's own files can be used");
        let mut sources = Sources::new(Environment::default());
        sources.download = false;
        sources.build = false;
        Self {
            dirs: Dirs::new(root.path().join("cache"), root.path().join("state")),
            request: Request {
                tools: tools.to_vec(),
                kubernetes: DEFAULT_KUBERNETES,
                explicit: None,
                sources,
            },
            root,
        }
    }

    pub(crate) fn mirror(mut self, url: reqwest::Url) -> Self {
        self.request.sources.download = true;
        self.request.sources.mirror = Some(url);
        self
    }

    /// A Kubernetes version without pinned modules, so that nothing can be built and the folder in
    /// the cache has a known name.
    pub(crate) fn unpinned(mut self) -> Self {
        self.request.kubernetes = Version::new(1, 33, 1);
        self
    }

    /// Puts a `go` with this script for `go build` into `PATH`.
    pub(crate) fn go(mut self, build: &str) -> Self {
        write_program(&self.path("bin/go"), go(build));
        self.request.sources.build = true;
        self.request.sources.environment.path = Some(self.path("bin").into());
        self
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    /// Where a program of the unpinned Kubernetes version is kept.
    pub(crate) fn unpinned_place(&self, name: &str) -> PathBuf {
        let arch = match std::env::consts::ARCH {
            "aarch64" => "arm64",
            _ => "amd64",
        };
        self.path("cache/binaries")
            .join(format!("kubernetes-1.33.1-linux-{arch}-download"))
            .join(name)
    }

    pub(crate) async fn ensure(&self, sink: &dyn Sink) -> Result<Binaries, BinaryError> {
        ensure(&self.dirs, &launcher(), &self.request, sink).await
    }

    /// Every file below the cache, for the assertion that nothing is left that should not be.
    pub(crate) fn cached_files(&self) -> Vec<String> {
        let mut files = Vec::new();
        let mut folders = vec![self.path("cache")];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
                if entry.path().is_dir() {
                    folders.push(entry.path());
                } else {
                    files.push(
                        entry
                            .file_name()
                            .into_string()
                            .expect("the test's own files can be used"),
                    );
                }
            }
        }
        files.sort();
        files
    }
}
