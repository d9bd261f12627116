//! The inventory: every AIBOM, without its document.

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use kube::Client;
use kube::core::ApiResource;
use serde::Deserialize;
use serde_json::Value;

use super::definitions::path;
use super::document::StoredDocument;
use super::error::ObserveError;
use super::expected::{Expected, WorkloadName};
use super::list::{Form, list};
use crate::record::{
    AibomList, AibomState, ConditionStatus, DocumentState, OwnerState, schema_sha256,
};

const WHAT: &str = "the inventory";

/// All AIBOMs in one state of the cluster.
pub(super) async fn inventory(
    client: &Client,
    resource: &ApiResource,
) -> Result<AibomList, ObserveError> {
    let listed = list(client, WHAT, &path(resource), Form::Whole, aibom).await?;
    let mut items = listed.items;
    items.sort_by(|one, other| one.key().cmp(&other.key()));
    Ok(AibomList {
        resource_version: listed.resource_version,
        pages: listed.pages,
        restarts: listed.restarts,
        items,
    })
}

/// Until when each workload was walked over.
pub(super) struct Walks(BTreeMap<WorkloadName, Option<DateTime<Utc>>>);

impl Walks {
    /// As the inventory tells it.
    pub(super) async fn read(
        client: &Client,
        resource: &ApiResource,
    ) -> Result<Self, ObserveError> {
        let listed = list(client, WHAT, &path(resource), Form::Whole, walk).await?;
        Ok(Self(listed.items.into_iter().flatten().collect()))
    }

    /// None at all: there is no inventory.
    pub(super) fn none() -> Self {
        Self(BTreeMap::new())
    }

    /// Every expected workload whose AIBOM was not reconciled since this moment, in words.
    /// `lastReconciled` has whole seconds, so that its second counts as a whole.
    pub(super) fn missing(&self, expected: &Expected, since: DateTime<Utc>) -> Vec<String> {
        let missing = expected
            .iter()
            .filter_map(|workload| match self.0.get(workload) {
                None => Some(format!("{workload} (no AIBOM)")),
                Some(None) => Some(format!("{workload} (never reconciled)")),
                Some(Some(last)) if last.timestamp() < since.timestamp() => {
                    Some(workload.to_string())
                }
                Some(Some(_)) => None,
            });
        missing.collect()
    }
}

#[derive(Deserialize)]
struct Item<'a> {
    #[serde(borrow)]
    metadata: Metadata<'a>,
    #[serde(borrow)]
    status: Option<Status<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata<'a> {
    #[serde(borrow)]
    namespace: Cow<'a, str>,
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow)]
    uid: Cow<'a, str>,
    #[serde(borrow)]
    resource_version: Cow<'a, str>,
    #[serde(borrow)]
    owner_references: Option<Vec<Owner<'a>>>,
}

#[derive(Deserialize)]
struct Owner<'a> {
    #[serde(borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow)]
    uid: Cow<'a, str>,
    controller: Option<bool>,
}

impl Metadata<'_> {
    fn owner(&self) -> Option<&Owner<'_>> {
        let owners = self.owner_references.iter().flatten();
        owners
            .into_iter()
            .find(|owner| owner.controller == Some(true))
    }
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Status<'a> {
    conditions: Option<Vec<Value>>,
    #[serde(borrow)]
    bom_document: Option<StoredDocument<'a>>,
    last_reconciled: Option<DateTime<Utc>>,
    #[serde(borrow)]
    bom_hash: Option<Cow<'a, str>>,
    #[serde(borrow)]
    input_hash: Option<Cow<'a, str>>,
    observed_generation: Option<i64>,
}

/// One AIBOM from its text on the wire.
fn aibom(text: &str) -> Result<AibomState, String> {
    let item: Item<'_> = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let owner = item.metadata.owner().map(|owner| OwnerState {
        kind: owner.kind.clone().into_owned(),
        name: owner.name.clone().into_owned(),
        uid: owner.uid.clone().into_owned(),
    });
    let metadata = &item.metadata;
    let status = item.status.unwrap_or_default();
    let conditions = status.conditions.unwrap_or_default();
    let document = status.bom_document.as_ref();
    Ok(AibomState {
        namespace: metadata.namespace.clone().into_owned(),
        name: metadata.name.clone().into_owned(),
        uid: metadata.uid.clone().into_owned(),
        resource_version: metadata.resource_version.clone().into_owned(),
        owner,
        input_hash: said(status.input_hash),
        bom_hash: said(status.bom_hash),
        document: document.map_or(DocumentState::Absent, StoredDocument::state),
        ready: ready(&conditions),
        conditions_sha256: conditions_sha256(conditions),
        observed_generation: status.observed_generation,
        last_reconciled: status.last_reconciled,
        bytes: text.len() as u64,
    })
}

/// A workload, and when its AIBOM was reconciled last.
type Walk = (WorkloadName, Option<DateTime<Utc>>);

/// The workload of one AIBOM and its last walk; nothing for one without an owner.
fn walk(text: &str) -> Result<Option<Walk>, String> {
    #[derive(Deserialize)]
    struct Item<'a> {
        #[serde(borrow)]
        metadata: Metadata<'a>,
        status: Option<Status>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Status {
        last_reconciled: Option<DateTime<Utc>>,
    }
    let item: Item<'_> = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let metadata = &item.metadata;
    let walk = item.status.and_then(|status| status.last_reconciled);
    Ok(metadata.owner().map(|owner| {
        let workload = WorkloadName::new(&*metadata.namespace, &*owner.kind, &*owner.name);
        (workload, walk)
    }))
}

/// An empty hash is none.
fn said(hash: Option<Cow<'_, str>>) -> Option<String> {
    hash.filter(|hash| !hash.is_empty()).map(Cow::into_owned)
}

fn ready(conditions: &[Value]) -> Option<ConditionStatus> {
    let of_type =
        |condition: &&Value| condition.get("type").and_then(Value::as_str) == Some("Ready");
    let status = conditions.iter().find(of_type)?.get("status")?.as_str()?;
    Some(match status {
        "True" => ConditionStatus::True,
        "False" => ConditionStatus::False,
        // The schema allows no other.
        _ => ConditionStatus::Unknown,
    })
}

/// The conditions are a map by type: their order says nothing.
fn conditions_sha256(mut conditions: Vec<Value>) -> String {
    let type_ = |condition: &Value| condition.get("type").map(ToString::to_string);
    conditions.sort_by_key(type_);
    schema_sha256(&Value::Array(conditions))
}
