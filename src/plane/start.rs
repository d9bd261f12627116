//! Starting the components of one plane, in order, each until it is ready.
//!
//! etcd → API server → `default` namespace → controller manager and scheduler together →
//! `default` service account, which proves that the controller manager works.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use chrono::Utc;

use super::autopsy::{ComponentFailure, FailureKind};
use super::binaries::Binaries;
use super::component;
use super::error::PlaneError;
use super::event::Event;
use super::guard::Shared;
use super::health;
use super::kubeconfig::{Kubeconfig, Names};
use super::launch::Mode;
use super::options::PlaneOptions;
use super::pki::{Pair, Pki, PkiError};
use super::ports::is_free;
use super::process::{Child, PROXY_VARIABLES, Spec};
use super::state::{ComponentState, Lifetime};
use super::tool::Tool;

/// A port is lost between choice and use about once in ten starts at worst; three in a row are not
/// chance.
const PORT_ATTEMPTS: u32 = 3;

/// A component that runs and was ready once.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) tool: Tool,
    pub(crate) child: Child,
    pub(crate) log: PathBuf,
}

/// Starts everything. Components are pushed to `running` as soon as they are ready, so that the
/// caller can stop them whatever happens next.
pub(crate) async fn bring_up(
    shared: &Arc<Shared>,
    options: &PlaneOptions,
    binaries: &Binaries,
    kept_port: Option<u16>,
    running: &mut Vec<Running>,
) -> Result<(), PlaneError> {
    let starter = Starter {
        shared,
        options,
        binaries,
        deadline: Instant::now() + options.timeout,
    };
    let layout = &shared.layout;

    shared.phase_event("making certificates");
    let pki = make_pki(shared, options).await?;
    let https = health::client(pki.pki.server_ca().cert_pem().as_bytes())
        .map_err(|error| PlaneError::Client(error.to_string()))?;
    let plain = reqwest::Client::builder()
        .no_proxy()
        .tls_certs_only([])
        .build()
        .map_err(|error| PlaneError::Client(error.to_string()))?;

    shared.phase_event("starting etcd");
    let durable = options.lifetime == Lifetime::Persistent;
    let etcd = starter
        .start(
            Tool::Etcd,
            Ports::Free(2),
            |ports| {
                component::etcd(
                    layout,
                    ports[0],
                    ports[1],
                    durable,
                    options.extra_args(Tool::Etcd),
                )
            },
            async |port| {
                health::http_ok(&plain, &format!("{}/health", component::etcd_url(port))).await
            },
        )
        .await?;
    let etcd_port = starter.keep(etcd, running);

    shared.phase_event("starting kube-apiserver");
    let api_ports = match (options.port, kept_port) {
        (Some(port), _) => Ports::Chosen(port),
        (None, Some(port)) => Ports::Preferred(port),
        (None, None) => Ports::Free(1),
    };
    let apiserver = starter
        .start(
            Tool::KubeApiserver,
            api_ports,
            |ports| {
                component::apiserver(
                    &pki.pki,
                    etcd_port,
                    ports[0],
                    options.extra_args(Tool::KubeApiserver),
                )
            },
            async |port| {
                health::http_ok(&https, &format!("{}/readyz", component::https_url(port))).await
            },
        )
        .await?;
    let api_port = starter.keep(apiserver, running);
    shared.set_port(api_port)?;

    write_kubeconfigs(shared, &pki.pki, api_port)?;
    let client = shared.client().await?;
    starter
        .wait("the namespace `default`", Tool::KubeApiserver, async || {
            health::default_namespace(&client).await
        })
        .await?;

    shared.phase_event("starting kube-controller-manager and kube-scheduler");
    let kcm = starter.start(
        Tool::KubeControllerManager,
        Ports::Free(1),
        |ports| {
            let extra = options.extra_args(Tool::KubeControllerManager);
            component::controller_manager(layout, &pki.pki, &pki.kcm_serving, ports[0], extra)
        },
        async |port| {
            health::http_ok(&https, &format!("{}/healthz", component::https_url(port))).await
        },
    );
    let scheduler = starter.start(
        Tool::KubeScheduler,
        Ports::Free(1),
        |ports| {
            component::scheduler(
                layout,
                &pki.scheduler_serving,
                ports[0],
                options.extra_args(Tool::KubeScheduler),
            )
        },
        async |port| {
            health::http_ok(&https, &format!("{}/healthz", component::https_url(port))).await
        },
    );
    let (kcm, scheduler) = tokio::try_join!(kcm, scheduler)?;
    starter.keep(kcm, running);
    starter.keep(scheduler, running);
    starter
        .wait(
            "the service account `default` in the namespace `default`",
            Tool::KubeControllerManager,
            async || health::default_service_account(&client).await,
        )
        .await
}

/// How a component gets its ports.
#[derive(Clone, Copy, Debug)]
enum Ports {
    /// So many free ones; tried again when one turns out to be taken.
    Free(usize),
    /// The one that it had last time, if still free.
    Preferred(u16),
    /// The user's choice, and no other.
    Chosen(u16),
}

struct Started {
    running: Running,
    port: u16,
}

struct Starter<'a> {
    shared: &'a Arc<Shared>,
    options: &'a PlaneOptions,
    binaries: &'a Binaries,
    deadline: Instant,
}

impl Starter<'_> {
    /// Starts one component and waits until it is ready; on a port taken by chance, again.
    async fn start(
        &self,
        tool: Tool,
        ports: Ports,
        args: impl Fn(&[u16]) -> Vec<OsString>,
        ready: impl AsyncFn(u16) -> Result<(), String>,
    ) -> Result<Started, PlaneError> {
        let mut attempt = 1;
        loop {
            let (numbers, chosen) = match ports {
                Ports::Chosen(port) => (vec![port], true),
                Ports::Preferred(port) if attempt == 1 && is_free(port) => (vec![port], false),
                Ports::Preferred(_) => (self.free(1)?, false),
                Ports::Free(count) => (self.free(count)?, false),
            };
            let port = numbers[0];
            let (child, log) = self.spawn(tool, attempt, port, args(&numbers)).await?;
            let mut others = self.shared.failures();
            let what = tool.to_string();
            let end = tokio::select! {
                // A component that has ended explains why its readiness was refused.
                biased;
                status = child.exited() => End::Exited(status.ok()),
                failed = others.wait_for(Option::is_some) => match failed.ok().and_then(|f| f.clone()) {
                    Some(failure) => return Err(PlaneError::Component(failure)),
                    None => End::Exited(None),
                },
                ready = health::until(&what, self.deadline, async || ready(port).await) => match ready {
                    Ok(()) => End::Ready,
                    Err(late) => return Err(PlaneError::late(late, log)),
                },
            };
            match end {
                End::Ready => {
                    self.shared.event(Event::ComponentReady {
                        tool,
                        took: child.age(),
                    });
                    return Ok(Started {
                        running: Running { tool, child, log },
                        port,
                    });
                }
                End::Exited(status) => {
                    let failure = ComponentFailure::examine(tool, status, &log, child.age());
                    if failure.kind != FailureKind::PortTaken {
                        return Err(PlaneError::Component(Arc::new(failure)));
                    }
                    if chosen {
                        return Err(PlaneError::ChosenPortTaken { tool, port });
                    }
                    if attempt == PORT_ATTEMPTS {
                        return Err(PlaneError::PortsTaken {
                            tool,
                            attempts: attempt,
                            last: port,
                        });
                    }
                    attempt += 1;
                    self.shared.event(Event::PortRetry {
                        tool,
                        taken: port,
                        attempt,
                    });
                }
            }
        }
    }

    fn free(&self, count: usize) -> Result<Vec<u16>, PlaneError> {
        Ok((0..count)
            .map(|_| self.options.ports.next())
            .collect::<Result<_, _>>()?)
    }

    async fn spawn(
        &self,
        tool: Tool,
        attempt: u32,
        port: u16,
        args: Vec<OsString>,
    ) -> Result<(Child, PathBuf), PlaneError> {
        let missing = || std::io::Error::other("it is not among the programs that were obtained");
        let binary = self.binaries.get(tool).ok_or_else(|| PlaneError::Spawn {
            tool,
            source: missing(),
        })?;
        let log = self.shared.layout.log(tool, attempt);
        let spec = Spec {
            program: binary.path.clone(),
            args,
            env: Vec::new(),
            env_remove: PROXY_VARIABLES.to_vec(),
            cwd: Some(self.shared.layout.root().to_owned()),
            log: log.clone(),
            mode: Mode::Exec,
        };
        // A persistent plane's log from an earlier life would be taken for this one's.
        if let Err(error) = std::fs::remove_file(&log)
            && error.kind() != std::io::ErrorKind::NotFound
        {
            return Err(PlaneError::Spawn {
                tool,
                source: error,
            });
        }
        let child = Child::spawn(&self.options.launcher, &spec)
            .await
            .map_err(|source| PlaneError::Spawn { tool, source })?;
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

    /// From here on the component is watched for the plane's whole life.
    fn keep(&self, started: Started, running: &mut Vec<Running>) -> u16 {
        self.shared.watch(&started.running);
        running.push(started.running);
        started.port
    }

    /// Waits for something that more than one component brings about.
    async fn wait(
        &self,
        what: &str,
        by: Tool,
        look: impl AsyncFnMut() -> Result<(), String>,
    ) -> Result<(), PlaneError> {
        let mut failures = self.shared.failures();
        tokio::select! {
            biased;
            failed = failures.wait_for(Option::is_some) => match failed.ok().and_then(|f| f.clone()) {
                Some(failure) => Err(PlaneError::Component(failure)),
                None => Err(PlaneError::Interrupted),
            },
            ready = health::until(what, self.deadline, look) => {
                ready.map_err(|late| PlaneError::late(late, self.shared.layout.log(by, 1)))
            }
        }
    }
}

enum End {
    Ready,
    Exited(Option<std::process::ExitStatus>),
}

/// The plane's certificates and those that two components serve their health with.
struct Certificates {
    pki: Pki,
    kcm_serving: Pair,
    scheduler_serving: Pair,
}

/// Fresh certificates at every start; the authorities and the service-account key of a persistent
/// plane are kept, so that copies of its kubeconfig and tokens in use stay valid.
async fn make_pki(
    shared: &Arc<Shared>,
    options: &PlaneOptions,
) -> Result<Certificates, PlaneError> {
    let (dir, options) = (shared.layout.pki(), options.pki.clone());
    let made = tokio::task::spawn_blocking(move || {
        let pki = if dir.exists() {
            Pki::renew(&dir, &options)?
        } else {
            Pki::create(&dir, &options)?
        };
        Ok::<_, PkiError>(Certificates {
            kcm_serving: pki.issue_serving(Tool::KubeControllerManager.file_name(), &options)?,
            scheduler_serving: pki.issue_serving(Tool::KubeScheduler.file_name(), &options)?,
            pki,
        })
    });
    // The task fails to end only if it panicked or the runtime is shutting down.
    Ok(made.await.map_err(|_| PlaneError::Interrupted)??)
}

fn write_kubeconfigs(shared: &Arc<Shared>, pki: &Pki, port: u16) -> Result<(), PlaneError> {
    let server = component::https_url(port);
    let context = shared.context_name();
    let ca = pki.server_ca().cert_pem();
    let write = |path: PathBuf, user: &str, pair: &Pair| {
        let names = Names {
            cluster: &context,
            user,
            context: &context,
        };
        Kubeconfig::new(&server, ca, pair.cert_pem(), pair.key_pem(), names).write(&path)
    };
    let layout = &shared.layout;
    write(
        layout.component_kubeconfig(Tool::KubeControllerManager),
        "kube-controller-manager",
        pki.controller_manager(),
    )?;
    write(
        layout.component_kubeconfig(Tool::KubeScheduler),
        "kube-scheduler",
        pki.scheduler(),
    )?;
    Ok(write(layout.kubeconfig(), "admin", pki.admin())?)
}
