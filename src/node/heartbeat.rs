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
use super::uplink::{Lane, Trouble, Uplink, version};
use crate::cluster::fault::Fault;

/// The namespace of the Leases of nodes.
const NAMESPACE: &str = "kube-node-lease";
/// How long the controller manager believes one renewal, in seconds.
const LEASE_SECONDS: u32 = 40;
const LEASE_INTERVAL: Duration = Duration::from_secs(10);
const STATUS_INTERVAL: Duration = Duration::from_secs(180);
/// Between two assertions: whoever contradicts at once is not to be outshouted.
const ASSERT_PAUSE: Duration = Duration::from_millis(500);

/// Renews the node's Lease, for ever; `seen` has the Node object that owns it.
pub(super) async fn lease(
    identity: Identity,
    seen: watch::Receiver<Option<Node>>,
    uplink: Arc<Uplink>,
    journal: Arc<Journal>,
) {
    let api: Api<Lease> = Api::namespaced(uplink.client(), NAMESPACE);
    let mut trouble = Trouble::new(&journal, "the heartbeat");
    loop {
        uplink.audible().await;
        let begun = Instant::now();
        let node = seen.borrow().clone();
        match renew(&identity.name, node.as_ref(), &uplink, &api).await {
            Ok(()) => {
                trouble.over();
                sleep_until(begun + LEASE_INTERVAL).await;
            }
            Err(fault) => trouble.wait(&fault).await,
        }
    }
}

async fn renew(
    name: &str,
    node: Option<&Node>,
    uplink: &Uplink,
    api: &Api<Lease>,
) -> Result<(), Fault> {
    let params = PatchParams::default();
    let patch = Patch::Merge(renewal(name, node));
    match uplink
        .attempt(Lane::Node, api.patch(name, &params, &patch))
        .await
    {
        Ok(_) => Ok(()),
        Err(Fault::NotFound { .. }) => {
            let mut lease = renewal(name, node);
            lease["metadata"]["namespace"] = json!(NAMESPACE);
            let lease = serde_json::from_value(lease);
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

/// The Lease, renewed now. While there is no Node object, its owner stays as it is.
fn renewal(name: &str, node: Option<&Node>) -> Value {
    let mut lease = json!({
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name},
        "spec": {
            "holderIdentity": name,
            "leaseDurationSeconds": LEASE_SECONDS,
            "renewTime": time::precisely_now(),
        },
    });
    if let Some(node) = node {
        lease["metadata"]["ownerReferences"] = owner(node);
    }
    lease
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
                let watch_went_on = nodes.has_changed().unwrap_or(false);
                seen.send_if_modified(|known| {
                    learn(known, node, watch_went_on);
                    false
                });
                sleep(ASSERT_PAUSE).await;
            }
            Err(fault) => trouble.wait(&fault).await,
        }
    }
}

/// Takes an answer for what is known: the watch may be late with it, and without this it would be
/// asserted twice. The watch may also have gone on since, to a later state or to the object's end.
fn learn(known: &mut Option<Node>, answer: Node, watch_went_on: bool) {
    let is_new = known.as_ref().map_or(!watch_went_on, |known| {
        version(&known.metadata) <= version(&answer.metadata)
    });
    if is_new {
        *known = Some(answer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(uid: &str, version: &str) -> Node {
        let mut node = Node::default();
        node.metadata.uid = Some(uid.to_owned());
        node.metadata.resource_version = Some(version.to_owned());
        node
    }

    #[test]
    fn an_answer_does_not_replace_what_came_after_it() {
        let after = |known: Option<Node>, watch_went_on| {
            let mut known = known;
            learn(&mut known, node("u", "7"), watch_went_on);
            known.and_then(|node| node.metadata.resource_version)
        };
        assert_eq!(after(Some(node("u", "6")), true).as_deref(), Some("7"));
        assert_eq!(after(Some(node("u", "10")), true).as_deref(), Some("10"));
        assert_eq!(after(None, false).as_deref(), Some("7"));
        assert_eq!(after(None, true), None);
    }

    #[test]
    fn a_lease_belongs_to_the_node_that_is_there() {
        let lease = renewal("n", Some(&node("second", "7")));
        assert_eq!(lease["metadata"]["ownerReferences"][0]["uid"], "second");
        let lease = renewal("n", None);
        assert_eq!(lease["metadata"], json!({"name": "n"}));
    }
}
