//! A configuration and its life, as processes of the embedded controller see and tell it
//! (`controller.md` F and M).

#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests fail like the tests themselves"
)]

#[path = "support/definitions.rs"]
mod definitions;
#[path = "support/helm.rs"]
mod helm;
#[path = "support/process.rs"]
mod process;
mod support;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use aibom_qual::cluster::client::connect;
use aibom_qual::controller::api::meta::ConditionStatus;
use aibom_qual::controller::api::object::ConfigObject;
use aibom_qual::controller::api::release::{ApiKind, ApiVersion};
use aibom_qual::plane::Plane;
use aibom_qual::plane::event::Silent;
use definitions::{apply, objects};
use k8s_openapi::api::core::v1::Event;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use process::{Process, until};
use serde_json::{Value, json};
use support::World;

const STRICT: &[&str] = &["--strict-config-readiness"];
const INVALID: &str = "[+]cache-sync ok\n[-]config-valid failed: reason withheld\n\
                       healthz check failed\n";
const VALID: &str = "[+]cache-sync ok\n[+]config-valid ok\nhealthz check passed\n";
const LENIENT: &str = "[+]cache-sync ok\nhealthz check passed\n";

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
struct Cluster {
    client: Client,
    configs: Api<ConfigObject>,
    events: Api<Event>,
}

impl Cluster {
    fn new(client: Client) -> Self {
        Self {
            configs: objects(&client, ApiKind::ControllerConfig, ApiVersion::V1Beta1),
            events: Api::namespaced(client.clone(), "default"),
            client,
        }
    }

    async fn create(&self, spec: &Value) {
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
    async fn merge(&self, spec: &Value) {
        let patch = Patch::Merge(json!({"spec": spec}));
        let parameters = PatchParams::default();
        let changed = self.configs.patch("default", &parameters, &patch).await;
        changed.expect("it is changed");
    }

    async fn delete(&self) {
        let parameters = DeleteParams::default();
        let deleted = self.configs.delete("default", &parameters).await;
        deleted.expect("it is deleted");
    }

    /// The configuration once a controller has looked at what it is now.
    async fn seen(&self) -> ConfigObject {
        let look = async || self.configs.get("default").await.expect("it is there");
        let is_seen = |config: &ConfigObject| {
            Some(config.status.observed_generation) == config.metadata.generation
        };
        until("the controller looks at it", look, is_seen).await
    }

    /// The configuration once `Degraded` has this reason.
    async fn degraded(&self, reason: &str) -> ConfigObject {
        let look = async || self.configs.get("default").await.expect("it is there");
        let what = format!("it is degraded by {reason}");
        until(&what, look, |config| {
            described(config, "Degraded").is_some_and(|(_, told, _)| told == reason)
        })
        .await
    }

    /// Events in the order in which they were first written: about what, type, reason, and how often.
    async fn told(&self) -> Vec<String> {
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

    async fn forget_events(&self) {
        let (delete, list) = (DeleteParams::default(), ListParams::default());
        let deleted = self.events.delete_collection(&delete, &list).await;
        deleted.expect("they are deleted");
    }

    /// Applies the definitions of this release, and waits until the published schema has its fields.
    async fn define(&self, release: &str, has_verification: bool) {
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
fn described(config: &ConfigObject, type_: &str) -> Option<(ConditionStatus, String, String)> {
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
fn assert_condition(
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
fn assert_valid(config: &ConfigObject) {
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

/// A regular expression that does not compile.
fn broken() -> Value {
    json!({"discovery": {"inferenceRuntimeImagePatterns": [
        {"runtime": "fine", "pattern": "^fine/"},
        {"runtime": "bad", "pattern": "(unclosed"},
    ]}})
}

#[track_caller]
fn assert_invalid(config: &ConfigObject, reason: &str, message: &str) {
    let error = "spec.discovery.inferenceRuntimeImagePatterns[1].pattern: Runtime \"bad\" pattern \
                 \"(unclosed\" failed to compile as a Go regexp: error parsing regexp: missing \
                 closing ): `(unclosed`. Anchor the pattern (e.g., ^vllm/.*) and escape regex \
                 metacharacters in literal path segments.";
    assert_condition(
        config,
        "Ready",
        ConditionStatus::False,
        "ConfigInvalid",
        error,
    );
    assert_condition(config, "Degraded", ConditionStatus::True, reason, message);
}

/// A process, and what it has told so far.
struct Story<'a> {
    cluster: &'a Cluster,
    process: Process,
    told: Vec<String>,
}

impl Story<'_> {
    /// Waits until these events have been added.
    async fn adds(&mut self, events: &[&str]) {
        self.told
            .extend(events.iter().map(|event| (*event).to_owned()));
        self.tells().await;
    }

    /// Waits until this event has happened once more, from this count on.
    async fn repeats(&mut self, event: &str, count: u32) {
        let known = format!("{event} {count}");
        let told = self.told.iter_mut().find(|told| **told == known);
        *told.expect("it was told") = format!("{event} {}", count + 1);
        self.tells().await;
    }

    async fn tells(&self) {
        let what = format!("it tells {:?}", self.told);
        let told = async || self.cluster.told().await;
        until(&what, told, |told| *told == self.told).await;
    }

    /// Waits until the process has counted reloads so, and no others.
    async fn counts(&self, results: &[(&str, u32)]) {
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
    async fn answers(&self, status: u16, text: &str) {
        let wanted = Some((status, text.to_owned()));
        let answer = async || self.process.health("/readyz?verbose").await;
        until(text, answer, |answer| *answer == wanted).await;
    }
}

fn start<'a>(
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

#[tokio::test(flavor = "multi_thread")]
async fn the_life_of_a_configuration() {
    let world = World::new();
    let plane = Plane::start(&world.throw_away(), Arc::new(Silent)).await;
    let plane = plane.expect("a plane");
    let kubeconfig = plane.kubeconfig();
    let client = connect(&kubeconfig).await.expect("a client");
    let cluster = Cluster::new(client);
    cluster.define("1.3.0", false).await;

    let story = start(&world, &kubeconfig, &cluster, "1.3.0", STRICT);
    every_change_is_told_once(story).await;
    cluster.forget_events().await;
    an_invalid_configuration_at_the_start(&world, &kubeconfig, &cluster).await;
    cluster.forget_events().await;
    an_old_schema_degrades_and_a_new_one_clears_it(&world, &kubeconfig, &cluster).await;
    plane.stop().await.expect("the plane stops");
}

/// The rows of `controller.md` F.2, in one process with strict readiness.
async fn every_change_is_told_once(mut story: Story<'_>) {
    let cluster = story.cluster;
    story
        .adds(&[
            "Pod Normal ControllerStarting 1",
            "Pod Warning AIBOMControllerConfigMissing 1",
        ])
        .await;
    story.counts(&[]).await;
    story.answers(200, VALID).await;

    let loaded = "AIBOMControllerConfig Normal ConfigLoaded";
    cluster.create(&json!({"bomGeneration": {}})).await;
    story
        .adds(&["AIBOMControllerConfig Normal ConfigLoaded 1"])
        .await;
    assert_valid(&cluster.seen().await);
    story.counts(&[("loaded", 1)]).await;

    // From good to good nothing is told.
    let threshold = |bytes: u32| json!({"bomGeneration": {"inlineThresholdBytes": bytes}});
    cluster.merge(&threshold(4096)).await;
    let good = cluster.seen().await;
    assert_valid(&good);

    cluster.merge(&broken()).await;
    story
        .adds(&["AIBOMControllerConfig Warning ConfigInvalidUsingLastKnownGood 1"])
        .await;
    let bad = cluster.seen().await;
    let retained = "Spec is invalid; retaining last-known-good snapshot from generation 2. Edit spec \
                    to clear Ready=False.";
    assert_invalid(&bad, "RunningOnLastKnownGood", retained);
    assert_eq!(bad.status.last_loaded_at, good.status.last_loaded_at);
    story
        .counts(&[("invalid_using_lkg", 1), ("loaded", 1)])
        .await;
    story.answers(500, INVALID).await;

    // From bad to bad only the generation moves.
    cluster.merge(&threshold(8192)).await;
    let mut still_bad = cluster.seen().await;
    assert_invalid(&still_bad, "RunningOnLastKnownGood", retained);
    for condition in &mut still_bad.status.conditions {
        condition.observed_generation -= 1;
    }
    assert_eq!(still_bad.status.conditions, bad.status.conditions);

    let repaired = json!({"discovery": {"inferenceRuntimeImagePatterns": null}});
    cluster.merge(&repaired).await;
    story
        .told
        .push("AIBOMControllerConfig Normal ConfigRecovered 1".to_owned());
    story.repeats(loaded, 1).await;
    assert_valid(&cluster.seen().await);
    let recovered = [("invalid_using_lkg", 1), ("loaded", 1), ("recovered", 1)];
    story.counts(&recovered).await;
    story.answers(200, VALID).await;

    // Without the object its last good state is gone as well.
    let deleted = "Pod Warning AIBOMControllerConfigDeleted";
    cluster.delete().await;
    story
        .adds(&["Pod Warning AIBOMControllerConfigDeleted 1"])
        .await;
    story.counts(&recovered).await;
    cluster.create(&broken()).await;
    story
        .adds(&["AIBOMControllerConfig Warning ConfigInvalid 1"])
        .await;
    let bad = cluster.seen().await;
    let defaults =
        "Spec is invalid; running on compiled-in defaults. Edit spec to clear Ready=False.";
    assert_invalid(&bad, "RunningOnDefaults", defaults);
    assert_eq!(bad.status.last_loaded_at, None);
    let [lkg, loads, recoveries] = recovered;
    let invalid = ("invalid_using_defaults", 1);
    story.counts(&[invalid, lkg, loads, recoveries]).await;
    story.answers(500, INVALID).await;

    // A missing object is fine.
    cluster.delete().await;
    story.repeats(deleted, 1).await;
    story.answers(200, VALID).await;
    cluster.create(&json!({})).await;
    story
        .adds(&["AIBOMControllerConfig Normal ConfigLoaded 1"])
        .await;
    assert_valid(&cluster.seen().await);
    story
        .counts(&[invalid, lkg, ("loaded", 2), recoveries])
        .await;

    // Whatever would be told too much would come soon.
    tokio::time::sleep(Duration::from_secs(1)).await;
    story.tells().await;
    let requests = story.process.requests().await;
    let number = |method: &str| requests.get(method).copied().unwrap_or_default();
    // Events: 8 different ones, and one of each of two that were told before. Statuses: one for each
    // generation of three objects.
    assert_eq!(
        (
            number("POST"),
            number("PATCH"),
            number("PUT"),
            number("DELETE")
        ),
        (8, 2, 7, 0),
        "{requests:?}"
    );
    story.process.stop();
}

/// A process that finds it invalid has no last good one, and without the strict flag it is ready.
async fn an_invalid_configuration_at_the_start(
    world: &World,
    kubeconfig: &Path,
    cluster: &Cluster,
) {
    cluster.merge(&broken()).await;
    let mut story = start(world, kubeconfig, cluster, "1.3.0", &[]);
    story
        .adds(&[
            "Pod Normal ControllerStarting 1",
            "AIBOMControllerConfig Warning ConfigInvalid 1",
        ])
        .await;
    let (status, reason, _) = described(&cluster.seen().await, "Degraded").expect("a condition");
    assert_eq!(
        (status, reason.as_str()),
        (ConditionStatus::True, "RunningOnDefaults")
    );
    story.counts(&[("invalid_using_defaults", 1)]).await;
    story.answers(200, LENIENT).await;

    let repaired = json!({"discovery": {"inferenceRuntimeImagePatterns": null}});
    cluster.merge(&repaired).await;
    story
        .adds(&[
            "AIBOMControllerConfig Normal ConfigRecovered 1",
            "AIBOMControllerConfig Normal ConfigLoaded 1",
        ])
        .await;
    assert_valid(&cluster.seen().await);
    story
        .counts(&[("invalid_using_defaults", 1), ("recovered", 1)])
        .await;
    story.process.stop();
}

/// 1.6.0 on the definitions of 1.3.0 (`controller.md` F.4).
async fn an_old_schema_degrades_and_a_new_one_clears_it(
    world: &World,
    kubeconfig: &Path,
    cluster: &Cluster,
) {
    const SKEW: &str = "SchemaPredatesController";
    let loaded = "Configuration loaded successfully; runtime snapshot is in effect.";
    let touch = |bytes: u32| json!({"bomGeneration": {"inlineThresholdBytes": bytes}});
    let starting = "Pod Normal ControllerStarting 1";
    let start = || start(world, kubeconfig, cluster, "1.6.0", STRICT);

    let mut story = start();
    let config = cluster.degraded(SKEW).await;
    assert_condition(
        &config,
        "Ready",
        ConditionStatus::True,
        "ConfigLoaded",
        loaded,
    );
    let (status, _, message) = described(&config, "Degraded").expect("a condition");
    assert_eq!(status, ConditionStatus::True);
    for part in ["[verification]", "pruned", "kubectl apply", "restart"] {
        assert!(message.contains(part), "{message}");
    }
    let skew = "AIBOMControllerConfig Warning SchemaPredatesController 1";
    story
        .adds(&[
            starting,
            "AIBOMControllerConfig Normal ConfigLoaded 1",
            skew,
        ])
        .await;
    story.answers(200, VALID).await;
    // It is told once, however often it is seen.
    cluster.merge(&touch(4096)).await;
    let config = cluster.seen().await;
    assert_eq!(
        described(&config, "Degraded"),
        Some((status, SKEW.to_owned(), message))
    );
    story.answers(200, VALID).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    story.tells().await;
    let log = story.process.stop();
    let lines = log
        .lines()
        .filter(|line| line.contains("lacks spec fields"));
    assert_eq!(lines.count(), 1, "{log}");

    // A restart looks again.
    cluster.define("1.6.0", true).await;
    cluster.forget_events().await;
    let mut story = start();
    cluster.degraded("ConfigLoaded").await;
    story
        .adds(&[starting, "AIBOMControllerConfig Normal ConfigLoaded 1"])
        .await;
    assert_valid(&cluster.seen().await);

    // So does a change of the configuration, in both directions.
    cluster.define("1.3.0", false).await;
    cluster.merge(&touch(8192)).await;
    cluster.degraded(SKEW).await;
    story.adds(&[skew]).await;
    cluster.define("1.6.0", true).await;
    cluster.merge(&touch(16384)).await;
    cluster.degraded("ConfigLoaded").await;
    story
        .adds(&["AIBOMControllerConfig Normal SchemaCurrent 1"])
        .await;
    assert_valid(&cluster.seen().await);
    story.process.stop();
}
