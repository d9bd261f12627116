//! The kinds of workloads, as the reconciler reads them.

use std::borrow::Cow;
use std::fmt::Debug;

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, StatefulSet};
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use kube::core::{ApiResource, DynamicResourceScope};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::controller::profile::kind::{self, Kind};
use crate::controller::workload::Workload;

/// An object that is a workload.
pub trait Tracked: Resource + Clone + Debug + DeserializeOwned + Send + Sync + 'static {
    /// The object as a workload of its kind, which the type alone does not tell of a [`ThirdParty`].
    fn workload(&self, kind: &'static Kind) -> Workload<'_>;
}

/// A kind of workload that every cluster serves.
pub trait BuiltIn: Tracked + Resource<DynamicType = (), Scope = NamespaceResourceScope> {
    /// The kind.
    const KIND: &'static Kind;
}

macro_rules! built_in {
    ($($object:ty => $kind:path),* $(,)?) => {
        $(impl Tracked for $object {
            fn workload(&self, _: &'static Kind) -> Workload<'_> {
                self.into()
            }
        }

        impl BuiltIn for $object {
            const KIND: &'static Kind = &$kind;
        })*
    };
}

built_in! {
    Deployment => kind::DEPLOYMENT,
    StatefulSet => kind::STATEFUL_SET,
    DaemonSet => kind::DAEMON_SET,
    Job => kind::JOB,
    CronJob => kind::CRON_JOB,
}

/// A workload of any third-party kind: what of it may be read.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct ThirdParty {
    /// Name, owner, version and so on.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// What is wanted. Its shape is its definition's.
    #[serde(default)]
    pub spec: Value,
}

impl ThirdParty {
    /// How the API server is asked for a kind.
    #[must_use]
    pub fn resource(kind: &Kind) -> ApiResource {
        ApiResource {
            group: kind.group.to_owned(),
            version: kind.version.to_owned(),
            api_version: kind.api_version(),
            kind: kind.kind.to_owned(),
            plural: kind.plural.to_owned(),
        }
    }
}

impl Tracked for ThirdParty {
    fn workload(&self, kind: &'static Kind) -> Workload<'_> {
        Workload::third_party(kind, &self.metadata, &self.spec)
    }
}

impl Resource for ThirdParty {
    type DynamicType = ApiResource;
    type Scope = DynamicResourceScope;

    fn kind(dt: &ApiResource) -> Cow<'_, str> {
        dt.kind.as_str().into()
    }

    fn group(dt: &ApiResource) -> Cow<'_, str> {
        dt.group.as_str().into()
    }

    fn version(dt: &ApiResource) -> Cow<'_, str> {
        dt.version.as_str().into()
    }

    fn api_version(dt: &ApiResource) -> Cow<'_, str> {
        dt.api_version.as_str().into()
    }

    fn plural(dt: &ApiResource) -> Cow<'_, str> {
        dt.plural.as_str().into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_third_party_object_is_read_by_its_kind() {
        let object: ThirdParty = serde_json::from_value(json!({
            "apiVersion": "serving.kserve.io/v1beta1",
            "kind": "InferenceService",
            "metadata": {"name": "llama", "namespace": "models", "uid": "1"},
            "spec": {"predictor": {"model": {"modelFormat": {"name": "vllm"}}}},
            "status": {"url": "http://llama"},
        }))
        .expect("an object");
        let kind = &kind::INFERENCE_SERVICE;
        let workload = object.workload(kind);
        assert_eq!((workload.namespace, workload.name), ("models", "llama"));
        assert_eq!(workload.predictor.map(|found| found.format), Some("vllm"));
        let path = ThirdParty::url_path(&ThirdParty::resource(kind), Some("models"));
        let wanted = "/apis/serving.kserve.io/v1beta1/namespaces/models/inferenceservices";
        assert_eq!(path, wanted);
        let bare: ThirdParty = serde_json::from_value(json!({"metadata": {}})).expect("an object");
        assert!(bare.workload(&kind::NIM_SERVICE).templates.is_empty());
    }
}
