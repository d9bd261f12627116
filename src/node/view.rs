//! What the kubelet port may ask about the pods of this node: logs and ports by name.
//!
//! The pods' workers write here; the server reads. Neither knows of the other.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};

use super::port_map::PortMap;

/// Namespace and name of a pod.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PodKey {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// One container as clients of the kubelet port see it.
#[derive(Clone, Debug, Default)]
pub struct ContainerView {
    /// The log of the current or last start; [`None`] before the first one.
    pub log: Option<PathBuf>,
    /// The log of the start before that one.
    pub previous_log: Option<PathBuf>,
    /// Whether more lines may come to `log`.
    pub running: bool,
    /// The ports of the start that runs; [`None`] while none does, or when no process stands behind
    /// the container.
    pub ports: Option<PortMap>,
    /// Ports that the pod's spec declares for it.
    pub declared_ports: Vec<u16>,
}

/// One pod as clients of the kubelet port see it.
#[derive(Clone, Debug)]
pub struct PodView {
    /// Tells a pod from a later one of the same name.
    pub uid: String,
    /// By name, init containers included.
    pub containers: BTreeMap<String, ContainerView>,
    /// The names in the order of the spec, init containers not included.
    pub order: Vec<String>,
}

/// The pods of this node. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Pods(Arc<RwLock<BTreeMap<PodKey, PodView>>>);

impl Pods {
    /// The pod as it is now.
    #[must_use]
    pub fn get(&self, key: &PodKey) -> Option<PodView> {
        let pods = self.0.read().unwrap_or_else(PoisonError::into_inner);
        pods.get(key).cloned()
    }

    /// Shows a pod, in place of what was shown under its name.
    pub fn show(&self, key: PodKey, view: PodView) {
        let mut pods = self.0.write().unwrap_or_else(PoisonError::into_inner);
        pods.insert(key, view);
    }

    /// Shows what has changed of a pod, unless another one has its name by now.
    pub fn update(&self, key: &PodKey, view: PodView) {
        let mut pods = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(shown) = pods.get_mut(key).filter(|pod| pod.uid == view.uid) {
            *shown = view;
        }
    }

    /// Takes a pod away, unless another one has its name by now.
    pub fn hide(&self, key: &PodKey, uid: &str) {
        let mut pods = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if pods.get(key).is_some_and(|pod| pod.uid == uid) {
            pods.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_that_comes_late_leaves_its_successor_alone() {
        let pods = Pods::default();
        let key = PodKey {
            namespace: "models".to_owned(),
            name: "vllm-0".to_owned(),
        };
        let view = |uid: &str| PodView {
            uid: uid.to_owned(),
            containers: BTreeMap::new(),
            order: Vec::new(),
        };
        let shown = || pods.get(&key).map(|pod| pod.uid);
        pods.show(key.clone(), view("old"));
        pods.show(key.clone(), view("new"));
        pods.update(&key, view("old"));
        assert_eq!(shown().as_deref(), Some("new"));
        pods.hide(&key, "old");
        assert_eq!(shown().as_deref(), Some("new"));
        let changed = PodView {
            order: vec!["app".to_owned()],
            ..view("new")
        };
        pods.update(&key, changed);
        assert_eq!(pods.get(&key).map(|pod| pod.order.len()), Some(1));
        pods.hide(&key, "new");
        pods.update(&key, view("new"));
        assert!(pods.get(&key).is_none());
    }
}
