//! Release 1.5.1: more runtimes, pods by owner, claimed signatures, redaction.

use super::{
    Api, ApiVersion, ClearTextCredentials, ConfigAddition, ConfigRules, Detection, DocumentRules,
    PodAttribution, Profile, Reconcile, Redaction, ReplicaSetInformer, Signatures, StatusDigest,
    V1_3_0, image,
};

const SIGNATURE: &str = "model.k8saibom.dev/oms-signature";

pub(super) const VERIFICATION: ConfigAddition = ConfigAddition {
    path: "verification",
    versions: &[ApiVersion::V1Alpha1, ApiVersion::V1Beta1],
};

/// Release 1.5.1.
pub const V1_5_1: Profile = Profile {
    name: "1.5.1",
    version: "v1.5.1",
    api: Api {
        chart_config: ApiVersion::V1Beta1,
        config_additions: &[VERIFICATION],
        ..V1_3_0.api
    },
    detection: Detection {
        runtimes: &image::RUNTIMES_1_4,
        model_env: &[
            "HF_MODEL_ID",
            "MODEL_NAME",
            "NIM_MODEL_NAME",
            "NIM_SERVED_MODEL_NAME",
        ],
        reserved_annotations: &[SIGNATURE, "model.k8saibom.dev/digest"],
        signatures: Signatures::Claimed(SIGNATURE),
        status_digest: StatusDigest::SameImage,
        ..V1_3_0.detection
    },
    pods: PodAttribution::OwnerChain,
    document: DocumentRules {
        redaction: Redaction::Credentials,
        ..V1_3_0.document
    },
    reconcile: Reconcile {
        replica_sets: ReplicaSetInformer::DeploymentReconcile,
        ..V1_3_0.reconcile
    },
    config: ConfigRules {
        clear_text_credentials: ClearTextCredentials::Refused,
        ..V1_3_0.config
    },
    ..V1_3_0
};
