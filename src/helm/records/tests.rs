use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;
use k8s_openapi::ByteString;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::json;

use super::*;
use crate::error_chain::chain;

const NAMESPACE: &str = "k8s-aibom-system";

fn packed(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).expect("packed");
    STANDARD
        .encode(encoder.finish().expect("packed"))
        .into_bytes()
}

/// A Secret as the API gives it, with these bytes under the key.
fn secret_with(name: &str, type_: &str, data: Vec<u8>) -> Secret {
    Secret {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some(NAMESPACE.to_owned()),
            ..ObjectMeta::default()
        },
        type_: Some(type_.to_owned()),
        data: Some([(KEY.to_owned(), ByteString(data))].into()),
        ..Secret::default()
    }
}

fn secret(name: &str, revision: u32, record: &Value) -> Secret {
    secret_with(
        &format!("sh.helm.release.v1.{name}.v{revision}"),
        SECRET_TYPE,
        packed(record.to_string().as_bytes()),
    )
}

fn record(name: &str, revision: u32, status: &str, description: &str) -> Value {
    json!({
        "name": name,
        "namespace": NAMESPACE,
        "version": revision,
        "info": {
            "first_deployed": "2026-11-30T10:00:00.5Z",
            "last_deployed": "2026-11-30T12:00:00.123456789+02:00",
            "deleted": "",
            "description": description,
            "status": status,
            "notes": "",
        },
        "chart": {
            "metadata": {
                "name": "k8s-aibom", "version": "1.3.0", "appVersion": "v1.3.0", "apiVersion": "v2",
            },
            "lock": null,
            "templates": [],
            "values": {},
            "schema": null,
            "files": [],
        },
        "config": {"readiness": {"strictConfig": true}},
        "manifest": "",
    })
}

fn only(result: Result<Option<ReleaseState>, RecordError>) -> HelmRevision {
    let mut history = result.expect("readable").expect("a release").history;
    assert_eq!(history.len(), 1);
    history.remove(0)
}

fn read(record: &Value) -> Result<Option<ReleaseState>, RecordError> {
    release("k8s-aibom", NAMESPACE, &[secret("k8s-aibom", 1, record)])
}

#[test]
fn a_record_is_read_whole() {
    let mut stored = record("k8s-aibom", 1, "pending-rollback", "Rollback to 1");
    stored["apply_method"] = json!("ssa");
    let revision = only(read(&stored));
    assert_eq!(
        revision,
        HelmRevision {
            revision: 1,
            status: RevisionStatus::PendingRollback,
            description: "Rollback to 1".to_owned(),
            chart: "k8s-aibom".to_owned(),
            chart_version: "1.3.0".to_owned(),
            app_version: "v1.3.0".to_owned(),
            apply_method: Some(ApplyMethod::Ssa),
            values_sha256: schema_sha256(&json!({"readiness": {"strictConfig": true}})),
            last_deployed: "2026-11-30T10:00:00.123456789Z".parse().ok(),
        }
    );
}

#[test]
fn the_history_is_that_of_this_release_and_in_order() {
    let of = |name: &str, revision, status: &str| {
        secret(name, revision, &record(name, revision, status, "words"))
    };
    let mut elsewhere = of("k8s-aibom", 3, "deployed");
    elsewhere.metadata.namespace = Some("elsewhere".to_owned());
    let secrets = [
        of("k8s-aibom", 10, "deployed"),
        of("k8s-aibom", 9, "superseded"),
        // Its Secret is `sh.helm.release.v1.k8s-aibom.v1.v2`.
        of("k8s-aibom.v1", 2, "deployed"),
        of("k8s", 1, "failed"),
        elsewhere,
        secret_with("sh.helm.release.v1.k8s-aibom.v11", "Opaque", Vec::new()),
        secret_with("sh.helm.release.v1.k8s-aibom.vx", SECRET_TYPE, Vec::new()),
    ];
    let state = release("k8s-aibom", NAMESPACE, &secrets);
    let state = state.expect("readable").expect("a release");
    let numbers: Vec<u32> = state.history.iter().map(|known| known.revision).collect();
    assert_eq!(numbers, [9, 10]);
    let newest = newest("k8s-aibom", NAMESPACE, &secrets);
    let newest = newest.expect("readable").expect("a release");
    assert_eq!(newest.revision().expect("readable").revision, 10);
    let none = release("other", NAMESPACE, &secrets).expect("readable");
    assert_eq!(none, None);
}

#[test]
fn what_helm_3_leaves_out_or_empty_is_nothing() {
    let mut stored = record("k8s-aibom", 1, "deployed", "Install complete");
    stored["info"]["last_deployed"] = json!("");
    stored["config"] = Value::Null;
    let revision = only(read(&stored));
    assert_eq!(revision.apply_method, None);
    assert_eq!(revision.last_deployed, None);
    assert_eq!(revision.values_sha256, schema_sha256(&json!({})));
    stored.as_object_mut().expect("a map").remove("config");
    stored["apply_method"] = json!("");
    assert_eq!(only(read(&stored)), revision);
}

#[test]
fn every_status_of_helm_is_known() {
    for word in [
        "unknown",
        "deployed",
        "uninstalled",
        "superseded",
        "failed",
        "uninstalling",
        "pending-install",
        "pending-upgrade",
        "pending-rollback",
    ] {
        let status = only(read(&record("k8s-aibom", 1, word, ""))).status;
        assert_eq!(serde_json::to_value(status).expect("a word"), word);
    }
}

#[test]
fn unknown_words_are_errors_that_name_them() {
    let told = |stored: &Value| chain(&read(stored).expect_err("unknown"));
    let place = "in the Secret k8s-aibom-system/sh.helm.release.v1.k8s-aibom.v1: ";
    let words = told(&record("k8s-aibom", 1, "hibernating", ""));
    assert!(
        words.ends_with(&format!("{place}its status `hibernating` is not known")),
        "{words}"
    );
    let mut stored = record("k8s-aibom", 1, "deployed", "");
    stored["apply_method"] = json!("psa");
    let words = told(&stored);
    assert!(
        words.ends_with("its apply method `psa` is not known"),
        "{words}"
    );
    let mut stored = record("k8s-aibom", 1, "deployed", "");
    stored["info"]["last_deployed"] = json!("yesterday");
    let words = told(&stored);
    assert!(
        words.ends_with("its time `yesterday` is not known"),
        "{words}"
    );
}

#[test]
fn a_record_of_another_revision_is_refused() {
    let error = read(&record("k8s-aibom", 2, "deployed", "")).expect_err("another");
    assert!(
        chain(&error).ends_with("it is that of k8s-aibom v2"),
        "{error}"
    );
}

#[test]
fn what_is_no_record_is_refused_without_telling_what_it_holds() {
    let told = |data: Vec<u8>| {
        let secret = secret_with("sh.helm.release.v1.k8s-aibom.v1", SECRET_TYPE, data);
        let error = release("k8s-aibom", NAMESPACE, &[secret]).expect_err("broken");
        assert!(error.hint().is_some());
        chain(&error)
    };
    assert!(told(b"%%%".to_vec()).ends_with("it is not base64"));
    assert!(told(vec![b'A'; MOST_STORED + 1]).ends_with("larger than any that helm stores"));
    let cut = STANDARD.encode([0x1f, 0x8b, 0x08, 0, 0]).into_bytes();
    assert!(told(cut).contains("it cannot be unpacked"));
    let secretive = told(packed(br#"{"name": 5, "config": "hunter2"}"#));
    assert!(
        secretive.contains("not the JSON of a release (line 1"),
        "{secretive}"
    );
    assert!(!secretive.contains("hunter2"));
    let empty = Secret {
        data: None,
        ..secret_with("sh.helm.release.v1.k8s-aibom.v1", SECRET_TYPE, Vec::new())
    };
    let error = release("k8s-aibom", NAMESPACE, &[empty]).expect_err("empty");
    assert!(chain(&error).ends_with("it has no data under the key `release`"));
}

#[test]
fn a_record_that_unpacks_without_end_is_refused() {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    let zeros = vec![0; 1 << 20];
    for _ in 0..=(MOST_JSON >> 20) {
        encoder.write_all(&zeros).expect("packed");
    }
    let bomb = STANDARD.encode(encoder.finish().expect("packed"));
    let secret = secret_with(
        "sh.helm.release.v1.k8s-aibom.v1",
        SECRET_TYPE,
        bomb.into_bytes(),
    );
    let error = release("k8s-aibom", NAMESPACE, &[secret]).expect_err("a bomb");
    assert!(
        matches!(error.trouble, RecordTrouble::TooLarge),
        "{error:?}"
    );
}

#[test]
fn definitions_and_manifest_are_those_of_the_record() {
    let definition = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: a.b}\nspec: {versions: []}\n";
    let mut stored = record("k8s-aibom", 1, "deployed", "");
    stored["manifest"] = json!("---\n# Source: a\nkind: Role\nmetadata: {name: a}\n");
    stored["chart"]["files"] = json!([
        {"name": "README.md", "data": STANDARD.encode("words")},
        {"name": "crds/a.yaml", "data": STANDARD.encode(definition)},
    ]);
    let secret = secret("k8s-aibom", 1, &stored);
    let record = Record::decode("k8s-aibom", &secret).expect("readable");
    let crds = record.crds().expect("readable");
    assert_eq!(crds.len(), 1);
    assert_eq!(crds[0]["metadata"]["name"], "a.b");
    let manifest = record.manifest().expect("readable");
    assert_eq!(
        manifest,
        [json!({"kind": "Role", "metadata": {"name": "a"}})]
    );
    assert_eq!(
        record.values(),
        json!({"readiness": {"strictConfig": true}})
    );
    assert!(!format!("{record:?}").contains("strictConfig"));
}
