//! The cluster as it was found: what a run must leave as it was (CLN-01).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::time::Duration;

use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use k8s_openapi::api::core::v1::{Namespace, Node};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::api::ListParams;
use kube::core::PartialObjectMeta;
use kube::{Api, Client, Resource};
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, sleep};

use super::ask::list;
use super::fault::Fault;

/// Names of objects outside of namespaces, with their UIDs.
type Uids = BTreeMap<String, String>;

/// What exists outside of namespaces, by name and UID.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AsFound {
    /// Namespaces.
    pub namespaces: Uids,
    /// Custom resource definitions.
    pub crds: Uids,
    /// ClusterRoles.
    pub cluster_roles: Uids,
    /// ClusterRoleBindings.
    pub cluster_role_bindings: Uids,
    /// ValidatingWebhookConfigurations.
    pub validating_webhooks: Uids,
    /// MutatingWebhookConfigurations.
    pub mutating_webhooks: Uids,
    /// APIServices; the server keeps one for every group and version of a definition.
    pub api_services: Uids,
    /// Nodes, by name alone.
    pub nodes: BTreeSet<String>,
}

/// Between two looks at a cluster that is still to settle.
const PAUSE: Duration = Duration::from_millis(500);

impl AsFound {
    /// Looks at a cluster.
    ///
    /// # Errors
    ///
    /// The [`Fault`] of the first request that failed.
    pub async fn take(client: &Client) -> Result<Self, Fault> {
        let (
            namespaces,
            crds,
            cluster_roles,
            cluster_role_bindings,
            validating_webhooks,
            mutating_webhooks,
            api_services,
            nodes,
        ) = tokio::try_join!(
            uids::<Namespace>(client),
            uids::<CustomResourceDefinition>(client),
            uids::<ClusterRole>(client),
            uids::<ClusterRoleBinding>(client),
            uids::<ValidatingWebhookConfiguration>(client),
            uids::<MutatingWebhookConfiguration>(client),
            uids::<APIService>(client),
            uids::<Node>(client),
        )?;
        Ok(Self {
            namespaces,
            crds,
            cluster_roles,
            cluster_role_bindings,
            validating_webhooks,
            mutating_webhooks,
            api_services,
            nodes: nodes.into_keys().collect(),
        })
    }

    /// How a later state differs, one line for each object; empty when it does not.
    #[must_use]
    pub fn differences(&self, later: &Self) -> Vec<String> {
        let mut lines = Vec::new();
        for (kind, before, after) in [
            ("Namespace", &self.namespaces, &later.namespaces),
            ("CustomResourceDefinition", &self.crds, &later.crds),
            ("ClusterRole", &self.cluster_roles, &later.cluster_roles),
            (
                "ClusterRoleBinding",
                &self.cluster_role_bindings,
                &later.cluster_role_bindings,
            ),
            (
                "ValidatingWebhookConfiguration",
                &self.validating_webhooks,
                &later.validating_webhooks,
            ),
            (
                "MutatingWebhookConfiguration",
                &self.mutating_webhooks,
                &later.mutating_webhooks,
            ),
            ("APIService", &self.api_services, &later.api_services),
        ] {
            compare(kind, before, after, &mut lines);
        }
        let gone = self.nodes.difference(&later.nodes);
        lines.extend(gone.map(|name| format!("Node {name} is gone")));
        let new = later.nodes.difference(&self.nodes);
        lines.extend(new.map(|name| format!("Node {name} is new")));
        lines
    }

    /// How the cluster differs now, after a while in which it may settle: what the server keeps by
    /// itself, such as the APIService of a definition, follows a moment later. Returns as soon as
    /// nothing differs, and what still does after that while.
    ///
    /// # Errors
    ///
    /// The [`Fault`] of a request that failed.
    pub async fn settled_differences(
        &self,
        client: &Client,
        patience: Duration,
    ) -> Result<Vec<String>, Fault> {
        let end = Instant::now() + patience;
        loop {
            let differences = self.differences(&Self::take(client).await?);
            if differences.is_empty() || Instant::now() >= end {
                return Ok(differences);
            }
            sleep(PAUSE).await;
        }
    }
}

async fn uids<K>(client: &Client) -> Result<Uids, Fault>
where
    K: Resource<DynamicType = ()> + Clone + Debug,
{
    let api = Api::<PartialObjectMeta<K>>::all(client.clone());
    let all = ListParams::default();
    let named = list(&api, &all, |object| {
        let metadata = object.metadata;
        Some((metadata.name?, metadata.uid.unwrap_or_default()))
    });
    Ok(named.await?.into_iter().flatten().collect())
}

fn compare(kind: &str, before: &Uids, after: &Uids, lines: &mut Vec<String>) {
    for (name, uid) in before {
        match after.get(name) {
            None => lines.push(format!("{kind} {name} is gone")),
            Some(later) if later != uid => {
                lines.push(format!("{kind} {name} is another object of the same name"));
            }
            Some(_) => {}
        }
    }
    let new = after.keys().filter(|name| !before.contains_key(*name));
    lines.extend(new.map(|name| format!("{kind} {name} is new")));
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use serde_json::json;

    use super::*;
    use crate::cluster::scripted::{Answer, answering};

    fn named(names: &[(&str, &str)]) -> Uids {
        let all = names.iter();
        all.map(|(name, uid)| ((*name).to_owned(), (*uid).to_owned()))
            .collect()
    }

    #[test]
    fn every_difference_is_told_by_kind_and_name() {
        let before = AsFound {
            namespaces: named(&[("default", "1"), ("old", "2"), ("same", "3")]),
            nodes: BTreeSet::from(["a".to_owned()]),
            ..AsFound::default()
        };
        assert_eq!(before.differences(&before), Vec::<String>::new());
        let after = AsFound {
            namespaces: named(&[("default", "1"), ("same", "4")]),
            cluster_roles: named(&[("k8s-aibom", "5")]),
            nodes: BTreeSet::from(["b".to_owned()]),
            ..AsFound::default()
        };
        assert_eq!(
            before.differences(&after),
            [
                "Namespace old is gone",
                "Namespace same is another object of the same name",
                "ClusterRole k8s-aibom is new",
                "Node a is gone",
                "Node b is new",
            ]
        );
    }

    fn empty() -> Answer {
        Answer::json(json!({"metadata": {"resourceVersion": "1"}, "items": []}))
    }

    #[tokio::test(start_paused = true)]
    async fn what_goes_a_moment_later_is_no_difference() {
        let looks = AtomicUsize::new(0);
        let (client, asked) = answering(move |line| {
            if line.contains("/apiservices") && looks.fetch_add(1, Ordering::Relaxed) == 0 {
                let item = json!({"metadata": {"name": "v1.example.com", "uid": "1"}});
                return Answer::json(
                    json!({"metadata": {"resourceVersion": "1"}, "items": [item]}),
                );
            }
            empty()
        });
        let before = AsFound::default();
        let patience = Duration::from_secs(5);
        let differences = before.settled_differences(&client, patience).await;
        assert_eq!(differences, Ok(Vec::new()));
        // Two looks at eight kinds.
        assert_eq!(asked.lines().len(), 16);
    }
}
