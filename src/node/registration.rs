//! The Node object: made or taken over, its status, and whether it is still what it was told to be.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    DaemonEndpoint, Node, NodeAddress, NodeCondition, NodeDaemonEndpoints, NodeStatus,
    NodeSystemInfo,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::status::HOST;
use super::uplink::{Lane, Uplink};
use crate::cluster::fault::Fault;

/// What the node offers. Nothing here is ever used up: a scheduler must not be what a rollout waits
/// for, and model servers ask for accelerators that this machine does not have.
const CAPACITY: [(&str, &str); 5] = [
    ("cpu", "10000"),
    ("memory", "10Ti"),
    ("ephemeral-storage", "10Ti"),
    ("pods", "10000"),
    ("nvidia.com/gpu", "10000"),
];

/// The taints by which the controller manager keeps pods away from a node that is not ready.
const NOT_READY_TAINTS: [&str; 2] = [
    "node.kubernetes.io/not-ready",
    "node.kubernetes.io/unreachable",
];

/// What a node says of itself.
#[derive(Clone, Debug)]
pub(super) struct Identity {
    /// The Node object's name.
    pub(super) name: String,
    /// As `v1.36.3`.
    pub(super) kubelet_version: String,
    /// The kubelet port.
    pub(super) port: u16,
}

/// The conditions of a healthy node: type, status, reason, message.
const CONDITIONS: [(&str, &str, &str, &str); 4] = [
    (
        "MemoryPressure",
        "False",
        "KubeletHasSufficientMemory",
        "kubelet has sufficient memory available",
    ),
    (
        "DiskPressure",
        "False",
        "KubeletHasNoDiskPressure",
        "kubelet has no disk pressure",
    ),
    (
        "PIDPressure",
        "False",
        "KubeletHasSufficientPID",
        "kubelet has sufficient PID available",
    ),
    (
        "Ready",
        "True",
        "KubeletReady",
        "kubelet is posting ready status",
    ),
];

impl Identity {
    /// The object, as it is made.
    fn object(&self) -> Node {
        let label = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let labels = BTreeMap::from([
            label("kubernetes.io/hostname", &self.name),
            label("kubernetes.io/os", std::env::consts::OS),
            label("kubernetes.io/arch", architecture()),
        ]);
        Node {
            metadata: ObjectMeta {
                name: Some(self.name.clone()),
                labels: Some(labels),
                ..ObjectMeta::default()
            },
            ..Node::default()
        }
    }

    /// The status. A condition that the object `before` has with the same status keeps its time.
    fn status(&self, before: Option<&Node>, now: &Time) -> NodeStatus {
        let quantities: BTreeMap<String, Quantity> = CAPACITY
            .iter()
            .map(|(name, amount)| ((*name).to_owned(), Quantity((*amount).to_owned())))
            .collect();
        let known = |kind: &str| known_condition(before?, kind);
        let conditions = CONDITIONS.map(|(kind, status, reason, message)| {
            let same = known(kind).filter(|known| known.status == status);
            let since = same.and_then(|known| known.last_transition_time.clone());
            NodeCondition {
                type_: kind.to_owned(),
                status: status.to_owned(),
                reason: Some(reason.to_owned()),
                message: Some(message.to_owned()),
                last_heartbeat_time: Some(now.clone()),
                last_transition_time: Some(since.unwrap_or_else(|| now.clone())),
            }
        });
        let address = |kind: &str, address: &str| NodeAddress {
            type_: kind.to_owned(),
            address: address.to_owned(),
        };
        NodeStatus {
            allocatable: Some(quantities.clone()),
            capacity: Some(quantities),
            conditions: Some(conditions.to_vec()),
            addresses: Some(vec![
                address("InternalIP", HOST),
                address("Hostname", &self.name),
            ]),
            daemon_endpoints: Some(NodeDaemonEndpoints {
                kubelet_endpoint: Some(DaemonEndpoint {
                    port: i32::from(self.port),
                }),
            }),
            node_info: Some(NodeSystemInfo {
                architecture: architecture().to_owned(),
                operating_system: std::env::consts::OS.to_owned(),
                kubelet_version: self.kubelet_version.clone(),
                kube_proxy_version: self.kubelet_version.clone(),
                container_runtime_version: format!("aibom-qual://{}", env!("CARGO_PKG_VERSION")),
                os_image: "aibom-qual virtual node".to_owned(),
                kernel_version: kernel("sys/kernel/osrelease"),
                boot_id: kernel("sys/kernel/random/boot_id"),
                ..NodeSystemInfo::default()
            }),
            ..NodeStatus::default()
        }
    }

    /// Whether the object says what [`Identity::status`] says, times aside.
    pub(super) fn is_asserted(&self, node: &Node) -> bool {
        let conditions = CONDITIONS.iter().all(|(kind, status, ..)| {
            known_condition(node, kind).is_some_and(|known| known.status == *status)
        });
        let endpoint = node
            .status
            .as_ref()
            .and_then(|status| status.daemon_endpoints.as_ref())
            .and_then(|endpoints| endpoints.kubelet_endpoint.as_ref());
        conditions && endpoint.is_some_and(|endpoint| endpoint.port == i32::from(self.port))
    }

    /// Makes the Node object, or takes over the one that is there; one attempt.
    pub(super) async fn register(&self, uplink: &Uplink) -> Result<Node, Fault> {
        let api: Api<Node> = Api::all(uplink.client());
        let (params, object) = (PostParams::default(), self.object());
        let made = uplink.attempt(Lane::Node, api.create(&params, &object));
        match made.await {
            Err(Fault::AlreadyExists { .. }) => {
                uplink.attempt(Lane::Node, api.get(&self.name)).await
            }
            made => made,
        }
    }

    /// Writes the status, once.
    pub(super) async fn assert(
        &self,
        uplink: &Uplink,
        before: Option<&Node>,
    ) -> Result<Node, Fault> {
        let api: Api<Node> = Api::all(uplink.client());
        let status = self.status(before, &super::time::now());
        let patch = Patch::Strategic(json!({"status": status}));
        let params = PatchParams::default();
        uplink
            .attempt(Lane::Node, api.patch_status(&self.name, &params, &patch))
            .await
    }
}

fn known_condition<'a>(node: &'a Node, kind: &str) -> Option<&'a NodeCondition> {
    let mut conditions = node
        .status
        .iter()
        .flat_map(|s| s.conditions.iter().flatten());
    conditions.find(|condition| condition.type_ == kind)
}

/// What keeps pods away from the node, in words.
pub(super) fn obstacles(node: &Node) -> Option<String> {
    let taints = node
        .spec
        .iter()
        .flat_map(|spec| spec.taints.iter().flatten());
    let mut keys: Vec<&str> = taints
        .map(|taint| taint.key.as_str())
        .filter(|key| NOT_READY_TAINTS.contains(key))
        .collect();
    keys.dedup();
    let ready = known_condition(node, "Ready").map_or("missing", |known| known.status.as_str());
    match (keys.as_slice(), ready) {
        ([], "True") => None,
        ([], ready) => Some(format!("its condition Ready is {ready}")),
        (keys, ready) => Some(format!(
            "its condition Ready is {ready}, and it has the taint {}",
            keys.join(" and ")
        )),
    }
}

/// The owner reference of what vanishes with the node.
pub(super) fn owner(node: &Node) -> Value {
    json!([{
        "apiVersion": "v1",
        "kind": "Node",
        "name": node.metadata.name,
        "uid": node.metadata.uid,
    }])
}

/// As Go names it.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// A word of the kernel; empty where it does not tell.
fn kernel(file: &str) -> String {
    let text = std::fs::read_to_string(format!("/proc/{file}"));
    text.map(|text| text.trim().to_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity() -> Identity {
        Identity {
            name: "n".to_owned(),
            kubelet_version: "v1.36.3".to_owned(),
            port: 20_250,
        }
    }

    fn node(status: NodeStatus) -> Node {
        Node {
            status: Some(status),
            ..Node::default()
        }
    }

    #[test]
    fn a_change_by_somebody_else_is_noticed() {
        let now = super::super::time::now();
        let mut served = node(identity().status(None, &now));
        assert!(identity().is_asserted(&served));
        let conditions = served.status.as_mut().and_then(|s| s.conditions.as_mut());
        conditions.expect("them")[3].status = "Unknown".to_owned();
        assert!(!identity().is_asserted(&served));
        assert!(!identity().is_asserted(&Node::default()));
    }

    #[test]
    fn a_condition_keeps_its_time() {
        let then = Time(k8s_openapi::jiff::Timestamp::UNIX_EPOCH);
        let before = node(identity().status(None, &then));
        let status = identity().status(Some(&before), &super::super::time::now());
        for condition in status.conditions.expect("them") {
            assert_eq!(condition.last_transition_time.as_ref(), Some(&then));
            assert_ne!(condition.last_heartbeat_time.as_ref(), Some(&then));
        }
    }

    #[test]
    fn a_status_is_what_the_api_expects() {
        let status = identity().status(None, &super::super::time::now());
        let json = serde_json::to_value(status).expect("JSON");
        assert_eq!(json["daemonEndpoints"]["kubeletEndpoint"]["Port"], 20_250);
        assert_eq!(json["addresses"][0]["address"], "127.0.0.1");
        assert_eq!(json["capacity"], json["allocatable"]);
    }

    #[test]
    fn taints_are_told() {
        let mut served = node(identity().status(None, &super::super::time::now()));
        assert_eq!(obstacles(&served), None);
        let spec = json!({"taints": [
            {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"},
            {"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"},
            {"key": "example.com/mine", "effect": "NoSchedule"},
        ]});
        served.spec = Some(serde_json::from_value(spec).expect("a spec"));
        assert_eq!(
            obstacles(&served).as_deref(),
            Some("its condition Ready is True, and it has the taint node.kubernetes.io/not-ready")
        );
        assert_eq!(
            obstacles(&Node::default()).as_deref(),
            Some("its condition Ready is missing")
        );
    }
}
