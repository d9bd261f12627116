//! Statuses: the whole example, sinks, limits, failures.

use std::time::Duration;

use aibom_qual::controller::detect::Scrape;
use aibom_qual::controller::detect::component::ExtractionError;
use aibom_qual::controller::document::Document;
use aibom_qual::controller::profile::{Profile, SinkFailure, V1_3_0, V1_6_0};
use aibom_qual::controller::status::{Build, Failure, Limits, SinkOutcome, Status};
use aibom_qual::controller::workload::Workload;
use aibom_qual::controller::{input_hash, name};
use k8s_openapi::api::apps::v1::Deployment;
use serde_json::{Value, json};

use crate::fixtures::{self, json_file, object, time};

const AT: &str = "2026-08-19T12:00:00Z";

fn example() -> Deployment {
    let hashes = json_file("vectors/example.hashes.json");
    let cases = json_file("vectors/deployment-cases.json");
    let mut deployment: Deployment = object(cases["cases"][1]["deployment"].clone());
    deployment.metadata.uid = hashes["uid"].as_str().map(str::to_owned);
    deployment.metadata.generation = Some(1);
    deployment
}

/// Builds a status for the example, with everything that may vary.
struct Case {
    profile: Profile,
    sinks: Vec<SinkOutcome>,
    limits: Limits,
    errors: Vec<&'static str>,
    previous_errors: i32,
}

impl Default for Case {
    fn default() -> Self {
        Self {
            profile: V1_3_0,
            sinks: Vec::new(),
            limits: Limits::default(),
            errors: Vec::new(),
            previous_errors: 0,
        }
    }
}

impl Case {
    fn status(&self) -> Value {
        serde_json::to_value(self.typed()).expect("encodes")
    }

    fn typed(&self) -> Status {
        let deployment = example();
        let workload = Workload::from(&deployment);
        let found = fixtures::scrape(&self.profile, &workload, &[]);
        let errors = self.errors.iter().map(|source| ExtractionError {
            source: (*source).to_owned(),
        });
        let scrape = Scrape {
            errors: errors.collect(),
            ..found
        };
        let version = self.profile.version;
        let document: Document = fixtures::document(&self.profile, &workload, &scrape, version, AT);
        let build = Build {
            workload: &workload,
            scrape: &scrape,
            input_hash: &input_hash::of(&scrape).expect("encodes"),
            document: &document,
            sinks: &self.sinks,
            previous_errors: self.previous_errors,
        };
        let redactor = fixtures::redactor(&self.profile);
        Status::built(
            &build,
            self.limits,
            &self.profile.reconcile,
            &redactor,
            time("2026-08-19T12:00:00.7Z"),
        )
    }

    fn large(sinks: Vec<SinkOutcome>) -> Value {
        let limits = Limits {
            inline_threshold_bytes: 2817,
            ..Limits::default()
        };
        Self {
            sinks,
            limits,
            ..Self::default()
        }
        .status()["bomDocument"]
            .take()
    }
}

fn gcs(delivered: Result<&str, &str>) -> SinkOutcome {
    SinkOutcome {
        name: "gcs",
        write_only: false,
        delivered: delivered.map(str::to_owned).map_err(str::to_owned),
    }
}

fn webhook(delivered: Result<&str, &str>) -> SinkOutcome {
    SinkOutcome {
        name: "webhook",
        write_only: true,
        delivered: delivered.map(str::to_owned).map_err(str::to_owned),
    }
}

#[test]
fn the_whole_object_of_the_example_is_the_one_expected() {
    let expected = json_file("vectors/example.aibom.v1.3.0.json");
    assert_eq!(Case::default().status(), expected["status"]);
    let deployment = example();
    let owner = name::owner(&Workload::from(&deployment));
    assert_eq!(json!([owner]), expected["metadata"]["ownerReferences"]);
}

#[test]
fn a_status_reads_back_as_it_was_written() {
    let status = Case::default().typed();
    let read: Status = object(serde_json::to_value(&status).expect("encodes"));
    assert_eq!(read, status);
}

#[test]
fn a_large_document_goes_to_the_sink_it_can_be_read_back_from() {
    let truncation = |sinks| Case::large(sinks)["truncationReason"].clone();
    let external = |sinks| Case::large(sinks)["external"].clone();
    let bucket = json!({"sink": "gcs", "url": "gs://b/p"});
    let hook = json!({"sink": "webhook", "url": "https://h", "writeOnly": true});
    let (gcs_ok, hook_ok) = (|| gcs(Ok("gs://b/p")), || webhook(Ok("https://h")));
    assert_eq!(external(vec![gcs_ok()]), bucket);
    assert_eq!(external(vec![hook_ok(), gcs_ok()]), bucket);
    assert_eq!(external(vec![hook_ok()]), hook);
    assert_eq!(external(vec![gcs(Err("x")), hook_ok()]), hook);
    assert_eq!(
        truncation(vec![]),
        "BOM size 2818 bytes exceeds inline threshold 2817 bytes and no external sink is \
         configured. Configure a GCS or webhook sink in AIBOMControllerConfig to retrieve the full \
         BOM."
    );
    assert_eq!(
        truncation(vec![webhook(Err("x"))]),
        "BOM size 2818 bytes exceeds inline threshold 2817 bytes and no configured external sink \
         succeeded this cycle (see the SinkFailed condition). The full BOM was not delivered and \
         will be retried on the next reconcile."
    );
    let lost = Case::large(vec![]);
    assert_eq!(lost["truncated"], true);
    assert_eq!(lost["inline"], Value::Null);
}

#[test]
fn a_threshold_that_makes_no_sense_is_replaced_or_clamped() {
    for (configured, inline) in [
        (0, true),
        (-1, true),
        (1, false),
        (1 << 40, true),
        (2818, true),
    ] {
        let limits = Limits {
            inline_threshold_bytes: configured,
            ..Limits::default()
        };
        let case = Case {
            limits,
            ..Case::default()
        };
        let status = case.status();
        assert_eq!(
            status["bomDocument"]["inline"].is_object(),
            inline,
            "{configured}"
        );
    }
}

#[test]
fn sinks_move_two_conditions_and_leave_ready_alone() {
    let conditions = |sinks| {
        let case = Case {
            sinks,
            ..Case::default()
        };
        let status = case.status();
        let conditions = status["conditions"].as_array().expect("conditions");
        conditions
            .iter()
            .take(3)
            .map(|c| format!("{} {} {}", c["status"], c["reason"], c["message"]).replace('"', ""))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        conditions(vec![webhook(Ok("https://h"))])[1..],
        [
            "True AllSinksOK all sinks updated",
            "False AllSinksOK no sink failures"
        ]
    );
    let error = "webhook sink: POST URL returned HTTP 503 (empty body)";
    assert_eq!(
        conditions(vec![gcs(Err("no bucket")), webhook(Err(error))]),
        [
            "True BOMGenerated BOM generated successfully".to_owned(),
            format!(
                "False OneOrMoreSinksDown external sink failures: gcs (no bucket), webhook ({error})"
            ),
            format!(
                "True OneOrMoreSinksDown external sink failures: gcs (no bucket), webhook ({error})"
            ),
        ]
    );
}

#[test]
fn a_failed_sink_is_tried_again_by_releases_that_forget_the_input_hash() {
    let hash = |profile, sink| {
        let case = Case {
            profile,
            sinks: vec![sink],
            ..Case::default()
        };
        !case.typed().input_hash.is_empty()
    };
    assert!(hash(V1_3_0, webhook(Err("x"))));
    assert!(!hash(V1_6_0, webhook(Err("x"))));
    assert!(hash(V1_6_0, webhook(Ok("https://h"))));
    let minute = SinkFailure::RequeueAfter(Duration::from_secs(60));
    assert_eq!(V1_6_0.reconcile.sink_failure, minute);
}

#[test]
fn errors_in_a_row_make_an_aibom_stale_and_a_good_build_forgets_them() {
    let case = |previous_errors, errors: &[&'static str]| {
        Case {
            previous_errors,
            errors: errors.to_vec(),
            ..Case::default()
        }
        .status()
    };
    let below = case(1, &["env_var"]);
    assert_eq!(below["consecutiveErrors"], 2);
    assert_eq!(below["conditions"][3]["status"], "False");
    let at = case(2, &["volume_source", "env_var"]);
    assert_eq!(at["conditions"][3]["reason"], "ExtractionErrorsPersistent");
    assert_eq!(
        at["conditions"][3]["message"],
        "workload produced extraction errors on 3 consecutive reconciles; sources: env_var, \
         volume_source"
    );
    assert_eq!(case(9, &[])["consecutiveErrors"], Value::Null);
}

#[test]
fn the_fast_path_moves_the_time_and_the_generation_only() {
    let before = Case::default().typed();
    let after = before.clone().refreshed(7, time("2026-08-19T13:00:00.9Z"));
    assert_eq!(after.last_reconciled, Some(time("2026-08-19T13:00:00Z")));
    assert_eq!(after.observed_generation, 7);
    let reset = Status {
        last_reconciled: before.last_reconciled,
        observed_generation: before.observed_generation,
        ..after
    };
    assert_eq!(reset, before);
}

#[test]
fn a_failure_counts_up_and_keeps_everything_else() {
    let before = Case::default().typed();
    let build = |text: &str| Failure::Build(text.to_owned());
    let first = before
        .clone()
        .failed(&build("no"), 7, time("2026-08-19T13:00:00Z"));
    let second = first
        .clone()
        .failed(&build("nope"), 8, time("2026-08-19T14:00:00Z"));
    assert_eq!(
        (first.consecutive_errors, second.consecutive_errors),
        (1, 2)
    );
    assert_eq!(
        serde_json::to_value(&second.conditions[0]).expect("encodes"),
        json!({
            "type": "Ready",
            "status": "False",
            "observedGeneration": 8,
            "lastTransitionTime": "2026-08-19T13:00:00Z",
            "reason": "BuildFailed",
            "message": "BOM build failed: nope",
        })
    );
    assert_eq!(second.conditions[1..], before.conditions[1..]);
    assert_eq!(second.last_reconciled, before.last_reconciled);
    assert_eq!(second.input_hash, before.input_hash);
    assert_eq!(second.observed_generation, before.observed_generation);
    let scrape = before.failed(&Failure::Scrape("no".to_owned()), 1, time(AT));
    assert_eq!(scrape.conditions[0].reason, "ScrapeFailed");
    assert_eq!(scrape.conditions[0].message, "scrape failed: no");
}
