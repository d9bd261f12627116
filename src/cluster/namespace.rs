//! The end of a namespace.

use std::sync::OnceLock;

use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, Client};

use super::removal::{Removal, request};
use super::wait::{Deadline, Look, WaitError, wait_for_object};

/// Deletes the namespace of this name and UID, with all that is in it, and waits until it has
/// vanished. One of the same name and another UID is left alone.
///
/// # Errors
///
/// As for [`gone`]; [`WaitError::TimedOut`] when the request itself does not get through.
pub async fn delete_namespace(
    client: &Client,
    name: &str,
    uid: &str,
    deadline: Deadline<'_>,
) -> Result<Removal, WaitError> {
    let api = Api::<Namespace>::all(client.clone());
    let removal = request(&api, "namespace", name, uid, deadline).await?;
    if removal == Removal::Deleted {
        until_gone(&api, name, Some(uid), deadline).await?;
    }
    Ok(removal)
}

/// Waits until this namespace has vanished, which begins after somebody deleted it. A namespace of
/// the same name that was created afterwards is another one.
///
/// Nothing is forced: finalizers stay, since they guard something that their owner has yet to clean
/// up. What remains, and by which finalizers, is part of the error.
///
/// # Errors
///
/// [`WaitError::NamespaceStuck`] at the deadline, with the namespace's own conditions; else as for
/// [`wait_for_object`].
pub async fn gone(client: &Client, name: &str, deadline: Deadline<'_>) -> Result<(), WaitError> {
    let api = Api::<Namespace>::all(client.clone());
    until_gone(&api, name, None, deadline).await
}

/// The same for the namespace of this UID; for the first that is seen when there is none.
async fn until_gone(
    api: &Api<Namespace>,
    name: &str,
    uid: Option<&str>,
    deadline: Deadline<'_>,
) -> Result<(), WaitError> {
    let first = OnceLock::new();
    if let Some(uid) = uid {
        first.get_or_init(|| Some(uid.to_owned()));
    }
    let what = format!("the end of the namespace {name}");
    wait_for_object(what, deadline, api, name, |namespace| {
        let Some(namespace) = namespace else {
            return Look::Done(());
        };
        let uid = &namespace.metadata.uid;
        if first.get_or_init(|| uid.clone()) != uid {
            return Look::Done(());
        }
        Look::NotYet(remains(namespace))
    })
    .await
    .map_err(|error| match error {
        WaitError::TimedOut { waited, last, .. } => WaitError::NamespaceStuck {
            name: name.to_owned(),
            waited,
            remains: last,
        },
        failed => failed,
    })
}

/// Why a namespace still exists, in the words of its conditions.
fn remains(namespace: &Namespace) -> String {
    if namespace.metadata.deletion_timestamp.is_none() {
        return "it is not being deleted".to_owned();
    }
    let conditions = namespace
        .status
        .as_ref()
        .and_then(|s| s.conditions.as_ref());
    let reasons: Vec<String> = conditions
        .into_iter()
        .flatten()
        // Every condition of a namespace reports an obstacle.
        .filter(|condition| condition.status == "True")
        .map(|condition| {
            let message = condition.message.as_deref().unwrap_or("no message");
            format!("{}: {message}", condition.type_)
        })
        .collect();
    if !reasons.is_empty() {
        return reasons.join("; ");
    }
    match conditions {
        Some(_) => "it is being deleted and nothing is known to remain".to_owned(),
        None => "it is being deleted, but no controller has looked at it".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn namespace(value: serde_json::Value) -> Namespace {
        serde_json::from_value(value).expect("a namespace")
    }

    #[test]
    fn a_stuck_namespace_names_what_remains_and_by_which_finalizer() {
        let stuck = namespace(json!({
            "metadata": {"name": "n", "deletionTimestamp": "2026-01-01T00:00:00Z"},
            "status": {"phase": "Terminating", "conditions": [
                {"type": "NamespaceDeletionDiscoveryFailure", "status": "False",
                 "reason": "ResourcesDiscovered", "message": "All resources successfully discovered"},
                {"type": "NamespaceContentRemaining", "status": "True", "reason": "SomeResourcesRemain",
                 "message": "Some resources are remaining: configmaps. has 1 resource instances"},
                {"type": "NamespaceFinalizersRemaining", "status": "True",
                 "reason": "SomeFinalizersRemain",
                 "message": "Some content in the namespace has finalizers remaining: \
                             example.com/stuck in 1 resource instances"},
            ]},
        }));
        assert_eq!(
            remains(&stuck),
            "NamespaceContentRemaining: Some resources are remaining: configmaps. has 1 resource \
             instances; NamespaceFinalizersRemaining: Some content in the namespace has finalizers \
             remaining: example.com/stuck in 1 resource instances"
        );
    }

    #[test]
    fn a_namespace_that_nobody_deletes_is_said_so() {
        let active = namespace(json!({"metadata": {"name": "n"}, "status": {"phase": "Active"}}));
        assert_eq!(remains(&active), "it is not being deleted");
    }

    #[test]
    fn a_plane_without_controllers_is_recognised() {
        let ignored = namespace(json!({
            "metadata": {"name": "n", "deletionTimestamp": "2026-01-01T00:00:00Z"},
            "status": {"phase": "Terminating"},
        }));
        assert_eq!(
            remains(&ignored),
            "it is being deleted, but no controller has looked at it"
        );
    }
}
