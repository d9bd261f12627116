//! Signs of life: the node's Lease every 10 s, its status every 3 minutes and whenever somebody else
//! has changed it. Neither ever gives up.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, Event};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};

use super::journal::Journal;
use super::registration::{Identity, owner};
use super::time;
use super::uplink::{Lane, Trouble, Uplink};
use crate::cluster::fault::Fault;

/// The namespace of the Leases of nodes.
const NAMESPACE: &str = "kube-node-lease";
/// How long the controller manager believes one renewal, in seconds.
const LEASE_SECONDS: u32 = 40;
const LEASE_INTERVAL: Duration = Duration::from_secs(10);
const STATUS_INTERVAL: Duration = Duration::from_secs(180);
/// Between two assertions: whoever contradicts at once is not to be outshouted.
const ASSERT_PAUSE: Duration = Duration::from_millis(500);

/// Renews the node's Lease, for ever.
pub(super) async fn lease(
    identity: Identity,
    node: Node,
    uplink: Arc<Uplink>,
    journal: Arc<Journal>,
) {
    let api: Api<Lease> = Api::namespaced(uplink.client(), NAMESPACE);
    let mut trouble = Trouble::new(&journal, "the heartbeat");
    loop {
        uplink.audible().await;
        let begun = Instant::now();
        match renew(&identity.name, &node, &uplink, &api).await {
            Ok(()) => {
                trouble.over();
                sleep_until(begun + LEASE_INTERVAL).await;
            }
            Err(fault) => trouble.wait(&fault).await,
        }
    }
}

async fn renew(name: &str, node: &Node, uplink: &Uplink, api: &Api<Lease>) -> Result<(), Fault> {
    let body = |extra: Value| {
        let mut body = json!({
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": name, "ownerReferences": owner(node)},
            "spec": {
                "holderIdentity": name,
                "leaseDurationSeconds": LEASE_SECONDS,
                "renewTime": time::precisely_now(),
            },
        });
        if !extra.is_null() {
            body["metadata"]["namespace"] = extra;
        }
        body
    };
    let params = PatchParams::default();
    let patch = Patch::Merge(body(Value::Null));
    match uplink
        .attempt(Lane::Node, api.patch(name, &params, &patch))
        .await
    {
        Ok(_) => Ok(()),
        Err(Fault::NotFound { .. }) => {
            let lease = serde_json::from_value(body(json!(NAMESPACE)));
            let lease = lease.map_err(|error| Fault::Other(error.to_string()))?;
            let params = PostParams::default();
            let made = uplink
                .attempt(Lane::Node, api.create(&params, &lease))
                .await;
            made.map(|_| ())
        }
        Err(fault) => Err(fault),
    }
}

/// Keeps the node's status what it should be, for ever; `seen` gets the object whenever it changes.
pub(super) async fn status(
    identity: Identity,
    seen: watch::Sender<Option<Node>>,
    uplink: Arc<Uplink>,
    journal: Arc<Journal>,
) {
    let watch = watch_own(&identity, &seen, &uplink, &journal);
    let assert = assert(&identity, &seen, &uplink, &journal);
    tokio::join!(watch, assert);
}

async fn watch_own(
    identity: &Identity,
    seen: &watch::Sender<Option<Node>>,
    uplink: &Uplink,
    journal: &Journal,
) {
    let api: Api<Node> = Api::all(uplink.client());
    let config = watcher::Config::default().fields(&format!("metadata.name={}", identity.name));
    let mut events = pin!(watcher::watcher(api, config).default_backoff());
    while let Some(event) = events.next().await {
        match event {
            Ok(Event::Apply(node) | Event::InitApply(node)) => {
                seen.send_replace(Some(node));
            }
            Ok(Event::Delete(_)) => {
                journal.note("somebody deleted the node");
                seen.send_replace(None);
            }
            Ok(Event::Init | Event::InitDone) => {}
            Err(error) => journal.note(&format!("the watch of the node is to begin anew: {error}")),
        }
    }
}

async fn assert(
    identity: &Identity,
    seen: &watch::Sender<Option<Node>>,
    uplink: &Uplink,
    journal: &Journal,
) {
    let mut nodes = seen.subscribe();
    let mut trouble = Trouble::new(journal, "the node's status");
    let mut due = Instant::now();
    loop {
        let node = nodes.borrow_and_update().clone();
        let is_as_told = node.as_ref().is_some_and(|node| identity.is_asserted(node));
        if is_as_told && Instant::now() < due {
            tokio::select! {
                changed = nodes.changed() => {
                    if changed.is_err() {
                        return;
                    }
                }
                () = sleep_until(due) => {}
            }
            continue;
        }
        uplink.audible().await;
        if !is_as_told && due > Instant::now() {
            journal.note("somebody changed the node's status; it is asserted again");
        }
        let asserted = match identity.assert(uplink, node.as_ref()).await {
            Err(Fault::NotFound { .. }) => identity.register(uplink).await,
            other => other,
        };
        match asserted {
            Ok(node) => {
                trouble.over();
                due = Instant::now() + STATUS_INTERVAL;
                // The watch may be late with it; without this it would be asserted twice.
                seen.send_if_modified(|known| {
                    *known = Some(node);
                    false
                });
                sleep(ASSERT_PAUSE).await;
            }
            Err(fault) => trouble.wait(&fault).await,
        }
    }
}
