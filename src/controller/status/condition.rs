//! Conditions of an AIBOM, with their exact reasons and messages.

use chrono::{DateTime, SubsecRound as _, Utc};
use serde::{Deserialize, Serialize, Serializer};

use super::{Failure, SinkOutcome};
use crate::controller::document::timestamp;

/// Whether a condition holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Truth {
    /// It does.
    True,
    /// It does not.
    False,
    /// Nobody can tell. Not written here, but another writer's condition must not make an AIBOM
    /// unreadable.
    Unknown,
}

impl From<bool> for Truth {
    fn from(holds: bool) -> Self {
        if holds { Self::True } else { Self::False }
    }
}

/// One condition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// What it is about.
    #[serde(rename = "type")]
    pub condition_type: String,
    /// Whether it holds.
    pub status: Truth,
    /// The generation it was decided for. A full build does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Since when, in whole seconds.
    #[serde(serialize_with = "as_seconds")]
    pub last_transition_time: DateTime<Utc>,
    /// Why, in one word.
    pub reason: String,
    /// Why, for people.
    pub message: String,
}

fn as_seconds<S: Serializer>(time: &DateTime<Utc>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&timestamp(*time))
}

const READY: &str = "Ready";

/// The conditions that a full build writes, in their order.
///
/// `stale` is the number of consecutive errors, once it has reached its threshold.
pub(super) fn after_build<'a>(
    sinks: &[SinkOutcome],
    stale: Option<i32>,
    error_sources: impl Iterator<Item = &'a str>,
    now: DateTime<Utc>,
) -> Vec<Condition> {
    let condition = |condition_type: &str, holds: bool, reason: &str, message: String| Condition {
        condition_type: condition_type.to_owned(),
        status: holds.into(),
        observed_generation: None,
        last_transition_time: now.trunc_subsecs(0),
        reason: reason.to_owned(),
        message,
    };
    let ready = condition(
        READY,
        true,
        "BOMGenerated",
        "BOM generated successfully".to_owned(),
    );
    let (synced, sink_failed) = match sink_failures(sinks) {
        Some(failures) => (
            condition("Synced", false, "OneOrMoreSinksDown", failures.clone()),
            condition("SinkFailed", true, "OneOrMoreSinksDown", failures),
        ),
        None => {
            let (reason, message) = if sinks.is_empty() {
                let message = "no external sinks configured; CR status is the sole sink";
                ("CRDStatusOnly", message)
            } else {
                ("AllSinksOK", "all sinks updated")
            };
            (
                condition("Synced", true, reason, message.to_owned()),
                condition(
                    "SinkFailed",
                    false,
                    "AllSinksOK",
                    "no sink failures".to_owned(),
                ),
            )
        }
    };
    let stale = match stale {
        Some(errors) => condition(
            "Stale",
            true,
            "ExtractionErrorsPersistent",
            persistent_errors(errors, error_sources),
        ),
        None => condition(
            "Stale",
            false,
            "BOMGenerated",
            "controller reconciled this AIBOM during the current cycle".to_owned(),
        ),
    };
    vec![ready, synced, sink_failed, stale]
}

fn sink_failures(sinks: &[SinkOutcome]) -> Option<String> {
    let failures: Vec<_> = sinks
        .iter()
        .filter_map(|sink| {
            Some(format!(
                "{} ({})",
                sink.name,
                sink.delivered.as_ref().err()?
            ))
        })
        .collect();
    (!failures.is_empty()).then(|| format!("external sink failures: {}", failures.join(", ")))
}

fn persistent_errors<'a>(errors: i32, sources: impl Iterator<Item = &'a str>) -> String {
    let mut sources: Vec<_> = sources.collect();
    sources.sort_unstable();
    sources.dedup();
    let mut message =
        format!("workload produced extraction errors on {errors} consecutive reconciles");
    if !sources.is_empty() {
        message.push_str("; sources: ");
        message.push_str(&sources.join(", "));
    }
    message
}

/// `Ready` after a reconcile that failed.
pub(super) fn not_ready(failure: &Failure, generation: i64, now: DateTime<Utc>) -> Condition {
    let (reason, message) = match failure {
        Failure::Scrape(error) => ("ScrapeFailed", format!("scrape failed: {error}")),
        Failure::Build(error) => ("BuildFailed", format!("BOM build failed: {error}")),
    };
    Condition {
        condition_type: READY.to_owned(),
        status: Truth::False,
        observed_generation: Some(generation),
        last_transition_time: now.trunc_subsecs(0),
        reason: reason.to_owned(),
        message,
    }
}

/// Puts `new` in the place of the condition of its type. The time of the transition stays unless
/// the status changed.
pub fn set(conditions: &mut Vec<Condition>, mut new: Condition) {
    let same_type = |old: &&mut Condition| old.condition_type == new.condition_type;
    match conditions.iter_mut().find(same_type) {
        Some(old) => {
            if old.status == new.status {
                new.last_transition_time = old.last_transition_time;
            }
            *old = new;
        }
        None => conditions.push(new),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_condition_of_another_writer_is_read_and_kept() {
        let written = json!({
            "type": "Ready",
            "status": "Unknown",
            "lastTransitionTime": "2026-08-19T12:00:00Z",
            "reason": "Elsewhere",
            "message": "",
        });
        let condition: Condition = serde_json::from_value(written.clone()).expect("a condition");
        assert_eq!(condition.status, Truth::Unknown);
        let again = serde_json::to_value(&condition).expect("JSON");
        assert_eq!(again, written);
    }
}
