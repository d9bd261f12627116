//! What a plan would do and what is expected of it, without touching anything.

use std::collections::BTreeMap;

use serde::Serialize;

use super::charts::Charts;
use super::course;
use crate::helm::{diff, diff_definitions};
use crate::record::{ChartRecord, StepKind};
use crate::scenario::{ChartName, Outlook, Plan, Step};

/// A plan, told before it is executed.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Preview {
    /// The scenario's name.
    pub name: String,
    /// The release, as `NAMESPACE/NAME`.
    pub release: String,
    /// The charts, by their names in the plan.
    pub charts: BTreeMap<String, ChartRecord>,
    /// The steps, in order.
    pub steps: Vec<PreviewStep>,
    /// What changes between the charts of each upgrade, each pair once.
    pub changes: Vec<ChartChanges>,
    /// How to get back to where the plan began, one thing to do per line.
    pub way_back: Vec<String>,
}

/// One step of a preview.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PreviewStep {
    /// Its number, from 1.
    pub step: u32,
    /// Its kind.
    pub kind: StepKind,
    /// What is done.
    pub action: String,
    /// The revision of the release afterwards.
    pub revision: Option<u32>,
    /// The chart that runs afterwards.
    pub chart: Option<String>,
    /// AIBOMs of workloads that the run made, afterwards.
    pub aiboms: u64,
    /// The charts whose definitions are the served ones afterwards: more than one when they are equal.
    pub served: Vec<String>,
    /// Whether the chart that runs is none of those (*stranded*, `design.md` 7).
    pub stranded: bool,
    /// Checks of this step that the scenario expects to fail, and why.
    pub expected_failures: Vec<String>,
}

/// What changes from one chart to another.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ChartChanges {
    /// The chart before.
    pub from: String,
    /// The chart after.
    pub to: String,
    /// Objects that only the chart after renders.
    pub added: Vec<String>,
    /// Objects that only the chart before renders.
    pub removed: Vec<String>,
    /// Objects that both render differently, with the paths of what differs.
    pub changed: BTreeMap<String, Vec<String>>,
    /// Permissions that only the chart after grants.
    pub granted: Vec<String>,
    /// Permissions that only the chart before grants.
    pub withdrawn: Vec<String>,
    /// Fields of definitions that only the chart after has. Helm leaves definitions as they are.
    pub crds_added: Vec<String>,
    /// Fields of definitions that only the chart before has.
    pub crds_removed: Vec<String>,
    /// Fields of definitions with another rule.
    pub crds_changed: Vec<String>,
}

impl Preview {
    /// Tells a plan with these charts.
    #[must_use]
    pub fn of(plan: &Plan, charts: &Charts) -> Self {
        let records = charts.records();
        let outlook = plan.outlook();
        let steps = (1..).zip(plan.steps.iter().zip(&outlook));
        let steps = steps
            .map(|(number, (step, outlook))| {
                let served = served(outlook.crds.as_ref(), &records);
                let chart = outlook.chart.as_ref().map(|chart| chart.0.clone());
                let missing = |chart: &String| !served.contains(chart);
                PreviewStep {
                    step: number,
                    kind: step.kind(),
                    action: course::action(step, plan, |name| charts.version(name)),
                    revision: outlook.revision,
                    aiboms: outlook.aiboms,
                    stranded: chart.as_ref().is_some_and(missing),
                    chart,
                    served,
                    expected_failures: expected_failures(plan, number),
                }
            })
            .collect();
        Self {
            name: plan.name.clone(),
            release: format!("{}/{}", plan.namespace, plan.release),
            steps,
            changes: changes(plan, &outlook, charts),
            way_back: way_back(plan, &outlook, &records),
            charts: records,
        }
    }
}

/// The charts whose definitions equal those of this one.
fn served(installed: Option<&ChartName>, charts: &BTreeMap<String, ChartRecord>) -> Vec<String> {
    let Some(installed) = installed.and_then(|name| charts.get(&name.0)) else {
        return Vec::new();
    };
    let equal = charts
        .iter()
        .filter(|(_, chart)| chart.crds == installed.crds);
    equal.map(|(name, _)| name.clone()).collect()
}

fn expected_failures(plan: &Plan, step: u32) -> Vec<String> {
    let fails = |expectation: &&crate::scenario::Expectation| {
        expectation.expect == crate::scenario::Expect::Fail
            && expectation.step.is_none_or(|only| only == step)
    };
    let expected = plan.expectations.iter().filter(fails);
    expected
        .map(|expectation| format!("{}: {}", expectation.check, expectation.because))
        .collect()
}

/// The pairs of charts between which a step moves the release, each once and upwards as it comes.
fn moves<'a>(plan: &'a Plan, outlook: &'a [Outlook]) -> Vec<(&'a ChartName, &'a ChartName)> {
    let mut pairs = Vec::new();
    let mut before: Option<&ChartName> = None;
    for (step, outlook) in plan.steps.iter().zip(outlook) {
        let now = outlook.chart.as_ref();
        if let (Step::Upgrade { .. }, Some(from), Some(to)) = (step, before, now)
            && from != to
            && !pairs.contains(&(from, to))
        {
            pairs.push((from, to));
        }
        before = now;
    }
    pairs
}

fn changes(plan: &Plan, outlook: &[Outlook], charts: &Charts) -> Vec<ChartChanges> {
    let pairs = moves(plan, outlook).into_iter();
    let changes = pairs.filter_map(|(from, to)| {
        let (old, new) = (charts.get(from)?, charts.get(to)?);
        let objects = diff(&old.objects, &new.objects);
        let definitions = diff_definitions(old.chart.crds(), new.chart.crds());
        Some(ChartChanges {
            from: from.0.clone(),
            to: to.0.clone(),
            added: objects.added,
            removed: objects.removed,
            changed: objects.changed,
            granted: objects.granted,
            withdrawn: objects.withdrawn,
            crds_added: definitions.added,
            crds_removed: definitions.removed,
            crds_changed: definitions.changed,
        })
    });
    changes.collect()
}

/// How an operator gets back after the last upgrade of the plan: the release by a rollback that names
/// its revision, since one without a number goes to the previous one, whatever that is
/// (`helm-moves.md` A, C); the definitions not at all where a stored version would be lost (CRD-08).
fn way_back(
    plan: &Plan,
    outlook: &[Outlook],
    charts: &BTreeMap<String, ChartRecord>,
) -> Vec<String> {
    let mut lines = Vec::new();
    let mut before: Option<&Outlook> = None;
    for (number, (step, now)) in (1..).zip(plan.steps.iter().zip(outlook)) {
        if let (Step::Upgrade { chart: to }, Some(before)) = (step, before)
            && let (Some(from), Some(revision)) = (&before.chart, before.revision)
        {
            let (release, namespace) = (&plan.release, &plan.namespace);
            lines.push(format!(
                "after step {number}: helm rollback {release} {revision} --namespace {namespace} --wait \
                 (chart `{from}`)"
            ));
            if now.crds.as_ref() == Some(to) {
                lines.extend(definitions_back(number, from, to, charts));
            }
        }
        before = Some(now);
    }
    lines
}

/// What to do about the definitions of `to` on the way back to `from`.
fn definitions_back(
    step: u32,
    from: &ChartName,
    to: &ChartName,
    charts: &BTreeMap<String, ChartRecord>,
) -> Option<String> {
    let (old, new) = (&charts.get(&from.0)?.crds, &charts.get(&to.0)?.crds);
    if old == new {
        return None;
    }
    let mut stored = new.iter().flat_map(|(name, versions)| {
        let stored = versions.iter().filter(|(_, version)| version.storage);
        stored.map(move |(version, _)| (name, version))
    });
    let knows = |(name, version): &(&String, &String)| {
        let versions = old.get(*name);
        versions.is_some_and(|versions| versions.contains_key(*version))
    };
    Some(match stored.find(|stored| !knows(stored)) {
        Some((name, version)) => format!(
            "after step {step}: leave the definitions of `{to}` in place: those of `{from}` lack {version}, \
             in which objects of {name} are stored, so that the server refuses them"
        ),
        None => format!(
            "after step {step}: leave the definitions of `{to}` in place; Helm does not take them back"
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::CrdVersion;

    fn chart(versions: &[(&str, bool)]) -> ChartRecord {
        let version = |(name, storage): &(&str, bool)| {
            let version = CrdVersion {
                served: true,
                storage: *storage,
                schema_sha256: format!("{versions:?}"),
            };
            ((*name).to_owned(), version)
        };
        let versions = versions.iter().map(version).collect();
        ChartRecord {
            name: String::new(),
            version: String::new(),
            app_version: String::new(),
            source: String::new(),
            sha256: String::new(),
            oci_digest: None,
            image: String::new(),
            values: String::new(),
            values_sha256: String::new(),
            objects: Vec::new(),
            crds: BTreeMap::from([("things".to_owned(), versions)]),
        }
    }

    #[test]
    fn definitions_stay_and_the_reason_is_told_where_the_server_would_refuse() {
        let charts = BTreeMap::from([
            ("old".to_owned(), chart(&[("v1alpha1", true)])),
            (
                "new".to_owned(),
                chart(&[("v1alpha1", false), ("v1beta1", true)]),
            ),
            ("newer".to_owned(), chart(&[("v1beta1", true)])),
        ]);
        let name = |name: &str| ChartName(name.to_owned());
        let back = |from: &str, to: &str| definitions_back(4, &name(from), &name(to), &charts);
        assert_eq!(back("old", "old"), None);
        let refused = back("old", "new").expect("they differ");
        assert!(refused.contains("lack v1beta1"), "{refused}");
        let additive = back("new", "newer").expect("they differ");
        assert!(
            additive.ends_with("Helm does not take them back"),
            "{additive}"
        );
        assert_eq!(served(Some(&name("new")), &charts), ["new"]);
    }
}
