//! The workloads that may have an AIBOM, by their metadata.

use std::collections::BTreeSet;

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::core::v1::Namespace;
use kube::api::ListParams;
use kube::{Api, Client};
use serde::Deserialize;

use super::error::ObserveError;
use super::expected::Expected;
use super::list::{Form, list};
use super::target::Target;
use crate::cluster::fault::diagnose;
use crate::record::Workload;

/// The kinds that every cluster has: kind, path of its group, plural (`controller.md` B.1).
pub const TRACKED_KINDS: [(&str, &str, &str); 5] = [
    ("Deployment", "/apis/apps/v1", "deployments"),
    ("StatefulSet", "/apis/apps/v1", "statefulsets"),
    ("DaemonSet", "/apis/apps/v1", "daemonsets"),
    ("Job", "/apis/batch/v1", "jobs"),
    ("CronJob", "/apis/batch/v1", "cronjobs"),
];

/// Lists on their way at the same time.
const CONCURRENCY: usize = 8;
/// Beyond so many namespaces of one kind, one list of the whole cluster costs less.
const NAMESPACES: usize = 8;

/// All workloads of the tracked kinds in these namespaces, in order.
///
/// # Errors
///
/// [`ObserveError`] when a kind cannot be listed.
pub async fn workloads(
    client: &Client,
    namespaces: &BTreeSet<&str>,
) -> Result<Vec<Workload>, ObserveError> {
    let kinds = TRACKED_KINDS
        .iter()
        .map(|(kind, ..)| (*kind, namespaces.clone()));
    found(client, kinds).await
}

/// All workloads of the tracked kinds in the namespaces that opt in, in order. Which of them get an
/// AIBOM is the controller's to find out.
///
/// # Errors
///
/// [`ObserveError`] when namespaces or a kind cannot be listed.
pub async fn opted_in(target: &Target) -> Result<Vec<Workload>, ObserveError> {
    let (key, value) = target.subject.opt_in;
    let api = Api::<Namespace>::all(target.client.clone());
    let label = ListParams::default().labels(&format!("{key}={value}"));
    let namespaces = api.list_metadata(&label).await;
    let namespaces = namespaces
        .map_err(|error| ObserveError::api("the namespaces that opt in", diagnose(&error)))?;
    let names = namespaces.items.iter();
    let names = names.filter_map(|found| found.metadata.name.as_deref());
    workloads(&target.client, &names.collect()).await
}

/// The expected workloads that exist.
pub(super) async fn expected(
    client: &Client,
    expected: &Expected,
) -> Result<Vec<Workload>, ObserveError> {
    let found = found(client, expected.by_kind()).await?;
    Ok(expected.matching(found))
}

async fn found<'a>(
    client: &Client,
    kinds: impl IntoIterator<Item = (&'a str, BTreeSet<&'a str>)>,
) -> Result<Vec<Workload>, ObserveError> {
    let mut lists = Vec::new();
    for (kind, namespaces) in kinds {
        let known = TRACKED_KINDS.iter().find(|(known, ..)| *known == kind);
        let (kind, group, plural) = known.ok_or_else(|| ObserveError::UnknownKind {
            kind: kind.to_owned(),
        })?;
        if namespaces.len() > NAMESPACES {
            lists.push((*kind, format!("{group}/{plural}"), Some(namespaces)));
            continue;
        }
        let paths = namespaces.iter().map(|namespace| {
            let path = format!("{group}/namespaces/{namespace}/{plural}");
            (*kind, path, None)
        });
        lists.extend(paths);
    }
    let lists = lists.into_iter().map(|(kind, path, only)| async move {
        let what = format!("{kind}s");
        let listed = list(client, &what, &path, Form::Metadata, metadata).await?;
        let mut items = listed.items;
        if let Some(only) = only {
            items.retain(|found| only.contains(found.namespace.as_str()));
        }
        Ok::<_, ObserveError>(items.into_iter().map(|found| Workload {
            namespace: found.namespace,
            kind: kind.to_owned(),
            name: found.name,
            uid: found.uid,
            generation: found.generation,
        }))
    });
    let lists: Vec<_> = stream::iter(lists)
        .buffer_unordered(CONCURRENCY)
        .try_collect()
        .await?;
    let mut found: Vec<Workload> = lists.into_iter().flatten().collect();
    found.sort();
    Ok(found)
}

#[derive(Deserialize)]
struct Metadata {
    namespace: String,
    name: String,
    uid: String,
    #[serde(default)]
    generation: i64,
}

fn metadata(text: &str) -> Result<Metadata, String> {
    #[derive(Deserialize)]
    struct Object {
        metadata: Metadata,
    }
    let object: Result<Object, _> = serde_json::from_str(text);
    object
        .map(|object| object.metadata)
        .map_err(|error| error.to_string())
}
