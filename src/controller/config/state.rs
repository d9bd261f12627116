//! What is in force, and what a change of it leads to.
//!
//! A configuration that is invalid leaves the last good one in force. Deleting the object drops
//! that one on purpose. Events and the counter tell of changes between states, not of every look.

use super::load::Invalid;
use crate::controller::events::Severity;

/// What the controller knows of the object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Known {
    /// Nothing yet.
    #[default]
    Unknown,
    /// There is none.
    Missing,
    /// It is good.
    Valid,
    /// It is not.
    Invalid,
}

/// What a look at the object found.
#[derive(Debug)]
pub enum Found {
    /// There is none.
    Missing,
    /// It is good, in this generation.
    Valid(i64),
    /// It is not.
    Invalid(Invalid),
}

/// What the settings in force come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InForce {
    /// The object as it is.
    Spec,
    /// The object as it was in this generation.
    LastGood(i64),
    /// What was compiled in.
    Defaults,
}

/// Whom an event is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum About {
    /// The controller's own pod.
    Pod,
    /// The object.
    Config,
}

/// An event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Notice {
    /// Whom it is about.
    pub about: About,
    /// How bad it is.
    pub severity: Severity,
    /// What happened, in one word.
    pub reason: &'static str,
    /// What happened, for people.
    pub message: &'static str,
}

const MISSING: Notice = Notice {
    about: About::Pod,
    severity: Severity::Warning,
    reason: "AIBOMControllerConfigMissing",
    message: "AIBOMControllerConfig/default not found; running on compiled-in defaults. Create the \
              CR to override defaults.",
};
const DELETED: Notice = Notice {
    about: About::Pod,
    severity: Severity::Warning,
    reason: "AIBOMControllerConfigDeleted",
    message: "AIBOMControllerConfig/default was deleted; reverting to compiled-in defaults.",
};
const LOADED: Notice = Notice {
    about: About::Config,
    severity: Severity::Normal,
    reason: "ConfigLoaded",
    message: "AIBOMControllerConfig loaded; runtime snapshot updated.",
};
const RECOVERED: Notice = Notice {
    about: About::Config,
    severity: Severity::Normal,
    reason: "ConfigRecovered",
    message: "AIBOMControllerConfig parsed cleanly; runtime snapshot updated and Degraded condition \
              cleared.",
};
const KEEPS_LAST_GOOD: Notice = Notice {
    about: About::Config,
    severity: Severity::Warning,
    reason: "ConfigInvalidUsingLastKnownGood",
    message: "AIBOMControllerConfig is invalid; retaining the last-known-good snapshot. See the \
              Ready condition message.",
};
const KEEPS_DEFAULTS: Notice = Notice {
    about: About::Config,
    severity: Severity::Warning,
    reason: "ConfigInvalid",
    message: "AIBOMControllerConfig is invalid; running on compiled-in defaults. See the Ready \
              condition message.",
};

/// What a change leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transition {
    /// Events, in their order.
    pub notices: Vec<Notice>,
    /// The value of the counter's label `result`, if it counts.
    pub result: Option<&'static str>,
}

/// What was told, and the generation of the last good configuration as long as it is in force.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct State {
    known: Known,
    good: Option<i64>,
}

impl State {
    /// Whether the last look found an invalid configuration.
    #[must_use]
    pub fn is_invalid(&self) -> bool {
        self.known == Known::Invalid
    }

    /// This state while it has not been told what a look found: settings are in force at once, what
    /// is known only counts when the object's status tells of it.
    #[must_use]
    pub fn untold(self, after: Self) -> Self {
        Self {
            good: after.good,
            ..self
        }
    }

    /// The state after this look, what is then in force, and what the change leads to.
    #[must_use]
    pub fn after(self, found: &Found) -> (Self, InForce, Option<Transition>) {
        let (known, good, in_force) = match found {
            Found::Missing => (Known::Missing, None, InForce::Defaults),
            Found::Valid(generation) => (Known::Valid, Some(*generation), InForce::Spec),
            Found::Invalid(_) => {
                let in_force = self.good.map_or(InForce::Defaults, InForce::LastGood);
                (Known::Invalid, self.good, in_force)
            }
        };
        let transition = transition(self.known, known, good.is_some());
        (Self { known, good }, in_force, transition)
    }
}

fn transition(from: Known, to: Known, has_good: bool) -> Option<Transition> {
    if from == to {
        return None;
    }
    let (notices, result) = match (from, to) {
        (_, Known::Unknown) => return None,
        (Known::Unknown, Known::Missing) => (vec![MISSING], None),
        (_, Known::Missing) => (vec![DELETED], None),
        (Known::Invalid, Known::Valid) => (vec![RECOVERED, LOADED], Some("recovered")),
        (_, Known::Valid) => (vec![LOADED], Some("loaded")),
        (_, Known::Invalid) if has_good => (vec![KEEPS_LAST_GOOD], Some("invalid_using_lkg")),
        (_, Known::Invalid) => (vec![KEEPS_DEFAULTS], Some("invalid_using_defaults")),
    };
    Some(Transition { notices, result })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::config::load::FieldError;

    fn invalid() -> Found {
        Found::Invalid(FieldError::new("spec", "it is wrong").into())
    }

    #[test]
    fn settings_whose_status_was_not_written_are_in_force_all_the_same() {
        let before = State::default();
        let (after, _, _) = before.after(&Found::Valid(1));
        let (_, in_force, transition) = before.untold(after).after(&invalid());
        assert_eq!(in_force, InForce::LastGood(1));
        assert_eq!(transition.expect("news").notices, [KEEPS_LAST_GOOD]);
        let (_, _, transition) = before.untold(after).after(&Found::Valid(1));
        assert_eq!(transition.expect("news").notices, [LOADED]);
    }

    #[test]
    fn a_life_of_a_configuration() {
        let mut state = State::default();
        for (found, in_force, reasons, result) in [
            (
                Found::Missing,
                InForce::Defaults,
                vec!["AIBOMControllerConfigMissing"],
                None,
            ),
            (Found::Missing, InForce::Defaults, vec![], None),
            (
                invalid(),
                InForce::Defaults,
                vec!["ConfigInvalid"],
                Some("invalid_using_defaults"),
            ),
            (
                Found::Valid(2),
                InForce::Spec,
                vec!["ConfigRecovered", "ConfigLoaded"],
                Some("recovered"),
            ),
            (Found::Valid(3), InForce::Spec, vec![], None),
            (
                invalid(),
                InForce::LastGood(3),
                vec!["ConfigInvalidUsingLastKnownGood"],
                Some("invalid_using_lkg"),
            ),
            (invalid(), InForce::LastGood(3), vec![], None),
            (
                Found::Missing,
                InForce::Defaults,
                vec!["AIBOMControllerConfigDeleted"],
                None,
            ),
            (
                invalid(),
                InForce::Defaults,
                vec!["ConfigInvalid"],
                Some("invalid_using_defaults"),
            ),
            (
                Found::Missing,
                InForce::Defaults,
                vec!["AIBOMControllerConfigDeleted"],
                None,
            ),
            (
                Found::Valid(1),
                InForce::Spec,
                vec!["ConfigLoaded"],
                Some("loaded"),
            ),
        ] {
            let (next, now, transition) = state.after(&found);
            assert_eq!(now, in_force, "{found:?} after {state:?}");
            let told = transition.as_ref().map_or(Vec::new(), |transition| {
                transition
                    .notices
                    .iter()
                    .map(|notice| notice.reason)
                    .collect()
            });
            assert_eq!(told, reasons, "{found:?} after {state:?}");
            assert_eq!(transition.and_then(|transition| transition.result), result);
            state = next;
        }
    }
}
