//! The table of releases: what each does, as told in `docs/fidelity.md`.

use std::time::Duration;

use aibom_qual::controller::profile::kind::Origin;
use aibom_qual::controller::profile::{
    self, ApiVersion, ClearTextCredentials, MissingStatus, PodAttribution, Profile, Readiness,
    Redaction, ReplicaSetInformer, SchemaSkew, Signatures, SinkFailure, ThirdPartyWatch,
};
use serde_json::Value;

use crate::fixtures::json_file;

/// A row of the table: what is the same for two releases stands twice.
fn row<T>(of: impl Fn(&Profile) -> T) -> [T; 4] {
    profile::ALL.each_ref().map(of)
}

#[test]
fn every_profile_is_found_by_its_name() {
    assert_eq!(row(|p| p.name), ["1.2.0", "1.3.0", "1.5.1", "1.6.0"]);
    for profile in &profile::ALL {
        let found = Profile::named(profile.name).expect("is known");
        assert_eq!(found.name, profile.name);
        assert_eq!(profile.version, format!("v{}", profile.name));
    }
    let unknown = Profile::named("v1.3.0").expect_err("is unknown");
    assert_eq!(unknown.to_string(), r#"no profile is called "v1.3.0""#);
    assert_eq!(
        unknown.hint().as_deref(),
        Some("known profiles: 1.2.0, 1.3.0, 1.5.1, 1.6.0")
    );
}

#[test]
fn api_versions() {
    use ApiVersion::{V1Alpha1, V1Beta1};
    assert_eq!(row(|p| p.api.in_use), [V1Alpha1, V1Beta1, V1Beta1, V1Beta1]);
    assert_eq!(
        row(|p| p.api.storage),
        [V1Alpha1, V1Beta1, V1Beta1, V1Beta1]
    );
    assert_eq!(row(|p| p.api.served.len()), [1, 2, 2, 2]);
    assert_eq!(
        row(|p| p.api.chart_config),
        [V1Alpha1, V1Alpha1, V1Beta1, V1Beta1]
    );
    let additions = row(|p| {
        let paths = p.api.config_additions.iter().map(|field| field.path);
        paths.collect::<Vec<_>>().join(" ")
    });
    assert_eq!(
        additions,
        [
            "",
            "",
            "verification",
            "verification discovery.workloadKinds"
        ]
    );
}

#[test]
fn detection_and_pods() {
    assert_eq!(row(|p| p.built_in_kinds().count()), [4, 4, 4, 5]);
    let third_party = |p: &Profile| {
        p.kinds
            .iter()
            .filter(|k| k.origin == Origin::ThirdParty)
            .count()
    };
    assert_eq!(row(third_party), [1, 1, 1, 6]);
    assert_eq!(
        row(|p| p.kind("batch", "CronJob").is_some()),
        [false, false, false, true]
    );
    assert_eq!(row(|p| p.detection.runtimes.len()), [10, 10, 15, 24]);
    assert_eq!(row(|p| p.detection.model_env.len()), [2, 2, 4, 4]);
    assert_eq!(
        row(|p| p.detection.reserved_annotations.len()),
        [0, 0, 2, 2]
    );
    let signed = |p: &Profile| p.detection.signatures != Signatures::Ignored;
    assert_eq!(row(signed), [false, false, true, true]);
    assert_eq!(
        row(|p| p.detection.component_cap),
        [None, None, None, Some(256)]
    );
    let by_owner = |p: &Profile| p.pods == PodAttribution::OwnerChain;
    assert_eq!(row(by_owner), [false, false, true, true]);
    let redacts = |p: &Profile| p.document.redaction == Redaction::Credentials;
    assert_eq!(row(redacts), [false, false, true, true]);
    assert_eq!(row(|p| p.document.property_prefix), ["aibom."; 4]);
}

#[test]
fn reconciling() {
    use MissingStatus::{RequeueAfter, Return};
    use SinkFailure::WaitForChange;
    let minute = SinkFailure::RequeueAfter(Duration::from_secs(60));
    assert_eq!(
        row(|p| p.reconcile.sink_failure),
        [WaitForChange, WaitForChange, WaitForChange, minute]
    );
    assert_eq!(
        row(|p| p.reconcile.missing_status),
        [Return, Return, Return, RequeueAfter(Duration::from_secs(5))]
    );
    assert_eq!(
        row(|p| p.reconcile.roll_up.is_some()),
        [false, false, false, true]
    );
    let at_start = |p: &Profile| p.reconcile.third_party == ThirdPartyWatch::AtStart;
    assert_eq!(row(at_start), [true, true, true, false]);
    let early = |p: &Profile| p.reconcile.replica_sets == ReplicaSetInformer::DeploymentReconcile;
    assert_eq!(row(early), [false, false, true, true]);
    // Two objects of its own, Namespace and Pod, and one per kind that every cluster serves.
    assert_eq!(row(|p| 4 + p.built_in_kinds().count()), [8, 8, 8, 9]);
}

#[test]
fn configuration_and_process() {
    let refuses = |p: &Profile| p.config.clear_text_credentials == ClearTextCredentials::Refused;
    assert_eq!(row(refuses), [false, false, true, true]);
    assert_eq!(
        row(|p| p.config.kind_allow_list),
        [false, false, false, true]
    );
    let notices = |p: &Profile| p.config.schema_skew != SchemaSkew::Unnoticed;
    assert_eq!(row(notices), [false, false, false, true]);
    let probe = Readiness::Informers(Duration::from_secs(2));
    assert_eq!(
        row(|p| p.process.readiness),
        [Readiness::Latch, probe, probe, probe]
    );
    assert_eq!(row(|p| p.metrics.concat().len()), [5, 5, 5, 8]);
}

#[test]
fn patterns_are_those_of_the_vectors_in_their_order() {
    let file = json_file("vectors/runtime-patterns.json");
    let pairs = |list: &Value| {
        let rows = list.as_array().expect("patterns").iter();
        rows.map(|row| {
            let text = |key: &str| row[key].as_str().expect("is text").to_owned();
            (text("runtime"), text("pattern"))
        })
        .collect::<Vec<_>>()
    };
    let own = |profile: &Profile| {
        let rows = profile.detection.runtimes.iter();
        rows.map(|row| (row.name.to_owned(), row.pattern.to_owned()))
            .collect::<Vec<_>>()
    };
    let lists = &file["runtimeImagePatterns"];
    assert_eq!(own(&profile::V1_3_0), pairs(&lists["1.0.0-1.3.0"]));
    assert_eq!(own(&profile::V1_5_1), pairs(&lists["1.4.0-1.5.1"]));
    let added = &lists["1.6.x"];
    let of_1_6 = own(&profile::V1_6_0);
    for row in pairs(&added["added_seen_verbatim"]) {
        assert!(of_1_6.contains(&row), "{row:?}");
    }
    for row in added["added_image_known_regex_inferred"]
        .as_array()
        .expect("rows")
    {
        let text = |key: &str| row[key].as_str().expect("is text").to_owned();
        assert!(of_1_6.contains(&(text("runtime"), text("inferred_pattern"))));
    }
    assert_eq!(of_1_6[2].1, r"^rocm/vllm(?:[:@/]|$)");
    let list =
        |value: &Value| -> Vec<String> { serde_json::from_value(value.clone()).expect("list") };
    let env = &file["modelEnvVarNames"];
    assert_eq!(profile::V1_3_0.detection.model_env, list(&env["1.0-1.4"]));
    assert_eq!(profile::V1_5_1.detection.model_env, list(&env["1.5.0+"]));
    assert_eq!(
        profile::V1_3_0.detection.model_flags,
        list(&file["modelArgFlags"])
    );
    assert_eq!(
        profile::V1_3_0.detection.model_paths,
        list(&file["modelVolumePathPrefixes"])
    );
}
