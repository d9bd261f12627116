//! What the downward API tells a container about its pod and its resources.

use k8s_openapi::api::core::v1::{Container, Pod, ResourceFieldSelector};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as Text;

use super::quantity::Quantity;

/// The address of every pod and of the node: all processes share this machine's loopback.
const ADDRESS: &str = "127.0.0.1";

/// A field of the pod, for example `metadata.name` or `metadata.labels['app']`. A label or annotation
/// that the pod does not have is empty.
///
/// # Errors
///
/// The kubelet's words for a field that cannot be asked for.
pub(super) fn of_pod(pod: &Pod, path: &str) -> Result<String, String> {
    let unsupported = || format!("unsupported fieldPath: {path}");
    let (metadata, spec, status) = (&pod.metadata, pod.spec.as_ref(), pod.status.as_ref());
    let text = |text: Option<&String>| text.cloned().unwrap_or_default();
    let address = |ip: Option<&String>| ip.cloned().unwrap_or_else(|| ADDRESS.to_owned());
    if let Some((path, key)) = path
        .strip_suffix("']")
        .and_then(|path| path.split_once("['"))
    {
        let map = match path {
            "metadata.labels" => &metadata.labels,
            "metadata.annotations" => &metadata.annotations,
            _ => return Err(unsupported()),
        };
        return Ok(text(map.as_ref().and_then(|map| map.get(key))));
    }
    Ok(match path {
        "metadata.name" => text(metadata.name.as_ref()),
        "metadata.namespace" => text(metadata.namespace.as_ref()),
        "metadata.uid" => text(metadata.uid.as_ref()),
        "metadata.labels" => lines(metadata.labels.iter().flatten()),
        "metadata.annotations" => lines(metadata.annotations.iter().flatten()),
        "spec.nodeName" => text(spec.and_then(|spec| spec.node_name.as_ref())),
        "spec.serviceAccountName" => text(spec.and_then(|spec| spec.service_account_name.as_ref())),
        "status.hostIP" | "status.hostIPs" => address(status.and_then(|s| s.host_ip.as_ref())),
        "status.podIP" | "status.podIPs" => address(status.and_then(|s| s.pod_ip.as_ref())),
        _ => return Err(unsupported()),
    })
}

/// A map as a file shows it: one `key="value"` per line, in the order of the keys.
fn lines<'a>(map: impl Iterator<Item = (&'a String, &'a String)>) -> String {
    let lines: Vec<_> = map.map(|(key, value)| format!("{key}={value:?}")).collect();
    lines.join("\n")
}

/// What a `resourceFieldRef` refers to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Resource {
    /// The number to tell.
    Known(String),
    /// No limit is set: what counts is what the node has of this resource.
    NodeHas(String),
}

/// A request or limit of a container, in whole divisors. A request that is not set is 0.
///
/// # Errors
///
/// In words, when the resource or a quantity is none.
pub(super) fn of_resources(
    selector: &ResourceFieldSelector,
    container: &Container,
) -> Result<Resource, String> {
    let unsupported = || format!("unsupported container resource: {}", selector.resource);
    let (kind, name) = selector.resource.split_once('.').ok_or_else(unsupported)?;
    if !matches!(name, "cpu" | "memory" | "ephemeral-storage") && !name.starts_with("hugepages-") {
        return Err(unsupported());
    }
    let resources = container.resources.as_ref();
    let list = match kind {
        "limits" => resources.and_then(|resources| resources.limits.as_ref()),
        "requests" => resources.and_then(|resources| resources.requests.as_ref()),
        _ => return Err(unsupported()),
    };
    match list.and_then(|list| list.get(name)) {
        Some(quantity) => divided(selector, quantity).map(Resource::Known),
        None if kind == "limits" && !name.starts_with("hugepages-") => {
            Ok(Resource::NodeHas(name.to_owned()))
        }
        None => Ok(Resource::Known("0".to_owned())),
    }
}

/// This quantity in whole divisors, rounded up.
///
/// # Errors
///
/// In words, when it or the divisor is not a quantity.
pub(super) fn divided(selector: &ResourceFieldSelector, quantity: &Text) -> Result<String, String> {
    let parse = |text: &Text| {
        Quantity::parse(&text.0)
            .ok_or_else(|| format!("{:?} is not a quantity of a resource", text.0))
    };
    let divisor = selector.divisor.as_ref().map(parse).transpose()?;
    let divisor = divisor.filter(|divisor| *divisor != Quantity::ZERO);
    let (quantity, divisor) = (parse(quantity)?, divisor.unwrap_or(Quantity::ONE));
    let number = match selector.resource.ends_with(".cpu") {
        true => quantity.divided_in_milli(divisor),
        false => quantity.divided(divisor),
    };
    Ok(number.to_string())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_field_that_a_kubelet_supports() {
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {
                "name": "p", "namespace": "ns", "uid": "u-1",
                "labels": {"b": "2", "a/x": "1"},
                "annotations": {"note": "say \"hi\"\n"},
            },
            "spec": {"containers": [], "nodeName": "n", "serviceAccountName": "sa"},
            "status": {"podIP": "127.0.0.9"},
        }))
        .expect("a pod");
        for (path, value) in [
            ("metadata.name", "p"),
            ("metadata.namespace", "ns"),
            ("metadata.uid", "u-1"),
            ("metadata.labels['a/x']", "1"),
            ("metadata.labels['no']", ""),
            ("metadata.annotations['note']", "say \"hi\"\n"),
            ("metadata.labels", "a/x=\"1\"\nb=\"2\""),
            ("metadata.annotations", "note=\"say \\\"hi\\\"\\n\""),
            ("spec.nodeName", "n"),
            ("spec.serviceAccountName", "sa"),
            ("status.hostIP", "127.0.0.1"),
            ("status.podIP", "127.0.0.9"),
            ("status.podIPs", "127.0.0.9"),
        ] {
            assert_eq!(of_pod(&pod, path).as_deref(), Ok(value), "{path}");
        }
        for path in ["spec.hostname", "metadata.name['x']", "status.phase", ""] {
            assert_eq!(
                of_pod(&pod, path),
                Err(format!("unsupported fieldPath: {path}"))
            );
        }
    }

    #[test]
    fn resources_are_told_in_divisors() {
        let container: Container = serde_json::from_value(json!({
            "name": "c",
            "resources": {"limits": {"cpu": "1500m", "memory": "1Gi"}, "requests": {"cpu": "10m"}},
        }))
        .expect("a container");
        let told = |resource: &str, divisor: Option<&str>| {
            let selector = json!({"resource": resource, "divisor": divisor});
            let selector = serde_json::from_value(selector).expect("a selector");
            of_resources(&selector, &container)
        };
        let known = |text: &str| Ok(Resource::Known(text.to_owned()));
        assert_eq!(told("limits.cpu", None), known("2"));
        assert_eq!(told("limits.cpu", Some("1m")), known("1500"));
        assert_eq!(told("limits.memory", Some("1Mi")), known("1024"));
        assert_eq!(told("limits.memory", Some("0")), known("1073741824"));
        assert_eq!(told("requests.cpu", None), known("1"));
        assert_eq!(told("requests.memory", None), known("0"));
        assert_eq!(
            told("limits.ephemeral-storage", None),
            Ok(Resource::NodeHas("ephemeral-storage".to_owned()))
        );
        for resource in ["limits.gpu", "cpu", "uses.cpu"] {
            assert!(told(resource, None).is_err(), "{resource}");
        }
        assert!(told("limits.cpu", Some("x")).is_err());
    }
}
