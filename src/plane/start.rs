//! Starting the components of one plane, in order, each until it is ready.
//!
//! etcd → API server → `default` namespace → controller manager and scheduler together →
//! `default` service account, which proves that the controller manager works.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::binaries::Binaries;
use super::component;
use super::error::PlaneError;
use super::event::Doing;
use super::health;
use super::options::PlaneOptions;
use super::pki::{Pair, Pki, PkiError};
use super::shared::{Running, Shared};
use super::starter::{Ports, Starter};
use super::state::Lifetime;
use super::tool::Tool;
use crate::host::kubeconfig::{Kubeconfig, Names};

/// A moment that never comes, for a timeout too long to be added to the clock.
const NEVER: Duration = Duration::from_secs(365 * 24 * 3600);

/// Starts everything. Components are pushed to `running` as soon as they are ready, so that the
/// caller can stop them whatever happens next.
pub(crate) async fn bring_up(
    shared: &Arc<Shared>,
    options: &PlaneOptions,
    binaries: &Binaries,
    kept_port: Option<u16>,
    running: &mut Vec<Running>,
) -> Result<Pki, PlaneError> {
    let starter = Starter {
        shared,
        options,
        binaries,
        deadline: deadline(options.timeout),
    };
    let layout = &shared.layout;

    shared.doing(Doing::MakingCertificates);
    let pki = make_pki(shared, options).await?;
    let https = health::client(pki.pki.server_ca().cert_pem().as_bytes())
        .map_err(|error| PlaneError::Client(error.to_string()))?;
    let plain = reqwest::Client::builder()
        .no_proxy()
        .tls_certs_only([])
        .build()
        .map_err(|error| PlaneError::Client(error.to_string()))?;

    shared.doing(Doing::Starting(vec![Tool::Etcd]));
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
    let etcd_port = etcd.port;
    running.push(etcd);

    shared.doing(Doing::Starting(vec![Tool::KubeApiserver]));
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
    let (api_port, api_log) = (apiserver.port, apiserver.log.clone());
    running.push(apiserver);
    shared.set_port(api_port)?;

    write_kubeconfigs(shared, &pki.pki, api_port)?;
    let client = shared.client().await?;
    starter
        .wait("the namespace `default`", &api_log, async || {
            health::default_namespace(&client).await
        })
        .await?;

    shared.doing(Doing::Starting(vec![
        Tool::KubeControllerManager,
        Tool::KubeScheduler,
    ]));
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
    let kcm_log = kcm.log.clone();
    running.extend([kcm, scheduler]);
    starter
        .wait(
            "the service account `default` in the namespace `default`",
            &kcm_log,
            async || health::default_service_account(&client).await,
        )
        .await?;
    Ok(pki.pki)
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
    // Without data there is nothing that the old ones vouch for; they may be half of a set.
    let keep = shared.layout.has_data();
    let made = tokio::task::spawn_blocking(move || {
        let pki = if keep {
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
    Ok(made.await.map_err(PlaneError::internal)??)
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

fn deadline(timeout: Duration) -> Instant {
    let now = Instant::now();
    now.checked_add(timeout).unwrap_or(now + NEVER)
}
