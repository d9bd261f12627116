//! Rules of inference detection that the vectors do not reach, and what later releases add to them.

use aibom_qual::controller::detect::image::Matcher;
use aibom_qual::controller::detect::{ComponentType, Detector};
use aibom_qual::controller::document::redact::Redactor;
use aibom_qual::controller::profile::{Profile, V1_3_0, V1_5_1, V1_6_0};
use aibom_qual::controller::status::Summary;
use aibom_qual::controller::workload::Workload;
use serde_json::{Value, json};

use crate::fixtures::{self, deployment, line};

/// The components of a Deployment around one container, written `type name locator`.
fn found(profile: &Profile, container: Value) -> Vec<String> {
    let object = deployment(json!({"containers": [container]}));
    let scrape = fixtures::scrape(profile, &Workload::from(&object), &[]);
    scrape.components.iter().map(line).collect()
}

fn models(container: Value) -> Vec<String> {
    let all = found(&V1_3_0, container);
    all.into_iter()
        .filter_map(|line| {
            line.strip_prefix("machine-learning-model ")
                .map(str::to_owned)
        })
        .collect()
}

#[test]
fn arguments_name_models_by_position_or_joined() {
    for (args, expected) in [
        (
            json!(["--model", "a", "--model-id", "b"]),
            vec!["a args[0 1](--model)", "b args[2 3](--model-id)"],
        ),
        (json!(["--model=a=b"]), vec!["a=b args[0](--model=)"]),
        (json!(["--model", "a=b"]), vec!["a=b args[0 1](--model)"]),
        (json!(["--model="]), vec![]),
        (json!(["--model"]), vec![]),
        (json!(["--model", ""]), vec![]),
        (json!(["--model", "--port"]), vec![]),
        (json!(["--model=--x"]), vec![]),
        // What is refused as a value is a flag of its own.
        (
            json!(["--model", "--model-id", "b"]),
            vec!["b args[1 2](--model-id)"],
        ),
        // What is taken as a value is not.
        (json!(["--model", "a", "b"]), vec!["a args[0 1](--model)"]),
        (json!(["serve", "--model\n", "a"]), vec![]),
        (
            json!(["--model", "a\r\nb"]),
            vec!["a  b args[0 1](--model)"],
        ),
        (json!(["--served-model-name", "x", "--Model", "y"]), vec![]),
    ] {
        let container = json!({"name": "c", "image": "nginx", "args": args});
        assert_eq!(models(container), expected, "{args}");
    }
    let command = json!({"name": "c", "image": "nginx", "command": ["--model", "a"]});
    assert_eq!(models(command), [""; 0]);
}

#[test]
fn the_environment_names_models_by_literal_values_only() {
    let container = json!({"name": "c", "image": "nginx", "env": [
        {"name": "X", "value": "a"},
        {"name": "MODEL_NAME", "value": "b"},
        {"name": "HF_MODEL_ID", "value": ""},
        {"name": "HF_MODEL_ID", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        {"name": "model_name", "value": "c"},
    ]});
    assert_eq!(models(container), ["b env[1](MODEL_NAME)"]);
}

#[test]
fn volumes_hold_models_by_where_they_are_mounted() {
    let volumes = json!([
        {"name": "pvc", "persistentVolumeClaim": {"claimName": "weights"}},
        {"name": "map", "configMap": {"name": "cfg"}},
        {"name": "sec", "secret": {"secretName": "s"}},
        {"name": "dir", "emptyDir": {}},
        {"name": "nfs", "nfs": {"server": "h", "path": "/p"}},
        {"name": "csi", "csi": {"driver": "d"}},
        {"name": "img", "image": {"reference": "x"}},
    ]);
    let mounts: Vec<_> = [
        ("pvc", "/models"),
        ("map", "/model/a"),
        ("sec", "/weights/"),
        ("dir", "/checkpoints"),
        ("nfs", "/hf_cache/x"),
        ("csi", "/models/c"),
        ("img", "/models/d"),
        ("gone", "/models/e"),
        ("pvc", "/modelstore"),
        ("pvc", "/data/models"),
    ]
    .iter()
    .map(|(name, path)| json!({"name": name, "mountPath": path}))
    .collect();
    let object = deployment(json!({
        "containers": [{"name": "c", "image": "vllm/x", "volumeMounts": mounts}],
        "volumes": volumes,
    }));
    let scrape = fixtures::scrape(&V1_3_0, &Workload::from(&object), &[]);
    let data = scrape
        .components
        .iter()
        .filter(|component| component.component_type == ComponentType::Data)
        .map(|component| {
            format!(
                "{} {}",
                component.name, component.properties["volume.source"]
            )
        });
    assert_eq!(
        data.collect::<Vec<_>>(),
        [
            "cfg configMap",
            "d csi",
            "dir emptyDir",
            "gone unknown",
            "h:/p nfs",
            "img other",
            "s secret",
            "weights persistentVolumeClaim",
        ]
    );
}

#[test]
fn a_tag_is_a_version_only_if_it_looks_like_one() {
    for (tag, version) in [
        (":v0.6.3", "v0.6.3"),
        (":0.6", "0.6"),
        (":1.2.3-rc.1_x", "1.2.3-rc.1_x"),
        (":latest", ""),
        (":v1", ""),
        (":1.2.3.4", ""),
        (":1.2-é", ""),
        ("", ""),
    ] {
        let object = deployment(json!({"containers": [
            {"name": "c", "image": format!("vllm/x{tag}")},
        ]}));
        let scrape = fixtures::scrape(&V1_3_0, &Workload::from(&object), &[]);
        assert_eq!(scrape.components[0].version, version, "{tag}");
        assert_eq!(scrape.components[1].version, tag.trim_start_matches(':'));
    }
}

#[test]
fn a_configuration_replaces_the_runtimes_and_nothing_else() {
    let object = deployment(json!({"containers": [
        {"name": "a", "image": "vllm/x"},
        {"name": "b", "image": "acme/engine:1"},
    ]}));
    let workload = Workload::from(&object);
    let detector = Detector::new(&V1_3_0).expect("compiles");
    let custom = vec![Matcher::new("acme", r"^acme/\w+").expect("compiles")];
    let scrape = detector
        .clone()
        .with_runtimes(custom)
        .scrape(&workload, &[]);
    let names: Vec<_> = scrape.components.iter().map(|c| c.name.as_str()).collect();
    assert_eq!(names, ["acme", "acme/engine", "vllm/x"]);
    let unchanged = detector.clone().with_runtimes(Vec::new());
    assert_eq!(
        unchanged.scrape(&workload, &[]),
        detector.scrape(&workload, &[])
    );
}

#[test]
fn signature_annotations_are_models_until_a_release_knows_better() {
    let mut object = deployment(json!({"containers": [
        {"name": "c", "image": "vllm/x", "args": ["--model", "m"]},
    ]}));
    object.metadata.annotations = Some(
        ["oms-signature", "digest", "family"]
            .map(|key| (format!("model.k8saibom.dev/{key}"), key.to_owned()))
            .into(),
    );
    let workload = Workload::from(&object);
    let signed = |profile: &Profile| {
        let scrape = fixtures::scrape(profile, &workload, &[]);
        let redactor = Redactor::new(profile.document.redaction).expect("compiles");
        let models = Summary::new(&workload, &scrape, &redactor).models;
        models
            .into_iter()
            .map(|model| format!("{} {}", model.identity, model.signed))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        signed(&V1_3_0),
        ["digest ", "family ", "m ", "oms-signature "]
    );
    assert_eq!(signed(&V1_5_1), ["family claimed", "m claimed"]);
}

#[test]
fn credentials_are_hashed_but_not_published_from_1_5_on() {
    let object = deployment(json!({"containers": [
        {"name": "c", "image": "vllm/x", "args": ["--model", "https://u:p@h/m?token=t"]},
    ]}));
    let workload = Workload::from(&object);
    let at = "2026-01-01T00:00:00Z";
    let text = |profile: &Profile| {
        let scrape = fixtures::scrape(profile, &workload, &[]);
        let document = fixtures::document(profile, &workload, &scrape, "v", at);
        (scrape, String::from_utf8(document.bytes).expect("is UTF-8"))
    };
    let (old, published) = text(&V1_3_0);
    assert!(published.contains("u:p@h"));
    let (new, redacted) = text(&V1_5_1);
    assert_eq!(old, new);
    assert!(
        !redacted.contains("u:p") && !redacted.contains("token=t"),
        "{redacted}"
    );
    assert!(
        redacted.contains(
            r#"{"name":"aibom.redaction.applied","value":"query-credential,uri-userinfo"}"#
        )
    );
    assert_eq!(redacted.matches("redaction.applied").count(), 1);
}

#[test]
fn components_beyond_the_cap_are_dropped_and_counted_from_1_6_on() {
    let args: Vec<_> = (0..300).map(|i| format!("--model=m{i:03}")).collect();
    let object = deployment(json!({"containers": [
        {"name": "c", "image": format!("vllm/{}", "x".repeat(1100)), "args": args},
    ]}));
    let workload = Workload::from(&object);
    let old = fixtures::scrape(&V1_5_1, &workload, &[]);
    assert_eq!((old.components.len(), old.truncated_components), (302, 0));
    assert_eq!(old.components[1].name.len(), 1105);
    let mut new = fixtures::scrape(&V1_6_0, &workload, &[]);
    assert_eq!((new.components.len(), new.truncated_components), (256, 46));
    assert!(new.components[1].name.ends_with("...[truncated]"));
    assert_eq!(new.components[1].name.len(), 1024);
    new.absorb([("Job", "b"), ("Deployment", "z"), ("Job", "a")]);
    let document = fixtures::document(&V1_6_0, &workload, &new, "v", "2026-01-01T00:00:00Z");
    let text = String::from_utf8(document.bytes).expect("is UTF-8");
    assert!(text.contains(concat!(
        r#"{"name":"aibom.controller.version","value":"v"},"#,
        r#"{"name":"aibom.truncation.applied","value":"components-dropped:46"},"#,
        r#"{"name":"aibom.rollup.owned.0","value":"Deployment/z"},"#,
        r#"{"name":"aibom.rollup.owned.1","value":"Job/a"},"#,
        r#"{"name":"aibom.rollup.owned.2","value":"Job/b"},"#,
        r#"{"name":"aibom.scrape.0.scraperName","value":"inference.spec"},"#,
    )));
}
