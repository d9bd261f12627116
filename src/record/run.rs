//! `run.json`: what was planned, on what, and how it ended.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::cluster::CrdVersion;
use super::verdict::CheckResult;
use crate::scenario::Plan;

/// The version of everything in a run's folder. A reader refuses a newer one.
pub const SCHEMA_VERSION: u32 = 1;

/// Where the run took place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "kind", deny_unknown_fields)]
pub enum PlaneKind {
    /// A private local control plane, gone with the run.
    Local,
    /// A cluster of the user's.
    #[serde(rename_all = "camelCase")]
    Cluster {
        /// The context that was chosen.
        context: String,
    },
}

/// What stands behind the controller's image.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "kind", deny_unknown_fields)]
pub enum SubjectKind {
    /// The embedded controller, in the profile of each image.
    Embedded,
    /// Local commands in place of images, as given.
    #[serde(rename_all = "camelCase")]
    Runtime {
        /// `IMAGE=COMMAND`.
        commands: Vec<String>,
    },
    /// Whatever the cluster's own nodes run.
    Image,
}

/// The helm program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HelmRecord {
    /// 3 or 4.
    pub major: u8,
    /// What it says of itself, for example `v4.3.1`.
    pub version: String,
}

/// What the run ran on (MET-08).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Environment {
    /// Where.
    pub plane: PlaneKind,
    /// The controller.
    pub subject: SubjectKind,
    /// The API server's `gitVersion`.
    pub server: String,
    /// The API server's build platform.
    pub platform: String,
    /// Nodes found at the start.
    pub nodes: u32,
    /// The helm program.
    pub helm: HelmRecord,
    /// The version of this tool.
    pub tool: String,
    /// CPUs of the machine that the tool runs on.
    pub cpus: u32,
    /// How far the API server's clock is from this machine's, in milliseconds (MET-10).
    pub clock_skew_ms: i64,
}

/// A chart, as it was read from the very files that are installed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ChartRecord {
    /// The chart's name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Its `appVersion`.
    pub app_version: String,
    /// Where it came from, as written.
    pub source: String,
    /// SHA-256 over its files (of the archive, where it is one), in hex.
    pub sha256: String,
    /// The manifest digest in the registry, for a chart that came from one.
    pub oci_digest: Option<String>,
    /// The controller's image, as rendered.
    pub image: String,
    /// The values profile or file, as written.
    pub values: String,
    /// SHA-256 of the computed values in canonical JSON, in hex (ART-12).
    pub values_sha256: String,
    /// Objects that it renders, as `KIND NAMESPACE/NAME` or `KIND NAME`.
    pub objects: Vec<String>,
    /// Its definitions: name, then version.
    pub crds: BTreeMap<String, BTreeMap<String, CrdVersion>>,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Outcome {
    /// When.
    pub at: DateTime<Utc>,
    /// The exit code of the command (`design.md` 4).
    pub exit: u8,
    /// Why it could not go on, if so.
    pub aborted: Option<String>,
    /// All verdicts, in the order of the steps.
    pub checks: Vec<CheckResult>,
}

/// The file `run.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RunFile {
    /// [`SCHEMA_VERSION`].
    pub schema_version: u32,
    /// The name of the run: that of its folder.
    pub run: String,
    /// When it began.
    pub started_at: DateTime<Utc>,
    /// The plan.
    pub plan: Plan,
    /// What it ran on; [`None`] until that is known.
    pub environment: Option<Environment>,
    /// The charts by their names in the plan.
    pub charts: BTreeMap<String, ChartRecord>,
    /// How it ended; [`None`] until then, and for ever when it was killed.
    pub outcome: Option<Outcome>,
}
