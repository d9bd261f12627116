//! The checked-in custom resource definitions against what the releases are documented to serve.
//!
//! The tables below are written by hand and share nothing with the generator. A line is a path and
//! everything that the schema says about it except descriptions; `!` marks a required field, `[]` the
//! items of a list, `{}` the values of a map. A keyword that the tables do not know shows up in the
//! line, so that nothing can be served in silence.

#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use serde_json::{Map, Value, json};

const ROOT: &str = "
apiVersion string
kind string
metadata object
";

const CONDITION: &str = r"
status.conditions array list=map(type)
status.conditions[] object
status.conditions[].lastTransitionTime! string:date-time
status.conditions[].message! string length=..32768
status.conditions[].observedGeneration integer:int64 range=0..
status.conditions[].reason! string length=1..1024 pattern=^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$
status.conditions[].status! string enum=True|False|Unknown
status.conditions[].type! string length=..316 pattern=^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$
";

const AIBOM: &str = r"
spec object
spec.workloadRef! object cel=(self == oldSelf => workloadRef is immutable)
spec.workloadRef.apiVersion! string length=1..128
spec.workloadRef.kind! string length=1..64
spec.workloadRef.name! string length=1..253
spec.bomFormat! string length=..64 enum=CycloneDX
spec.bomSpecVersion! string length=..16 pattern=^\d+\.\d+$
status object
status.summary object
status.summary.workload! object
status.summary.workload.kind! string
status.summary.workload.apiVersion! string
status.summary.workload.name! string
status.summary.workload.namespace! string
status.summary.workload.category string
status.summary.runtime object
status.summary.runtime.name! string
status.summary.runtime.version string
status.summary.runtime.confidence string
status.summary.models array
status.summary.models[] object
status.summary.models[].identity! string
status.summary.models[].source string
status.summary.models[].confidence string
status.summary.models[].signed string
status.summary.confidence string
status.bomDocument object
status.bomDocument.format! string
status.bomDocument.specVersion! string
status.bomDocument.sha256! string
status.bomDocument.size integer:int64
status.bomDocument.inline object
status.bomDocument.inline.data! string:byte
status.bomDocument.external object
status.bomDocument.external.sink! string
status.bomDocument.external.url string
status.bomDocument.external.writeOnly boolean
status.bomDocument.truncated boolean
status.bomDocument.truncationReason string
status.lastReconciled string:date-time
status.bomHash string
status.inputHash string
status.consecutiveErrors integer:int32
status.observedGeneration integer:int64
";

const CONFIG: &str = r"
spec object
spec.discovery object
spec.discovery.namespaceSelector object map=atomic
spec.discovery.namespaceSelector.matchExpressions array list=atomic
spec.discovery.namespaceSelector.matchExpressions[] object
spec.discovery.namespaceSelector.matchExpressions[].key! string
spec.discovery.namespaceSelector.matchExpressions[].operator! string
spec.discovery.namespaceSelector.matchExpressions[].values array list=atomic
spec.discovery.namespaceSelector.matchExpressions[].values[] string
spec.discovery.namespaceSelector.matchLabels object
spec.discovery.namespaceSelector.matchLabels{} string
spec.discovery.inferenceRuntimeImagePatterns array
spec.discovery.inferenceRuntimeImagePatterns[] object
spec.discovery.inferenceRuntimeImagePatterns[].runtime! string length=1..64
spec.discovery.inferenceRuntimeImagePatterns[].pattern! string length=1..256
spec.bomGeneration object
spec.bomGeneration.inlineThresholdBytes integer:int64 range=1024..1048576 default=262144
spec.bomGeneration.staleThresholdReconciles integer:int32 range=1.. default=3
spec.sinks array list=map(name)
spec.sinks[] object
spec.sinks[].name! string length=1..63 pattern=^[a-z0-9]([-a-z0-9]*[a-z0-9])?$
spec.sinks[].type! string enum=GCS|Webhook
spec.sinks[].gcs object
spec.sinks[].gcs.bucket! string length=3..222
spec.sinks[].gcs.pathTemplate string length=..512
spec.sinks[].gcs.credentialsSecretRef object
spec.sinks[].gcs.credentialsSecretRef.name! string length=1..253
spec.sinks[].gcs.credentialsSecretRef.key! string length=1..253
spec.sinks[].webhook object
spec.sinks[].webhook.endpoint! string length=..2048 pattern=^https?://
spec.sinks[].webhook.auth object
spec.sinks[].webhook.auth.bearerToken object
spec.sinks[].webhook.auth.bearerToken.secretRef! object
spec.sinks[].webhook.auth.bearerToken.secretRef.name! string length=1..253
spec.sinks[].webhook.auth.bearerToken.secretRef.key! string length=1..253
spec.sinks[].webhook.auth.mtls object
spec.sinks[].webhook.auth.mtls.clientCertSecretRef! object
spec.sinks[].webhook.auth.mtls.clientCertSecretRef.name! string length=1..253
spec.sinks[].webhook.auth.mtls.clientCertSecretRef.key! string length=1..253
spec.sinks[].webhook.auth.mtls.clientKeySecretRef! object
spec.sinks[].webhook.auth.mtls.clientKeySecretRef.name! string length=1..253
spec.sinks[].webhook.auth.mtls.clientKeySecretRef.key! string length=1..253
spec.sinks[].webhook.auth.mtls.caSecretRef object
spec.sinks[].webhook.auth.mtls.caSecretRef.name! string length=1..253
spec.sinks[].webhook.auth.mtls.caSecretRef.key! string length=1..253
spec.logging object
spec.logging.level string enum=debug|info|warn|error default=info
spec.logging.format string enum=json|text default=json
status object
status.observedGeneration integer:int64
status.lastLoadedAt string:date-time
";

/// Since 1.5.0, in every version.
const VERIFICATION: &str = "
spec.verification object
spec.verification.enabled boolean
spec.verification.trustRootMode string enum=public|tufMirror|staticBundle default=public
spec.verification.tufMirrorURL string length=..2048
spec.verification.staticBundlePath string length=..1024
spec.verification.rekorURL string length=..2048
spec.verification.identities array list=atomic
spec.verification.identities[] object
spec.verification.identities[].issuer string length=..512
spec.verification.identities[].subjectPattern string length=..512
spec.verification.perClaimTimeoutSeconds integer:int32 range=1..30 default=10
spec.verification.cacheTTLMinutes integer:int32 range=1..10080 default=1440
";

/// Since 1.6.0, in v1beta1 only.
const WORKLOAD_KINDS: &str = "
spec.discovery.workloadKinds array
spec.discovery.workloadKinds[] string
";

/// One file of one release: the chart, the plural, whether it begins with a separator, and per
/// version the name, whether it is stored, and what it has beside the common fields.
type File = (
    &'static str,
    &'static str,
    bool,
    &'static [(&'static str, bool, &'static [&'static str])],
);

const BOTH: &[(&str, bool, &[&str])] = &[("v1alpha1", false, &[]), ("v1beta1", true, &[])];

const FILES: [File; 8] = [
    ("1.2.0", "aiboms", false, &[("v1alpha1", true, &[])]),
    ("1.3.0", "aiboms", true, BOTH),
    ("1.5.1", "aiboms", true, BOTH),
    ("1.6.0", "aiboms", true, BOTH),
    (
        "1.2.0",
        "aibomcontrollerconfigs",
        true,
        &[("v1alpha1", true, &[])],
    ),
    ("1.3.0", "aibomcontrollerconfigs", true, BOTH),
    (
        "1.5.1",
        "aibomcontrollerconfigs",
        true,
        &[
            ("v1alpha1", false, &[VERIFICATION]),
            ("v1beta1", true, &[VERIFICATION]),
        ],
    ),
    (
        "1.6.0",
        "aibomcontrollerconfigs",
        true,
        &[
            ("v1alpha1", false, &[VERIFICATION]),
            ("v1beta1", true, &[VERIFICATION, WORKLOAD_KINDS]),
        ],
    ),
];

const AIBOM_COLUMNS: [&str; 6] = [
    "Workload string .spec.workloadRef.kind",
    "Name string .spec.workloadRef.name",
    "Category string .status.summary.workload.category",
    "Runtime string .status.summary.runtime.name",
    r#"Ready string .status.conditions[?(@.type=="Ready")].status"#,
    "Age date .metadata.creationTimestamp",
];

const CONFIG_COLUMNS: [&str; 3] = [
    r#"Ready string .status.conditions[?(@.type=="Ready")].status"#,
    "Last-Loaded date .status.lastLoadedAt",
    "Age date .metadata.creationTimestamp",
];

fn text(chart: &str, plural: &str) -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("charts")
        .join(chart)
        .join("crds")
        .join(format!("aibom.k8saibom.dev_{plural}.yaml"));
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn parsed(chart: &str, plural: &str) -> Value {
    serde_yaml::from_str(&text(chart, plural)).expect("a definition in YAML")
}

/// The end of a line: what a schema says, keyword by keyword.
fn say(schema: &Map<String, Value>) -> String {
    let mut rest = schema.clone();
    let mut take = |key: &str| rest.remove(key);
    let word = |value: Value| match value {
        Value::String(text) => text,
        other => other.to_string(),
    };
    let mut words = take("type").map(word).unwrap_or_default();
    if let Some(format) = take("format") {
        words += &format!(":{}", word(format));
    }
    for (name, low, high) in [
        ("length", "minLength", "maxLength"),
        ("range", "minimum", "maximum"),
    ] {
        let ends = [take(low), take(high)];
        if ends.iter().any(Option::is_some) {
            let [low, high] = ends.map(|end| end.map(word).unwrap_or_default());
            words += &format!(" {name}={low}..{high}");
        }
    }
    if let Some(Value::Array(values)) = take("enum") {
        let values: Vec<String> = values.into_iter().map(word).collect();
        words += &format!(" enum={}", values.join("|"));
    }
    for (name, key) in [("pattern", "pattern"), ("default", "default")] {
        if let Some(value) = take(key) {
            words += &format!(" {name}={}", word(value));
        }
    }
    if let Some(value) = take("x-kubernetes-list-type") {
        words += &format!(" list={}", word(value));
    }
    if let Some(Value::Array(keys)) = take("x-kubernetes-list-map-keys") {
        let keys: Vec<String> = keys.into_iter().map(word).collect();
        words += &format!("({})", keys.join(","));
    }
    if let Some(value) = take("x-kubernetes-map-type") {
        words += &format!(" map={}", word(value));
    }
    if let Some(rules) = take("x-kubernetes-validations") {
        for rule in rules.as_array().into_iter().flatten() {
            let (condition, message) = (&rule["rule"], &rule["message"]);
            words += &format!(
                " cel=({} => {})",
                word(condition.clone()),
                word(message.clone())
            );
            assert_eq!(rule.as_object().map(Map::len), Some(2), "{rule}");
        }
    }
    for known in [
        "description",
        "properties",
        "required",
        "items",
        "additionalProperties",
    ] {
        take(known);
    }
    for (key, value) in rest {
        words += &format!(" {key}={value}");
    }
    words
}

/// Adds a line for everything below `path`.
fn flatten(path: &str, schema: &Value, lines: &mut BTreeSet<String>) {
    let required: Vec<&str> = schema["required"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let mut add = |path: &str, mark: &str, schema: &Value| {
        let object = schema.as_object().expect("a schema is an object");
        lines.insert(format!("{path}{mark} {}", say(object)));
        flatten(path, schema, lines);
    };
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        let dot = if path.is_empty() { "" } else { "." };
        let mark = if required.contains(&name.as_str()) {
            "!"
        } else {
            ""
        };
        add(&format!("{path}{dot}{name}"), mark, property);
    }
    if let Some(items) = schema.get("items") {
        add(&format!("{path}[]"), "", items);
    }
    if let Some(values) = schema.get("additionalProperties") {
        add(&format!("{path}{{}}"), "", values);
    }
}

fn table(parts: &[&str]) -> BTreeSet<String> {
    let lines = parts.iter().flat_map(|part| part.lines());
    lines
        .filter(|line| !line.is_empty())
        .map(str::to_owned)
        .collect()
}

#[test]
fn every_schema_is_what_its_release_serves() {
    for (chart, plural, _, versions) in FILES {
        let crd = parsed(chart, plural);
        let found = crd["spec"]["versions"].as_array().expect("versions");
        assert_eq!(found.len(), versions.len(), "{chart} {plural}");
        for (version, (name, _, additions)) in found.iter().zip(versions) {
            let common = if plural == "aiboms" { AIBOM } else { CONFIG };
            let mut parts = vec![ROOT, CONDITION, common];
            parts.extend(*additions);
            let wanted = table(&parts);
            let schema = &version["schema"]["openAPIV3Schema"];
            let mut lines = BTreeSet::new();
            flatten("", schema, &mut lines);
            let what = format!("{chart} {plural} {name}");
            let surplus: Vec<_> = lines.difference(&wanted).collect();
            let missing: Vec<_> = wanted.difference(&lines).collect();
            assert!(
                surplus.is_empty() && missing.is_empty(),
                "{what}\nserved but not documented: {surplus:#?}\ndocumented but not served: {missing:#?}"
            );
            let root = schema.as_object().expect("a schema");
            assert_eq!(say(root), "object", "{what}");
            assert!(root.get("required").is_none(), "{what}");
        }
    }
}

#[test]
fn versions_and_names_are_those_of_the_release() {
    for (chart, plural, _, versions) in FILES {
        let what = format!("{chart} {plural}");
        let crd = parsed(chart, plural);
        let (kind, short, scope) = match plural {
            "aiboms" => ("AIBOM", "aibom", "Namespaced"),
            _ => ("AIBOMControllerConfig", "aibomcfg", "Cluster"),
        };
        assert_eq!(crd["apiVersion"], "apiextensions.k8s.io/v1", "{what}");
        assert_eq!(crd["kind"], "CustomResourceDefinition", "{what}");
        assert_eq!(
            crd["metadata"],
            json!({
                "name": format!("{plural}.aibom.k8saibom.dev"),
                "annotations": {
                    "api-approved.kubernetes.io": "unapproved, experimental-only",
                    "controller-gen.kubebuilder.io/version": "v0.16.5",
                },
            }),
            "{what}"
        );
        let mut spec = crd["spec"].clone();
        let served = spec["versions"].take();
        assert_eq!(
            spec,
            json!({
                "group": "aibom.k8saibom.dev",
                "scope": scope,
                "names": {
                    "kind": kind,
                    "listKind": format!("{kind}List"),
                    "plural": plural,
                    "singular": kind.to_lowercase(),
                    "shortNames": [short],
                },
                "versions": null,
            }),
            "{what}"
        );
        let columns: &[&str] = match plural {
            "aiboms" => &AIBOM_COLUMNS,
            _ => &CONFIG_COLUMNS,
        };
        for (version, (name, storage, _)) in served.as_array().into_iter().flatten().zip(versions) {
            let mut version = version.clone();
            version["schema"].take();
            let found: Vec<String> = version["additionalPrinterColumns"]
                .take()
                .as_array()
                .expect("columns")
                .iter()
                .map(|column| {
                    let word = |key: &str| column[key].as_str().unwrap_or_default().to_owned();
                    assert_eq!(column.as_object().map(Map::len), Some(3), "{column}");
                    format!("{} {} {}", word("name"), word("type"), word("jsonPath"))
                })
                .collect();
            assert_eq!(found, columns, "{what}");
            assert_eq!(
                version,
                json!({
                    "name": name,
                    "served": true,
                    "storage": storage,
                    "subresources": {"status": {}},
                    "schema": null,
                    "additionalPrinterColumns": null,
                }),
                "{what}"
            );
        }
    }
}

/// Without it, the files of 1.2.0 concatenated are one broken document.
#[test]
fn only_one_file_lacks_the_separator() {
    for (chart, plural, separated, _) in FILES {
        let begins = text(chart, plural).starts_with("---\n");
        assert_eq!(begins, separated, "{chart} {plural}");
    }
}

#[test]
fn both_versions_of_a_release_are_described_alike() {
    for chart in ["1.3.0", "1.5.1", "1.6.0"] {
        for plural in ["aiboms", "aibomcontrollerconfigs"] {
            let crd = parsed(chart, plural);
            let schema = |index: usize| crd["spec"]["versions"][index]["schema"].clone();
            let (old, mut new) = (schema(0), schema(1));
            if chart == "1.6.0" && plural == "aibomcontrollerconfigs" {
                let removed = new
                    .pointer_mut("/openAPIV3Schema/properties/spec/properties/discovery/properties")
                    .and_then(Value::as_object_mut)
                    .and_then(|properties| properties.remove("workloadKinds"));
                assert!(removed.is_some());
            }
            assert_eq!(old, new, "{chart} {plural}");
        }
    }
}

#[test]
fn later_releases_only_add_lines() {
    let mut added = Vec::new();
    for (from, to) in [("1.3.0", "1.5.1"), ("1.5.1", "1.6.0")] {
        for plural in ["aiboms", "aibomcontrollerconfigs"] {
            let (old, new) = (text(from, plural), text(to, plural));
            let mut rest = new.lines();
            for line in old.lines() {
                assert!(
                    rest.any(|next| next == line),
                    "{from} to {to}, {plural}: {line}"
                );
            }
            added.push(new.lines().count() - old.lines().count());
        }
    }
    let [0, verification, 0, workload_kinds] = added[..] else {
        panic!("{added:?}");
    };
    assert!(
        verification > 0 && verification % 2 == 0,
        "the same in both versions"
    );
    assert!(workload_kinds > 0);
}

/// A reader of `kubectl explain` finds a sentence for every field.
#[test]
fn every_field_is_described() {
    fn look(path: &str, schema: &Value) {
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            let path = format!("{path}.{name}");
            let sentence = property["description"].as_str().unwrap_or_default();
            assert!(sentence.ends_with('.') || path == ".metadata", "{path}");
            look(&path, property);
        }
        if let Some(items) = schema.get("items") {
            look(&format!("{path}[]"), items);
        }
    }
    for (chart, plural, _, _) in FILES {
        let crd = parsed(chart, plural);
        for version in crd["spec"]["versions"].as_array().into_iter().flatten() {
            look("", &version["schema"]["openAPIV3Schema"]);
        }
    }
}
