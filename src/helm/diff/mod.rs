//! What differs between two charts, as they render and as they define: pure, for people to read before
//! anything is touched (ART-10, ART-11, CRD-06).

mod rbac;
mod schema;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

pub use self::schema::{DefinitionDiff, definitions};
use super::objects::identity;

/// Labels that tell the version, and so differ between any two charts.
const VERSION_LABELS: [&str; 2] = ["helm.sh/chart", "app.kubernetes.io/version"];

/// What differs between the objects of two charts. Everything is sorted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChartDiff {
    /// Objects that only the second one renders.
    pub added: Vec<String>,
    /// Objects that only the first one renders.
    pub removed: Vec<String>,
    /// Objects that both render in different ways, with the paths of what differs. Labels that tell the
    /// version do not count.
    pub changed: BTreeMap<String, Vec<String>>,
    /// Permissions that only the second one grants, for example
    /// `ClusterRole a: get, list on apps/deployments`.
    pub granted: Vec<String>,
    /// Permissions that only the first one grants.
    pub withdrawn: Vec<String>,
}

impl ChartDiff {
    /// Whether nothing differs but the version.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// What differs between the objects that two charts render.
#[must_use]
pub fn objects(from: &[Value], to: &[Value]) -> ChartDiff {
    let (before, after) = (by_identity(from), by_identity(to));
    let mut diff = ChartDiff::default();
    for (name, object) in &after {
        match before.get(name) {
            None => diff.added.push(name.clone()),
            Some(old) => {
                let mut paths = BTreeSet::new();
                differing(old, object, "", &mut paths);
                if !paths.is_empty() {
                    let paths = paths.into_iter().collect();
                    diff.changed.insert(name.clone(), paths);
                }
            }
        }
    }
    let gone = before.keys().filter(|name| !after.contains_key(*name));
    diff.removed = gone.cloned().collect();
    let (old, new) = (rbac::grants(from), rbac::grants(to));
    diff.granted = rbac::in_words(new.difference(&old));
    diff.withdrawn = rbac::in_words(old.difference(&new));
    diff
}

fn by_identity(objects: &[Value]) -> BTreeMap<String, &Value> {
    objects
        .iter()
        .map(|object| (identity(object), object))
        .collect()
}

/// Paths such as `spec.template.spec.containers[0].image` at which two values differ.
fn differing(old: &Value, new: &Value, path: &str, paths: &mut BTreeSet<String>) {
    match (old, new) {
        (Value::Object(before), Value::Object(after)) => {
            let keys: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
            for key in keys {
                if VERSION_LABELS.contains(&key.as_str()) {
                    continue;
                }
                let below = if path.is_empty() {
                    key.clone()
                } else {
                    format!("{path}.{key}")
                };
                match (before.get(key), after.get(key)) {
                    (Some(old), Some(new)) => differing(old, new, &below, paths),
                    _ => _ = paths.insert(below),
                }
            }
        }
        (Value::Array(before), Value::Array(after)) => {
            for (index, (old, new)) in before.iter().zip(after).enumerate() {
                differing(old, new, &format!("{path}[{index}]"), paths);
            }
            let common = before.len().min(after.len());
            for index in common..before.len().max(after.len()) {
                paths.insert(format!("{path}[{index}]"));
            }
        }
        _ if old == new => {}
        _ => _ = paths.insert(path.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(kind: &str, name: &str, rest: &Value) -> Value {
        let mut object = json!({
            "kind": kind, "metadata": {"name": name, "labels": {"helm.sh/chart": "a-1"}},
        });
        for (key, value) in rest.as_object().into_iter().flatten() {
            object[key] = value.clone();
        }
        object
    }

    #[test]
    fn objects_are_told_by_their_names() {
        let from = [
            object("Service", "a", &json!({})),
            object("Service", "b", &json!({})),
        ];
        let to = [
            object("Service", "b", &json!({})),
            object("Service", "c", &json!({})),
        ];
        let diff = objects(&from, &to);
        assert_eq!(diff.added, ["Service c"]);
        assert_eq!(diff.removed, ["Service a"]);
        assert_eq!(diff.changed, BTreeMap::new());
    }

    #[test]
    fn what_differs_is_told_by_its_path() {
        let deployment = |image: &str, args: Value| {
            let spec = json!({"containers": [{"image": image, "args": args}]});
            object(
                "Deployment",
                "a",
                &json!({"spec": {"template": {"spec": spec}}}),
            )
        };
        let from = [deployment("x:1", json!(["--a"]))];
        let to = [deployment("x:2", json!(["--a", "--b"]))];
        let spec = "spec.template.spec.containers[0]";
        assert_eq!(
            objects(&from, &to).changed["Deployment a"],
            [format!("{spec}.args[1]"), format!("{spec}.image")]
        );
    }

    #[test]
    fn the_version_itself_is_no_difference() {
        let mut newer = object("Service", "a", &json!({}));
        newer["metadata"]["labels"] = json!({
            "helm.sh/chart": "a-2", "app.kubernetes.io/version": "v2",
        });
        assert!(objects(&[object("Service", "a", &json!({}))], &[newer]).is_empty());
    }

    #[test]
    fn permissions_are_told_in_words() {
        let role = |rules: Value| object("ClusterRole", "a", &json!({"rules": rules}));
        let from = [role(json!([
            {"apiGroups": ["apps"], "resources": ["deployments", "replicasets"], "verbs": ["get", "list"]},
            {"apiGroups": [""], "resources": ["events"], "verbs": ["create"]},
        ]))];
        let to = [role(json!([
            {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"], "resourceNames": ["s"]},
            {"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["watch", "list", "get", "patch"]},
            {"apiGroups": ["apps"], "resources": ["replicasets"], "verbs": ["list"]},
            {"apiGroups": ["apps"], "resources": ["replicasets"], "verbs": ["get"]},
            {"nonResourceURLs": ["/metrics"], "verbs": ["get"]},
        ]))];
        let diff = objects(&from, &to);
        assert_eq!(
            diff.granted,
            [
                "ClusterRole a: get on /metrics",
                "ClusterRole a: patch, watch on apps/deployments",
                "ClusterRole a: get on secrets named s",
            ]
        );
        assert_eq!(diff.withdrawn, ["ClusterRole a: create on events"]);
        let same = objects(&from, &from);
        assert!(same.is_empty(), "{same:?}");
    }
}
