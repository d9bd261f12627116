//! The configuration object in a test, and what a process tells of it.

use std::path::Path;

use aibom_qual::controller::api::meta::ConditionStatus;
use aibom_qual::controller::api::object::ConfigObject;
use aibom_qual::controller::api::release::{ApiKind, ApiVersion};
use k8s_openapi::api::core::v1::Event;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};

use crate::definitions::{apply, objects};
use crate::process::{Process, until};
use crate::support::World;

/// Messages of events by their reason.
const MESSAGES: [(&str, &str); 5] = [
    (
        "AIBOMControllerConfigMissing",
        "AIBOMControllerConfig/default not found; running on compiled-in defaults. Create the CR to \
         override defaults.",
    ),
    (
        "AIBOMControllerConfigDeleted",
        "AIBOMControllerConfig/default was deleted; reverting to compiled-in defaults.",
    ),
    (
        "ConfigLoaded",
        "AIBOMControllerConfig loaded; runtime snapshot updated.",
    ),
    (
        "ConfigRecovered",
        "AIBOMControllerConfig parsed cleanly; runtime snapshot updated and Degraded condition \
         cleared.",
    ),
    (
        "SchemaCurrent",
        "The served schema of AIBOMControllerConfig has every field of the controller.",
    ),
];

/// One cluster and its configuration.
pub(crate) struct Cluster {
    client: Client,
    configs: Api<ConfigObject>,
    events: Api<Event>,
}

impl Cluster {
    pub(crate) fn new(client: Client) -> Self {
        Self {
            configs: objects(&client, ApiKind::ControllerConfig, ApiVersion::V1Beta1),
            events: Api::namespaced(client.clone(), "default"),
            client,
        }
    }

    pub(crate) async fn create(&self, spec: &Value) {
        let object = json!({
            "apiVersion": "aibom.k8saibom.dev/v1beta1",
            "kind": "AIBOMControllerConfig",
            "metadata": {"name": "default"},
            "spec": spec,
        });
        let object = serde_json::from_value(object).expect("a configuration");
        let created = self.configs.create(&PostParams::default(), &object).await;
        created.expect("it is created");
    }

    /// Merges this into the spec.
    pub(crate) async fn merge(&self, spec: &Value) {
        let patch = Patch::Merge(json!({"spec": spec}));
        let parameters = PatchParams::default();
        let changed = self.configs.patch("default", &parameters, &patch).await;
        changed.expect("it is changed");
    }

    pub(crate) async fn delete(&self) {
        let parameters = DeleteParams::default();
        let deleted = self.configs.delete("default", &parameters).await;
        deleted.expect("it is deleted");
    }

    /// The configuration once a controller has looked at what it is now.
    pub(crate) async fn seen(&self) -> ConfigObject {
        let look = async || self.configs.get("default").await.expect("it is there");
        let is_seen = |config: &ConfigObject| {
            Some(config.status.observed_generation) == config.metadata.generation
        };
        until("the controller looks at it", look, is_seen).await
    }

    /// The configuration once `Degraded` has this reason.
    pub(crate) async fn degraded(&self, reason: &str) -> ConfigObject {
        let look = async || self.configs.get("default").await.expect("it is there");
        let what = format!("it is degraded by {reason}");
        until(&what, look, |config| {
            described(config, "Degraded").is_some_and(|(_, told, _)| told == reason)
        })
        .await
    }

    /// Events in the order in which they were first written: about what, type, reason, and how often.
    pub(crate) async fn told(&self) -> Vec<String> {
        let listed = self.events.list(&ListParams::default()).await;
        let mut told: Vec<_> = listed
            .expect("a list")
            .items
            .into_iter()
            .filter(|event| {
                let about = event.involved_object.kind.as_deref();
                matches!(about, Some("Pod" | "AIBOMControllerConfig"))
            })
            .map(|event| {
                let name = event.metadata.name.expect("a name");
                let (_, nanoseconds) = name.rsplit_once('.').expect("a time");
                let reason = event.reason.expect("a reason");
                let message = event.message.expect("a message");
                if let Some((_, wanted)) = MESSAGES.iter().find(|(known, _)| *known == reason) {
                    assert_eq!(message, *wanted, "{reason}");
                }
                let line = format!(
                    "{} {} {reason} {}",
                    event.involved_object.kind.expect("a kind"),
                    event.type_.expect("a type"),
                    event.count.expect("a count")
                );
                (nanoseconds.to_owned(), line)
            })
            .collect();
        told.sort_unstable();
        told.into_iter().map(|(_, line)| line).collect()
    }

    pub(crate) async fn forget_events(&self) {
        let (delete, list) = (DeleteParams::default(), ListParams::default());
        let deleted = self.events.delete_collection(&delete, &list).await;
        deleted.expect("they are deleted");
    }

    /// Applies the definitions of this release, and waits until the published schema has its fields.
    pub(crate) async fn define(&self, release: &str, has_verification: bool) {
        apply(&self.client, release)
            .await
            .expect("they are accepted");
        let path = "/openapi/v3/apis/aibom.k8saibom.dev/v1beta1";
        let published = async || {
            let request = http::Request::get(path).body(Vec::new());
            let text = self.client.request_text(request.expect("a request")).await;
            text.is_ok_and(|text| text.contains("perClaimTimeoutSeconds"))
        };
        let is_so = |published: &bool| *published == has_verification;
        until("the schema is published", published, is_so).await;
    }
}

/// Status, reason and message of a condition.
pub(crate) fn described(
    config: &ConfigObject,
    type_: &str,
) -> Option<(ConditionStatus, String, String)> {
    let conditions = &config.status.conditions;
    let condition = conditions.iter().find(|known| known.type_ == type_)?;
    Some((
        condition.status,
        condition.reason.clone(),
        condition.message.clone(),
    ))
}

/// Asserts a condition whole, and that it speaks of the object as it is.
#[track_caller]
pub(crate) fn assert_condition(
    config: &ConfigObject,
    type_: &str,
    status: ConditionStatus,
    reason: &str,
    message: &str,
) {
    let wanted = Some((status, reason.to_owned(), message.to_owned()));
    assert_eq!(described(config, type_), wanted);
    let conditions = &config.status.conditions;
    let condition = conditions.iter().find(|known| known.type_ == type_);
    let observed = condition.map(|condition| condition.observed_generation);
    assert_eq!(observed, config.metadata.generation);
}

#[track_caller]
pub(crate) fn assert_valid(config: &ConfigObject) {
    let loaded = "Configuration loaded successfully; runtime snapshot is in effect.";
    assert_condition(
        config,
        "Ready",
        ConditionStatus::True,
        "ConfigLoaded",
        loaded,
    );
    let current = "Controller is running on the current spec snapshot.";
    assert_condition(
        config,
        "Degraded",
        ConditionStatus::False,
        "ConfigLoaded",
        current,
    );
    assert!(config.status.last_loaded_at.is_some());
}

/// A process, and what it has told so far.
pub(crate) struct Story<'a> {
    pub(crate) cluster: &'a Cluster,
    pub(crate) process: Process,
    pub(crate) told: Vec<String>,
}

impl Story<'_> {
    /// Waits until these events have been added.
    pub(crate) async fn adds(&mut self, events: &[&str]) {
        self.told
            .extend(events.iter().map(|event| (*event).to_owned()));
        self.tells().await;
    }

    /// Waits until this event has happened once more, from this count on.
    pub(crate) async fn repeats(&mut self, event: &str, count: u32) {
        let known = format!("{event} {count}");
        let told = self.told.iter_mut().find(|told| **told == known);
        *told.expect("it was told") = format!("{event} {}", count + 1);
        self.tells().await;
    }

    pub(crate) async fn tells(&self) {
        let what = format!("it tells {:?}", self.told);
        let told = async || self.cluster.told().await;
        until(&what, told, |told| *told == self.told).await;
    }

    /// Waits until the process has counted reloads so, and no others.
    pub(crate) async fn counts(&self, results: &[(&str, u32)]) {
        let wanted: Vec<_> = results
            .iter()
            .map(|(result, count)| {
                let family = "aibom_controller_config_reloads_total";
                (
                    format!("{family}{{result=\"{result}\"}}"),
                    f64::from(*count),
                )
            })
            .collect();
        let counted = async || {
            let series = self.process.series().await;
            let mut counted: Vec<_> = series
                .into_iter()
                .filter(|(series, _)| series.starts_with("aibom_controller_config_reloads_total"))
                .collect();
            counted.sort_by(|one, other| one.0.cmp(&other.0));
            counted
        };
        let is_so = |counted: &Vec<(String, f64)>| *counted == wanted;
        until(&format!("it counts {results:?}"), counted, is_so).await;
    }

    /// Waits until `/readyz?verbose` answers so.
    pub(crate) async fn answers(&self, status: u16, text: &str) {
        let wanted = Some((status, text.to_owned()));
        let answer = async || self.process.health("/readyz?verbose").await;
        until(text, answer, |answer| *answer == wanted).await;
    }
}

pub(crate) fn start<'a>(
    world: &World,
    kubeconfig: &Path,
    cluster: &'a Cluster,
    profile: &str,
    arguments: &[&str],
) -> Story<'a> {
    let pod = Some(("default", "controller"));
    Story {
        cluster,
        process: Process::start(world, kubeconfig, profile, arguments, pod),
        told: Vec::new(),
    }
}
