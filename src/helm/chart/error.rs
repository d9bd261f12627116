//! Why a chart cannot be used.

use std::path::PathBuf;

use super::definitions::DefinitionError;
use super::tree::TreeError;
use crate::helm::oci::OciError;
use crate::helm::yaml::YamlError;

/// A chart cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ChartError {
    /// There is nothing at the path.
    #[error("there is no chart at {}", path.display())]
    Missing {
        /// The path.
        path: PathBuf,
    },
    /// What is there is neither a folder nor an archive.
    #[error("{} is neither a folder nor a .tgz archive", path.display())]
    NotAChart {
        /// The path.
        path: PathBuf,
    },
    /// This program comes with no chart of this version.
    #[error("no chart of version {version} comes with this program")]
    NotEmbedded {
        /// The version.
        version: String,
    },
    /// The files cannot be brought to the folder of the run.
    #[error("cannot copy the chart {source_name}")]
    Files {
        /// Where it came from.
        source_name: String,
        /// Why.
        source: TreeError,
    },
    /// It cannot be fetched from its registry.
    #[error(transparent)]
    Oci(#[from] OciError),
    /// It has no `Chart.yaml`.
    #[error("{source_name} has no Chart.yaml")]
    NoChartYaml {
        /// Where it came from.
        source_name: String,
    },
    /// Its `Chart.yaml` cannot be read.
    #[error("the Chart.yaml of {source_name} is not YAML")]
    ChartYaml {
        /// Where it came from.
        source_name: String,
        /// Why not.
        source: YamlError,
    },
    /// Its `Chart.yaml` lacks something.
    #[error("the Chart.yaml of {source_name} has no text under `{field}`")]
    Field {
        /// Where it came from.
        source_name: String,
        /// What it lacks.
        field: &'static str,
    },
    /// It is of another version than was asked for.
    #[error("{source_name} is of version {found}")]
    OtherVersion {
        /// Where it came from.
        source_name: String,
        /// The version in its `Chart.yaml`.
        found: String,
    },
    /// It holds a chart whose definitions cannot be seen.
    #[error("{source_name} holds the archive {archive}, whose definitions cannot be read")]
    PackedSubchart {
        /// Where it came from.
        source_name: String,
        /// The archive, below the chart.
        archive: String,
    },
    /// Its definitions cannot be used.
    #[error("the chart {source_name} cannot be used")]
    Definitions {
        /// Where it came from.
        source_name: String,
        /// Why not.
        source: DefinitionError,
    },
    /// The file of values cannot be read.
    #[error("cannot read the values {}", path.display())]
    Values {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: TreeError,
    },
    /// It does not render one Deployment.
    #[error("the chart {source_name} renders {count} Deployments, and one is expected")]
    Deployments {
        /// Where it came from.
        source_name: String,
        /// How many it renders.
        count: usize,
    },
}

impl ChartError {
    /// The one thing to do about it, if there is one.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::Files { source, .. } | Self::Values { source, .. } => return source.hint(),
            Self::Definitions { source, .. } => return source.hint(),
            Self::Oci(error) => return error.hint(),
            Self::ChartYaml { .. } | Self::Field { .. } | Self::OtherVersion { .. } => return None,
            Self::Missing { .. } => "check the path; in a scenario it is relative to that file",
            Self::NotAChart { .. } | Self::NoChartYaml { .. } => {
                "give the folder that holds Chart.yaml, or what `helm package` makes of it"
            }
            Self::NotEmbedded { .. } => "`aibom-qual scenarios list` names those that do",
            Self::PackedSubchart { .. } => "unpack it into a folder beside it",
            Self::Deployments { .. } => "the values decide what is rendered: check them",
        };
        Some(hint.to_owned())
    }
}
