//! What was detected, in the shape and key order of the hash pre-image.
//!
//! Everything here is hashed, so that nothing here may depend on time, on names given to objects or
//! on the order in which a map happens to iterate.

use std::collections::BTreeMap;

use serde::{Serialize, Serializer};

use super::image::Digest;

/// Everything detected in one workload.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Scrape {
    /// Whose result it is, or whose result the others were added to.
    pub scraper_name: &'static str,
    /// How sure it is that this is an AI workload. Unresolved means that it is none.
    pub confidence: Confidence,
    /// What was found, in the order it is published.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub components: Vec<Component>,
    /// Who looked.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub provenance: Vec<Provenance>,
    /// What kind of AI workload it is, if that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub category: Option<Category>,
    /// How many components were dropped beyond the cap.
    #[serde(skip_serializing_if = "is_zero")]
    pub truncated_components: usize,
    /// Workloads that are reported here because this one owns them: `Kind/name`, sorted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub owned_workloads: Vec<String>,
    /// Where extraction failed. Not hashed.
    #[serde(skip)]
    pub errors: Vec<ExtractionError>,
}

const fn is_zero(count: &usize) -> bool {
    *count == 0
}

impl Scrape {
    /// Records the workloads, as (kind, name), that are reported under this one.
    pub fn absorb<'a>(&mut self, owned: impl IntoIterator<Item = (&'a str, &'a str)>) {
        self.owned_workloads.extend(
            owned
                .into_iter()
                .map(|(kind, name)| format!("{kind}/{name}")),
        );
        self.owned_workloads.sort_unstable();
        self.owned_workloads.dedup();
    }
}

/// One thing that a workload is made of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Component {
    /// What it is.
    #[serde(rename = "type")]
    pub component_type: ComponentType,
    /// Its name.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Its version; empty when unknown.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub version: String,
    /// The digest of its content.
    #[serde(
        rename = "hashes",
        serialize_with = "as_hashes",
        skip_serializing_if = "Option::is_none"
    )]
    pub digest: Option<Digest>,
    /// Where it was found.
    pub evidence: Evidence,
    /// How sure it is.
    pub confidence: Confidence,
    /// Further facts. A key whose value is empty is hashed, but not published.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub properties: BTreeMap<&'static str, String>,
}

fn as_hashes<S: Serializer>(digest: &Option<Digest>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(digest.as_ref().map(|digest| ("sha256", digest.as_hex())))
}

impl Component {
    /// A component without version, digest and properties.
    pub(super) fn new(
        component_type: ComponentType,
        name: impl Into<String>,
        evidence: Evidence,
        confidence: Confidence,
    ) -> Self {
        Self {
            component_type,
            name: name.into(),
            version: String::new(),
            digest: None,
            evidence,
            confidence,
            properties: BTreeMap::new(),
        }
    }

    pub(super) fn with(mut self, property: &'static str, value: impl Into<String>) -> Self {
        self.properties.insert(property, value.into());
        self
    }

    /// As [`with`](Self::with), unless the value is empty.
    pub(super) fn with_known(self, property: &'static str, value: &str) -> Self {
        if value.is_empty() {
            self
        } else {
            self.with(property, value)
        }
    }
}

/// What a component is, in the words of CycloneDX. Ordered as the words are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ComponentType {
    /// A runtime or framework.
    Application,
    /// An image.
    Container,
    /// Data mounted into a container.
    Data,
    /// A model.
    MachineLearningModel,
}

impl ComponentType {
    /// The word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Application => "application",
            Self::Container => "container",
            Self::Data => "data",
            Self::MachineLearningModel => "machine-learning-model",
        }
    }
}

/// Where a component was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Evidence {
    /// The kind of place.
    pub source: Source,
    /// The place.
    pub locator: String,
}

impl Evidence {
    pub(super) fn new(source: Source, locator: impl Into<String>) -> Self {
        Self {
            source,
            locator: locator.into(),
        }
    }
}

/// A kind of place where components are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// The image of a container.
    ImageReference,
    /// The status of a pod.
    PodStatus,
    /// A pattern for images.
    ImagePattern,
    /// The value of an environment variable.
    EnvVar,
    /// The presence of an environment variable.
    EnvVarNamePresent,
    /// An argument of a container.
    ContainerArg,
    /// A volume.
    VolumeSource,
    /// An annotation of the pod template.
    PodTemplateAnnotation,
    /// An annotation of the workload.
    WorkloadAnnotation,
    /// A field of a custom resource.
    CrdField,
}

impl Source {
    /// As published.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ImageReference => "image_reference",
            Self::PodStatus => "pod_status",
            Self::ImagePattern => "image_pattern",
            Self::EnvVar => "env_var",
            Self::EnvVarNamePresent => "env_var_name_present",
            Self::ContainerArg => "container_arg",
            Self::VolumeSource => "volume_source",
            Self::PodTemplateAnnotation => "pod_template_annotation",
            Self::WorkloadAnnotation => "workload_annotation",
            Self::CrdField => "crd_field",
        }
    }
}

/// How sure a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Confidence {
    /// The workload says so.
    Declared,
    /// Concluded from a convention.
    Inferred,
    /// Not known.
    Unresolved,
}

impl Confidence {
    /// As published.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Declared => "declared",
            Self::Inferred => "inferred",
            Self::Unresolved => "unresolved",
        }
    }

    /// Of a whole workload. Images and data alone make none: only applications and models count.
    pub(super) fn of(components: &[Component]) -> Self {
        let counts = |wanted| {
            components.iter().any(|component| {
                component.confidence == wanted
                    && matches!(
                        component.component_type,
                        ComponentType::Application | ComponentType::MachineLearningModel
                    )
            })
        };
        if counts(Self::Inferred) {
            Self::Inferred
        } else if counts(Self::Declared) {
            Self::Declared
        } else {
            Self::Unresolved
        }
    }
}

/// What kind of AI workload it is. The later one prevails when several apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Category {
    /// Serves a model.
    Inference,
    /// Stores embeddings.
    VectorDatabase,
    /// Measures a model.
    Evaluation,
    /// Trains a model.
    Training,
    /// Acts on behalf of somebody.
    Agent,
}

impl Category {
    /// As published.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Inference => "inference",
            Self::VectorDatabase => "vector-database",
            Self::Evaluation => "evaluation",
            Self::Training => "training",
            Self::Agent => "agent",
        }
    }
}

/// Who looked, and how. When is not part of what is hashed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Provenance {
    /// Its name.
    pub scraper_name: &'static str,
    /// Its version, which is not the controller's.
    pub scraper_version: &'static str,
    /// What it looked at.
    pub scrape_method: &'static str,
}

impl Provenance {
    pub(super) const fn of(scraper_name: &'static str) -> Self {
        Self {
            scraper_name,
            scraper_version: "0.1.0",
            scrape_method: "spec",
        }
    }
}

/// Something that could not be extracted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExtractionError {
    /// The kind of place that could not be read.
    pub source: String,
}
