//! Deleting one object and no other: by its UID, until it has vanished (CLN-05).

use std::fmt::Debug;

use kube::api::{DeleteParams, Preconditions};
use kube::{Api, Resource};
use serde::de::DeserializeOwned;

use super::fault::{Fault, diagnose};
use super::wait::{Deadline, Look, WaitError, wait_until};

/// What became of a request to remove an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removal {
    /// It was there and has been deleted.
    Deleted,
    /// It was not there, or only another object of its name, which was left alone.
    Absent,
}

/// Asks for the deletion of an object, which may go on after the answer.
///
/// A namespace that is being deleted answers the next such request with a conflict, as an object of
/// another UID does; so the object decides which of both it is.
pub(super) async fn request<K>(
    api: &Api<K>,
    kind: &str,
    name: &str,
    uid: &str,
    deadline: Deadline<'_>,
) -> Result<Removal, WaitError>
where
    K: Resource + Clone + DeserializeOwned + Debug,
{
    let params = DeleteParams::background().preconditions(Preconditions {
        uid: Some(uid.to_owned()),
        resource_version: None,
    });
    let what = format!("the {kind} {name} to be deleted");
    wait_until(what, deadline, async || {
        let error = match api.delete(name, &params).await {
            Ok(_) => return Ok(Look::Done(Removal::Deleted)),
            Err(error) => error,
        };
        match diagnose(&error) {
            Fault::NotFound { .. } | Fault::NoSuchResource => Ok(Look::Done(Removal::Absent)),
            Fault::Conflict { message } => {
                let found = api.get_metadata_opt(name).await?;
                let Some(metadata) = found.map(|found| found.metadata) else {
                    return Ok(Look::Done(Removal::Absent));
                };
                if metadata.uid.as_deref() != Some(uid) {
                    return Ok(Look::Done(Removal::Absent));
                }
                if metadata.deletion_timestamp.is_some() {
                    return Ok(Look::Done(Removal::Deleted));
                }
                Ok(Look::NotYet(message))
            }
            _ => Err(error),
        }
    })
    .await
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use k8s_openapi::api::core::v1::Namespace;
    use serde_json::{Value, json};

    use super::*;
    use crate::cluster::scripted::{Answer, client};

    fn object(uid: &str, deleted: bool) -> Answer {
        let deleted = deleted.then_some("2026-01-01T00:00:00Z");
        Answer::json(json!({
            "apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": "n", "uid": uid, "deletionTimestamp": deleted},
        }))
    }

    async fn remove(answers: Vec<Answer>) -> (Removal, Value) {
        let (client, asked) = client(answers);
        let api = Api::<Namespace>::all(client);
        let deadline = Deadline::within(Duration::from_secs(3));
        let removal = request(&api, "namespace", "n", "mine", deadline).await;
        (removal.expect("an end"), asked.body(0))
    }

    #[tokio::test(start_paused = true)]
    async fn only_the_object_of_this_uid_is_deleted() {
        let (removal, body) = remove(vec![object("mine", true)]).await;
        assert_eq!(removal, Removal::Deleted);
        assert_eq!(body["preconditions"], json!({"uid": "mine"}));
        let conflict = || Answer::refused(409, "Conflict");
        let (removal, _) = remove(vec![conflict(), object("another", false)]).await;
        assert_eq!(removal, Removal::Absent);
        // A namespace that is being deleted answers so as well.
        let (removal, _) = remove(vec![conflict(), object("mine", true)]).await;
        assert_eq!(removal, Removal::Deleted);
    }

    #[tokio::test(start_paused = true)]
    async fn a_failure_that_passes_is_tried_again() {
        let busy = Answer::refused(503, "ServiceUnavailable");
        let absent = Answer::json(json!({
            "kind": "Status", "status": "Success", "details": {"name": "n", "kind": "namespaces"},
        }));
        let (removal, _) = remove(vec![busy, absent]).await;
        assert_eq!(removal, Removal::Deleted);
    }
}
