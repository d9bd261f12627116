//! Which chart's definitions are served (`design.md` 7).
//!
//! Charts may share definitions, so that the answer is a set: every chart whose definition equals the
//! served one in all versions and schemas.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::record::{ChartRecord, CrdState};

/// The charts, by their names in the plan, whose definition equals the served one (CRD-02).
#[must_use]
pub fn serving(crd: &CrdState, charts: &BTreeMap<String, ChartRecord>) -> BTreeSet<String> {
    let equal = charts
        .iter()
        .filter(|(_, chart)| chart.crds.get(&crd.name) == Some(&crd.versions));
    equal.map(|(name, _)| name.clone()).collect()
}

/// Which charts' definitions are served, all of them taken together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Served {
    /// For every definition of any of the charts: the charts whose definition is served.
    pub definitions: BTreeMap<String, BTreeSet<String>>,
    /// Those of them that do not exist.
    pub missing: BTreeSet<String>,
    /// The charts of which every definition is served (CRD-03).
    pub charts: BTreeSet<String>,
}

/// Compares what exists with the definitions of all charts.
#[must_use]
pub fn served(crds: &[CrdState], charts: &BTreeMap<String, ChartRecord>) -> Served {
    let mut served = Served::default();
    for name in charts.values().flat_map(|chart| chart.crds.keys()) {
        if served.definitions.contains_key(name) {
            continue;
        }
        let found = crds.iter().find(|crd| crd.name == *name);
        let equal = found.map(|crd| serving(crd, charts)).unwrap_or_default();
        if found.is_none() {
            served.missing.insert(name.clone());
        }
        served.definitions.insert(name.clone(), equal);
    }
    for (chart, record) in charts {
        let mut equal = record.crds.keys().map(|name| served.definitions.get(name));
        let whole = equal.all(|charts| charts.is_some_and(|charts| charts.contains(chart)));
        if whole && !record.crds.is_empty() {
            served.charts.insert(chart.clone());
        }
    }
    served
}

/// Whether this chart runs over definitions that are not, or not all, its own: every condition may be
/// green, while what only its own definitions know is dropped in silence.
#[must_use]
pub fn stranded(running: &str, served: &Served) -> bool {
    !served.charts.contains(running)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::CrdVersion;

    const AIBOMS: &str = "aiboms.aibom.k8saibom.dev";
    const CONFIGS: &str = "aibomcontrollerconfigs.aibom.k8saibom.dev";

    fn versions(schema: &str) -> BTreeMap<String, CrdVersion> {
        let version = CrdVersion {
            served: true,
            storage: true,
            schema_sha256: schema.to_owned(),
        };
        BTreeMap::from([("v1beta1".to_owned(), version)])
    }

    fn chart(aiboms: &str, configs: &str) -> ChartRecord {
        let crds = [(AIBOMS, aiboms), (CONFIGS, configs)];
        ChartRecord {
            name: "k8s-aibom".to_owned(),
            version: "1.0.0".to_owned(),
            app_version: "v1.0.0".to_owned(),
            source: String::new(),
            sha256: String::new(),
            oci_digest: None,
            image: String::new(),
            values: String::new(),
            values_sha256: String::new(),
            objects: Vec::new(),
            crds: crds
                .map(|(name, schema)| (name.to_owned(), versions(schema)))
                .into(),
        }
    }

    fn charts() -> BTreeMap<String, ChartRecord> {
        BTreeMap::from([
            ("from".to_owned(), chart("a", "old")),
            ("to".to_owned(), chart("a", "new")),
        ])
    }

    fn crd(name: &str, schema: &str) -> CrdState {
        CrdState {
            name: name.to_owned(),
            uid: "u".to_owned(),
            generation: 1,
            resource_version: "1".to_owned(),
            versions: versions(schema),
            stored_versions: vec!["v1beta1".to_owned()],
            established: true,
            terminating: false,
            managers: BTreeSet::new(),
        }
    }

    fn names<const N: usize>(names: [&str; N]) -> BTreeSet<String> {
        names.map(str::to_owned).into()
    }

    #[test]
    fn equal_definitions_name_every_chart_that_has_them() {
        assert_eq!(serving(&crd(AIBOMS, "a"), &charts()), names(["from", "to"]));
        assert_eq!(serving(&crd(CONFIGS, "new"), &charts()), names(["to"]));
        assert_eq!(serving(&crd(CONFIGS, "other"), &charts()), names([]));
        let mut unserved = crd(CONFIGS, "new");
        unserved
            .versions
            .values_mut()
            .for_each(|version| version.served = false);
        assert_eq!(serving(&unserved, &charts()), names([]));
    }

    #[test]
    fn a_chart_is_stranded_when_one_definition_is_not_its_own() {
        let old = served(&[crd(AIBOMS, "a"), crd(CONFIGS, "old")], &charts());
        assert_eq!(old.charts, names(["from"]));
        assert!(stranded("to", &old));
        assert!(!stranded("from", &old));
    }

    #[test]
    fn a_missing_definition_serves_nobody() {
        let half = served(&[crd(AIBOMS, "a")], &charts());
        assert_eq!(half.missing, names([CONFIGS]));
        assert_eq!(half.definitions[AIBOMS], names(["from", "to"]));
        assert!(half.charts.is_empty());
        assert!(stranded("from", &half) && stranded("to", &half));
    }

    #[test]
    fn definitions_of_different_charts_have_nothing_in_common() {
        let mut charts = charts();
        charts.insert("next".to_owned(), chart("b", "next"));
        let mixed = served(&[crd(AIBOMS, "b"), crd(CONFIGS, "new")], &charts);
        assert!(mixed.definitions.values().all(|charts| !charts.is_empty()));
        assert!(mixed.charts.is_empty());
    }
}
