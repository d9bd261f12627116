//! What the definitions of each release serve, as data.
//!
//! A release that only repeats the one before it needs an entry with the same deltas; one that adds a
//! field needs the field in the types and an entry in `lacks` of the releases before it.

use std::fmt;

/// A version of the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ApiVersion {
    /// The first one.
    V1Alpha1,
    /// Its successor, with the same fields and some of its own.
    V1Beta1,
}

impl ApiVersion {
    /// The name that follows the group in `apiVersion`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::V1Alpha1 => "v1alpha1",
            Self::V1Beta1 => "v1beta1",
        }
    }
}

impl fmt::Display for ApiVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// One of the two kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ApiKind {
    /// The bill of materials.
    Aibom,
    /// The configuration of the controller.
    ControllerConfig,
}

impl ApiKind {
    /// Both kinds.
    pub const ALL: [Self; 2] = [Self::Aibom, Self::ControllerConfig];

    /// The resource in addresses and in the name of the definition.
    #[must_use]
    pub const fn plural(self) -> &'static str {
        match self {
            Self::Aibom => "aiboms",
            Self::ControllerConfig => "aibomcontrollerconfigs",
        }
    }

    /// The name that objects carry.
    #[must_use]
    pub const fn kind(self) -> &'static str {
        match self {
            Self::Aibom => "AIBOM",
            Self::ControllerConfig => "AIBOMControllerConfig",
        }
    }
}

/// A version that a definition serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Served {
    /// The version.
    pub version: ApiVersion,
    /// Whether objects are stored in it. Exactly one version of a release says so.
    pub storage: bool,
    /// Fields of the configuration that it lacks, as dotted paths.
    pub lacks: &'static [&'static str],
}

/// What one release of the chart defines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Release {
    /// The version of the chart.
    pub chart: &'static str,
    /// The versions that its definitions serve, in the order of the file.
    pub served: &'static [Served],
    /// The kinds whose file begins with the separator of YAML documents. Where it is missing, a
    /// concatenation of the files is one broken document.
    pub separated: &'static [ApiKind],
}

const VERIFICATION: &str = "spec.verification";
const WORKLOAD_KINDS: &str = "spec.discovery.workloadKinds";

/// Both versions, stored in the newer one.
const fn both(
    alpha_lacks: &'static [&'static str],
    beta_lacks: &'static [&'static str],
) -> [Served; 2] {
    [
        Served {
            version: ApiVersion::V1Alpha1,
            storage: false,
            lacks: alpha_lacks,
        },
        Served {
            version: ApiVersion::V1Beta1,
            storage: true,
            lacks: beta_lacks,
        },
    ]
}

/// The releases, oldest first.
pub const RELEASES: [Release; 4] = [
    Release {
        chart: "1.2.0",
        served: &[Served {
            version: ApiVersion::V1Alpha1,
            storage: true,
            lacks: &[VERIFICATION, WORKLOAD_KINDS],
        }],
        separated: &[ApiKind::ControllerConfig],
    },
    Release {
        chart: "1.3.0",
        served: &both(
            &[VERIFICATION, WORKLOAD_KINDS],
            &[VERIFICATION, WORKLOAD_KINDS],
        ),
        separated: &ApiKind::ALL,
    },
    Release {
        chart: "1.5.1",
        served: &both(&[WORKLOAD_KINDS], &[WORKLOAD_KINDS]),
        separated: &ApiKind::ALL,
    },
    Release {
        chart: "1.6.0",
        served: &both(&[WORKLOAD_KINDS], &[]),
        separated: &ApiKind::ALL,
    },
];

impl Release {
    /// The release with this version of the chart.
    #[must_use]
    pub fn of_chart(version: &str) -> Option<&'static Self> {
        RELEASES.iter().find(|release| release.chart == version)
    }
}
