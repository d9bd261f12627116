//! A configuration and its life, as processes of the embedded controller see and tell it
//! (`controller.md` F and M).

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::configuration::{Cluster, Story, assert_condition, assert_valid, described, start};
use crate::support::World;
use aibom_qual::cluster::client::connect;
use aibom_qual::controller::api::meta::ConditionStatus;
use aibom_qual::controller::api::object::ConfigObject;
use aibom_qual::plane::Plane;
use aibom_qual::plane::event::Silent;
use serde_json::{Value, json};

const STRICT: &[&str] = &["--strict-config-readiness"];
const INVALID: &str = "[+]cache-sync ok\n[-]config-valid failed: reason withheld\n\
                       healthz check failed\n";
const VALID: &str = "[+]cache-sync ok\n[+]config-valid ok\nhealthz check passed\n";
const LENIENT: &str = "[+]cache-sync ok\nhealthz check passed\n";

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
