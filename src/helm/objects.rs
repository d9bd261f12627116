//! Names of rendered objects.

use serde_json::Value;

/// `KIND NAMESPACE/NAME`, or `KIND NAME` for an object that states no namespace.
#[must_use]
pub fn identity(object: &Value) -> String {
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let kind = word(&object["kind"]);
    let name = word(&object["metadata"]["name"]);
    match object["metadata"]["namespace"].as_str() {
        Some(namespace) => format!("{kind} {namespace}/{name}"),
        None => format!("{kind} {name}"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_namespace_is_told_where_there_is_one() {
        let object = |metadata: Value| json!({"kind": "Role", "metadata": metadata});
        assert_eq!(identity(&object(json!({"name": "a"}))), "Role a");
        let inside = json!({"name": "a", "namespace": "b"});
        assert_eq!(identity(&object(inside)), "Role b/a");
    }
}
