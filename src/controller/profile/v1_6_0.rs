//! Release 1.6.0: more kinds, roll-up to owners, a cap on components, and notice of old schemas.

use std::time::Duration;

use super::v1_5_1::VERIFICATION;
use super::{
    Api, ApiVersion, ConfigAddition, ConfigRules, Detection, MissingStatus, Profile, Reconcile,
    RollUp, SchemaSkew, SinkFailure, ThirdPartyWatch, V1_5_1, image, kind, metric,
};

/// Release 1.6.0.
pub const V1_6_0: Profile = Profile {
    name: "1.6.0",
    version: "v1.6.0",
    api: Api {
        config_additions: &[
            VERIFICATION,
            ConfigAddition {
                path: "discovery.workloadKinds",
                versions: &[ApiVersion::V1Beta1],
            },
        ],
        ..V1_5_1.api
    },
    kinds: &[
        &kind::DEPLOYMENT,
        &kind::STATEFUL_SET,
        &kind::DAEMON_SET,
        &kind::JOB,
        &kind::CRON_JOB,
        &kind::INFERENCE_SERVICE,
        &kind::DYNAMO_GRAPH_DEPLOYMENT,
        &kind::DYNAMO_COMPONENT_DEPLOYMENT,
        &kind::NIM_SERVICE,
        &kind::LEADER_WORKER_SET,
        &kind::DISAGGREGATED_SET,
    ],
    detection: Detection {
        runtimes: &image::RUNTIMES_1_6,
        cut_containers: true,
        component_cap: Some(256),
        ..V1_5_1.detection
    },
    reconcile: Reconcile {
        missing_status: MissingStatus::RequeueAfter(Duration::from_secs(5)),
        sink_failure: SinkFailure::RequeueAfter(Duration::from_secs(60)),
        roll_up: Some(RollUp { max_hops: 6 }),
        third_party: ThirdPartyWatch::Supervised {
            probe: Duration::from_secs(120),
            retry_base: Duration::from_secs(5),
            retry_max: Duration::from_secs(300),
        },
        ..V1_5_1.reconcile
    },
    config: ConfigRules {
        kind_allow_list: true,
        schema_skew: SchemaSkew::Detected(&[
            "bomGeneration",
            "discovery",
            "logging",
            "sinks",
            "verification",
        ]),
        ..V1_5_1.config
    },
    metrics: &[metric::BASE, metric::OUTCOMES],
    ..V1_5_1
};
