//! The AIBOM: what one workload consists of, written by the controller beside the workload.

use k8s_openapi::ByteString;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::is_default;
use super::meta::{Condition, Timestamp};

/// What the bill of materials describes and in which format. Only the controller writes it.
#[derive(
    Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema, CustomResource,
)]
#[serde(rename_all = "camelCase")]
#[kube(
    group = "aibom.k8saibom.dev",
    version = "v1beta1",
    kind = "AIBOM",
    root = "Aibom",
    plural = "aiboms",
    shortname = "aibom",
    namespaced,
    status = "AibomStatus",
    derive = "PartialEq",
    doc = "Bill of materials of one AI workload, kept up to date by the controller.",
    annotation("api-approved.kubernetes.io", "unapproved, experimental-only"),
    annotation("controller-gen.kubebuilder.io/version", "v0.16.5"),
    printcolumn = r#"{"name": "Workload", "type": "string", "jsonPath": ".spec.workloadRef.kind"}"#,
    printcolumn = r#"{"name": "Name", "type": "string", "jsonPath": ".spec.workloadRef.name"}"#,
    printcolumn = r#"{"name": "Category", "type": "string", "jsonPath": ".status.summary.workload.category"}"#,
    printcolumn = r#"{"name": "Runtime", "type": "string", "jsonPath": ".status.summary.runtime.name"}"#,
    printcolumn = r#"{"name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status"}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#
)]
pub struct AibomSpec {
    /// Workload that the bill of materials describes. It never changes.
    #[schemars(extend("x-kubernetes-validations" = [
        {"rule": "self == oldSelf", "message": "workloadRef is immutable"}
    ]))]
    pub workload_ref: WorkloadReference,
    /// Format of the document.
    #[schemars(length(max = 64), extend("enum" = ["CycloneDX"]))]
    pub bom_format: String,
    /// Version of the format, as MAJOR.MINOR.
    #[schemars(length(max = 16), regex(pattern = r"^\d+\.\d+$"))]
    pub bom_spec_version: String,
}

/// A workload in the namespace of the AIBOM.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkloadReference {
    /// Group and version of the workload, for example apps/v1.
    #[schemars(length(min = 1, max = 128))]
    pub api_version: String,
    /// Kind of the workload.
    #[schemars(length(min = 1, max = 64))]
    pub kind: String,
    /// Name of the workload.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
}

/// Result of the last reconciliations of the workload. A field that is empty, zero or false is left
/// out, and the fields keep this order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(description = "Result of the last reconciliations of the workload.")]
pub struct AibomStatus {
    /// State in conditions: Ready, Synced, SinkFailed and Stale.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schemars(extend(
        "x-kubernetes-list-type" = "map",
        "x-kubernetes-list-map-keys" = ["type"]
    ))]
    pub conditions: Vec<Condition>,
    /// Extract of the document for people and dashboards.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<Summary>,
    /// The document, or where it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bom_document: Option<BomDocument>,
    /// Moment of the last reconciliation, whether or not it changed anything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_reconciled: Option<Timestamp>,
    /// SHA-256 of the document in lower-case hexadecimal digits, as in bomDocument.
    #[serde(default, skip_serializing_if = "is_default")]
    pub bom_hash: String,
    /// SHA-256 of everything that the document is built from, in lower-case hexadecimal digits.
    /// While it stays the same, the document is not built again.
    #[serde(default, skip_serializing_if = "is_default")]
    pub input_hash: String,
    /// How many reconciliations in a row met errors.
    #[serde(default, skip_serializing_if = "is_default")]
    pub consecutive_errors: i32,
    /// Generation of the workload, not of this object, that was last looked at.
    #[serde(default, skip_serializing_if = "is_default")]
    pub observed_generation: i64,
}

/// Extract of the document for people and dashboards.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    /// The workload and what it is for.
    pub workload: WorkloadSummary,
    /// Program that serves or runs the models, if one was recognised.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime: Option<RuntimeSummary>,
    /// Models that the workload uses, in the order of the document.
    #[serde(default, skip_serializing_if = "is_default")]
    pub models: Vec<ModelSummary>,
    /// How sure the controller is of the result as a whole.
    #[serde(default, skip_serializing_if = "is_default")]
    pub confidence: String,
}

/// The workload and what it is for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkloadSummary {
    /// Kind of the workload.
    pub kind: String,
    /// Group and version of the workload.
    pub api_version: String,
    /// Name of the workload.
    pub name: String,
    /// Namespace of the workload.
    pub namespace: String,
    /// What the workload is for, for example inference or training.
    #[serde(default, skip_serializing_if = "is_default")]
    pub category: String,
}

/// Program that serves or runs the models.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RuntimeSummary {
    /// Name of the program.
    pub name: String,
    /// Version of the program, where the image tells one.
    #[serde(default, skip_serializing_if = "is_default")]
    pub version: String,
    /// How sure the controller is of it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub confidence: String,
}

/// One model that the workload uses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ModelSummary {
    /// Name by which the workload refers to the model.
    pub identity: String,
    /// Where in the workload the name was found.
    #[serde(default, skip_serializing_if = "is_default")]
    pub source: String,
    /// How sure the controller is of it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub confidence: String,
    /// What is known of the signature of the model: unsigned, claimed or verified.
    #[serde(default, skip_serializing_if = "is_default")]
    pub signed: String,
}

/// The document, or where it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BomDocument {
    /// Format of the document.
    pub format: String,
    /// Version of the format.
    pub spec_version: String,
    /// SHA-256 of the document in lower-case hexadecimal digits.
    pub sha256: String,
    /// Size of the document in bytes.
    #[serde(default, skip_serializing_if = "is_default")]
    pub size: i64,
    /// The document itself, when it is small enough.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inline: Option<InlineDocument>,
    /// Where the document was sent, when it is too large to be kept here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external: Option<ExternalDocument>,
    /// Whether the document is too large to be kept here and is nowhere else either.
    #[serde(default, skip_serializing_if = "is_default")]
    pub truncated: bool,
    /// Why the document is neither here nor elsewhere.
    #[serde(default, skip_serializing_if = "is_default")]
    pub truncation_reason: String,
}

/// The document itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InlineDocument {
    /// Bytes of the document in base64.
    #[schemars(with = "String", extend("format" = "byte"))]
    pub data: ByteString,
}

/// Where the document was sent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExternalDocument {
    /// Sink that took the document.
    pub sink: String,
    /// Address of the document.
    #[serde(default, skip_serializing_if = "is_default")]
    pub url: String,
    /// Whether the document cannot be read back from the sink.
    #[serde(default, skip_serializing_if = "is_default")]
    pub write_only: bool,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_empty_status_has_no_field() {
        let status = serde_json::to_value(AibomStatus::default()).unwrap();
        assert_eq!(status, json!({}));
        let read: AibomStatus = serde_json::from_value(status).unwrap();
        assert_eq!(read, AibomStatus::default());
    }

    #[test]
    fn the_status_keeps_the_order_of_its_fields() {
        let status = AibomStatus {
            conditions: Vec::new(),
            summary: Some(Summary::default()),
            bom_document: Some(BomDocument {
                inline: Some(InlineDocument {
                    data: ByteString(b"{}\n".to_vec()),
                }),
                ..BomDocument::default()
            }),
            last_reconciled: None,
            bom_hash: "b".to_owned(),
            input_hash: "i".to_owned(),
            consecutive_errors: 0,
            observed_generation: 3,
        };
        assert_eq!(
            serde_json::to_string(&status).unwrap(),
            r#"{"summary":{"workload":{"kind":"","apiVersion":"","name":"","namespace":""}},"#
                .to_owned()
                + r#""bomDocument":{"format":"","specVersion":"","sha256":"","#
                + r#""inline":{"data":"e30K"}},"#
                + r#""bomHash":"b","inputHash":"i","observedGeneration":3}"#
        );
    }
}
