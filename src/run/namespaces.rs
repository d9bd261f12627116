//! The namespaces that a run makes.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::PostParams;
use kube::{Api, Client};

use super::engine::answered;
use super::error::RunError;
use crate::cluster::fault::Fault;
use crate::scenario::Plan;
use crate::subject::Subject;
use crate::workloads::DnsLabel;

/// Tells whose a namespace is where its UID was not written down any more, because the run was killed
/// between the request and its answer.
pub(super) const RUN_ANNOTATION: &str = "aibom-qual/run";
/// The first part of the names of the load's namespaces. They are the same in every run, so that two
/// runs have the same input.
const LOAD: &str = "aibom-qual-load";

/// The names of the namespaces of a plan's load.
pub(super) fn of_load(plan: &Plan) -> Vec<DnsLabel> {
    let many = plan.workloads.namespaces.get();
    let names = (1..=many).map(|number| match many {
        1 => LOAD.to_owned(),
        _ => format!("{LOAD}-{number}"),
    });
    names.filter_map(|name| name.parse().ok()).collect()
}

/// The labels of the load's namespaces: what opts them in, and who made them.
pub(super) fn labels_of_load(subject: &Subject) -> BTreeMap<String, String> {
    let (key, value) = subject.opt_in;
    BTreeMap::from([(key.to_owned(), value.to_owned()), managed_by()])
}

/// The labels of a namespace that nothing looks into.
pub(super) fn labels_of_release() -> BTreeMap<String, String> {
    BTreeMap::from([managed_by()])
}

fn managed_by() -> (String, String) {
    let key = "app.kubernetes.io/managed-by";
    (key.to_owned(), "aibom-qual".to_owned())
}

/// Makes a namespace and returns its UID.
pub(super) async fn create(
    client: &Client,
    name: &str,
    labels: BTreeMap<String, String>,
    run: &str,
) -> Result<Option<String>, RunError> {
    let annotation = (RUN_ANNOTATION.to_owned(), run.to_owned());
    let object = Namespace {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            labels: Some(labels),
            annotations: Some(BTreeMap::from([annotation])),
            ..ObjectMeta::default()
        },
        ..Namespace::default()
    };
    let api = Api::<Namespace>::all(client.clone());
    let doing = format!("create the namespace {name}");
    match answered(&doing, api.create(&PostParams::default(), &object)).await {
        Ok(made) => Ok(made.metadata.uid),
        Err(RunError::Cluster { source, .. }) if matches!(*source, Fault::AlreadyExists { .. }) => {
            Err(RunError::NamespaceExists(name.to_owned()))
        }
        Err(error) => Err(error),
    }
}

/// A namespace, if it exists.
pub(super) async fn find(client: &Client, name: &str) -> Result<Option<Namespace>, RunError> {
    let namespaces = Api::<Namespace>::all(client.clone());
    answered(
        &format!("read the namespace {name}"),
        namespaces.get_opt(name),
    )
    .await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::subject::K8S_AIBOM;

    #[test]
    fn only_the_namespaces_of_the_load_are_opted_in() {
        let labels = labels_of_load(&K8S_AIBOM);
        assert_eq!(labels["aibom.k8saibom.dev/enabled"], "true");
        assert!(!labels_of_release().contains_key("aibom.k8saibom.dev/enabled"));
    }
}
