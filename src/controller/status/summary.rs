//! What was found, in short.

use serde::{Deserialize, Serialize};

use crate::controller::detect::{Component, ComponentType, Scrape};
use crate::controller::document::category;
use crate::controller::document::redact::{Classes, Redactor};
use crate::controller::workload::Workload;

/// What was found, in short.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary {
    /// The workload.
    pub workload: WorkloadSummary,
    /// Its first runtime, if one was found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime: Option<RuntimeSummary>,
    /// Its models, in the order of the document. One declared twice stands here twice.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub models: Vec<ModelSummary>,
    /// How sure it is that this is an AI workload.
    pub confidence: String,
}

/// A workload, in short.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkloadSummary {
    /// Kind.
    pub kind: String,
    /// Group and version.
    pub api_version: String,
    /// Name.
    pub name: String,
    /// Namespace.
    pub namespace: String,
    /// What kind of AI workload it is.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub category: String,
}

/// A runtime, in short.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuntimeSummary {
    /// Name.
    pub name: String,
    /// Version, if known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub version: String,
    /// How sure it is.
    pub confidence: String,
}

/// A model, in short.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelSummary {
    /// What it is called.
    pub identity: String,
    /// The kind of place where it was found.
    pub source: String,
    /// How sure it is.
    pub confidence: String,
    /// The state of its signature, if it has one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub signed: String,
}

impl Summary {
    /// The summary of what was detected in a workload.
    #[must_use]
    pub fn new(workload: &Workload<'_>, scrape: &Scrape, redactor: &Redactor) -> Self {
        let components = scrape.components.iter();
        let models = components
            .clone()
            .filter(|component| component.component_type == ComponentType::MachineLearningModel);
        Self {
            workload: WorkloadSummary {
                kind: workload.kind.kind.to_owned(),
                api_version: workload.kind.api_version(),
                name: workload.name.to_owned(),
                namespace: workload.namespace.to_owned(),
                category: category(scrape).as_str().to_owned(),
            },
            runtime: components
                .clone()
                .find(|component| is_runtime(component))
                .map(runtime),
            models: models.map(|found| model(found, redactor)).collect(),
            confidence: scrape.confidence.as_str().to_owned(),
        }
    }
}

fn is_runtime(component: &Component) -> bool {
    component.component_type == ComponentType::Application
        && component.properties.contains_key("runtime.name")
}

fn runtime(component: &Component) -> RuntimeSummary {
    RuntimeSummary {
        name: component.name.clone(),
        version: component.version.clone(),
        confidence: component.confidence.as_str().to_owned(),
    }
}

fn model(component: &Component, redactor: &Redactor) -> ModelSummary {
    let mut classes = Classes::default();
    let identity = redactor.redact(component.name.as_str().into(), &mut classes);
    let signed = component.properties.get("signature.status");
    ModelSummary {
        identity: identity.into_owned(),
        source: component.evidence.source.as_str().to_owned(),
        confidence: component.confidence.as_str().to_owned(),
        signed: signed.cloned().unwrap_or_default(),
    }
}
