//! Clears what interrupted owners left.
//!
//! A plane is abandoned when nobody holds its lock any more and its recorded owner, by process number
//! *and* start time, is gone. Both are asked: the lock also speaks for an owner that this machine's
//! process table does not show (another container, another machine that shares the folder).

use std::io;
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, Signal};

use super::{GONE, NEW, Registry, RegistryError, is_held, prune_failed, remove_tree};
use crate::host::identity::ProcessIdentity;
use crate::host::process::DEATH_DEADLINE;
use crate::plane::event::{Event, Sink};
use crate::plane::layout::Layout;
use crate::plane::state::{Lifetime, Phase, PlaneState};

/// How long the logs of a failed throw-away plane are kept for a look.
const KEEP_FAILED: chrono::TimeDelta = chrono::TimeDelta::hours(24);

impl Registry {
    /// Ends processes of abandoned planes, removes throw-away folders, marks persistent planes as
    /// failed. A plane that cannot be cleared is reported as an event and does not stand in the way of
    /// others; a folder that this tool did not make is left alone.
    ///
    /// # Errors
    ///
    /// When the folder of planes cannot be locked or listed.
    pub fn reap(&self, sink: &dyn Sink) -> Result<(), RegistryError> {
        if !self.root.exists() {
            return Ok(());
        }
        let _lock = self.lock()?;
        for leftover in self.leftovers()? {
            report(
                &leftover.to_string_lossy(),
                remove_tree(&self.root.join(&leftover)),
                sink,
            );
        }
        for (name, state) in self.list()? {
            let (Ok(layout), Ok(state)) = (self.layout(&name), state) else {
                continue;
            };
            report(&name, self.reap_one(&layout, state, sink), sink);
        }
        Ok(())
    }

    /// Folders in the making or on their way out, whose maker is gone: we hold the lock.
    fn leftovers(&self) -> Result<Vec<std::ffi::OsString>, RegistryError> {
        let ours = |name: &std::ffi::OsStr| {
            name.to_str()
                .is_some_and(|name| name.starts_with(NEW) || name.starts_with(GONE))
        };
        let entries = self.entries()?;
        Ok(entries.into_iter().filter(|name| ours(name)).collect())
    }

    fn reap_one(
        &self,
        layout: &Layout,
        mut state: PlaneState,
        sink: &dyn Sink,
    ) -> Result<(), RegistryError> {
        if state.is_live() || is_held(layout)? {
            return Ok(());
        }
        let running = !matches!(state.phase, Phase::Stopped | Phase::Failed { .. });
        let ended = end_all(&state)?;
        match (state.lifetime, &state.phase) {
            (Lifetime::ThrowAway, Phase::Failed { at, .. }) => {
                if chrono::Utc::now() - *at > KEEP_FAILED {
                    remove_tree(layout.root())?;
                } else if !state.components.is_empty() {
                    prune_failed(layout);
                    state.components.clear();
                    self.write(layout, &state)?;
                }
            }
            (Lifetime::ThrowAway, _) => remove_tree(layout.root())?,
            (Lifetime::Persistent, _) if running || ended > 0 => {
                state.phase = state.effective_phase();
                state.components.clear();
                self.write(layout, &state)?;
            }
            (Lifetime::Persistent, _) => {}
        }
        if running || ended > 0 {
            sink.event(Event::Reaped {
                plane: state.name,
                processes: ended,
            });
        }
        Ok(())
    }
}

fn report(plane: &str, cleared: Result<(), RegistryError>, sink: &dyn Sink) {
    if let Err(error) = cleared {
        sink.event(Event::NotReaped {
            plane: plane.to_owned(),
            reason: error.to_string(),
        });
    }
}

/// Ends every recorded process that still runs; tells how many did.
pub(super) fn end_all(state: &PlaneState) -> Result<usize, RegistryError> {
    let mut ended = 0;
    for component in state.components.values() {
        ended += usize::from(end(&state.name, &component.process)?);
    }
    Ok(ended)
}

/// Kills exactly this process, if it still runs, and waits for its end. Tells whether it ran.
pub(crate) fn end(plane: &str, process: &ProcessIdentity) -> Result<bool, RegistryError> {
    let undead = |problem: String| RegistryError::Undead {
        name: plane.to_owned(),
        pid: process.pid,
        problem,
    };
    if !signal(process, Signal::KILL).map_err(|error| undead(error.to_string()))? {
        return Ok(false);
    }
    let begun = Instant::now();
    while process.is_alive() {
        if begun.elapsed() > DEATH_DEADLINE {
            return Err(undead(format!(
                "still there {} s after SIGKILL",
                DEATH_DEADLINE.as_secs()
            )));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(true)
}

/// Sends a signal to exactly this process; `false` when it no longer runs.
///
/// The pidfd is opened before the identity is checked, so that the signal cannot reach a process
/// that took over the number in between.
pub(crate) fn signal(process: &ProcessIdentity, signal: Signal) -> io::Result<bool> {
    let Some(pid) = i32::try_from(process.pid).ok().and_then(Pid::from_raw) else {
        return Ok(false);
    };
    let pidfd = match rustix::process::pidfd_open(pid, PidfdFlags::empty()) {
        Ok(pidfd) => pidfd,
        Err(rustix::io::Errno::SRCH) => return Ok(false),
        Err(error) => return Err(error.into()),
    };
    if !process.is_alive() {
        return Ok(false);
    }
    match rustix::process::pidfd_send_signal(&pidfd, signal) {
        Ok(()) => Ok(true),
        Err(rustix::io::Errno::SRCH) => Ok(false),
        Err(error) => Err(error.into()),
    }
}
