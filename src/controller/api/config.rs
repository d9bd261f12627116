//! The configuration of the controller. Only the object named [`NAME`] is ever read.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::is_default;
use super::meta::{Condition, LabelSelector, SecretKeyReference, Timestamp};

/// Name of the one object that the controller reads.
pub const NAME: &str = "default";
/// Largest document in bytes that is kept inside an AIBOM, unless configured.
pub const INLINE_THRESHOLD_BYTES: i64 = 262_144;
/// Failed reconciliations in a row after which an AIBOM counts as stale, unless configured.
pub const STALE_THRESHOLD_RECONCILES: i32 = 3;

/// What the administrator wants. Everything is optional; the controller has defaults for all of it.
#[derive(
    Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema, CustomResource,
)]
#[serde(rename_all = "camelCase")]
#[kube(
    group = "aibom.k8saibom.dev",
    version = "v1beta1",
    kind = "AIBOMControllerConfig",
    root = "AibomControllerConfig",
    plural = "aibomcontrollerconfigs",
    shortname = "aibomcfg",
    status = "AibomControllerConfigStatus",
    derive = "PartialEq",
    doc = "Configuration of the controller. Only the object named default is read.",
    annotation("api-approved.kubernetes.io", "unapproved, experimental-only"),
    annotation("controller-gen.kubebuilder.io/version", "v0.16.5"),
    printcolumn = r#"{"name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status"}"#,
    printcolumn = r#"{"name": "Last-Loaded", "type": "date", "jsonPath": ".status.lastLoadedAt"}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#
)]
pub struct AibomControllerConfigSpec {
    /// Which workloads are looked at and how their runtimes are recognised.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub discovery: Option<Discovery>,
    /// Limits of the documents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bom_generation: Option<BomGeneration>,
    /// Places outside the cluster that every document is sent to.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schemars(extend(
        "x-kubernetes-list-type" = "map",
        "x-kubernetes-list-map-keys" = ["name"]
    ))]
    pub sinks: Vec<Sink>,
    /// How the controller logs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub logging: Option<Logging>,
    /// Whether and how signatures of models are verified.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verification: Option<Verification>,
}

/// Which workloads are looked at and how their runtimes are recognised.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Discovery {
    /// Namespaces whose workloads are looked at. It replaces the label by which a namespace opts
    /// in otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(description = "Namespaces whose workloads are looked at.")]
    pub namespace_selector: Option<LabelSelector>,
    /// Patterns of images by which runtimes are recognised. They replace the built-in ones, unless
    /// there is none.
    #[serde(default, skip_serializing_if = "is_default")]
    pub inference_runtime_image_patterns: Vec<ImagePattern>,
    /// Kinds of workloads that are looked at, as Group/Kind; all known kinds when empty.
    #[serde(default, skip_serializing_if = "is_default")]
    pub workload_kinds: Vec<String>,
}

/// Images by which one runtime is recognised.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ImagePattern {
    /// Name of the runtime.
    #[schemars(length(min = 1, max = 64))]
    pub runtime: String,
    /// Regular expression in RE2 syntax that is searched for in the whole image reference.
    #[schemars(length(min = 1, max = 256))]
    pub pattern: String,
}

/// Limits of the documents.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BomGeneration {
    /// Largest document, in bytes, that is kept inside its AIBOM.
    #[serde(default = "inline_threshold_bytes")]
    #[schemars(range(min = 1024, max = 1_048_576))]
    pub inline_threshold_bytes: i64,
    /// Failed reconciliations in a row after which an AIBOM counts as stale.
    #[serde(default = "stale_threshold_reconciles")]
    #[schemars(range(min = 1))]
    pub stale_threshold_reconciles: i32,
}

fn inline_threshold_bytes() -> i64 {
    INLINE_THRESHOLD_BYTES
}

fn stale_threshold_reconciles() -> i32 {
    STALE_THRESHOLD_RECONCILES
}

impl Default for BomGeneration {
    fn default() -> Self {
        Self {
            inline_threshold_bytes: INLINE_THRESHOLD_BYTES,
            stale_threshold_reconciles: STALE_THRESHOLD_RECONCILES,
        }
    }
}

/// A place outside the cluster that every document is sent to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Sink {
    /// Name of the sink, unique within the list.
    #[schemars(
        length(min = 1, max = 63),
        regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")
    )]
    pub name: String,
    /// What the sink is; the field of that name has to be set and no other.
    #[serde(rename = "type")]
    #[schemars(extend("enum" = ["GCS", "Webhook"]))]
    pub type_: String,
    /// A bucket of Google Cloud Storage, for sinks of type GCS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gcs: Option<GcsSink>,
    /// An HTTP endpoint, for sinks of type Webhook.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub webhook: Option<WebhookSink>,
}

/// A bucket of Google Cloud Storage.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GcsSink {
    /// Name of the bucket.
    #[schemars(length(min = 3, max = 222))]
    pub bucket: String,
    /// Template of the object names.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schemars(length(max = 512))]
    pub path_template: String,
    /// Credentials of a service account. Without them those of the environment are used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials_secret_ref: Option<SecretKeyReference>,
}

/// An HTTP endpoint that takes documents by POST.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WebhookSink {
    /// Address of the endpoint.
    #[schemars(length(max = 2048), regex(pattern = r"^https?://"))]
    pub endpoint: String,
    /// How the controller identifies itself; at most one way may be given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auth: Option<WebhookAuth>,
}

/// How the controller identifies itself to the endpoint; at most one way may be given.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WebhookAuth {
    /// By a bearer token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bearer_token: Option<BearerToken>,
    /// By a client certificate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mtls: Option<MutualTls>,
}

/// A bearer token.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BearerToken {
    /// The token.
    pub secret_ref: SecretKeyReference,
}

/// A client certificate.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MutualTls {
    /// The certificate in PEM.
    pub client_cert_secret_ref: SecretKeyReference,
    /// The private key in PEM.
    pub client_key_secret_ref: SecretKeyReference,
    /// Authorities that the endpoint is trusted by, in PEM, instead of those of the system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca_secret_ref: Option<SecretKeyReference>,
}

/// How the controller logs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Logging {
    /// Least severity that is logged.
    #[serde(default = "info")]
    #[schemars(extend("enum" = ["debug", "info", "warn", "error"]))]
    pub level: String,
    /// Form of a line of the log.
    #[serde(default = "json")]
    #[schemars(extend("enum" = ["json", "text"]))]
    pub format: String,
}

fn info() -> String {
    "info".to_owned()
}

fn json() -> String {
    "json".to_owned()
}

impl Default for Logging {
    fn default() -> Self {
        Self {
            level: info(),
            format: json(),
        }
    }
}

/// Whether and how signatures of models are verified.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Verification {
    /// Whether signatures are verified at all.
    #[serde(default, skip_serializing_if = "is_default")]
    pub enabled: bool,
    /// Where the root of trust comes from.
    #[serde(default = "public")]
    #[schemars(extend("enum" = ["public", "tufMirror", "staticBundle"]))]
    pub trust_root_mode: String,
    /// Address of the mirror, for the mode tufMirror.
    #[serde(rename = "tufMirrorURL", default, skip_serializing_if = "is_default")]
    #[schemars(length(max = 2048))]
    pub tuf_mirror_url: String,
    /// Path of the bundle in the file system of the controller, for the mode staticBundle.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schemars(length(max = 1024))]
    pub static_bundle_path: String,
    /// Address of the transparency log.
    #[serde(rename = "rekorURL", default, skip_serializing_if = "is_default")]
    #[schemars(length(max = 2048))]
    pub rekor_url: String,
    /// Signers that are accepted.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub identities: Vec<SignerIdentity>,
    /// Longest time in seconds that one signature may take.
    #[serde(default = "per_claim_timeout_seconds")]
    #[schemars(range(min = 1, max = 30))]
    pub per_claim_timeout_seconds: i32,
    /// Time in minutes for which a result is reused.
    #[serde(rename = "cacheTTLMinutes", default = "cache_ttl_minutes")]
    #[schemars(range(min = 1, max = 10080))]
    pub cache_ttl_minutes: i32,
}

fn public() -> String {
    "public".to_owned()
}

fn per_claim_timeout_seconds() -> i32 {
    10
}

fn cache_ttl_minutes() -> i32 {
    1440
}

/// Signers with one issuer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SignerIdentity {
    /// Issuer of the certificate of the signer.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schemars(length(max = 512))]
    pub issuer: String,
    /// Regular expression for the subject of the certificate.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schemars(length(max = 512))]
    pub subject_pattern: String,
}

/// How the configuration was taken in.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AibomControllerConfigStatus {
    /// State in conditions: Ready and Degraded.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schemars(extend(
        "x-kubernetes-list-type" = "map",
        "x-kubernetes-list-map-keys" = ["type"]
    ))]
    pub conditions: Vec<Condition>,
    /// Generation of this object that was last looked at.
    #[serde(default, skip_serializing_if = "is_default")]
    pub observed_generation: i64,
    /// Moment at which the configuration was last taken in without an error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_loaded_at: Option<Timestamp>,
}
