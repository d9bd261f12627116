//! Whether a pod lets its image run as the user that it names.
//!
//! A process of this machine runs as whoever runs this tool, whatever pod and image say; only the
//! *refusal* is that of a kubelet.

use k8s_openapi::api::core::v1::{Container, Pod};

use crate::node::image::ImageUser;

/// Refuses a container that must not run as root and would, or may. The container's own settings win
/// over the pod's, and those over the image.
///
/// # Errors
///
/// The kubelet's words.
pub(super) fn check(pod: &Pod, container: &Container, image: &ImageUser) -> Result<(), String> {
    let of_pod = pod
        .spec
        .as_ref()
        .and_then(|spec| spec.security_context.as_ref());
    let of_container = container.security_context.as_ref();
    let non_root = of_container
        .and_then(|context| context.run_as_non_root)
        .or_else(|| of_pod.and_then(|context| context.run_as_non_root));
    if non_root != Some(true) {
        return Ok(());
    }
    let uid = of_container
        .and_then(|context| context.run_as_user)
        .or_else(|| of_pod.and_then(|context| context.run_as_user));
    let place = place(pod, container);
    match (uid, image) {
        (Some(0), _) => Err(format!(
            "container's runAsUser breaks non-root policy {place}"
        )),
        (Some(_), _) => Ok(()),
        (None, ImageUser::Uid(0)) => Err(format!(
            "container has runAsNonRoot and image will run as root {place}"
        )),
        (None, ImageUser::Uid(_)) => Ok(()),
        (None, ImageUser::Name(name)) => Err(format!(
            "container has runAsNonRoot and image has non-numeric user ({name}), cannot verify user is \
             non-root {place}"
        )),
    }
}

fn place(pod: &Pod, container: &Container) -> String {
    let metadata = &pod.metadata;
    let part = |text: &Option<String>| text.clone().unwrap_or_default();
    format!(
        "(pod: \"{}_{}({})\", container: {})",
        part(&metadata.name),
        part(&metadata.namespace),
        part(&metadata.uid),
        container.name
    )
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn checked(of_pod: Value, of_container: Value, image: &ImageUser) -> Result<(), String> {
        let pod = serde_json::from_value(json!({
            "metadata": {"namespace": "ns", "name": "p", "uid": "u-1"},
            "spec": {"containers": [], "securityContext": of_pod},
        }));
        let container =
            serde_json::from_value(json!({"name": "c", "securityContext": of_container}));
        check(
            &pod.expect("a pod"),
            &container.expect("a container"),
            image,
        )
    }

    #[test]
    fn root_is_refused_only_where_it_is_forbidden() {
        let (root, user) = (ImageUser::Uid(0), ImageUser::Uid(65532));
        let named = ImageUser::Name("nobody".to_owned());
        let non_root = || json!({"runAsNonRoot": true});
        let place = "(pod: \"p_ns(u-1)\", container: c)";

        assert_eq!(checked(json!({}), json!({}), &root), Ok(()));
        assert_eq!(checked(non_root(), json!({}), &user), Ok(()));
        assert_eq!(
            checked(non_root(), json!({"runAsNonRoot": false}), &root),
            Ok(())
        );
        assert_eq!(
            checked(non_root(), json!({"runAsUser": 1000}), &root),
            Ok(())
        );
        assert_eq!(
            checked(non_root(), json!({}), &root),
            Err(format!(
                "container has runAsNonRoot and image will run as root {place}"
            ))
        );
        assert_eq!(
            checked(
                json!({"runAsUser": 1}),
                json!({"runAsNonRoot": true, "runAsUser": 0}),
                &user
            ),
            Err(format!(
                "container's runAsUser breaks non-root policy {place}"
            ))
        );
        assert_eq!(
            checked(json!({}), non_root(), &named),
            Err(format!(
                "container has runAsNonRoot and image has non-numeric user (nobody), cannot verify user is \
                 non-root {place}"
            ))
        );
        assert_eq!(checked(json!({"runAsUser": 5}), non_root(), &named), Ok(()));
    }
}
