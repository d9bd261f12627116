//! The definitions of the controller's kinds, and through which version they are read.

use kube::core::ApiResource;

use crate::cluster::crds;
use crate::cluster::fault::{Fault, diagnose};
use crate::record::CrdState;

use super::error::ObserveError;
use super::target::Target;

/// The definitions that exist, by name.
pub(super) async fn definitions(target: &Target) -> Result<Vec<CrdState>, ObserveError> {
    let names = [target.subject.inventory_crd(), target.subject.config_crd()];
    let states = crds::states(&target.client, &names).await;
    states.map_err(|fault| ObserveError::api("the definitions", fault))
}

/// Through which version each kind is read: the newest of the subject's that is served.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Served {
    /// The inventory; [`None`] when no version of it is served.
    pub(super) inventory: Option<ApiResource>,
    /// The configuration.
    pub(super) config: Option<ApiResource>,
}

/// Asks the server what it serves, which may be less than its definitions say. One chart's
/// definitions may be served for one kind and another's for the other.
pub(super) async fn served(target: &Target) -> Result<Served, ObserveError> {
    let subject = target.subject;
    let mut served = Served::default();
    for version in subject.versions {
        let api_version = format!("{}/{version}", subject.group);
        let list = target.client.list_api_group_resources(&api_version).await;
        let known = match list.map_err(|error| diagnose(&error)) {
            Ok(list) => list.resources,
            Err(Fault::NoSuchResource | Fault::NotFound { .. }) => continue,
            Err(fault) => return Err(ObserveError::api(api_version, fault)),
        };
        let find = |plural: &str| {
            let found = known.iter().find(|known| known.name == plural)?;
            Some(ApiResource {
                group: subject.group.to_owned(),
                version: (*version).to_owned(),
                api_version: api_version.clone(),
                kind: found.kind.clone(),
                plural: plural.to_owned(),
            })
        };
        served.inventory = served.inventory.or_else(|| find(subject.inventory));
        served.config = served.config.or_else(|| find(subject.config));
        if served.inventory.is_some() && served.config.is_some() {
            break;
        }
    }
    Ok(served)
}

/// The path of all objects of a kind.
pub(super) fn path(resource: &ApiResource) -> String {
    format!("/apis/{}/{}", resource.api_version, resource.plural)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::observe::scripted::{Answer, target};

    fn resources(plurals: &[&str]) -> Answer {
        let known = |plural: &&str| -> Value {
            json!({"name": plural, "kind": plural.to_uppercase(), "singularName": "",
                   "namespaced": true, "verbs": ["list"]})
        };
        let known: Vec<_> = plurals.iter().map(known).collect();
        Answer::json(json!({"groupVersion": "g", "resources": known}))
    }

    #[tokio::test]
    async fn each_kind_is_read_through_its_newest_served_version() {
        let (target, _) = target(|line| {
            if line.ends_with("/v1beta1") {
                resources(&["aibomcontrollerconfigs", "aibomcontrollerconfigs/status"])
            } else {
                resources(&["aiboms", "aibomcontrollerconfigs"])
            }
        });
        let served = served(&target).await.expect("an answer");
        let inventory = served.inventory.expect("served");
        assert_eq!(path(&inventory), "/apis/aibom.k8saibom.dev/v1alpha1/aiboms");
        assert_eq!(inventory.kind, "AIBOMS");
        assert_eq!(served.config.expect("served").version, "v1beta1");
    }

    #[tokio::test]
    async fn an_unknown_group_serves_nothing_and_a_refusal_is_an_error() {
        let (nothing, asked) = target(|_| Answer::text(404, "404 page not found"));
        assert_eq!(
            served(&nothing).await.expect("an answer"),
            Served::default()
        );
        assert_eq!(asked.lines().len(), 2);
        let (forbidden, _) = target(|_| Answer::refused(403, "Forbidden"));
        let error = served(&forbidden).await.expect_err("no permission");
        assert!(error.hint().is_some(), "{error}");
    }
}
