//! Objects that are being deleted: nothing is built upon them.
//!
//! An install over a dying definition succeeds and loses all its objects a moment later, and a dying
//! namespace refuses every new object.

use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::core::{ObjectMeta, PartialObjectMeta};
use kube::{Api, Client};

use super::ask::answer;
use super::fault::Fault;

/// Checks that none of these definitions and namespaces is being deleted; those that do not exist are
/// in nobody's way (INS-01).
///
/// # Errors
///
/// [`Fault::Terminating`] names the first that is; else the [`Fault`] of a request that failed.
pub async fn refuse_dying(
    client: &Client,
    crds: &[String],
    namespaces: &[String],
) -> Result<(), Fault> {
    let api = Api::<PartialObjectMeta<CustomResourceDefinition>>::all(client.clone());
    for name in crds {
        let found = answer(api.get_opt(name)).await?;
        require(
            DEFINITION,
            name,
            found.as_ref().map(|found| &found.metadata),
        )?;
    }
    let api = Api::<PartialObjectMeta<Namespace>>::all(client.clone());
    for name in namespaces {
        let found = answer(api.get_opt(name)).await?;
        require(
            "namespace",
            name,
            found.as_ref().map(|found| &found.metadata),
        )?;
    }
    Ok(())
}

/// What a definition is called in messages.
pub(super) const DEFINITION: &str = "custom resource definition";

/// Refuses an object that is being deleted.
pub(super) fn require(kind: &str, name: &str, metadata: Option<&ObjectMeta>) -> Result<(), Fault> {
    let dying = metadata.is_some_and(|metadata| metadata.deletion_timestamp.is_some());
    if !dying {
        return Ok(());
    }
    Err(Fault::Terminating {
        kind: kind.to_owned(),
        name: name.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::cluster::scripted::{Answer, answering};

    #[tokio::test]
    async fn what_is_being_deleted_is_refused_by_name() {
        let (client, _) = answering(|line| {
            let metadata = if line.contains("/namespaces/dying") {
                json!({"name": "dying", "deletionTimestamp": "2026-01-01T00:00:00Z"})
            } else if line.contains("/alive") {
                json!({"name": "alive"})
            } else {
                return Answer::refused(404, "NotFound");
            };
            Answer::json(json!({"metadata": metadata}))
        });
        let names = |names: &[&str]| -> Vec<String> {
            names.iter().map(|name| (*name).to_owned()).collect()
        };
        let well = refuse_dying(&client, &names(&["absent"]), &names(&["alive", "absent"])).await;
        well.expect("none is being deleted");
        let fault = refuse_dying(&client, &names(&["alive"]), &names(&["alive", "dying"])).await;
        let fault = fault.expect_err("one is");
        assert_eq!(fault.to_string(), "the namespace dying is being deleted");
        assert!(fault.hint().is_some());
    }
}
