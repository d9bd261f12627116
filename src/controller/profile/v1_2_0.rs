//! Release 1.2.0, the first profile: written out in full.

use std::time::Duration;

use super::{
    Api, ApiVersion, ClearTextCredentials, ConfigRules, Detection, DocumentRules, MissingStatus,
    PodAttribution, Process, Profile, Readiness, Reconcile, Redaction, ReplicaSetInformer,
    SchemaSkew, Signatures, SinkFailure, Sinks, StatusDigest, ThirdPartyWatch, image, kind, metric,
};

/// Release 1.2.0.
pub const V1_2_0: Profile = Profile {
    name: "1.2.0",
    version: "v1.2.0",
    api: Api {
        in_use: ApiVersion::V1Alpha1,
        served: &[ApiVersion::V1Alpha1],
        storage: ApiVersion::V1Alpha1,
        chart_config: ApiVersion::V1Alpha1,
        config_additions: &[],
    },
    kinds: &[
        &kind::DEPLOYMENT,
        &kind::STATEFUL_SET,
        &kind::DAEMON_SET,
        &kind::JOB,
        &kind::INFERENCE_SERVICE,
    ],
    detection: Detection {
        runtimes: &image::RUNTIMES_1_0,
        model_env: &["HF_MODEL_ID", "MODEL_NAME"],
        model_flags: &[
            "--model",
            "--model-id",
            "--model-path",
            "--model-repository",
            "--model-name",
        ],
        model_paths: &["/models", "/model", "/weights", "/checkpoints", "/hf_cache"],
        reserved_annotations: &[],
        signatures: Signatures::Ignored,
        status_digest: StatusDigest::AnyImage,
        cut_containers: false,
        component_cap: None,
        vector_databases: &image::VECTOR_DATABASES,
        agent_images: &image::AGENT_IMAGES,
        agent_env: &image::AGENT_ENV,
        remote_apis: &image::REMOTE_APIS,
        training_images: &image::TRAINING_IMAGES,
        training_env: &image::TRAINING_ENV,
        evaluation_images: &image::EVALUATION_IMAGES,
    },
    pods: PodAttribution::MatchLabels,
    document: DocumentRules {
        property_prefix: "aibom.",
        redaction: Redaction::Off,
    },
    reconcile: Reconcile {
        deadline: Duration::from_secs(60),
        missing_status: MissingStatus::Return,
        sink_failure: SinkFailure::WaitForChange,
        replica_sets: ReplicaSetInformer::PodEvent,
        roll_up: None,
        third_party: ThirdPartyWatch::AtStart,
    },
    config: ConfigRules {
        clear_text_credentials: ClearTextCredentials::Accepted,
        kind_allow_list: false,
        schema_skew: SchemaSkew::Unnoticed,
    },
    sinks: Sinks {
        deadline: Duration::from_secs(30),
        webhook_waits: &[
            Duration::from_millis(250),
            Duration::from_secs(1),
            Duration::from_secs(3),
        ],
        webhook_content_type: "application/json",
    },
    process: Process {
        readiness: Readiness::Latch,
    },
    metrics: &[metric::BASE],
};
