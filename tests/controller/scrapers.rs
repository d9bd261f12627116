//! The scrapers beside that for inference, and how their results come together.

use aibom_qual::controller::detect::component::Source;
use aibom_qual::controller::detect::{Category, Confidence};
use aibom_qual::controller::profile::kind::{INFERENCE_SERVICE, LEADER_WORKER_SET};
use aibom_qual::controller::profile::{V1_3_0, V1_6_0};
use aibom_qual::controller::status::Summary;
use aibom_qual::controller::workload::Workload;
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::json;

use crate::fixtures::{self, deployment, line, object};

#[test]
fn several_scrapers_share_a_workload_in_their_order() {
    let object = deployment(json!({"containers": [
        {"name": "a", "image": "langflowai/langflow:1", "env": [
            {"name": "LANGCHAIN_API_KEY", "value": "x"},
            {"name": "OPENAI_API_KEY", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
            {"name": "COHERE_API_KEY", "value": "x"},
        ]},
        {"name": "b", "image": "acme/pgvector:16", "args": ["--model", "m"]},
    ]}));
    let scrape = fixtures::scrape(&V1_3_0, &Workload::from(&object), &[]);
    assert_eq!(scrape.scraper_name, "inference.spec");
    assert_eq!(scrape.category, Some(Category::Agent));
    // The first result was only declared; the later ones are inferred.
    assert_eq!(scrape.confidence, Confidence::Inferred);
    let provenance: Vec<_> = scrape.provenance.iter().map(|by| by.scraper_name).collect();
    assert_eq!(
        provenance,
        ["inference.spec", "vectordb.spec", "agent.spec"]
    );
    let lines: Vec<_> = scrape.components.iter().map(line).collect();
    assert_eq!(
        lines,
        [
            "container acme/pgvector spec.template.spec.containers[1].image",
            "container langflowai/langflow image",
            "machine-learning-model m spec.template.spec.containers[1].args[0 1](--model)",
            "application pgvector spec.template.spec.containers[1].image",
            "application langflow image",
            "application langchain env[LANGCHAIN_API_KEY]",
            "machine-learning-model openai-api env[OPENAI_API_KEY].valueFrom",
            "machine-learning-model cohere-api env[COHERE_API_KEY]",
        ]
    );
    let openai = &scrape.components[6];
    assert_eq!(openai.confidence, Confidence::Unresolved);
    assert_eq!(openai.evidence.source, Source::EnvVarNamePresent);
    assert!(openai.properties.is_empty());
}

#[test]
fn a_key_for_a_remote_api_alone_has_no_category_but_in_the_document() {
    let object = deployment(json!({"containers": [
        {"name": "a", "image": "nginx", "env": [{"name": "OPENAI_API_KEY", "valueFrom": {}}]},
    ]}));
    let workload = Workload::from(&object);
    let scrape = fixtures::scrape(&V1_3_0, &workload, &[]);
    assert_eq!(scrape.scraper_name, "agent.spec");
    assert_eq!(
        (scrape.category, scrape.confidence),
        (None, Confidence::Inferred)
    );
    let document = fixtures::document(
        &V1_3_0,
        &workload,
        &scrape,
        "v1.3.0",
        "2026-01-01T00:00:00Z",
    );
    let text = String::from_utf8(document.bytes).expect("is UTF-8");
    assert!(text.contains(r#"{"name":"aibom.workload.category","value":"inference"}"#));
    let summary = Summary::new(&workload, &scrape, &fixtures::redactor(&V1_3_0));
    assert_eq!(summary.workload.category, "inference");
}

#[test]
fn jobs_train_or_evaluate_and_cron_jobs_do_so_from_their_own_path() {
    let pod = json!({"containers": [{
        "name": "a",
        "image": "pytorch/pytorch:2.5",
        "env": [{"name": "WANDB_API_KEY", "value": "x"}],
        "volumeMounts": [{"name": "dataset", "mountPath": "/in"}, {"name": "x", "mountPath": "/data"}],
    }, {"name": "b", "image": "eleutherai/lm-eval:1"}]});
    let job: Job = object(json!({
        "metadata": {"name": "j", "namespace": "ns"},
        "spec": {"template": {"spec": pod}},
    }));
    let scrape = fixtures::scrape(&V1_3_0, &Workload::from(&job), &[]);
    assert_eq!(scrape.category, Some(Category::Training));
    let lines: Vec<_> = scrape.components.iter().map(line).collect();
    assert_eq!(
        lines,
        [
            "application pytorch image",
            "application wandb env[WANDB_API_KEY]",
            "data dataset volumeMounts[dataset]",
            "data x volumeMounts[x]",
            "application lm-eval spec.template.spec.containers[1].image",
        ]
    );
    let cron: CronJob = object(json!({
        "metadata": {"name": "c", "namespace": "ns"},
        "spec": {"schedule": "@daily", "jobTemplate": {"spec": {"template": {"spec": pod}}}},
    }));
    let scrape = fixtures::scrape(&V1_6_0, &Workload::from(&cron), &[]);
    let locator = &scrape.components[0].evidence.locator;
    assert_eq!(
        locator,
        "spec.jobTemplate.spec.template.spec.containers[0].image"
    );

    let data_only: Job = object(json!({
        "metadata": {"name": "j", "namespace": "ns"},
        "spec": {"template": {"spec": {"containers": [{
            "name": "a",
            "image": "nginx",
            "volumeMounts": [{"name": "x", "mountPath": "/data"}],
        }]}}},
    }));
    let scrape = fixtures::scrape(&V1_3_0, &Workload::from(&data_only), &[]);
    assert_eq!(scrape.confidence, Confidence::Unresolved);
    assert_eq!(scrape.scraper_name, "multi.spec");
}

#[test]
fn an_inference_service_declares_its_runtime_and_model() {
    let spec = json!({"predictor": {
        "serviceAccountName": "sa",
        "model": {
            "modelFormat": {"name": "sklearn", "version": "1"},
            "runtime": "mlserver",
            "storageUri": "gs://b/m",
        },
    }});
    let metadata = ObjectMeta {
        annotations: Some([("model.k8saibom.dev/family".to_owned(), "iris".to_owned())].into()),
        ..ObjectMeta::default()
    };
    let workload = Workload::third_party(&INFERENCE_SERVICE, &metadata, &spec);
    let scrape = fixtures::scrape(&V1_3_0, &workload, &[]);
    assert_eq!(scrape.scraper_name, "inference.kserve");
    assert_eq!(
        (scrape.category, scrape.confidence),
        (None, Confidence::Declared)
    );
    let lines: Vec<_> = scrape.components.iter().map(line).collect();
    assert_eq!(
        lines,
        [
            "application sklearn spec.predictor.model.modelFormat.name",
            "machine-learning-model gs://b/m spec.predictor.model.storageUri",
            "machine-learning-model iris metadata.annotations[model.k8saibom.dev/family]",
        ]
    );
    assert_eq!(scrape.components[0].version, "1");
    assert_eq!(
        scrape.components[0].properties["kserve.runtime.ref"],
        "mlserver"
    );
}

#[test]
fn a_leader_worker_set_is_read_from_both_of_its_templates() {
    let container = |image: &str| json!({"spec": {"containers": [{"name": "c", "image": image}]}});
    let spec = json!({"leaderWorkerTemplate": {
        "leaderTemplate": container("vllm/leader:v1.0"),
        "workerTemplate": container("vllm/worker:v1.0"),
    }});
    let metadata = ObjectMeta::default();
    let workload = Workload::third_party(&LEADER_WORKER_SET, &metadata, &spec);
    let scrape = fixtures::scrape(&V1_6_0, &workload, &[]);
    assert_eq!(scrape.components.len(), 4);
    assert_eq!(
        scrape.components[2].evidence.locator,
        "spec.leaderWorkerTemplate.leaderTemplate.spec.containers[0].image"
    );
}
