//! A workload as the controller reads it: the parts of an object that matter, whatever its kind.

use std::borrow::Cow;
use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, StatefulSet};
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::core::v1::PodTemplateSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use serde::Deserialize as _;
use serde_json::Value;

use super::profile::kind::{self, Content, Kind};

/// Annotations or labels.
pub type StringMap = BTreeMap<String, String>;

static EMPTY: StringMap = BTreeMap::new();

/// A workload, borrowed from the object it was read from.
#[derive(Clone, Debug)]
pub struct Workload<'a> {
    /// Its kind.
    pub kind: &'static Kind,
    /// Namespace.
    pub namespace: &'a str,
    /// Name.
    pub name: &'a str,
    /// UID.
    pub uid: &'a str,
    /// `metadata.generation`.
    pub generation: i64,
    /// Annotations of the workload itself.
    pub annotations: &'a StringMap,
    /// Labels that select its pods; empty when it selects none. Match expressions do not count.
    pub match_labels: &'a StringMap,
    /// Its pod templates.
    pub templates: Vec<Template<'a>>,
    /// Its predictor, if it is an InferenceService that has one.
    pub predictor: Option<Predictor<'a>>,
}

/// A pod template and where it stands.
#[derive(Clone, Debug)]
pub struct Template<'a> {
    /// Path of the template inside the workload: `spec.template`.
    pub path: &'static str,
    /// The template.
    pub template: Cow<'a, PodTemplateSpec>,
}

/// The model server of an InferenceService. A field that is absent is empty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Predictor<'a> {
    /// `model.modelFormat.name`.
    pub format: &'a str,
    /// `model.modelFormat.version`.
    pub format_version: &'a str,
    /// `model.runtime`.
    pub runtime: &'a str,
    /// `model.storageUri`.
    pub storage_uri: &'a str,
    /// `serviceAccountName`.
    pub service_account: &'a str,
}

impl<'a> Workload<'a> {
    fn new(kind: &'static Kind, metadata: &'a ObjectMeta) -> Self {
        Self {
            kind,
            namespace: metadata.namespace.as_deref().unwrap_or_default(),
            name: metadata.name.as_deref().unwrap_or_default(),
            uid: metadata.uid.as_deref().unwrap_or_default(),
            generation: metadata.generation.unwrap_or_default(),
            annotations: metadata.annotations.as_ref().unwrap_or(&EMPTY),
            match_labels: &EMPTY,
            templates: Vec::new(),
            predictor: None,
        }
    }

    fn selecting(mut self, selector: Option<&'a LabelSelector>) -> Self {
        self.match_labels = selector
            .and_then(|selector| selector.match_labels.as_ref())
            .unwrap_or(&EMPTY);
        self
    }

    /// `kind` is one with a single template.
    fn templated(mut self, template: Option<&'a PodTemplateSpec>) -> Self {
        if let (Content::Templates([path, ..]), Some(template)) = (self.kind.content, template) {
            self.templates.push(Template {
                path,
                template: Cow::Borrowed(template),
            });
        }
        self
    }

    /// A workload of a third-party kind. `spec` is the object's `spec`.
    ///
    /// A pod template that does not parse counts as absent: definitions of others may change.
    #[must_use]
    pub fn third_party(kind: &'static Kind, metadata: &'a ObjectMeta, spec: &'a Value) -> Self {
        let mut workload = Self::new(kind, metadata);
        match kind.content {
            Content::Templates(paths) => {
                workload.templates = paths
                    .iter()
                    .filter_map(|path| {
                        let template = below_spec(spec, path)?;
                        Some(Template {
                            path,
                            template: Cow::Owned(PodTemplateSpec::deserialize(template).ok()?),
                        })
                    })
                    .collect();
            }
            Content::Predictor => workload.predictor = spec.get("predictor").map(predictor),
            Content::Annotations => {}
        }
        workload
    }
}

/// The value at a dotted path that begins with `spec`.
fn below_spec<'v>(spec: &'v Value, path: &str) -> Option<&'v Value> {
    path.split('.')
        .skip(1)
        .try_fold(spec, |value, key| value.get(key))
}

fn predictor(predictor: &Value) -> Predictor<'_> {
    let text = |pointer| {
        predictor
            .pointer(pointer)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    Predictor {
        format: text("/model/modelFormat/name"),
        format_version: text("/model/modelFormat/version"),
        runtime: text("/model/runtime"),
        storage_uri: text("/model/storageUri"),
        service_account: text("/serviceAccountName"),
    }
}

impl<'a> From<&'a Deployment> for Workload<'a> {
    fn from(object: &'a Deployment) -> Self {
        let spec = object.spec.as_ref();
        Self::new(&kind::DEPLOYMENT, &object.metadata)
            .selecting(spec.map(|spec| &spec.selector))
            .templated(spec.map(|spec| &spec.template))
    }
}

impl<'a> From<&'a StatefulSet> for Workload<'a> {
    fn from(object: &'a StatefulSet) -> Self {
        let spec = object.spec.as_ref();
        Self::new(&kind::STATEFUL_SET, &object.metadata)
            .selecting(spec.map(|spec| &spec.selector))
            .templated(spec.map(|spec| &spec.template))
    }
}

impl<'a> From<&'a DaemonSet> for Workload<'a> {
    fn from(object: &'a DaemonSet) -> Self {
        let spec = object.spec.as_ref();
        Self::new(&kind::DAEMON_SET, &object.metadata)
            .selecting(spec.map(|spec| &spec.selector))
            .templated(spec.map(|spec| &spec.template))
    }
}

impl<'a> From<&'a Job> for Workload<'a> {
    fn from(object: &'a Job) -> Self {
        let spec = object.spec.as_ref();
        Self::new(&kind::JOB, &object.metadata)
            .selecting(spec.and_then(|spec| spec.selector.as_ref()))
            .templated(spec.map(|spec| &spec.template))
    }
}

impl<'a> From<&'a CronJob> for Workload<'a> {
    fn from(object: &'a CronJob) -> Self {
        let job = object
            .spec
            .as_ref()
            .and_then(|spec| spec.job_template.spec.as_ref());
        Self::new(&kind::CRON_JOB, &object.metadata).templated(job.map(|job| &job.template))
    }
}
