//! Reads fixtures, and builds the objects that several tests need.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::sync::Mutex;

use aibom_qual::controller::detect::{Component, Detector, Scrape};
use aibom_qual::controller::document::redact::Redactor;
use aibom_qual::controller::document::{Document, Source};
use aibom_qual::controller::profile::image::RUNTIMES_1_4;
use aibom_qual::controller::profile::{Detection, Profile, V1_3_0};
use aibom_qual::controller::workload::Workload;
use chrono::{DateTime, Utc};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// Release 1.4.0, which no profile is shipped for: the vectors know it, and it shows that a release
/// is nothing but its deltas.
pub(crate) const V1_4_0: Profile = Profile {
    name: "1.4.0",
    version: "v1.4.0",
    detection: Detection {
        runtimes: &RUNTIMES_1_4,
        ..V1_3_0.detection
    },
    ..V1_3_0
};

pub(crate) const HEX: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

pub(crate) fn bytes(name: &str) -> Vec<u8> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("fixtures")
        .join(name);
    fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

pub(crate) fn json_file(name: &str) -> Value {
    serde_json::from_slice(&bytes(name)).expect("is JSON")
}

/// A Kubernetes object from its JSON.
pub(crate) fn object<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("is such an object")
}

pub(crate) fn time(text: &str) -> DateTime<Utc> {
    text.parse().expect("is a time")
}

/// A Deployment around the `spec` of its pods.
pub(crate) fn deployment(pod: Value) -> Deployment {
    object(json!({
        "metadata": {"name": "web", "namespace": "ns", "uid": "u", "generation": 1},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": pod},
        },
    }))
}

/// One detector per profile, since compiling its patterns takes far longer than using them.
static DETECTORS: Mutex<BTreeMap<&str, Detector>> = Mutex::new(BTreeMap::new());

pub(crate) fn scrape(profile: &Profile, workload: &Workload<'_>, pods: &[&Pod]) -> Scrape {
    let mut detectors = DETECTORS.lock().expect("no test failed inside");
    detectors
        .entry(profile.name)
        .or_insert_with(|| Detector::new(profile).expect("its patterns compile"))
        .scrape(workload, pods)
}

pub(crate) fn redactor(profile: &Profile) -> Redactor {
    Redactor::new(profile.document.redaction).expect("compiles")
}

/// The document under `profile`, with both times at `at`.
pub(crate) fn document(
    profile: &Profile,
    workload: &Workload<'_>,
    scrape: &Scrape,
    version: &str,
    at: &str,
) -> Document {
    let source = Source {
        workload,
        scrape,
        controller_version: version,
        scraped_at: time(at),
        built_at: time(at),
    };
    Document::build(&source, &profile.document, &redactor(profile)).expect("builds")
}

/// A component as `type name locator`; a locator in the first container begins there.
pub(crate) fn line(component: &Component) -> String {
    let locator = component.evidence.locator.as_str();
    let locator = locator
        .strip_prefix("spec.template.spec.containers[0].")
        .unwrap_or(locator);
    format!(
        "{} {} {locator}",
        component.component_type.as_str(),
        component.name
    )
}
