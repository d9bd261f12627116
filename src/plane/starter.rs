//! Starting one component and waiting until it is ready; on a port taken by chance, again.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Instant;

use chrono::Utc;

use super::autopsy::{ComponentFailure, FailureKind};
use super::binaries::Binaries;
use super::error::PlaneError;
use super::event::Event;
use super::health;
use super::options::PlaneOptions;
use super::shared::{Running, Shared};
use super::state::ComponentState;
use super::tool::Tool;
use crate::host::launch::Mode;
use crate::host::ports::is_free;
use crate::host::process::{Child, Output, PROXY_VARIABLES, Spec};

/// A port is lost between choice and use about once in ten starts at worst; three in a row are not
/// chance.
const PORT_ATTEMPTS: u32 = 3;

/// How a component gets its ports.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Ports {
    /// So many free ones; tried again when one turns out to be taken.
    Free(usize),
    /// The one that it had last time, if still free.
    Preferred(u16),
    /// The user's choice, and no other.
    Chosen(u16),
}

/// Starts the components of one plane.
pub(crate) struct Starter<'a> {
    pub(crate) shared: &'a Arc<Shared>,
    pub(crate) options: &'a PlaneOptions,
    pub(crate) binaries: &'a Binaries,
    pub(crate) deadline: Instant,
}

/// How an attempt came out.
enum End {
    Ready,
    Exited(Option<ExitStatus>),
}

impl Starter<'_> {
    /// Starts a component and waits until it is ready. From then on it is watched.
    pub(crate) async fn start(
        &self,
        tool: Tool,
        ports: Ports,
        args: impl Fn(&[u16]) -> Vec<OsString>,
        ready: impl AsyncFn(u16) -> Result<(), String>,
    ) -> Result<Running, PlaneError> {
        let mut attempt = 1;
        loop {
            let numbers = self.choose(ports, attempt)?;
            let port = numbers[0];
            let (child, log) = self.spawn(tool, attempt, port, args(&numbers)).await?;
            let what = tool.to_string();
            let pid = child.identity().pid;
            let look = async || match ready(port).await {
                // Somebody else's server may answer on a port that was taken by chance, in the
                // moment before ours gives up.
                Ok(()) if !health::listens(pid, port) => {
                    Err(format!("127.0.0.1:{port} is answered by another process"))
                }
                other => other,
            };
            let end = tokio::select! {
                // A component that has ended explains why its readiness was refused.
                biased;
                status = child.exited() => End::Exited(status.ok()),
                failure = self.shared.failed() => return Err(PlaneError::Component(failure)),
                ready = health::until(&what, self.deadline, look) => match ready {
                    Ok(()) => End::Ready,
                    Err(late) => return Err(PlaneError::late(late, log)),
                },
            };
            let status = match end {
                End::Ready => {
                    let took = child.age();
                    self.shared.event(Event::ComponentReady { tool, took });
                    let running = Running {
                        tool,
                        child,
                        log,
                        port,
                    };
                    self.shared.watch(&running);
                    return Ok(running);
                }
                End::Exited(status) => status,
            };
            let failure = ComponentFailure::examine(tool, status, &log, child.age());
            if failure.kind != FailureKind::PortTaken {
                return Err(PlaneError::Component(Arc::new(failure)));
            }
            let taken = numbers
                .into_iter()
                .find(|port| !is_free(*port))
                .unwrap_or(port);
            if matches!(ports, Ports::Chosen(_)) {
                return Err(PlaneError::ChosenPortTaken { tool, port: taken });
            }
            if attempt == PORT_ATTEMPTS {
                return Err(PlaneError::PortsTaken {
                    tool,
                    attempts: attempt,
                    last: taken,
                });
            }
            attempt += 1;
            self.shared.event(Event::PortRetry {
                tool,
                taken,
                attempt,
            });
        }
    }

    fn choose(&self, ports: Ports, attempt: u32) -> Result<Vec<u16>, PlaneError> {
        let count = match ports {
            Ports::Chosen(port) => return Ok(vec![port]),
            Ports::Preferred(port) if attempt == 1 && is_free(port) => return Ok(vec![port]),
            Ports::Preferred(port) => {
                self.shared.event(Event::KeptPortTaken { port });
                1
            }
            Ports::Free(count) => count,
        };
        let free = (0..count).map(|_| self.options.ports.next());
        Ok(free.collect::<Result<_, _>>()?)
    }

    async fn spawn(
        &self,
        tool: Tool,
        attempt: u32,
        port: u16,
        args: Vec<OsString>,
    ) -> Result<(Child, PathBuf), PlaneError> {
        let cannot = |source| PlaneError::Spawn { tool, source };
        let missing = || std::io::Error::other("it is not among the programs that were obtained");
        let binary = self.binaries.get(tool).ok_or_else(|| cannot(missing()))?;
        let log = self.shared.layout.log(tool, attempt);
        // What a log says of an earlier life would be taken for this one's.
        forget(&log).map_err(cannot)?;
        let spec = Spec {
            program: binary.path.clone(),
            args,
            env: Vec::new(),
            env_remove: foreign_variables(),
            cwd: Some(self.shared.layout.root().to_owned()),
            output: Output::Log(log.clone()),
            mode: Mode::Exec,
        };
        let child = Child::spawn(&self.options.launcher, &spec)
            .await
            .map_err(cannot)?;
        self.shared.set_component(
            tool,
            ComponentState {
                process: child.identity().clone(),
                port,
                binary: binary.path.clone(),
                version: binary.version.clone(),
                sha256: binary.sha256.to_string(),
                log: log.clone(),
                started: Utc::now(),
            },
        )?;
        Ok((child, log))
    }

    /// Waits for something that an already running component brings about.
    pub(crate) async fn wait(
        &self,
        what: &str,
        log: &Path,
        look: impl AsyncFnMut() -> Result<(), String>,
    ) -> Result<(), PlaneError> {
        tokio::select! {
            biased;
            failure = self.shared.failed() => Err(PlaneError::Component(failure)),
            ready = health::until(what, self.deadline, look) => {
                ready.map_err(|late| PlaneError::late(late, log.to_owned()))
            }
        }
    }
}

fn forget(log: &Path) -> std::io::Result<()> {
    match std::fs::remove_file(log) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Variables that would change what a component does: etcd takes every flag from `ETCD_*`.
fn foreign_variables() -> Vec<OsString> {
    let etcd = std::env::vars_os()
        .map(|(name, _)| name)
        .filter(|name| name.to_string_lossy().starts_with("ETCD_"));
    PROXY_VARIABLES
        .iter()
        .map(OsString::from)
        .chain(etcd)
        .collect()
}
