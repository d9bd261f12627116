//! Which of the tracked kinds are looked at: all, or those that a configuration names.

use super::profile::Profile;
use super::profile::kind::Kind;

/// The kinds that are looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkloadKinds {
    tracked: &'static [&'static Kind],
    is_configurable: bool,
    /// Those that were named; all when none was.
    named: Vec<&'static Kind>,
}

/// Why an entry of the allow-list is wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EntryError {
    /// It does not name a group and a kind.
    #[error("{0:?} is not of the form Group/Kind. Write it like apps/Deployment.")]
    Malformed(String),
    /// The release does not track the kind.
    #[error("{entry:?} is not a kind that this controller knows. Known kinds: {known}.")]
    Unknown {
        /// The entry.
        entry: String,
        /// What it may be.
        known: String,
    },
    /// An entry before it says the same.
    #[error("{0:?} is listed more than once. Remove the repetition.")]
    Duplicate(String),
}

impl WorkloadKinds {
    /// All that a release tracks.
    #[must_use]
    pub fn all(profile: &Profile) -> Self {
        Self {
            tracked: profile.kinds,
            is_configurable: profile.config.kind_allow_list,
            named: Vec::new(),
        }
    }

    /// Only those that are named as `Group/Kind`; all when none is, or when the release knows no such
    /// list (`controller.md` F.1).
    ///
    /// # Errors
    ///
    /// Every wrong entry, with its index.
    pub fn named(&self, entries: &[String]) -> Result<Self, Vec<(usize, EntryError)>> {
        let mut named: Vec<&'static Kind> = Vec::new();
        let mut errors = Vec::new();
        let entries = entries.iter().filter(|_| self.is_configurable);
        for (index, entry) in entries.enumerate() {
            match self.find(entry) {
                Ok(kind) if named.contains(&kind) => {
                    errors.push((index, EntryError::Duplicate(entry.clone())));
                }
                Ok(kind) => named.push(kind),
                Err(error) => errors.push((index, error)),
            }
        }
        if !errors.is_empty() {
            return Err(errors);
        }
        // The order in which they are named says nothing.
        named.sort_unstable_by_key(|kind| (kind.group, kind.kind));
        Ok(Self {
            named,
            ..self.clone()
        })
    }

    fn find(&self, entry: &str) -> Result<&'static Kind, EntryError> {
        let parts = entry.split_once('/').filter(|(group, kind)| {
            let is_name = |text: &str| !text.is_empty() && !text.contains(char::is_whitespace);
            is_name(group) && is_name(kind) && !kind.contains('/')
        });
        let Some((group, kind)) = parts else {
            return Err(EntryError::Malformed(entry.to_owned()));
        };
        self.tracked(group, kind).ok_or_else(|| {
            let known: Vec<_> = self.tracked.iter().map(|kind| kind.group_kind()).collect();
            EntryError::Unknown {
                entry: entry.to_owned(),
                known: known.join(", "),
            }
        })
    }

    fn tracked(&self, group: &str, kind: &str) -> Option<&'static Kind> {
        let mut tracked = self.tracked.iter().copied();
        tracked.find(|known| known.group == group && known.kind == kind)
    }

    /// Whether objects of a tracked kind are looked at.
    #[must_use]
    pub fn allow(&self, kind: &Kind) -> bool {
        self.named.is_empty() || self.named.contains(&kind)
    }

    /// The kind of this group and name, if it is tracked and looked at.
    #[must_use]
    pub fn reported(&self, group: &str, kind: &str) -> Option<&'static Kind> {
        self.tracked(group, kind).filter(|kind| self.allow(kind))
    }
}

#[cfg(test)]
mod tests {
    use super::super::profile::kind::{CRON_JOB, DEPLOYMENT, JOB};
    use super::super::profile::{V1_5_1, V1_6_0};
    use super::*;

    fn named(profile: &Profile, entries: &[&str]) -> Result<WorkloadKinds, Vec<String>> {
        let entries: Vec<_> = entries.iter().map(|entry| (*entry).to_owned()).collect();
        WorkloadKinds::all(profile)
            .named(&entries)
            .map_err(|errors| {
                let told = |(index, error): &(usize, EntryError)| format!("{index}: {error}");
                errors.iter().map(told).collect()
            })
    }

    #[test]
    fn what_is_named_is_looked_at_and_nothing_else() {
        let kinds = named(&V1_6_0, &["batch/CronJob", "apps/Deployment"]).expect("a list");
        assert!(kinds.allow(&DEPLOYMENT) && kinds.allow(&CRON_JOB) && !kinds.allow(&JOB));
        assert_eq!(kinds.reported("batch", "CronJob"), Some(&CRON_JOB));
        assert_eq!(kinds.reported("batch", "Job"), None);
        let other = named(&V1_6_0, &["apps/Deployment", "batch/CronJob"]).expect("a list");
        assert_eq!(kinds, other);
        let all = named(&V1_6_0, &[]).expect("a list");
        assert!(V1_6_0.kinds.iter().all(|kind| all.allow(kind)));
    }

    #[test]
    fn every_wrong_entry_is_told() {
        let entries = [
            "Deployment",
            "apps/Deployment",
            "apps/Deployments",
            "apps/v1/Deployment",
            "apps/Deployment",
            "/Pod",
        ];
        let errors = named(&V1_6_0, &entries).expect_err("errors");
        assert_eq!(errors.len(), 5);
        let malformed =
            r#"0: "Deployment" is not of the form Group/Kind. Write it like apps/Deployment."#;
        assert_eq!(errors[0], malformed);
        let unknown = r#"2: "apps/Deployments" is not a kind that this controller knows. Known kinds: apps/Deployment, apps/StatefulSet, "#;
        assert!(errors[1].starts_with(unknown), "{}", errors[1]);
        assert!(errors[2].starts_with("3: \"apps/v1/Deployment\" is not of"));
        let duplicate = r#"4: "apps/Deployment" is listed more than once. Remove the repetition."#;
        assert_eq!(errors[3], duplicate);
        assert!(errors[4].starts_with("5: \"/Pod\" is not of"));
    }

    #[test]
    fn a_release_without_the_list_ignores_it() {
        let kinds = named(&V1_5_1, &["nonsense"]).expect("a list");
        assert!(kinds.allow(&DEPLOYMENT));
        assert_eq!(kinds.reported("batch", "CronJob"), None);
    }
}
