//! Which workloads should have an AIBOM.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::record::Workload;

/// A workload by what stays the same when it is made anew.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkloadName {
    /// Its namespace.
    pub namespace: String,
    /// Its kind, for example `Deployment`.
    pub kind: String,
    /// Its name.
    pub name: String,
}

impl WorkloadName {
    /// A workload of this namespace, kind and name.
    pub fn new(
        namespace: impl Into<String>,
        kind: impl Into<String>,
        name: impl Into<String>,
    ) -> Self {
        Self {
            namespace: namespace.into(),
            kind: kind.into(),
            name: name.into(),
        }
    }
}

impl fmt::Display for WorkloadName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}/{}", self.kind, self.namespace, self.name)
    }
}

impl From<&Workload> for WorkloadName {
    fn from(workload: &Workload) -> Self {
        Self::new(&workload.namespace, &workload.kind, &workload.name)
    }
}

/// The workloads that should have an AIBOM, now or as soon as a controller runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Expected(BTreeSet<WorkloadName>);

impl Expected {
    /// How many.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether this workload is one of them.
    #[must_use]
    pub fn contains(&self, workload: &WorkloadName) -> bool {
        self.0.contains(workload)
    }

    /// All of them, in order.
    pub fn iter(&self) -> impl Iterator<Item = &WorkloadName> {
        self.0.iter()
    }

    /// Adds one.
    pub fn insert(&mut self, workload: WorkloadName) {
        self.0.insert(workload);
    }

    /// Those that exist: the found ones that are expected, in order.
    #[must_use]
    pub fn matching(&self, found: impl IntoIterator<Item = Workload>) -> Vec<Workload> {
        let found = found.into_iter();
        let mut matching: Vec<_> = found
            .filter(|workload| self.contains(&WorkloadName::from(workload)))
            .collect();
        matching.sort();
        matching
    }

    /// The namespaces of each kind.
    pub(super) fn by_kind(&self) -> BTreeMap<&str, BTreeSet<&str>> {
        let mut kinds: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for workload in &self.0 {
            let namespaces = kinds.entry(&workload.kind).or_default();
            namespaces.insert(&workload.namespace);
        }
        kinds
    }
}

impl FromIterator<WorkloadName> for Expected {
    fn from_iter<I: IntoIterator<Item = WorkloadName>>(workloads: I) -> Self {
        Self(workloads.into_iter().collect())
    }
}

impl Extend<WorkloadName> for Expected {
    fn extend<I: IntoIterator<Item = WorkloadName>>(&mut self, workloads: I) {
        self.0.extend(workloads);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workload(namespace: &str, kind: &str, name: &str) -> Workload {
        Workload {
            namespace: namespace.to_owned(),
            kind: kind.to_owned(),
            name: name.to_owned(),
            uid: format!("uid of {name}"),
            generation: 1,
        }
    }

    #[test]
    fn only_what_is_expected_matches_and_in_order() {
        let expected: Expected = [
            WorkloadName::new("b", "Deployment", "x"),
            WorkloadName::new("a", "Job", "x"),
            WorkloadName::new("a", "Job", "missing"),
        ]
        .into_iter()
        .collect();
        let found = [
            workload("b", "Deployment", "x"),
            workload("b", "StatefulSet", "x"),
            workload("c", "Job", "x"),
            workload("a", "Job", "x"),
        ];
        let names: Vec<String> = expected
            .matching(found)
            .iter()
            .map(|found| WorkloadName::from(found).to_string())
            .collect();
        assert_eq!(names, ["Job a/x", "Deployment b/x"]);
        let kinds: Vec<_> = expected.by_kind().into_iter().collect();
        assert_eq!(
            kinds,
            [
                ("Deployment", BTreeSet::from(["b"])),
                ("Job", BTreeSet::from(["a"]))
            ]
        );
    }
}
