//! Which chart's definitions were served after each step, and whether the running chart is among them.

use std::collections::BTreeMap;

use serde::Serialize;

use super::RunView;
use super::words::enumerated;
use crate::compare::{Served, served, stranded};
use crate::record::{ConditionStatus, Snapshot, StepRecord};

/// How the served definitions relate to the running chart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase", tag = "state")]
pub enum Level {
    /// There are none.
    Absent,
    /// No chart runs.
    NoController,
    /// They are those of the running chart.
    Same,
    /// They are all of later charts than the running one.
    Newer,
    /// They are, at least in part, not those of the running chart.
    Stranded {
        /// Whether every condition is healthy nevertheless.
        green: bool,
    },
}

impl Level {
    /// In words, said of the definitions.
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::Absent => "no CRDs",
            Self::NoController => "no controller",
            Self::Same => "match",
            Self::Newer => "newer than the controller",
            Self::Stranded { green: true } => "green but stranded",
            Self::Stranded { green: false } => "stranded",
        }
    }
}

/// One definition after a step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ServedRow {
    /// The charts whose definition equals the served one, as a person knows them.
    pub like: Vec<String>,
    /// `status.storedVersions`; [`None`] when the definition does not exist.
    pub stored_versions: Option<Vec<String>>,
}

/// The definitions after one step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DefinitionRow {
    /// The step.
    pub step: u32,
    /// The chart that ran, as a person knows it.
    pub running: Option<String>,
    /// The charts of which every definition was served.
    pub charts: Vec<String>,
    /// Each definition, by its full name.
    pub definitions: BTreeMap<String, ServedRow>,
    /// How they relate to the chart that ran.
    pub level: Level,
}

impl DefinitionRow {
    /// The charts that are served as a whole, in words.
    pub(super) fn words(&self) -> String {
        let exist = |row: &ServedRow| row.stored_versions.is_some();
        if !self.definitions.values().any(exist) {
            "no CRDs".to_owned()
        } else if self.charts.is_empty() {
            "CRDs of no single chart".to_owned()
        } else {
            format!("CRDs {}", self.charts.join(" = "))
        }
    }
}

/// A chart that ran over definitions that are not its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stranded<'a> {
    /// The chart.
    pub(super) running: &'a str,
    /// Whether every condition was healthy nevertheless.
    pub(super) green: bool,
    /// After which steps.
    pub(super) steps: Vec<u32>,
    /// After the first of them.
    pub(super) first: &'a DefinitionRow,
}

impl Stranded<'_> {
    /// `green but stranded after steps 4 and 5`.
    pub(super) fn words(&self) -> String {
        let plural = if self.steps.len() == 1 { "" } else { "s" };
        format!(
            "{} after step{plural} {}",
            self.first.level.words(),
            enumerated(&self.steps)
        )
    }
}

/// Every chart that was stranded, with all steps that this holds for.
pub(super) fn all_stranded(rows: &[DefinitionRow]) -> Vec<Stranded<'_>> {
    let mut all: Vec<Stranded<'_>> = Vec::new();
    for row in rows {
        let (Level::Stranded { green }, Some(running)) = (row.level, &row.running) else {
            continue;
        };
        let mut known = all.iter_mut();
        match known.find(|known| known.running == running && known.green == green) {
            Some(known) => known.steps.push(row.step),
            None => all.push(Stranded {
                running,
                green,
                steps: vec![row.step],
                first: row,
            }),
        }
    }
    all
}

/// One row per step that has a snapshot.
pub(super) fn rows(view: &RunView<'_>) -> Vec<DefinitionRow> {
    if view.run.charts.is_empty() {
        return Vec::new();
    }
    let observed = view.steps.iter().filter_map(|record| {
        let snapshot = view.snapshots.get(&record.step)?;
        Some(row(view, record, snapshot))
    });
    observed.collect()
}

fn row(view: &RunView<'_>, record: &StepRecord, snapshot: &Snapshot) -> DefinitionRow {
    let served = served(&snapshot.crds, &view.run.charts);
    let definitions = served.definitions.iter().map(|(name, charts)| {
        let found = snapshot.crds.iter().find(|crd| crd.name == *name);
        let row = ServedRow {
            like: charts.iter().map(|chart| view.chart(chart)).collect(),
            stored_versions: found.map(|crd| crd.stored_versions.clone()),
        };
        (name.clone(), row)
    });
    DefinitionRow {
        step: record.step,
        running: record.chart.as_ref().map(|chart| view.chart(chart)),
        charts: served
            .charts
            .iter()
            .map(|chart| view.chart(chart))
            .collect(),
        definitions: definitions.collect(),
        level: level(view, record, snapshot, &served),
    }
}

fn level(view: &RunView<'_>, record: &StepRecord, snapshot: &Snapshot, served: &Served) -> Level {
    if served.missing.len() == served.definitions.len() {
        return Level::Absent;
    }
    let Some(running) = &record.chart else {
        return Level::NoController;
    };
    if !stranded(running, served) {
        Level::Same
    } else if all_later(view, running, served) {
        Level::Newer
    } else {
        Level::Stranded {
            green: green(snapshot),
        }
    }
}

/// Whether every chart whose definitions are served is a later version than the running one.
fn all_later(view: &RunView<'_>, running: &str, served: &Served) -> bool {
    let version = |chart: &str| semver::Version::parse(&view.run.charts.get(chart)?.version).ok();
    let Some(running) = version(running) else {
        return false;
    };
    let mut charts = served.charts.iter();
    let later = |chart: &String| version(chart).is_some_and(|version| version > running);
    !served.charts.is_empty() && charts.all(later)
}

/// Whether everything that usually is looked at is healthy: rollout and both conditions.
pub(super) fn green(snapshot: &Snapshot) -> bool {
    let is = |type_: &str, wanted: ConditionStatus| {
        let config = snapshot.config.as_ref();
        let condition = config.and_then(|config| config.condition(type_));
        condition.is_some_and(|condition| condition.status == wanted)
    };
    let rolled_out = snapshot
        .deployment
        .as_ref()
        .is_some_and(|deployment| deployment.is_complete());
    rolled_out && is("Ready", ConditionStatus::True) && is("Degraded", ConditionStatus::False)
}
