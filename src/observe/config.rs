//! The configuration object of the controller.

use chrono::{DateTime, Utc};
use kube::core::ApiResource;
use serde::Deserialize;
use serde_json::Value;

use super::definitions::path;
use super::error::ObserveError;
use super::target::Target;
use crate::cluster::fault::{Fault, diagnose};
use crate::record::{Condition, ConditionStatus, ConfigState, schema_sha256};

/// The object; [`None`] when there is none.
pub(super) async fn config(
    target: &Target,
    resource: &ApiResource,
) -> Result<Option<ConfigState>, ObserveError> {
    let name = target.subject.config_name;
    let what = || format!("{} {name}", target.subject.config_kind);
    let path = format!("{}/{name}", path(resource));
    let request = http::Request::get(path)
        .body(Vec::new())
        .map_err(|error| ObserveError::api(what(), Fault::Other(error.to_string())))?;
    let object = match target.client.request::<Object>(request).await {
        Ok(object) => object,
        Err(error) => match diagnose(&error) {
            Fault::NotFound { .. } | Fault::NoSuchResource => return Ok(None),
            fault => return Err(ObserveError::api(what(), fault)),
        },
    };
    Ok(Some(object.into()))
}

#[derive(Deserialize)]
struct Object {
    metadata: Metadata,
    spec: Option<Value>,
    status: Option<Status>,
}

#[derive(Deserialize)]
struct Metadata {
    uid: String,
    generation: Option<i64>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    observed_generation: Option<i64>,
    last_loaded_at: Option<DateTime<Utc>>,
    conditions: Option<Vec<StoredCondition>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct StoredCondition {
    #[serde(rename = "type")]
    type_: String,
    status: ConditionStatus,
    #[serde(default)]
    reason: String,
    #[serde(default)]
    message: String,
    observed_generation: Option<i64>,
    last_transition_time: Option<DateTime<Utc>>,
}

impl From<StoredCondition> for Condition {
    fn from(stored: StoredCondition) -> Self {
        Self {
            type_: stored.type_,
            status: stored.status,
            reason: stored.reason,
            message: stored.message,
            observed_generation: stored.observed_generation,
            last_transition_time: stored.last_transition_time,
        }
    }
}

impl From<Object> for ConfigState {
    fn from(object: Object) -> Self {
        let status = object.status.unwrap_or_default();
        let conditions = status.conditions.unwrap_or_default();
        Self {
            uid: object.metadata.uid,
            generation: object.metadata.generation.unwrap_or_default(),
            observed_generation: status.observed_generation,
            spec_sha256: schema_sha256(&object.spec.unwrap_or_default()),
            conditions: conditions.into_iter().map(Condition::from).collect(),
            last_loaded_at: status.last_loaded_at,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_state_is_that_of_the_object_and_the_spec_is_only_a_hash() {
        let object: Object = serde_json::from_value(json!({
            "metadata": {"uid": "u", "generation": 3, "name": "default"},
            "spec": {"b": 1, "a": {}},
            "status": {
                "observedGeneration": 2,
                "lastLoadedAt": "2026-01-02T03:04:05Z",
                "conditions": [{
                    "type": "Ready", "status": "False", "reason": "Invalid", "message": "no",
                    "lastTransitionTime": "2026-01-02T03:04:05Z", "severity": "unknown to us",
                }],
            },
        }))
        .expect("an object");
        let state = ConfigState::from(object);
        assert_eq!((state.generation, state.observed_generation), (3, Some(2)));
        assert_eq!(state.spec_sha256, schema_sha256(&json!({"a": {}, "b": 1})));
        let ready = state.condition("Ready").expect("a condition");
        assert_eq!(ready.status, ConditionStatus::False);
        assert!(state.last_loaded_at.is_some());
    }

    #[test]
    fn a_fresh_object_has_no_status() {
        let object = json!({"metadata": {"uid": "u"}});
        let object: Object = serde_json::from_value(object).expect("an object");
        let state = ConfigState::from(object);
        assert_eq!((state.generation, state.observed_generation), (0, None));
        assert!(state.conditions.is_empty());
    }
}
