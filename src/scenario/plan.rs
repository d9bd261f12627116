//! A scenario after validation: every name resolves, every number is in range.

use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZeroU32;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::record::StepKind;

/// The name that a scenario gives a chart, for example `from`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ChartName(pub String);

impl fmt::Display for ChartName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// Where a chart comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "from", deny_unknown_fields)]
pub enum ChartSource {
    /// A folder or an archive.
    #[serde(rename_all = "camelCase")]
    Path {
        /// Its path, absolute or relative to the working directory.
        path: PathBuf,
    },
    /// One of the charts that come with this program.
    #[serde(rename_all = "camelCase")]
    Embedded {
        /// Its version.
        version: String,
    },
    /// A registry.
    #[serde(rename_all = "camelCase")]
    Oci {
        /// The repository, without `oci://`, tag and digest.
        repository: String,
        /// The chart's version, which is its tag.
        version: Option<String>,
        /// The digest of the manifest, `sha256:` and 64 hex digits.
        digest: Option<String>,
    },
}

/// The values that a chart is installed with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "profile", deny_unknown_fields)]
pub enum ValuesChoice {
    /// `chart-default`: none but the chart's own.
    ChartDefault,
    /// `aicr`: as that distribution ships it, with strict readiness on (`qualification.md` Q2).
    Aicr,
    /// A file of the user's, read by helm.
    #[serde(rename_all = "camelCase")]
    File {
        /// Its path, absolute or relative to the working directory.
        path: PathBuf,
    },
}

/// A chart of the plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ChartPlan {
    /// Where it comes from.
    pub source: ChartSource,
    /// Its values.
    pub values: ValuesChoice,
}

/// The workloads of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WorkloadPlan {
    /// Made before the controller is installed.
    pub preexisting: u32,
    /// Made by the step `load`.
    pub count: u32,
    /// Which ones: a name of [`Mix`](crate::workloads::Mix), for example `vllm-replicas-0`.
    pub mix: String,
    /// Over how many namespaces.
    pub namespaces: NonZeroU32,
    /// What is left to chance is drawn with this.
    pub seed: u64,
    /// Objects per second; as fast as the server takes them when [`None`].
    pub rate: Option<NonZeroU32>,
}

/// One step of a plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "kind", deny_unknown_fields)]
pub enum Step {
    /// Look at the cluster as it was found, and make the workloads that exist before the controller.
    Baseline,
    /// `helm install --wait` of a chart.
    #[serde(rename_all = "camelCase")]
    Install {
        /// The chart.
        chart: ChartName,
    },
    /// Make the workloads and wait for their AIBOMs.
    Load,
    /// `helm upgrade --wait` to a chart.
    #[serde(rename_all = "camelCase")]
    Upgrade {
        /// The chart.
        chart: ChartName,
    },
    /// `helm rollback --wait`.
    #[serde(rename_all = "camelCase")]
    Rollback {
        /// To this revision; to the previous one when [`None`].
        revision: Option<NonZeroU32>,
    },
    /// Apply the definitions of a chart.
    #[serde(rename_all = "camelCase")]
    Crds {
        /// The chart.
        chart: ChartName,
    },
    /// Measure a quiet window.
    #[serde(rename_all = "camelCase")]
    Steady {
        /// Its length, in seconds.
        window_seconds: u64,
    },
    /// Restart the controller without a change of version.
    Restart,
    /// Merge a patch into the `spec` of the controller's configuration.
    #[serde(rename_all = "camelCase")]
    Config {
        /// The patch.
        spec: serde_json::Value,
    },
    /// Wait, with nothing measured.
    #[serde(rename_all = "camelCase")]
    Hold {
        /// How long, in seconds.
        seconds: u64,
    },
    /// `helm uninstall --wait`.
    Uninstall,
    /// Remove the release, the load, the definitions and the namespaces that the run made.
    Cleanup,
}

impl Step {
    /// Its kind.
    #[must_use]
    pub fn kind(&self) -> StepKind {
        match self {
            Self::Baseline => StepKind::Baseline,
            Self::Install { .. } => StepKind::Install,
            Self::Load => StepKind::Load,
            Self::Upgrade { .. } => StepKind::Upgrade,
            Self::Rollback { .. } => StepKind::Rollback,
            Self::Crds { .. } => StepKind::Crds,
            Self::Steady { .. } => StepKind::Steady,
            Self::Restart => StepKind::Restart,
            Self::Config { .. } => StepKind::Config,
            Self::Hold { .. } => StepKind::Hold,
            Self::Uninstall => StepKind::Uninstall,
            Self::Cleanup => StepKind::Cleanup,
        }
    }
}

/// What a scenario says of a check beyond its default.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Expect {
    /// It fails, and that is what this scenario is about. If it passes, that is a FAIL.
    Fail,
    /// It must pass, though by default it is only a finding.
    Pass,
}

/// One declared expectation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Expectation {
    /// The check's id, for example `CFG-03`.
    pub check: String,
    /// The number of the step, from 1; every step when [`None`].
    pub step: Option<u32>,
    /// What is expected.
    pub expect: Expect,
    /// Why, for the report.
    pub because: String,
}

/// A validated scenario.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Plan {
    /// The scenario's name.
    pub name: String,
    /// The release's name.
    pub release: String,
    /// The release's namespace.
    pub namespace: String,
    /// The charts, by name.
    pub charts: BTreeMap<ChartName, ChartPlan>,
    /// The workloads.
    pub workloads: WorkloadPlan,
    /// The steps, in order; step 1 is the first.
    pub steps: Vec<Step>,
    /// What differs from the default expectations.
    pub expectations: Vec<Expectation>,
}

/// What a plan leads to after one of its steps, if every step succeeds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outlook {
    /// The chart that the release runs.
    pub chart: Option<ChartName>,
    /// The newest revision.
    pub revision: Option<u32>,
    /// The revision that a rollback goes back to.
    pub target: Option<u32>,
    /// The chart whose definitions were installed or applied last. Helm's upgrades and rollbacks never
    /// change them.
    pub crds: Option<ChartName>,
    /// How many AIBOMs there should be of workloads that the run made.
    pub aiboms: u64,
}

impl Plan {
    /// The outlook after each step, in order: as many as there are steps. A rollback whose target does
    /// not exist leaves everything as it was; the linter refuses such a plan.
    #[must_use]
    pub fn outlook(&self) -> Vec<Outlook> {
        let mut history: Vec<ChartName> = Vec::new();
        let mut now = Outlook {
            chart: None,
            revision: None,
            target: None,
            crds: None,
            aiboms: 0,
        };
        let mut workloads = 0;
        let mut outlooks = Vec::with_capacity(self.steps.len());
        for step in &self.steps {
            now.target = None;
            match step {
                Step::Baseline => workloads = u64::from(self.workloads.preexisting),
                Step::Load => workloads += u64::from(self.workloads.count),
                Step::Install { chart } => {
                    // What Helm finds in place stays: it installs definitions, and never changes them.
                    now.crds.get_or_insert_with(|| chart.clone());
                    history = vec![chart.clone()];
                }
                Step::Upgrade { chart } => history.push(chart.clone()),
                Step::Rollback { revision } => {
                    let previous = history.len().checked_sub(1);
                    let target =
                        revision.map_or(previous, |number| usize::try_from(number.get()).ok());
                    let chart = target.and_then(|number| history.get(number.checked_sub(1)?));
                    if let Some(chart) = chart.cloned() {
                        now.target = target.and_then(|number| u32::try_from(number).ok());
                        history.push(chart);
                    }
                }
                Step::Crds { chart } => now.crds = Some(chart.clone()),
                Step::Uninstall => history.clear(),
                Step::Cleanup => {
                    history.clear();
                    workloads = 0;
                    now.crds = None;
                    now.aiboms = 0;
                }
                Step::Steady { .. } | Step::Restart | Step::Config { .. } | Step::Hold { .. } => {}
            }
            now.chart = history.last().cloned();
            now.revision = u32::try_from(history.len())
                .ok()
                .filter(|number| *number > 0);
            if now.chart.is_some() {
                now.aiboms = workloads;
            }
            outlooks.push(now.clone());
        }
        outlooks
    }
}
