//! The Secrets in which Helm keeps the history of a release.

use k8s_openapi::api::core::v1::Secret;
use kube::api::ListParams;
use kube::{Api, Client};

use super::ask::list;
use super::fault::Fault;

/// All records of a release, of whatever state, in no particular order; none without a release.
///
/// A record is as secret as the values that it holds: nothing of it belongs into a run's folder but
/// what [`record`](crate::record) has a place for.
///
/// # Errors
///
/// The [`Fault`] of a request that failed.
pub async fn release_secrets(
    client: &Client,
    name: &str,
    namespace: &str,
) -> Result<Vec<Secret>, Fault> {
    let secrets = Api::<Secret>::namespaced(client.clone(), namespace);
    let of_release = ListParams::default()
        .labels(&format!("owner=helm,name={name}"))
        .fields("type=helm.sh/release.v1");
    list(&secrets, &of_release, |secret| secret).await
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::cluster::scripted::{Answer, client};

    #[tokio::test]
    async fn only_records_of_this_release_are_asked_for() {
        let item =
            json!({"metadata": {"name": "sh.helm.release.v1.r.v1"}, "type": "helm.sh/release.v1"});
        let page = json!({"metadata": {"resourceVersion": "1"}, "items": [item]});
        let (client, asked) = client(vec![Answer::json(page)]);
        let secrets = release_secrets(&client, "r", "n").await.expect("a list");
        assert_eq!(secrets.len(), 1);
        let line = asked.lines().remove(0);
        assert!(
            line.starts_with("GET /api/v1/namespaces/n/secrets?"),
            "{line}"
        );
        assert!(
            line.contains("labelSelector=owner%3Dhelm%2Cname%3Dr"),
            "{line}"
        );
        assert!(
            line.contains("fieldSelector=type%3Dhelm.sh%2Frelease.v1"),
            "{line}"
        );
    }
}
