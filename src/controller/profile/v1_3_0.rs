//! Release 1.3.0: the `v1beta1` API, and a readiness that looks at the informers.

use std::time::Duration;

use super::{Api, ApiVersion, Process, Profile, Readiness, V1_2_0};

/// Release 1.3.0.
pub const V1_3_0: Profile = Profile {
    name: "1.3.0",
    version: "v1.3.0",
    api: Api {
        in_use: ApiVersion::V1Beta1,
        served: &[ApiVersion::V1Alpha1, ApiVersion::V1Beta1],
        storage: ApiVersion::V1Beta1,
        ..V1_2_0.api
    },
    process: Process {
        readiness: Readiness::Informers(Duration::from_secs(2)),
    },
    ..V1_2_0
};
