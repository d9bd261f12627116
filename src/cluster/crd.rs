//! The moment from which the objects of a custom resource definition can be used.
//!
//! Two things have to come true, and neither implies the other: the definition is accepted
//! (`Established`), and the API server serves its kind, which it does a moment later.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::ListParams;
use kube::core::{ApiResource, DynamicObject};
use kube::{Api, Client};

use super::fault::{Fault, diagnose};
use super::wait::{Deadline, Look, WaitError, wait_for_object, wait_until};
use crate::error_chain::chain;

/// A custom resource definition cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CrdError {
    /// The API server has not accepted it.
    #[error("the custom resource definition {name} is not established")]
    NotEstablished {
        /// The definition.
        name: String,
        /// How the wait ended.
        source: WaitError,
    },
    /// It is accepted, but its objects cannot be listed.
    #[error(
        "the custom resource definition {name} is established, but {kind} in {api_version} cannot be listed"
    )]
    NotServed {
        /// The definition.
        name: String,
        /// Its kind.
        kind: String,
        /// The group and version that cannot be listed.
        api_version: String,
        /// How the wait ended.
        source: WaitError,
    },
}

impl CrdError {
    /// The one thing to do about it, if there is one.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::NotEstablished {
                name,
                source: WaitError::TimedOut { .. },
            } => Some(format!(
                "correct or apply the definition; `kubectl describe crd {name}` shows its conditions"
            )),
            Self::NotServed {
                source: WaitError::TimedOut { .. },
                ..
            } => Some(
                "look into the API server's log: it has accepted the definition but does not serve it"
                    .to_owned(),
            ),
            Self::NotEstablished { source, .. } | Self::NotServed { source, .. } => source.hint(),
        }
    }
}

impl From<CrdError> for Fault {
    fn from(error: CrdError) -> Self {
        let message = chain(&error);
        match error {
            CrdError::NotEstablished {
                source: WaitError::Failed { source, .. },
                ..
            }
            | CrdError::NotServed {
                source: WaitError::Failed { source, .. },
                ..
            } => *source,
            _ => Self::Overdue { message },
        }
    }
}

/// Waits until this definition is established and a list of its kind succeeds in every version that
/// it serves. Returns the definition as it was when it became established.
///
/// # Errors
///
/// [`CrdError`] says which half is missing, in the words of the definition's conditions.
pub async fn established(
    client: &Client,
    name: &str,
    deadline: Deadline<'_>,
) -> Result<CustomResourceDefinition, CrdError> {
    let api = Api::<CustomResourceDefinition>::all(client.clone());
    let what = format!("the custom resource definition {name} to be established");
    let crd = wait_for_object(what, deadline, &api, name, standing)
        .await
        .map_err(|source| CrdError::NotEstablished {
            name: name.to_owned(),
            source,
        })?;
    for resource in served(&crd) {
        let objects = Api::<DynamicObject>::all_with(client.clone(), &resource);
        let what = format!("{} in {} to be served", resource.kind, resource.api_version);
        wait_until(what, deadline, || list(&objects))
            .await
            .map_err(|source| CrdError::NotServed {
                name: name.to_owned(),
                kind: resource.kind.clone(),
                api_version: resource.api_version.clone(),
                source,
            })?;
    }
    Ok(crd)
}

async fn list(objects: &Api<DynamicObject>) -> Result<Look<()>, kube::Error> {
    match objects.list_metadata(&ListParams::default().limit(1)).await {
        Ok(_) => Ok(Look::Done(())),
        // Here it is a matter of time, though elsewhere it is not.
        Err(error) if diagnose(&error) == Fault::NoSuchResource => {
            Ok(Look::NotYet(Fault::NoSuchResource.to_string()))
        }
        Err(error) => Err(error),
    }
}

/// Whether the definition is established, else why not.
fn standing(crd: Option<&CustomResourceDefinition>) -> Look<CustomResourceDefinition> {
    let Some(crd) = crd else {
        return Look::NotYet("it does not exist".to_owned());
    };
    let conditions = crd.status.as_ref().and_then(|s| s.conditions.as_ref());
    let Some(conditions) = conditions.filter(|conditions| !conditions.is_empty()) else {
        return Look::NotYet("it has no condition yet".to_owned());
    };
    let is = |type_: &str, status: &str| {
        let mut all = conditions.iter();
        all.any(|condition| condition.type_ == type_ && condition.status == status)
    };
    // What was established once stays so, though the names of a later change may be taken.
    let established = is("Established", "True") && !is("NamesAccepted", "False");
    if established && crd.metadata.deletion_timestamp.is_none() {
        return Look::Done(crd.clone());
    }
    if established {
        return Look::NotYet("it is being deleted".to_owned());
    }
    let words: Vec<String> = conditions
        .iter()
        .filter(|condition| ["NamesAccepted", "Established"].contains(&condition.type_.as_str()))
        .map(|condition| {
            let reason = condition.reason.as_deref().unwrap_or("no reason");
            let message = condition.message.as_deref().unwrap_or("no message");
            format!(
                "{} is {} ({reason}: {message})",
                condition.type_, condition.status
            )
        })
        .collect();
    Look::NotYet(words.join("; "))
}

/// The definition's kind in each version that it serves.
fn served(crd: &CustomResourceDefinition) -> Vec<ApiResource> {
    let spec = &crd.spec;
    let versions = spec.versions.iter().filter(|version| version.served);
    versions
        .map(|version| ApiResource {
            group: spec.group.clone(),
            version: version.name.clone(),
            api_version: format!("{}/{}", spec.group, version.name),
            kind: spec.names.kind.clone(),
            plural: spec.names.plural.clone(),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn crd(status: serde_json::Value) -> CustomResourceDefinition {
        let version = |name, served| json!({"name": name, "served": served, "storage": false});
        serde_json::from_value(json!({
            "metadata": {"name": "things.example.com"},
            "spec": {
                "group": "example.com",
                "scope": "Namespaced",
                "names": {"kind": "Thing", "plural": "things"},
                "versions": [version("v1", true), version("v1beta1", false), version("v2", true)],
            },
            "status": status,
        }))
        .expect("a definition")
    }

    #[test]
    fn a_name_conflict_is_told_in_the_server_s_words() {
        let conflict = crd(json!({"conditions": [
            {"type": "NamesAccepted", "status": "False", "reason": "ListKindConflict",
             "message": "\"ThingList\" is already in use"},
            {"type": "Established", "status": "False", "reason": "NotAccepted",
             "message": "not all names are accepted"},
            {"type": "NonStructuralSchema", "status": "False"},
        ]}));
        assert_eq!(
            standing(Some(&conflict)),
            Look::NotYet(
                "NamesAccepted is False (ListKindConflict: \"ThingList\" is already in use); \
                 Established is False (NotAccepted: not all names are accepted)"
                    .to_owned()
            )
        );
    }

    #[test]
    fn a_definition_that_does_not_come_has_a_hint() {
        let late = || WaitError::TimedOut {
            what: "it".to_owned(),
            waited: std::time::Duration::from_secs(3),
            last: "it does not exist".to_owned(),
        };
        let name = "things.example.com".to_owned();
        let error = CrdError::NotEstablished {
            name: name.clone(),
            source: late(),
        };
        assert!(error.hint().is_some_and(|hint| hint.contains(&name)));
        let error = CrdError::NotServed {
            name,
            kind: "Thing".to_owned(),
            api_version: "example.com/v1".to_owned(),
            source: late(),
        };
        assert!(error.hint().is_some());
    }

    #[test]
    fn absence_and_silence_are_states() {
        assert_eq!(standing(None), Look::NotYet("it does not exist".to_owned()));
        assert_eq!(
            standing(Some(&crd(json!(null)))),
            Look::NotYet("it has no condition yet".to_owned())
        );
    }

    #[test]
    fn an_established_definition_that_is_being_deleted_does_not_count() {
        let established = json!({"conditions": [{"type": "Established", "status": "True"}]});
        let mut crd = crd(established);
        assert!(matches!(standing(Some(&crd)), Look::Done(_)));
        crd.metadata.deletion_timestamp =
            serde_json::from_value(json!("2026-01-01T00:00:00Z")).expect("a time");
        assert!(matches!(standing(Some(&crd)), Look::NotYet(_)));
    }

    #[test]
    fn new_names_of_an_established_definition_have_to_be_accepted() {
        let taken = crd(json!({"conditions": [
            {"type": "NamesAccepted", "status": "False", "reason": "ShortNamesConflict",
             "message": "\"th\" is already in use"},
            {"type": "Established", "status": "True"},
        ]}));
        let Look::NotYet(words) = standing(Some(&taken)) else {
            panic!("its names are taken");
        };
        assert!(words.contains("is already in use"), "{words}");
    }

    #[test]
    fn only_served_versions_are_listed() {
        let versions = served(&crd(json!(null)));
        let versions: Vec<&str> = versions.iter().map(|r| r.api_version.as_str()).collect();
        assert_eq!(versions, ["example.com/v1", "example.com/v2"]);
    }
}
