//! A node in the hands of this process.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::Node as NodeObject;
use kube::api::Api;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::addresses::Addresses;
use super::container::Containers;
use super::dispatch::dispatch;
use super::error::NodeError;
use super::events::Recorder;
use super::heartbeat;
use super::journal::Journal;
use super::options::NodeOptions;
use super::pod::Kubelet;
use super::registration::{Identity, obstacles};
use super::server::Server;
use super::uplink::{Uplink, passes};
use super::view::Pods;
use crate::cluster::client::connect;
use crate::cluster::wait::{Deadline, Look, wait_until};
use crate::host::files::private_dir;
use crate::host::launch::raise_file_limit;

/// For registration and readiness together. The controller manager takes the taint away within a
/// second; a starved machine needs many times that.
const READY_DEADLINE: Duration = Duration::from_secs(60);

/// A running node. Stop it with [`Node::stop`]; dropping it kills its pods' processes at once.
pub struct Node {
    name: String,
    uplink: Arc<Uplink>,
    server: Option<Server>,
    stop: CancellationToken,
    /// Ends when all pods have ended.
    pods: Option<JoinHandle<()>>,
    others: Vec<JoinHandle<()>>,
    watched: Watched,
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Node")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl Node {
    /// Registers a node and waits until pods may be bound to it. Its Node object may be there
    /// already; so may pods of an earlier life of it, which are started anew where their restart
    /// policy says so. `log` is the file that
    /// it writes down in what it does. Raises this process's soft limit of file descriptors.
    ///
    /// # Errors
    ///
    /// [`NodeError`]; then nothing of it runs any more.
    pub async fn start(options: NodeOptions, log: &Path) -> Result<Self, NodeError> {
        raise_file_limit();
        clear(&options.dir)?;
        let journal = Arc::new(Journal::open(log).map_err(place(log))?);
        let client = connect(&options.kubeconfig).await?;
        let name = options.name.clone();
        let pods = Pods::default();
        let server = Server::start(&options, pods.clone()).await?;
        let identity = Identity {
            name: name.clone(),
            kubelet_version: options.kubelet_version.clone(),
            port: server.address().port(),
        };
        journal.note(&format!(
            "node {name} with kubelet port {} at {}",
            identity.port, options.server
        ));
        let uplink = Arc::new(Uplink::new(client.clone(), Arc::clone(&journal)));
        let (recorder, outbox) = Recorder::new(&name);
        let kubelet = Arc::new(Kubelet {
            containers: Containers::new(options.clone(), client),
            options,
            uplink: Arc::clone(&uplink),
            journal: Arc::clone(&journal),
            recorder,
            pods,
            addresses: Addresses::default(),
        });
        let mut node = Self {
            name: name.clone(),
            uplink: Arc::clone(&uplink),
            server: Some(server),
            stop: CancellationToken::new(),
            pods: None,
            others: Vec::new(),
            watched: Watched::new(&name),
        };
        let deadline = Deadline::within(READY_DEADLINE);
        let object = register(&identity, &uplink, deadline, log).await?;
        let seen = watch::Sender::new(Some(object));
        let lease = heartbeat::lease(
            identity.clone(),
            seen.subscribe(),
            Arc::clone(&uplink),
            Arc::clone(&journal),
        );
        let status = heartbeat::status(identity, seen, Arc::clone(&uplink), Arc::clone(&journal));
        let events = outbox.send(Arc::clone(&uplink), journal);
        node.others = vec![
            node.watched.spawn("heartbeat", lease),
            node.watched.spawn("status", status),
            node.watched.spawn("events", events),
        ];
        let work = dispatch(kubelet, node.stop.clone());
        node.pods = Some(node.watched.spawn("pods", work));
        node.become_ready(deadline, log).await?;
        Ok(node)
    }

    /// Waits until pods are no longer kept away.
    async fn become_ready(&self, deadline: Deadline<'_>, log: &Path) -> Result<(), NodeError> {
        let api: Api<NodeObject> = Api::all(self.uplink.client());
        let what = format!("the node {} to be ready", self.name);
        let ready = wait_until(what, deadline, async || {
            let node = api.get(&self.name).await?;
            Ok(match obstacles(&node) {
                None => Look::Done(()),
                Some(obstacle) => Look::NotYet(obstacle),
            })
        });
        tokio::select! {
            ready = ready => ready.map_err(|source| NodeError::NotReady {
                name: self.name.clone(),
                source: Box::new(source),
                log: log.to_owned(),
            }),
            error = self.failed() => Err(error),
        }
    }

    /// The Node object's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The kubelet port, on 127.0.0.1.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.server
            .as_ref()
            .map_or(0, |server| server.address().port())
    }

    /// Makes the node go silent for this long: no heartbeat, no status, no event. Its pods live on,
    /// and what there was to say is said afterwards.
    pub fn silence(&self, length: Duration) {
        self.uplink.silence(length);
    }

    /// Waits until a part of the node ends by itself; never returns while all is well.
    pub async fn failed(&self) -> NodeError {
        self.watched.failed().await
    }

    /// Ends the pods' processes, in a bounded time, and then the node. The objects stay as they are:
    /// a machine that is switched off does not delete them either.
    pub async fn stop(mut self) {
        self.watched.expect_ends();
        self.stop.cancel();
        if let Some(pods) = self.pods.take() {
            // Bounded by the dispatcher itself.
            let _ = pods.await;
        }
        if let Some(server) = self.server.take() {
            server.stop().await;
        }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.watched.expect_ends();
        for part in self.others.iter().chain(&self.pods) {
            part.abort();
        }
    }
}

/// The parts of a node, none of which ends before it is told to.
struct Watched {
    name: String,
    expected: Arc<AtomicBool>,
    ended: watch::Sender<Option<(&'static str, String)>>,
}

impl Watched {
    fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            expected: Arc::default(),
            ended: watch::Sender::new(None),
        }
    }

    fn spawn(
        &self,
        part: &'static str,
        work: impl Future<Output = ()> + Send + 'static,
    ) -> JoinHandle<()> {
        let work = tokio::spawn(work);
        let abort = work.abort_handle();
        let (expected, ended) = (Arc::clone(&self.expected), self.ended.clone());
        tokio::spawn(async move {
            // Aborted with the task that waits for it.
            let _guard = AbortOnDrop(abort);
            let how = match work.await {
                Ok(()) => "it returned".to_owned(),
                Err(error) => error.to_string(),
            };
            if !expected.load(Ordering::SeqCst) {
                ended.send_if_modified(|known| {
                    let first = known.is_none();
                    if first {
                        *known = Some((part, how));
                    }
                    first
                });
            }
        })
    }

    fn expect_ends(&self) {
        self.expected.store(true, Ordering::SeqCst);
    }

    async fn failed(&self) -> NodeError {
        let mut ended = self.ended.subscribe();
        match ended
            .wait_for(Option::is_some)
            .await
            .map(|seen| seen.clone())
        {
            Ok(Some((part, how))) => NodeError::Ended {
                name: self.name.clone(),
                part,
                how,
            },
            // The sender lives in `self`, so that the channel cannot close while this waits.
            Ok(None) | Err(_) => std::future::pending().await,
        }
    }
}

struct AbortOnDrop(tokio::task::AbortHandle);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Registers the node, trying until it is done or refused for good.
async fn register(
    identity: &Identity,
    uplink: &Uplink,
    deadline: Deadline<'_>,
    log: &Path,
) -> Result<NodeObject, NodeError> {
    let name = &identity.name;
    let what = format!("the registration of the node {name}");
    let registered = wait_until(what, deadline, async || {
        Ok(match identity.register(uplink).await {
            Err(fault) if passes(&fault) => Look::NotYet(fault.to_string()),
            answer => Look::Done(answer),
        })
    });
    let answer = registered.await.map_err(|source| NodeError::NotReady {
        name: name.clone(),
        source: Box::new(source),
        log: log.to_owned(),
    })?;
    answer.map_err(|source| NodeError::Register {
        name: name.clone(),
        source,
    })
}

/// Makes the node's folder anew. Processes never outlive their node, so that nobody uses what an
/// earlier life of it left there.
fn clear(dir: &Path) -> Result<(), NodeError> {
    match std::fs::remove_dir_all(dir) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(place(dir)(error)),
        _ => Ok(private_dir(dir)?),
    }
}

fn place(path: &Path) -> impl FnOnce(std::io::Error) -> NodeError + use<> {
    let path: PathBuf = path.to_owned();
    move |source| NodeError::Place { path, source }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::error::Error as _;

    use http::{Request, Response};
    use kube::Client;
    use kube::client::Body;
    use serde_json::json;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_registration_that_never_succeeds_ends_with_the_last_answer() {
        let service = tower::service_fn(|_: Request<Body>| async {
            let status = json!({
                "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
                "reason": "InternalError", "message": "etcd is away", "code": 500,
            });
            let answer = Response::builder().status(500);
            let answer = answer.body(Body::from(status.to_string().into_bytes()));
            Ok::<_, Infallible>(answer.expect("an answer"))
        });
        let folder = tempfile::tempdir().expect("a temporary folder");
        let log = folder.path().join("log");
        let journal = Arc::new(Journal::open(&log).expect("a log"));
        let uplink = Uplink::new(Client::new(service, "default"), journal);
        let identity = Identity {
            name: "n".to_owned(),
            kubelet_version: "v1.36.3".to_owned(),
            port: 20_250,
        };
        let deadline = Deadline::within(READY_DEADLINE);
        let error = register(&identity, &uplink, deadline, &log).await;
        let error = error.expect_err("it cannot succeed");
        let cause = error.source().expect("a cause").to_string();
        assert!(cause.contains("waited 60.0 s"), "{cause}");
        assert!(cause.contains("etcd is away"), "{cause}");
    }
}
