//! Types that both kinds use: conditions, label selectors, references to Secrets, times.
//!
//! They are our own, since the schemas derived from the types of Kubernetes lack the limits and list
//! types that the definitions document.

use std::borrow::Cow;
use std::collections::BTreeMap;

use chrono::{DateTime, SecondsFormat, SubsecRound as _, Utc};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::is_default;

/// The group of a group and version; empty for the core group.
pub(in crate::controller) fn group(api_version: &str) -> &str {
    api_version.split_once('/').map_or("", |(group, _)| group)
}

/// A moment in whole seconds, written in UTC with a `Z`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(DateTime<Utc>);

impl Timestamp {
    /// Drops the fraction of the second.
    #[must_use]
    pub fn new(time: DateTime<Utc>) -> Self {
        Self(time.trunc_subsecs(0))
    }

    /// The moment.
    #[must_use]
    pub fn get(self) -> DateTime<Utc> {
        self.0
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0.to_rfc3339_opts(SecondsFormat::Secs, true))
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        DateTime::<Utc>::deserialize(deserializer).map(Self::new)
    }
}

impl JsonSchema for Timestamp {
    fn schema_name() -> Cow<'static, str> {
        Cow::Borrowed("Timestamp")
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "format": "date-time"})
    }

    fn inline_schema() -> bool {
        true
    }
}

/// Whether a condition holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ConditionStatus {
    /// It holds.
    True,
    /// It does not hold.
    False,
    /// Nobody can tell.
    Unknown,
}

/// One aspect of the object's state as the controller last saw it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// Moment at which the status last became what it is now.
    pub last_transition_time: Timestamp,
    /// What a person should know about it; may be empty.
    #[schemars(length(max = 32768))]
    pub message: String,
    /// Generation of the object that the condition speaks of; an older generation than the
    /// object's own means that the condition is out of date.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schemars(range(min = 0))]
    pub observed_generation: i64,
    /// One word in CamelCase that tells programs why the status is what it is.
    #[schemars(
        length(min = 1, max = 1024),
        regex(pattern = r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$")
    )]
    pub reason: String,
    /// Whether the condition holds.
    #[schemars(with = "String", extend("enum" = ["True", "False", "Unknown"]))]
    pub status: ConditionStatus,
    /// Name of the condition, in CamelCase or with a domain in front.
    #[serde(rename = "type")]
    #[schemars(
        length(max = 316),
        regex(
            pattern = r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$"
        )
    )]
    pub type_: String,
}

/// Chooses objects by their labels. Everything stated has to hold; a selector that states nothing
/// chooses every object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-map-type" = "atomic"))]
pub struct LabelSelector {
    /// Conditions on single label keys.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub match_expressions: Vec<LabelRequirement>,
    /// Labels that have to be present with exactly these values.
    #[serde(default, skip_serializing_if = "is_default")]
    pub match_labels: BTreeMap<String, String>,
}

/// A condition on the value of one label.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LabelRequirement {
    /// Key of the label.
    pub key: String,
    /// How the label is compared: In, NotIn, Exists or DoesNotExist.
    pub operator: String,
    /// What the label is compared with: at least one value for In and NotIn, none otherwise.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub values: Vec<String>,
}

/// One key of a Secret in the namespace of the controller.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SecretKeyReference {
    /// Name of the Secret.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Key within the data of the Secret.
    #[schemars(length(min = 1, max = 253))]
    pub key: String,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_timestamp_has_whole_seconds_in_utc() {
        let time: Timestamp = serde_json::from_value(json!("2026-08-19T12:00:01.987+02:00"))
            .expect("RFC 3339 with a fraction and an offset");
        assert_eq!(
            serde_json::to_value(time).unwrap(),
            json!("2026-08-19T10:00:01Z")
        );
    }

    #[test]
    fn a_condition_without_generation_leaves_it_out() {
        let written = json!({
            "lastTransitionTime": "2026-08-19T10:00:01Z",
            "message": "",
            "reason": "BOMGenerated",
            "status": "True",
            "type": "Ready",
        });
        let condition: Condition = serde_json::from_value(written.clone()).unwrap();
        assert_eq!(condition.observed_generation, 0);
        assert_eq!(serde_json::to_value(condition).unwrap(), written);
    }
}
