//! What the releases are documented to serve, written by hand.
//!
//! A line is a path and everything that the schema says about it except descriptions; `!` marks a
//! required field, `[]` the items of a list, `{}` the values of a map.

pub(crate) const ROOT: &str = "
apiVersion string
kind string
metadata object
";

pub(crate) const CONDITION: &str = r"
status.conditions array list=map(type)
status.conditions[] object
status.conditions[].lastTransitionTime! string:date-time
status.conditions[].message! string length=..32768
status.conditions[].observedGeneration integer:int64 range=0..
status.conditions[].reason! string length=1..1024 pattern=^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$
status.conditions[].status! string enum=True|False|Unknown
status.conditions[].type! string length=..316 pattern=^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$
";

pub(crate) const AIBOM: &str = r"
spec object
spec.workloadRef! object cel=(self == oldSelf => workloadRef is immutable)
spec.workloadRef.apiVersion! string length=1..128
spec.workloadRef.kind! string length=1..64
spec.workloadRef.name! string length=1..253
spec.bomFormat! string length=..64 enum=CycloneDX
spec.bomSpecVersion! string length=..16 pattern=^\d+\.\d+$
status object
status.summary object
status.summary.workload! object
status.summary.workload.kind! string
status.summary.workload.apiVersion! string
status.summary.workload.name! string
status.summary.workload.namespace! string
status.summary.workload.category string
status.summary.runtime object
status.summary.runtime.name! string
status.summary.runtime.version string
status.summary.runtime.confidence string
status.summary.models array
status.summary.models[] object
status.summary.models[].identity! string
status.summary.models[].source string
status.summary.models[].confidence string
status.summary.models[].signed string
status.summary.confidence string
status.bomDocument object
status.bomDocument.format! string
status.bomDocument.specVersion! string
status.bomDocument.sha256! string
status.bomDocument.size integer:int64
status.bomDocument.inline object
status.bomDocument.inline.data! string:byte
status.bomDocument.external object
status.bomDocument.external.sink! string
status.bomDocument.external.url string
status.bomDocument.external.writeOnly boolean
status.bomDocument.truncated boolean
status.bomDocument.truncationReason string
status.lastReconciled string:date-time
status.bomHash string
status.inputHash string
status.consecutiveErrors integer:int32
status.observedGeneration integer:int64
";

pub(crate) const CONFIG: &str = r"
spec object
spec.discovery object
spec.discovery.namespaceSelector object map=atomic
spec.discovery.namespaceSelector.matchExpressions array list=atomic
spec.discovery.namespaceSelector.matchExpressions[] object
spec.discovery.namespaceSelector.matchExpressions[].key! string
spec.discovery.namespaceSelector.matchExpressions[].operator! string
spec.discovery.namespaceSelector.matchExpressions[].values array list=atomic
spec.discovery.namespaceSelector.matchExpressions[].values[] string
spec.discovery.namespaceSelector.matchLabels object
spec.discovery.namespaceSelector.matchLabels{} string
spec.discovery.inferenceRuntimeImagePatterns array
spec.discovery.inferenceRuntimeImagePatterns[] object
spec.discovery.inferenceRuntimeImagePatterns[].runtime! string length=1..64
spec.discovery.inferenceRuntimeImagePatterns[].pattern! string length=1..256
spec.bomGeneration object
spec.bomGeneration.inlineThresholdBytes integer:int64 range=1024..1048576 default=262144
spec.bomGeneration.staleThresholdReconciles integer:int32 range=1.. default=3
spec.sinks array list=map(name)
spec.sinks[] object
spec.sinks[].name! string length=1..63 pattern=^[a-z0-9]([-a-z0-9]*[a-z0-9])?$
spec.sinks[].type! string enum=GCS|Webhook
spec.sinks[].gcs object
spec.sinks[].gcs.bucket! string length=3..222
spec.sinks[].gcs.pathTemplate string length=..512
spec.sinks[].gcs.credentialsSecretRef object
spec.sinks[].gcs.credentialsSecretRef.name! string length=1..253
spec.sinks[].gcs.credentialsSecretRef.key! string length=1..253
spec.sinks[].webhook object
spec.sinks[].webhook.endpoint! string length=..2048 pattern=^https?://
spec.sinks[].webhook.auth object
spec.sinks[].webhook.auth.bearerToken object
spec.sinks[].webhook.auth.bearerToken.secretRef! object
spec.sinks[].webhook.auth.bearerToken.secretRef.name! string length=1..253
spec.sinks[].webhook.auth.bearerToken.secretRef.key! string length=1..253
spec.sinks[].webhook.auth.mtls object
spec.sinks[].webhook.auth.mtls.clientCertSecretRef! object
spec.sinks[].webhook.auth.mtls.clientCertSecretRef.name! string length=1..253
spec.sinks[].webhook.auth.mtls.clientCertSecretRef.key! string length=1..253
spec.sinks[].webhook.auth.mtls.clientKeySecretRef! object
spec.sinks[].webhook.auth.mtls.clientKeySecretRef.name! string length=1..253
spec.sinks[].webhook.auth.mtls.clientKeySecretRef.key! string length=1..253
spec.sinks[].webhook.auth.mtls.caSecretRef object
spec.sinks[].webhook.auth.mtls.caSecretRef.name! string length=1..253
spec.sinks[].webhook.auth.mtls.caSecretRef.key! string length=1..253
spec.logging object
spec.logging.level string enum=debug|info|warn|error default=info
spec.logging.format string enum=json|text default=json
status object
status.observedGeneration integer:int64
status.lastLoadedAt string:date-time
";

/// Since 1.5.0, in every version.
pub(crate) const VERIFICATION: &str = "
spec.verification object
spec.verification.enabled boolean
spec.verification.trustRootMode string enum=public|tufMirror|staticBundle default=public
spec.verification.tufMirrorURL string length=..2048
spec.verification.staticBundlePath string length=..1024
spec.verification.rekorURL string length=..2048
spec.verification.identities array list=atomic
spec.verification.identities[] object
spec.verification.identities[].issuer string length=..512
spec.verification.identities[].subjectPattern string length=..512
spec.verification.perClaimTimeoutSeconds integer:int32 range=1..30 default=10
spec.verification.cacheTTLMinutes integer:int32 range=1..10080 default=1440
";

/// Since 1.6.0, in v1beta1 only.
pub(crate) const WORKLOAD_KINDS: &str = "
spec.discovery.workloadKinds array
spec.discovery.workloadKinds[] string
";

/// One file of one release: the chart, the plural, whether it begins with a separator, and per
/// version the name, whether it is stored, and what it has beside the common fields.
pub(crate) type File = (
    &'static str,
    &'static str,
    bool,
    &'static [(&'static str, bool, &'static [&'static str])],
);

pub(crate) const BOTH: &[(&str, bool, &[&str])] =
    &[("v1alpha1", false, &[]), ("v1beta1", true, &[])];

pub(crate) const FILES: [File; 8] = [
    ("1.2.0", "aiboms", false, &[("v1alpha1", true, &[])]),
    ("1.3.0", "aiboms", true, BOTH),
    ("1.5.1", "aiboms", true, BOTH),
    ("1.6.0", "aiboms", true, BOTH),
    (
        "1.2.0",
        "aibomcontrollerconfigs",
        true,
        &[("v1alpha1", true, &[])],
    ),
    ("1.3.0", "aibomcontrollerconfigs", true, BOTH),
    (
        "1.5.1",
        "aibomcontrollerconfigs",
        true,
        &[
            ("v1alpha1", false, &[VERIFICATION]),
            ("v1beta1", true, &[VERIFICATION]),
        ],
    ),
    (
        "1.6.0",
        "aibomcontrollerconfigs",
        true,
        &[
            ("v1alpha1", false, &[VERIFICATION]),
            ("v1beta1", true, &[VERIFICATION, WORKLOAD_KINDS]),
        ],
    ),
];

pub(crate) const AIBOM_COLUMNS: [&str; 6] = [
    "Workload string .spec.workloadRef.kind",
    "Name string .spec.workloadRef.name",
    "Category string .status.summary.workload.category",
    "Runtime string .status.summary.runtime.name",
    r#"Ready string .status.conditions[?(@.type=="Ready")].status"#,
    "Age date .metadata.creationTimestamp",
];

pub(crate) const CONFIG_COLUMNS: [&str; 3] = [
    r#"Ready string .status.conditions[?(@.type=="Ready")].status"#,
    "Last-Loaded date .status.lastLoadedAt",
    "Age date .metadata.creationTimestamp",
];
