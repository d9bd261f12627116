//! Custom resource definitions as a set: what is served, applying those of a chart, deleting them.
//!
//! A definition is read and sent as plain JSON, never through a type: whatever a type does not know of
//! a schema would be lost from it, and from its hash.

use std::collections::BTreeSet;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use kube::api::{Patch, PatchParams};
use kube::core::{ApiResource, DynamicObject};
use kube::{Api, Client};
use serde_json::Value;

use super::ask::answer;
use super::crd::established;
use super::dying::{DEFINITION, require};
use super::fault::{Fault, diagnose};
use super::removal::{Removal, request};
use super::wait::{Deadline, Look, WaitError, wait_for_object, wait_until};
use crate::record::{CrdApplied, CrdState, crd_versions};

/// The field manager under which definitions are applied unless something else is asked for.
///
/// Helm 4 installs the definitions of a chart as this manager, by server-side apply. Whoever applies
/// them as another one takes over what the file has, and what only the former file had stays behind,
/// still owned by Helm; as the same one it goes (`qualification.md` L6, `helm-moves.md` A). Helm 3 is an
/// ordinary writer of that name, whose fields stay; but `spec.versions`, and so every schema, is one
/// field to the server, which the last to apply it replaces as a whole.
pub const MANAGER: &str = "helm";

fn definitions(client: &Client) -> Api<DynamicObject> {
    let resource = ApiResource::erase::<CustomResourceDefinition>(&());
    Api::all_with(client.clone(), &resource)
}

/// Applies definitions by server-side apply with force, in the order given, and waits until each can be
/// used: established, its names accepted, and listed in every version that it serves. What the server
/// finds invalid is told with the definition, and the others are applied all the same.
///
/// That the schema served afterwards is the file's is for the next [`states`] to tell (CRD-12).
///
/// # Errors
///
/// [`Fault::Terminating`] when one of them is being deleted; then none is applied. [`Fault::Overdue`]
/// when one was accepted but cannot be used by the deadline. [`Fault::Rejected`] when one has no name.
/// Else the [`Fault`] of a request that failed.
pub async fn apply(
    client: &Client,
    wanted: &[Value],
    manager: &str,
    deadline: Deadline<'_>,
) -> Result<Vec<CrdApplied>, Fault> {
    let api = definitions(client);
    let mut before = Vec::with_capacity(wanted.len());
    for definition in wanted {
        let name = definition["metadata"]["name"].as_str();
        let name = name.ok_or_else(|| Fault::Rejected {
            message: "a custom resource definition without metadata.name".to_owned(),
        })?;
        let found = answer(api.get_opt(name)).await?;
        let metadata = found.map(|found| found.metadata);
        require(DEFINITION, name, metadata.as_ref())?;
        before.push((name, metadata.and_then(|metadata| metadata.generation)));
    }
    let mut applied = Vec::with_capacity(wanted.len());
    for (definition, (name, generation)) in wanted.iter().zip(before) {
        let sent = send(&api, definition, name, manager, deadline).await?;
        let (changed, refused) = match sent {
            Ok(now) => (generation != now, None),
            Err(message) => (false, Some(message)),
        };
        applied.push(CrdApplied {
            name: name.to_owned(),
            changed,
            refused,
        });
    }
    for definition in &applied {
        if definition.refused.is_none() {
            established(client, &definition.name, deadline).await?;
        }
    }
    Ok(applied)
}

/// The generation after one definition was applied, or why the server refuses it.
async fn send(
    api: &Api<DynamicObject>,
    definition: &Value,
    name: &str,
    manager: &str,
    deadline: Deadline<'_>,
) -> Result<Result<Option<i64>, String>, Fault> {
    let params = PatchParams::apply(manager).force();
    let patch = Patch::Apply(definition);
    let what = format!("the {DEFINITION} {name} to be applied");
    let sent = wait_until(what, deadline, async || {
        let error = match api.patch(name, &params, &patch).await {
            Ok(applied) => return Ok(Look::Done(Ok(applied.metadata.generation))),
            Err(error) => error,
        };
        match diagnose(&error) {
            Fault::Rejected { message } | Fault::Conflict { message } => {
                Ok(Look::Done(Err(message)))
            }
            _ => Err(error),
        }
    });
    Ok(sent.await?)
}

/// The definitions of these names that exist, in the order of the names.
///
/// # Errors
///
/// The [`Fault`] of a request that failed.
pub async fn states(client: &Client, names: &[String]) -> Result<Vec<CrdState>, Fault> {
    let api = definitions(client);
    let mut states = Vec::with_capacity(names.len());
    for name in names {
        if let Some(found) = answer(api.get_opt(name)).await? {
            states.push(state(name, &found));
        }
    }
    Ok(states)
}

/// Deletes the definition of this name and UID, with all its objects, and waits until it has vanished.
/// One of the same name and another UID is left alone.
///
/// # Errors
///
/// [`WaitError`] tells what holds it when the deadline comes first.
pub async fn delete(
    client: &Client,
    name: &str,
    uid: &str,
    deadline: Deadline<'_>,
) -> Result<Removal, WaitError> {
    let api = Api::<CustomResourceDefinition>::all(client.clone());
    let removal = request(&api, DEFINITION, name, uid, deadline).await?;
    if removal == Removal::Deleted {
        let what = format!("the end of the {DEFINITION} {name}");
        wait_for_object(what, deadline, &api, name, |found| match found {
            Some(found) if found.metadata.uid.as_deref() == Some(uid) => {
                Look::NotYet(remains(found))
            }
            _ => Look::Done(()),
        })
        .await?;
    }
    Ok(removal)
}

/// Why a definition still exists, in the server's words.
fn remains(definition: &CustomResourceDefinition) -> String {
    let conditions = definition
        .status
        .as_ref()
        .and_then(|status| status.conditions.as_ref());
    let terminating = conditions
        .into_iter()
        .flatten()
        .find(|condition| condition.type_ == "Terminating" && condition.status == "True");
    let finalizers = definition.metadata.finalizers.as_deref();
    match (terminating, finalizers) {
        (Some(condition), _) => {
            let reason = condition.reason.as_deref().unwrap_or("no reason");
            let message = condition.message.as_deref().unwrap_or("no message");
            format!("{reason}: {message}")
        }
        (None, Some(finalizers)) if !finalizers.is_empty() => {
            format!("finalizers {}", finalizers.join(", "))
        }
        (None, _) => "it is being deleted".to_owned(),
    }
}

fn state(name: &str, found: &DynamicObject) -> CrdState {
    let (metadata, status) = (&found.metadata, &found.data["status"]);
    let is = |type_: &str| {
        let conditions = status["conditions"].as_array();
        let mut all = conditions.into_iter().flatten();
        all.any(|condition| condition["type"] == type_ && condition["status"] == "True")
    };
    let stored = status["storedVersions"].as_array().into_iter().flatten();
    CrdState {
        name: name.to_owned(),
        uid: metadata.uid.clone().unwrap_or_default(),
        generation: metadata.generation.unwrap_or_default(),
        resource_version: metadata.resource_version.clone().unwrap_or_default(),
        versions: crd_versions(&found.data),
        stored_versions: stored
            .filter_map(|version| version.as_str().map(str::to_owned))
            .collect(),
        established: is("Established") && is("NamesAccepted"),
        terminating: metadata.deletion_timestamp.is_some(),
        managers: spec_managers(metadata.managed_fields.as_deref().unwrap_or_default()),
    }
}

/// Who manages fields of the spec (CRD-09).
fn spec_managers(entries: &[ManagedFieldsEntry]) -> BTreeSet<String> {
    let of_spec = entries.iter().filter(|entry| {
        let fields = entry.fields_v1.as_ref();
        fields.is_some_and(|fields| fields.0.get("f:spec").is_some())
    });
    of_spec.filter_map(|entry| entry.manager.clone()).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;
    use crate::cluster::scripted::{Answer, Asked, answering, client};
    use crate::record::schema_sha256;

    const NAME: &str = "things.example.com";

    fn definition(schema: &Value) -> Value {
        json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": NAME},
            "spec": {
                "group": "example.com", "scope": "Namespaced",
                "names": {"kind": "Thing", "plural": "things"},
                "versions": [{
                    "name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema},
                }],
            },
        })
    }

    fn served(generation: i64, schema: &Value) -> Value {
        let mut served = definition(schema);
        served["metadata"] = json!({
            "name": NAME, "uid": "u-1", "generation": generation, "resourceVersion": "9",
            "managedFields": [
                {"manager": "helm", "operation": "Apply", "apiVersion": "apiextensions.k8s.io/v1",
                 "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {"f:versions": {}}}},
                {"manager": "kube-apiserver", "operation": "Update", "subresource": "status",
                 "apiVersion": "apiextensions.k8s.io/v1",
                 "fieldsType": "FieldsV1", "fieldsV1": {"f:status": {}}},
            ],
        });
        served["status"] = json!({
            "storedVersions": ["v1"],
            "conditions": [{"type": "NamesAccepted", "status": "True"},
                           {"type": "Established", "status": "True"}],
        });
        served
    }

    fn soon() -> Deadline<'static> {
        Deadline::within(Duration::from_secs(5))
    }

    /// A server with a definition of this generation before an apply and that one after it.
    fn server(before: Option<Value>, after: Result<Value, Answer>) -> (Client, Asked) {
        answering(move |line| {
            let after_it = after.as_ref().map_or(Value::Null, Clone::clone);
            if line.starts_with("PATCH ") {
                return after.clone().map_or_else(|refused| refused, Answer::json);
            }
            if line.starts_with("GET /apis/example.com/") {
                return Answer::json(json!({"metadata": {"resourceVersion": "1"}, "items": []}));
            }
            if line.contains("fieldSelector") && line.contains("watch=true") {
                return Answer::quiet(&[]);
            }
            if line.contains("fieldSelector") {
                return Answer::json(
                    json!({"metadata": {"resourceVersion": "1"}, "items": [after_it]}),
                );
            }
            match &before {
                Some(before) => Answer::json(before.clone()),
                None => Answer::refused(404, "NotFound"),
            }
        })
    }

    #[tokio::test(start_paused = true)]
    async fn a_definition_is_applied_by_force_as_the_manager_asked_for() {
        let (old, new) = (json!({"type": "object"}), json!({"type": "string"}));
        let (client, asked) = server(Some(served(1, &old)), Ok(served(2, &new)));
        let applied = apply(&client, &[definition(&new)], MANAGER, soon()).await;
        let expected = CrdApplied {
            name: NAME.to_owned(),
            changed: true,
            refused: None,
        };
        assert_eq!(applied.expect("applied"), [expected]);
        let lines = asked.lines();
        let patch = lines.iter().position(|line| line.starts_with("PATCH "));
        let patch = patch.expect("an apply");
        assert!(lines[patch].contains("force=true"), "{}", lines[patch]);
        assert!(
            lines[patch].contains("fieldManager=helm"),
            "{}",
            lines[patch]
        );
        // The very document is sent.
        assert_eq!(asked.body(patch), definition(&new));
    }

    #[tokio::test(start_paused = true)]
    async fn an_apply_that_changes_nothing_is_told_so_and_a_new_definition_is_a_change() {
        let schema = json!({"type": "object"});
        let now = served(1, &schema);
        for (before, changed) in [(Some(now.clone()), false), (None, true)] {
            let (client, _) = server(before, Ok(now.clone()));
            let applied = apply(&client, &[definition(&schema)], MANAGER, soon()).await;
            assert_eq!(applied.expect("applied")[0].changed, changed);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_refusal_is_a_fact_and_no_error() {
        let schema = json!({"type": "object"});
        let refusal = Answer::refused(422, "Invalid");
        let (client, _) = server(Some(served(1, &schema)), Err(refusal));
        let applied = apply(&client, &[definition(&schema)], MANAGER, soon()).await;
        let applied = applied.expect("an answer");
        assert_eq!(applied[0].refused.as_deref(), Some("Invalid"));
        assert!(!applied[0].changed);
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_applied_over_a_definition_that_is_being_deleted() {
        let schema = json!({"type": "object"});
        let mut dying = served(1, &schema);
        dying["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        let (client, asked) = server(Some(dying), Ok(served(2, &schema)));
        let applied = apply(&client, &[definition(&schema)], MANAGER, soon()).await;
        assert!(
            matches!(applied, Err(Fault::Terminating { .. })),
            "{applied:?}"
        );
        assert!(!asked.lines().iter().any(|line| line.starts_with("PATCH ")));
    }

    #[tokio::test]
    async fn a_state_has_the_hash_of_the_very_schema_that_is_served() {
        // A type that knows no such keyword would lose it.
        let schema = json!({"type": "object", "x-unheard-of": [1, 2.5]});
        let answers = vec![
            Answer::json(served(4, &schema)),
            Answer::refused(404, "NotFound"),
        ];
        let (client, _) = client(answers);
        let names = [NAME.to_owned(), "absent.example.com".to_owned()];
        let states = states(&client, &names).await.expect("states");
        assert_eq!(states.len(), 1);
        assert_eq!(
            states[0].versions["v1"].schema_sha256,
            schema_sha256(&schema)
        );
        assert_eq!((states[0].generation, states[0].established), (4, true));
        assert_eq!(states[0].stored_versions, ["v1"]);
        assert_eq!(states[0].managers, BTreeSet::from(["helm".to_owned()]));
    }

    #[test]
    fn what_holds_a_definition_is_told() {
        let mut value = served(1, &json!({"type": "object"}));
        value["metadata"]["finalizers"] = json!(["customresourcecleanup.apiextensions.k8s.io"]);
        let read = |value: &Value| remains(&serde_json::from_value(value.clone()).expect("one"));
        assert!(read(&value).starts_with("finalizers customresourcecleanup"));
        value["status"]["conditions"] = json!([{
            "type": "Terminating", "status": "True", "reason": "InstanceDeletionInProgress",
            "message": "CustomResource deletion is in progress",
        }]);
        assert_eq!(
            read(&value),
            "InstanceDeletionInProgress: CustomResource deletion is in progress"
        );
    }
}
