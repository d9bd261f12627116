//! Builds programs from pinned Go modules, writing nothing outside the cache.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::cache::{Cache, make_dir};
use super::error::BinaryError;
use super::go::{self, Go};
use super::lock::Lock;
use super::pins::{self, Pin};
use super::platform::Platform;
use super::reason::{GoProblem, Reason};
use super::source::{Environment, Origin, Timeouts};
use super::{Fault, Want, blocking};
use crate::host::launch::{Launcher, Mode};
use crate::host::process::{Child, Output, Spec};
use crate::plane::autopsy;
use crate::plane::event::{Event, Sink};

const PROGRESS_EVERY: Duration = Duration::from_secs(1);
/// For the compilers to go after a build has exceeded its deadline.
const GRACE: Duration = Duration::from_secs(10);
/// Of a log's end, how much is read.
const TAIL_BYTES: u64 = 16 * 1024;
/// Lines of the log that an error shows.
const TAIL_LINES: usize = 30;

/// Builds for one call of `ensure`.
pub(super) struct Builder<'a> {
    pub(super) cache: &'a Cache,
    pub(super) launcher: &'a Launcher,
    pub(super) platform: Platform,
    pub(super) environment: &'a Environment,
    pub(super) timeouts: Timeouts,
    go: Option<Result<Go, GoProblem>>,
    built: bool,
}

impl<'a> Builder<'a> {
    pub(super) fn new(
        cache: &'a Cache,
        launcher: &'a Launcher,
        platform: Platform,
        environment: &'a Environment,
        timeouts: Timeouts,
    ) -> Self {
        Self {
            cache,
            launcher,
            platform,
            environment,
            timeouts,
            go: None,
            built: false,
        }
    }

    /// What this program would be built from and with, or why it cannot be built.
    pub(super) async fn prepare(&mut self, want: &Want) -> Result<(&'static Pin, Go), Reason> {
        let family = want.tool.family();
        let pin = Pin::of(family, &want.version).ok_or_else(|| Reason::NotPinned {
            family,
            version: want.version.clone(),
        })?;
        if !pin.declares(want.tool) {
            return Err(Reason::NotDeclared {
                tool: want.tool,
                family,
                version: want.version.clone(),
            });
        }
        let go = match &self.go {
            Some(known) => known.clone(),
            None => {
                let deadline = self.timeouts.version;
                let found = go::find(self.launcher, self.environment, deadline).await;
                self.go.insert(found).clone()
            }
        }?;
        go.fits(pin.go_directive())?;
        Ok((pin, go))
    }

    /// Builds a program into `workshop`.
    pub(super) async fn obtain(
        &mut self,
        want: &Want,
        workshop: &Path,
        sink: &dyn Sink,
    ) -> Result<(PathBuf, Origin), Fault> {
        let (pin, go) = self.prepare(want).await.map_err(Fault::Skip)?;
        let program = workshop.join(want.tool.file_name());
        let spec = self.lay_out(want, pin, &go, &program)?;
        sink.event(Event::BuildStarted {
            tool: want.tool,
            version: want.version.clone(),
            go: go.name.clone(),
        });
        let failed = match self.run(want, &spec, sink).await? {
            None if program.is_file() => None,
            None => Some("left no program behind".to_owned()),
            failed => failed,
        };
        if let Some(how) = failed {
            return Err(Fault::Stop(failure(want, how, &self.cache.log(want.tool))));
        }
        self.built = true;
        let go = go.name;
        Ok((program, Origin::Built { go }))
    }

    /// Writes the modules and says what to run.
    fn lay_out(
        &self,
        want: &Want,
        pin: &Pin,
        go: &Go,
        program: &Path,
    ) -> Result<Spec, BinaryError> {
        let root = self.cache.go();
        let modules = root.join("src").join(pin.name());
        let temporary = root.join("tmp");
        for dir in [&modules, &temporary] {
            make_dir(dir)?;
        }
        for (name, text) in [("go.mod", pin.go_mod), ("go.sum", pin.go_sum)] {
            let path = modules.join(name);
            fs::write(&path, text).map_err(|error| BinaryError::io(&path, error))?;
        }
        let log = self.cache.log(want.tool);
        match fs::remove_file(&log) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(BinaryError::io(&log, error));
            }
            _ => {}
        }
        let mut args: Vec<OsString> = ["build", "-trimpath", "-buildvcs=false", "-mod=readonly"]
            .map(OsString::from)
            .into();
        args.extend(["-ldflags".into(), pin.ldflags().into()]);
        args.extend(["-o".into(), program.into()]);
        args.push(pins::package(want.tool).into());
        Ok(Spec {
            program: go.path.clone(),
            args,
            env: self.variables(go, &root, &temporary),
            env_remove: Vec::new(),
            cwd: Some(modules),
            output: Output::Log(log),
            mode: Mode::Group,
        })
    }

    fn variables(&self, go: &Go, root: &Path, temporary: &Path) -> Vec<(OsString, OsString)> {
        let mut env = go::isolation();
        env.extend(go.settings.iter().cloned());
        let mut set = |name: &str, value: OsString| env.push((name.into(), value));
        set("CGO_ENABLED", "0".into());
        set("GOOS", "linux".into());
        set("GOARCH", self.platform.go_arch().into());
        set("GOPATH", root.join("path").into());
        set("GOTMPDIR", temporary.into());
        set("TMPDIR", temporary.into());
        // Go counts its own use below this folder.
        set("XDG_CONFIG_HOME", root.join("config").into());
        let given = self.environment;
        let or_private = |given: &Option<PathBuf>, name| -> OsString {
            given.clone().unwrap_or_else(|| root.join(name)).into()
        };
        set("GOCACHE", or_private(&given.gocache, "cache"));
        set("GOMODCACHE", or_private(&given.gomodcache, "mod"));
        let mut flags = given.goflags.clone().unwrap_or_default();
        if given.gomodcache.is_none() {
            // Otherwise the modules are read-only and cannot simply be removed.
            if !flags.is_empty() {
                flags.push(" ");
            }
            flags.push("-modcacherw");
        }
        set("GOFLAGS", flags);
        env
    }

    /// How the build failed, if it did.
    async fn run(
        &self,
        want: &Want,
        spec: &Spec,
        sink: &dyn Sink,
    ) -> Result<Option<String>, BinaryError> {
        let log = self.cache.log(want.tool);
        let lost = |error| BinaryError::io(&log, error);
        let begun = Instant::now();
        let child = Child::spawn(self.launcher, spec).await.map_err(lost)?;
        let mut tick = tokio::time::interval(PROGRESS_EVERY);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let deadline = tokio::time::sleep(self.timeouts.build);
        tokio::pin!(deadline);
        loop {
            tokio::select! {
                status = child.exited() => {
                    let status = status.map_err(lost)?;
                    return Ok((!status.success()).then(|| format!("ended with {status}")));
                }
                _ = tick.tick() => sink.event(Event::BuildProgress {
                    tool: want.tool,
                    elapsed: begun.elapsed(),
                    last_line: last_lines(&log, 1).pop(),
                }),
                () = &mut deadline => {
                    child.stop(GRACE).await.map_err(lost)?;
                    return Ok(Some(format!("had not ended after {:?}", self.timeouts.build)));
                }
            }
        }
    }

    /// Removes Go's private folders if something was built. They are kept after a failure, so that
    /// the next build goes on where this one stopped.
    pub(super) async fn clean_up(&self, sink: &dyn Sink) {
        if self.built {
            remove_caches(self.cache, sink).await;
        }
    }
}

/// Removes Go's private folders that were left by somebody who was interrupted between the last
/// build and the cleaning. Only for a caller that lacks nothing; whoever builds now keeps them.
pub(super) async fn clear_leavings(cache: &Cache, sink: &dyn Sink) {
    if !cache.go().exists() {
        return;
    }
    let Some(mut lock) = Lock::try_acquire(&cache.lock()) else {
        return;
    };
    lock.note("removing build caches");
    remove_caches(cache, sink).await;
}

async fn remove_caches(cache: &Cache, sink: &dyn Sink) {
    let root = cache.go();
    let removed = blocking(move || {
        // Modules and objects may be elsewhere, where the user wants them; then there is no news.
        let private = ["cache", "mod"].iter().any(|name| root.join(name).exists());
        let bytes = bytes_below(&root);
        fs::remove_dir_all(&root).map(|()| private.then_some(bytes))
    });
    // Everything that was asked for is there; folders left behind are no reason to fail.
    if let Ok(Ok(Some(bytes))) = removed.await {
        sink.event(Event::BuildCacheRemoved { bytes });
    }
}

fn failure(want: &Want, how: String, log: &Path) -> BinaryError {
    let tail = last_lines(log, TAIL_LINES);
    if tail
        .iter()
        .any(|line| line.contains("no space left on device"))
    {
        return BinaryError::DiskFull {
            path: log.to_path_buf(),
        };
    }
    BinaryError::Build {
        tool: want.tool,
        version: want.version.clone(),
        how,
        log: log.to_path_buf(),
        tail,
    }
}

/// The last non-empty lines of a log; a log that cannot be read has none.
fn last_lines(log: &Path, count: usize) -> Vec<String> {
    let text = autopsy::read_end(log, TAIL_BYTES).unwrap_or_default();
    autopsy::last_lines(&text, count)
        .into_iter()
        .map(str::to_owned)
        .collect()
}

/// Disk space of a folder, in bytes; what cannot be read counts nothing.
fn bytes_below(dir: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(dir) else {
        return 0;
    };
    entries
        .flatten()
        .filter_map(|entry| Some((entry.path(), entry.metadata().ok()?)))
        .map(|(path, meta)| {
            let below = if meta.is_dir() { bytes_below(&path) } else { 0 };
            // `st_blocks` counts in 512 bytes, whatever the file system's own block is.
            meta.blocks() * 512 + below
        })
        .sum()
}
