//! What a configuration decides, ready for use, and the one place where the current one is kept.
//!
//! A reconcile takes the settings once and works with them to its end.

use std::sync::Arc;

use kube::core::{Selector, SelectorExt as _};
use tokio::sync::watch as latest;

use super::detect::Detector;
use super::go_regexp::PatternError;
use super::profile::Profile;
use super::sink::SinkSet;
use super::status::Limits;
use super::workload::StringMap;
use super::workload_kinds::WorkloadKinds;

/// The label by which a namespace opts in when no selector is configured.
pub const OPT_IN: (&str, &str) = ("aibom.k8saibom.dev/enabled", "true");

/// What a configuration decides.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Which namespaces are looked at.
    pub selector: Selector,
    /// Which kinds are looked at.
    pub kinds: WorkloadKinds,
    /// How components are recognised.
    pub detector: Detector,
    /// Limits of documents and errors.
    pub limits: Limits,
    /// Where documents are sent.
    pub sinks: SinkSet,
}

impl Settings {
    /// What holds without a configuration.
    ///
    /// # Errors
    ///
    /// When one of the profile's patterns does not compile.
    pub fn defaults(profile: &Profile) -> Result<Self, PatternError> {
        Ok(Self {
            selector: Selector::from_iter([OPT_IN]),
            kinds: WorkloadKinds::all(profile),
            detector: Detector::new(profile)?,
            limits: Limits::default(),
            sinks: SinkSet::default(),
        })
    }

    /// Whether a namespace with these labels is looked at.
    #[must_use]
    pub fn selects(&self, labels: Option<&StringMap>) -> bool {
        static NONE: StringMap = StringMap::new();
        self.selector.matches(labels.unwrap_or(&NONE))
    }
}

/// The settings in force; clones are handles to the same ones.
#[derive(Clone, Debug)]
pub struct Current(latest::Sender<InForce>);

#[derive(Clone, Debug)]
struct InForce {
    settings: Arc<Settings>,
    /// Whether the configuration has been looked at.
    is_confirmed: bool,
}

impl Current {
    /// These settings are in force until the configuration has been looked at.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self(latest::Sender::new(InForce {
            settings: Arc::new(settings),
            is_confirmed: false,
        }))
    }

    /// Those in force now.
    #[must_use]
    pub fn get(&self) -> Arc<Settings> {
        Arc::clone(&self.0.borrow().settings)
    }

    /// Puts others in force. A reconcile that began with those they replace keeps them, and their
    /// sinks, to its end.
    pub fn set(&self, settings: Settings) {
        self.0.send_replace(InForce {
            settings: Arc::new(settings),
            is_confirmed: true,
        });
    }

    /// Says that those in force stay so, although the configuration has been looked at.
    pub fn keep(&self) {
        self.0.send_modify(|in_force| in_force.is_confirmed = true);
    }

    /// Waits until the configuration has been looked at. A workload that is reconciled before that
    /// could lose an AIBOM to defaults that do not hold.
    pub async fn confirmed(&self) {
        let mut receiver = self.0.subscribe();
        // An error is impossible as long as this handle lives.
        let _ = receiver.wait_for(|in_force| in_force.is_confirmed).await;
    }

    /// Waits until other kinds than these are looked at, and returns them.
    pub async fn kinds_other_than(&self, before: &WorkloadKinds) -> WorkloadKinds {
        let mut receiver = self.0.subscribe();
        let differ = |in_force: &InForce| in_force.settings.kinds != *before;
        let changed = receiver.wait_for(differ).await;
        let kinds = changed.map(|in_force| in_force.settings.kinds.clone());
        match kinds {
            Ok(kinds) => kinds,
            // Impossible as long as this handle lives.
            Err(_) => std::future::pending().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::profile::V1_3_0;
    use super::*;

    #[test]
    fn a_namespace_opts_in_with_the_exact_label() {
        let settings = Settings::defaults(&V1_3_0).expect("settings");
        let labels = |value: &str| StringMap::from([(OPT_IN.0.to_owned(), value.to_owned())]);
        assert!(settings.selects(Some(&labels("true"))));
        assert!(!settings.selects(Some(&labels("True"))));
        assert!(!settings.selects(Some(&StringMap::new())));
        assert!(!settings.selects(None));
    }
}
