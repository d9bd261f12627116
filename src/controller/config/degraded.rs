//! The condition `Degraded` of the configuration: everything that keeps the controller from doing what
//! it was told.

use crate::controller::api::meta::ConditionStatus;

/// Something that degrades the controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    /// What it is, in one word.
    pub reason: &'static str,
    /// What it is, for people.
    pub message: String,
}

/// Status, reason and message of the condition.
///
/// `invalid` is a spec that is not in force, `skew` a served schema that is older than the controller,
/// `watches` are third-party kinds that cannot be watched. The first in this order gives the reason;
/// the messages of the others are appended (`controller.md` F.5).
#[must_use]
pub fn degraded(
    invalid: Option<Cause>,
    skew: Option<Cause>,
    watches: Option<Cause>,
) -> (ConditionStatus, &'static str, String) {
    let all = [invalid, skew, watches].into_iter().flatten();
    let all = all.reduce(|first, also| Cause {
        message: format!("{} Also: {}", first.message, also.message),
        ..first
    });
    match all {
        Some(Cause { reason, message }) => (ConditionStatus::True, reason, message),
        None => (
            ConditionStatus::False,
            "ConfigLoaded",
            "Controller is running on the current spec snapshot.".to_owned(),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cause(reason: &'static str) -> Option<Cause> {
        Some(Cause {
            reason,
            message: format!("{reason}."),
        })
    }

    #[test]
    fn the_gravest_cause_gives_the_reason_and_all_are_told() {
        let [invalid, skew, watches] = ["Invalid", "Skew", "Watches"].map(cause);
        let told = |invalid: &Option<Cause>, skew: &Option<Cause>, watches: &Option<Cause>| {
            let (status, reason, message) =
                degraded(invalid.clone(), skew.clone(), watches.clone());
            assert_eq!(status, ConditionStatus::True);
            format!("{reason}: {message}")
        };
        assert_eq!(told(&None, &None, &watches), "Watches: Watches.");
        assert_eq!(told(&None, &skew, &watches), "Skew: Skew. Also: Watches.");
        assert_eq!(
            told(&invalid, &skew, &watches),
            "Invalid: Invalid. Also: Skew. Also: Watches."
        );
        let (status, reason, _) = degraded(None, None, None);
        assert_eq!((status, reason), (ConditionStatus::False, "ConfigLoaded"));
    }
}
