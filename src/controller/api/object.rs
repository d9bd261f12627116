//! Either kind in the version that a profile uses.
//!
//! The derived root types are bound to one version and cannot read an object without a `spec`, which
//! the definitions allow. This one takes its version from an [`ApiResource`].

use std::borrow::Cow;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use kube::core::{ApiResource, DynamicResourceScope};
use serde::{Deserialize, Serialize};

use super::GROUP;
use super::aibom::{AibomSpec, AibomStatus};
use super::config::{AibomControllerConfigSpec, AibomControllerConfigStatus};
use super::release::{ApiKind, ApiVersion};

/// An AIBOM in any version.
pub type AibomObject = Versioned<AibomSpec, AibomStatus>;

/// A configuration in any version.
pub type ConfigObject = Versioned<AibomControllerConfigSpec, AibomControllerConfigStatus>;

/// An object of either kind. An absent `spec` or `status` is an empty one, and both are always
/// written.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Versioned<S, T> {
    /// Group and version.
    #[serde(default)]
    pub api_version: String,
    /// Kind.
    #[serde(default)]
    pub kind: String,
    /// Name, owner, version and so on.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// What is wanted.
    #[serde(default)]
    pub spec: S,
    /// What was seen.
    #[serde(default)]
    pub status: T,
}

/// How the API server is asked for a kind in a version.
#[must_use]
pub fn resource(kind: ApiKind, version: ApiVersion) -> ApiResource {
    ApiResource {
        group: GROUP.to_owned(),
        version: version.name().to_owned(),
        api_version: format!("{GROUP}/{version}"),
        kind: kind.kind().to_owned(),
        plural: kind.plural().to_owned(),
    }
}

impl<S, T> Resource for Versioned<S, T> {
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
    use kube::{CustomResourceExt as _, core::Resource as _};
    use serde_json::json;

    use super::super::aibom::Aibom;
    use super::super::config::{AibomControllerConfig, BomGeneration};
    use super::*;

    #[test]
    fn the_resources_are_those_of_the_derived_types() {
        let beta = ApiVersion::V1Beta1;
        assert_eq!(resource(ApiKind::Aibom, beta), Aibom::api_resource());
        assert_eq!(
            resource(ApiKind::ControllerConfig, beta),
            AibomControllerConfig::api_resource()
        );
        let alpha = resource(ApiKind::Aibom, ApiVersion::V1Alpha1);
        assert_eq!(
            AibomObject::url_path(&alpha, Some("ns")),
            "/apis/aibom.k8saibom.dev/v1alpha1/namespaces/ns/aiboms"
        );
    }

    #[test]
    fn a_configuration_needs_no_spec() {
        let read: ConfigObject = serde_json::from_value(json!({
            "apiVersion": "aibom.k8saibom.dev/v1beta1",
            "kind": "AIBOMControllerConfig",
            "metadata": {"name": "default"},
        }))
        .expect("a configuration");
        assert_eq!(read.spec, AibomControllerConfigSpec::default());
    }

    #[test]
    fn a_default_needs_its_parent() {
        let spec = |value| serde_json::from_value::<AibomControllerConfigSpec>(value).unwrap();
        assert_eq!(spec(json!({})).bom_generation, None);
        assert_eq!(
            spec(json!({"bomGeneration": {}})).bom_generation,
            Some(BomGeneration::default())
        );
    }

    #[test]
    fn a_new_object_is_written_with_an_empty_status() {
        let written = serde_json::to_value(ConfigObject::default()).unwrap();
        assert_eq!(written["spec"], json!({}));
        assert_eq!(written["status"], json!({}));
    }
}
