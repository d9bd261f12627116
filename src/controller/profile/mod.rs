//! What a release of the controller does differently, as data.
//!
//! A [`Profile`] is one release. The first is written out; each later one is the previous one and
//! its deltas, in a file of its own under this module. To add a release: write such a file and list
//! it in [`ALL`]. Code elsewhere asks a profile what to do and never which release it is.
//!
//! `docs/fidelity.md` tells for every behaviour here whether it was measured, is documented or is
//! inferred.

use std::time::Duration;

pub mod image;
pub mod kind;
pub mod metric;
mod v1_2_0;
mod v1_3_0;
mod v1_5_1;
mod v1_6_0;

use image::{EnvName, ImagePattern};
use kind::{Kind, Origin};
use metric::Family;

pub use v1_2_0::V1_2_0;
pub use v1_3_0::V1_3_0;
pub use v1_5_1::V1_5_1;
pub use v1_6_0::V1_6_0;

/// Every profile, oldest first.
pub static ALL: [Profile; 4] = [V1_2_0, V1_3_0, V1_5_1, V1_6_0];

/// One release of the controller.
#[derive(Clone, Copy, Debug)]
pub struct Profile {
    /// Release without a leading `v`, as `--profile` takes it.
    pub name: &'static str,
    /// Version text of the running process, in documents and events.
    pub version: &'static str,
    /// API versions.
    pub api: Api,
    /// Tracked kinds.
    pub kinds: &'static [&'static Kind],
    /// How components are recognised.
    pub detection: Detection,
    /// Which pods count as a workload's.
    pub pods: PodAttribution,
    /// How the document is written.
    pub document: DocumentRules,
    /// How a workload is reconciled.
    pub reconcile: Reconcile,
    /// How the configuration is read.
    pub config: ConfigRules,
    /// How sinks deliver.
    pub sinks: Sinks,
    /// What the process says about itself, and when it gives up.
    pub process: Process,
    /// The controller's own metric families, in groups.
    pub metrics: &'static [&'static [Family]],
}

impl Profile {
    /// The profile of this name.
    ///
    /// # Errors
    ///
    /// When there is none.
    pub fn named(name: &str) -> Result<&'static Self, UnknownProfile> {
        ALL.iter()
            .find(|profile| profile.name == name)
            .ok_or_else(|| UnknownProfile(name.to_owned()))
    }

    /// The tracked kind of this group and kind, if the release tracks it.
    #[must_use]
    pub fn kind(&self, group: &str, kind: &str) -> Option<&'static Kind> {
        self.kinds
            .iter()
            .copied()
            .find(|known| known.group == group && known.kind == kind)
    }

    /// The tracked kinds that every cluster serves.
    pub fn built_in_kinds(&self) -> impl Iterator<Item = &'static Kind> {
        self.kinds
            .iter()
            .copied()
            .filter(|kind| kind.origin == Origin::Kubernetes)
    }

    /// The tracked kinds that are served once their definition is installed.
    pub fn third_party_kinds(&self) -> impl Iterator<Item = &'static Kind> {
        self.kinds
            .iter()
            .copied()
            .filter(|kind| kind.origin == Origin::ThirdParty)
    }
}

/// No profile has this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no profile is called {0:?}")]
pub struct UnknownProfile(String);

impl UnknownProfile {
    /// The one thing to do.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        let names: Vec<_> = ALL.iter().map(|profile| profile.name).collect();
        Some(format!("known profiles: {}", names.join(", ")))
    }
}

/// A version of the `aibom.k8saibom.dev` API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApiVersion {
    /// `v1alpha1`.
    V1Alpha1,
    /// `v1beta1`.
    V1Beta1,
}

impl ApiVersion {
    /// As objects and URLs spell it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::V1Alpha1 => "v1alpha1",
            Self::V1Beta1 => "v1beta1",
        }
    }
}

/// API versions of a release.
#[derive(Clone, Copy, Debug)]
pub struct Api {
    /// Read and written by the controller.
    pub in_use: ApiVersion,
    /// Served by the release's definitions.
    pub served: &'static [ApiVersion],
    /// Stored by the release's definitions.
    pub storage: ApiVersion,
    /// Version of the configuration object in the release's chart.
    pub chart_config: ApiVersion,
    /// Fields of the configuration's `spec` added since the first definitions.
    pub config_additions: &'static [ConfigAddition],
}

/// A field of the configuration that older definitions lack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConfigAddition {
    /// Path below `spec`.
    pub path: &'static str,
    /// The versions that have it.
    pub versions: &'static [ApiVersion],
}

/// How components are recognised.
#[derive(Clone, Copy, Debug)]
pub struct Detection {
    /// Inference runtimes; the first that matches wins. A configuration may replace them.
    pub runtimes: &'static [ImagePattern],
    /// Environment variables whose value names a model.
    pub model_env: &'static [&'static str],
    /// Command-line flags whose value names a model.
    pub model_flags: &'static [&'static str],
    /// Mount paths at or below which a volume holds model data.
    pub model_paths: &'static [&'static str],
    /// Annotations with the model prefix that do not name a model.
    pub reserved_annotations: &'static [&'static str],
    /// Whether models say that a signature is claimed.
    pub signatures: Signatures,
    /// Whether a digest from a pod's status must belong to the image of the spec.
    pub status_digest: StatusDigest,
    /// Whether names and versions of containers are cut like those of models.
    pub cut_containers: bool,
    /// Most components of one workload.
    pub component_cap: Option<usize>,
    /// Vector databases by image.
    pub vector_databases: &'static [ImagePattern],
    /// Agent frameworks by image.
    pub agent_images: &'static [ImagePattern],
    /// Agent frameworks by environment.
    pub agent_env: &'static [EnvName],
    /// Remote model APIs by environment.
    pub remote_apis: &'static [EnvName],
    /// Training frameworks by image.
    pub training_images: &'static [ImagePattern],
    /// Training frameworks by environment.
    pub training_env: &'static [EnvName],
    /// Evaluation harnesses by image.
    pub evaluation_images: &'static [ImagePattern],
}

/// What is made of a signature annotation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signatures {
    /// Nothing.
    Ignored,
    /// With this annotation present, every model says that it claims to be signed.
    Claimed(&'static str),
}

/// Which digests in a pod's status are believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatusDigest {
    /// Any of a container of that name.
    AnyImage,
    /// Only of a container that also runs the image of the spec, tags aside.
    SameImage,
}

/// Which pods count as a workload's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PodAttribution {
    /// Those that `matchLabels` selects.
    MatchLabels,
    /// Of those, the ones that the workload owns as controller, directly or through a ReplicaSet.
    OwnerChain,
}

/// How the document is written.
#[derive(Clone, Copy, Debug)]
pub struct DocumentRules {
    /// Start of the names of the controller's own properties.
    pub property_prefix: &'static str,
    /// What becomes of credentials in extracted text.
    pub redaction: Redaction,
}

/// What becomes of credentials in extracted text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Redaction {
    /// They are published.
    Off,
    /// They are replaced when the document is built, so that the input hash still sees them.
    Credentials,
}

/// How a workload is reconciled.
#[derive(Clone, Copy, Debug)]
pub struct Reconcile {
    /// Longest duration of one reconcile.
    pub deadline: Duration,
    /// What is done about an AIBOM whose first status was never written.
    pub missing_status: MissingStatus,
    /// What is done when a sink fails.
    pub sink_failure: SinkFailure,
    /// What starts the ReplicaSet informer.
    pub replica_sets: ReplicaSetInformer,
    /// Whether workloads are reported under the tracked workload that owns them.
    pub roll_up: Option<RollUp>,
    /// How third-party kinds are watched.
    pub third_party: ThirdPartyWatch,
}

/// What is done about an AIBOM whose first status was never written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MissingStatus {
    /// Nothing: another write is assumed to be in flight.
    Return,
    /// It is looked at again after this time.
    RequeueAfter(Duration),
}

/// What is done when a sink fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SinkFailure {
    /// Nothing is sent again until the input hash changes.
    WaitForChange,
    /// The input hash is stored empty, and all sinks are served again after this time.
    RequeueAfter(Duration),
}

/// What starts the ReplicaSet informer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplicaSetInformer {
    /// The first event of a pod that a ReplicaSet owns.
    PodEvent,
    /// The first reconcile of a Deployment.
    DeploymentReconcile,
}

/// How far the owners of a workload are followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RollUp {
    /// Most owners that are followed.
    pub max_hops: usize,
}

/// How third-party kinds are watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThirdPartyWatch {
    /// With all others, if their definition is there when the process starts.
    AtStart,
    /// Each by itself, whenever its definition is there; a broken one leaves the others alone.
    Supervised {
        /// Time between two checks of a kind that is served.
        probe: Duration,
        /// First delay after a failed watch; it doubles with every further one.
        retry_base: Duration,
        /// Longest delay after a failed watch.
        retry_max: Duration,
    },
}

/// How the configuration is read.
#[derive(Clone, Copy, Debug)]
pub struct ConfigRules {
    /// What is made of credentials for an `http://` endpoint.
    pub clear_text_credentials: ClearTextCredentials,
    /// Whether `spec.discovery.workloadKinds` restricts the tracked kinds.
    pub kind_allow_list: bool,
    /// Whether the served schema is compared with the one that was compiled in.
    pub schema_skew: SchemaSkew,
}

/// What is made of credentials for an `http://` endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClearTextCredentials {
    /// They are sent.
    Accepted,
    /// The configuration is invalid.
    Refused,
}

/// Whether the served schema is compared with the one that was compiled in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SchemaSkew {
    /// No: fields that the server does not know are lost silently.
    Unnoticed,
    /// These keys of the configuration's `spec` must be served.
    Detected(&'static [&'static str]),
}

/// How sinks deliver.
#[derive(Clone, Copy, Debug)]
pub struct Sinks {
    /// Longest delivery to one sink, retries included.
    pub deadline: Duration,
    /// Waits of the webhook between its attempts; there is one attempt more than waits.
    pub webhook_waits: &'static [Duration],
    /// Content type of the webhook's requests.
    pub webhook_content_type: &'static str,
}

/// What the process says about itself, and when it gives up.
#[derive(Clone, Copy, Debug)]
pub struct Process {
    /// What `/readyz` waits for.
    pub readiness: Readiness,
}

/// What `/readyz` waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// A wait before the start, once. It may end before any informer exists, and is never undone.
    Latch,
    /// At every probe, within this time, that the controller's own two informers have synced.
    Informers(Duration),
}
