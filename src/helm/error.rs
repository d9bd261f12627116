//! Why a Helm could not be run at all. A Helm that ran and failed is not an error here: it is
//! [`HelmFacts`](crate::record::HelmFacts) with a failure.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use super::capability::Unsupported;
use super::yaml::YamlError;
use crate::host::files::FileError;

/// Helm could not be run, or did not give what it was run for.
#[derive(Debug, thiserror::Error)]
pub enum HelmError {
    /// The program could not be started.
    #[error("cannot start {}", program.display())]
    Start {
        /// The program.
        program: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The program cannot be executed: it is not there, or not a program.
    #[error("cannot execute {}: {said}", program.display())]
    NotAProgram {
        /// The program.
        program: PathBuf,
        /// In the words of the operating system.
        said: String,
    },
    /// It does not tell a version as Helm does.
    #[error("{} is not Helm: asked for its version, it said {said:?}", program.display())]
    NotHelm {
        /// The program.
        program: PathBuf,
        /// Its answer.
        said: String,
    },
    /// It is neither Helm 3 nor Helm 4.
    #[error("{} is Helm {version}, and only Helm 3 and Helm 4 are known", program.display())]
    UnknownMajor {
        /// The program.
        program: PathBuf,
        /// Its version.
        version: String,
    },
    /// This major cannot do what was asked for.
    #[error(transparent)]
    Unsupported(#[from] Unsupported),
    /// A folder of Helm's own could not be made.
    #[error("cannot prepare a folder for helm")]
    Folder(#[from] FileError),
    /// The transcript could not be written.
    #[error("cannot write the transcript {}", path.display())]
    Transcript {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A question that needs no cluster took too long.
    #[error("helm {verb} did not end within {} s", limit.as_secs())]
    TooSlow {
        /// What it was asked.
        verb: &'static str,
        /// The time allowed.
        limit: Duration,
    },
    /// The chart cannot be rendered.
    #[error("helm cannot render the chart {chart}: {said}")]
    Render {
        /// Where the chart came from.
        chart: String,
        /// In Helm's words.
        said: String,
    },
    /// What Helm rendered cannot be read.
    #[error("cannot read what helm rendered of the chart {chart}")]
    Rendered {
        /// Where the chart came from.
        chart: String,
        /// Why.
        source: YamlError,
    },
    /// The values that the chart is installed with cannot be read.
    #[error("cannot read the computed values of the chart {chart}: {reason}")]
    Values {
        /// Where the chart came from.
        chart: String,
        /// Why.
        reason: String,
    },
}

impl HelmError {
    /// The one thing to do about it, if there is one.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Start { .. } | Self::Rendered { .. } => None,
            Self::NotAProgram { .. } | Self::NotHelm { .. } | Self::UnknownMajor { .. } => {
                Some("give the path of a Helm 3 or Helm 4, or `--helm 3` or `--helm 4`".to_owned())
            }
            Self::Unsupported(_) => Some("use Helm 4 for it".to_owned()),
            Self::Folder(error) => error.hint(),
            Self::Transcript { path, .. } => path.parent().map(|folder| {
                let folder = folder.display();
                format!("check the space on the disk that holds {folder}, and its mode")
            }),
            Self::TooSlow { .. } => Some("try again when the machine is less busy".to_owned()),
            Self::Render { .. } | Self::Values { .. } => {
                Some("run `helm template` with the same chart and values".to_owned())
            }
        }
    }
}
