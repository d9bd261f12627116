//! The typed view of a run: what every form of the report is written from.

use chrono::{DateTime, Utc};
use serde::Serialize;

use super::RunView;
use super::cost::{self, RestartRow, WindowRow};
use super::definitions::{self, DefinitionRow};
use super::headline::{self, Fact};
use super::rollback::{self, RollbackRow, RoundTripRow};
use super::steps::{self, StepRow};
use super::verdicts::{self, Verdicts};
use crate::record::{SCHEMA_VERSION, SubjectKind};

/// A run, row by row.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Timeline {
    /// The schema version of the run's folder.
    pub schema_version: u32,
    /// The name of the run: that of its folder.
    pub run: String,
    /// The scenario.
    pub scenario: String,
    /// When the run began.
    pub started_at: DateTime<Utc>,
    /// From the start to the end of the last step, in seconds.
    pub seconds: f64,
    /// Whether the controller was the embedded one: its behaviour is that of a release, its CPU time and
    /// memory are its own.
    pub embedded: bool,
    /// What the run was about and what it ran on.
    pub headline: Vec<Fact>,
    /// One row per step.
    pub steps: Vec<StepRow>,
    /// Quiet windows.
    pub windows: Vec<WindowRow>,
    /// What each new controller process cost.
    pub restarts: Vec<RestartRow>,
    /// The ways back.
    pub rollbacks: Vec<RollbackRow>,
    /// From a chart and back to it.
    pub round_trips: Vec<RoundTripRow>,
    /// Which chart's definitions were served.
    pub definitions: Vec<DefinitionRow>,
    /// What it came to.
    pub verdicts: Verdicts,
    /// What could not be read, and what was done about it.
    pub problems: Vec<String>,
}

/// Makes the rows. A run that was ended early has those that it came to.
#[must_use]
pub fn timeline(view: &RunView<'_>) -> Timeline {
    let run = view.run;
    let seconds = view.steps.last().map_or(0.0, |last| {
        (last.started_at - run.started_at).as_seconds_f64() + last.seconds
    });
    let verdicts = verdicts::verdicts(view);
    let embedded = run
        .environment
        .as_ref()
        .is_some_and(|environment| environment.subject == SubjectKind::Embedded);
    let definitions = definitions::rows(view);
    Timeline {
        schema_version: SCHEMA_VERSION,
        run: run.run.clone(),
        scenario: run.plan.name.clone(),
        started_at: run.started_at,
        seconds,
        embedded,
        headline: headline::facts(view, &verdicts, &definitions, seconds),
        steps: steps::rows(view, &definitions),
        windows: cost::windows(view),
        restarts: cost::restarts(view),
        rollbacks: rollback::rows(view, &definitions),
        round_trips: rollback::round_trips(view),
        definitions,
        verdicts,
        problems: view.problems.to_vec(),
    }
}
