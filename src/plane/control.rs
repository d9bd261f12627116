//! Ending a plane that another process supervises.

use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::dirs::Dirs;
use super::error::PlaneError;
use super::event::Sink;
use super::registry::{self, Registry, RegistryError};
use super::state::{Lifetime, PlaneState};

/// The slowest orderly stop takes 16 s (a persistent plane with open watches, and a node with pods
/// that do not end).
const STOP_DEADLINE: Duration = Duration::from_secs(20);
/// A supervisor that has let go ends within milliseconds; a longer-lived process stays.
const EXIT_GRACE: Duration = Duration::from_secs(1);
/// Between two looks at another process's state.
const INTERVAL: Duration = Duration::from_millis(25);

/// How to end a plane.
#[derive(Clone, Copy, Debug, Default)]
pub struct Down {
    /// Kill the supervisor, and with it everything, when it does not answer in time.
    pub force: bool,
    /// Remove the folder of a persistent plane too.
    pub delete: bool,
}

/// What was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It ran and was stopped in order.
    Stopped,
    /// It ran and had to be killed.
    Killed,
    /// It did not run.
    WasNotRunning,
}

/// Ends the plane `name`. Idempotent: a plane that does not run is no error.
///
/// # Errors
///
/// [`RegistryError::NotFound`], [`PlaneError::StillThere`], or a folder that cannot be removed.
pub async fn down(
    dirs: &Dirs,
    name: &str,
    how: Down,
    sink: &dyn Sink,
) -> Result<Ended, PlaneError> {
    let registry = Registry::new(dirs.planes());
    let (_, state) = registry.load(name)?;
    let ended = if state.is_live() {
        stop(&registry, &state, how, sink).await?
    } else if registry.is_held(name)? {
        return Err(RegistryError::Held(name.to_owned()).into());
    } else {
        Ended::WasNotRunning
    };
    registry.reap(sink)?;
    // A failed throw-away plane left its logs for a look; whoever ends it has had that look.
    let throw_away = state.lifetime == Lifetime::ThrowAway;
    if how.delete || throw_away {
        registry.remove(name)?;
    }
    Ok(ended)
}

async fn stop(
    registry: &Registry,
    state: &PlaneState,
    how: Down,
    sink: &dyn Sink,
) -> Result<Ended, PlaneError> {
    let refused = |source| {
        PlaneError::Registry(RegistryError::Undead {
            name: state.name.clone(),
            pid: state.owner.pid,
            problem: std::io::Error::to_string(&source),
        })
    };
    registry::signal(&state.owner, Signal::TERM).map_err(refused)?;
    let begun = Instant::now();
    loop {
        // The supervisor may be part of a longer-lived process: what counts is that it let go.
        let phase = match registry.load(&state.name) {
            Ok((_, now)) if now.is_live() => now.phase,
            Ok(_) | Err(RegistryError::NotFound(_)) => {
                let exiting = Instant::now();
                while state.owner.is_alive() && exiting.elapsed() < EXIT_GRACE {
                    tokio::time::sleep(INTERVAL).await;
                }
                return Ok(Ended::Stopped);
            }
            Err(error) => return Err(error.into()),
        };
        if begun.elapsed() > STOP_DEADLINE {
            if !how.force {
                return Err(PlaneError::StillThere {
                    name: state.name.clone(),
                    phase: phase.word(),
                    waited: begun.elapsed(),
                });
            }
            registry::end(&state.name, &state.owner)?;
            registry.reap(sink)?;
            return Ok(Ended::Killed);
        }
        tokio::time::sleep(INTERVAL).await;
    }
}
