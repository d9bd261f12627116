//! Why a chart cannot be pulled.

use std::io;
use std::time::Duration;

use reqwest::StatusCode;

/// A chart cannot be pulled from its registry.
#[derive(Debug, thiserror::Error)]
#[error("cannot pull the chart {reference}")]
pub struct OciError {
    /// The chart, as written.
    pub reference: String,
    /// Why.
    #[source]
    pub trouble: OciTrouble,
}

/// What went wrong.
#[derive(Debug, thiserror::Error)]
pub enum OciTrouble {
    /// It is not named as registries name things.
    #[error("`{0}` is not a {1}")]
    Name(String, &'static str),
    /// Neither a version nor a digest says which one.
    #[error("neither a version nor a digest is given")]
    Unpinned,
    /// The registry cannot be reached, or does not speak as one.
    #[error("the registry cannot be used: {0}")]
    Transport(String),
    /// It takes too long.
    #[error("it took more than {} s", .0.as_secs())]
    TooSlow(Duration),
    /// There is no such chart.
    #[error("the registry does not have it")]
    NotFound,
    /// Not everybody may read it.
    #[error("the registry does not let everybody read it ({0})")]
    Denied(StatusCode),
    /// The registry fails.
    #[error("the registry answers {0}")]
    Status(StatusCode),
    /// It is something else.
    #[error("it is not a chart: {0}")]
    NotAChart(String),
    /// Larger than announced, or than anything that Helm takes.
    #[error("{0} is too large")]
    TooLarge(&'static str),
    /// Not what was asked for.
    #[error("{what} has the digest {found}, and {expected} was expected")]
    Digest {
        /// Which part.
        what: &'static str,
        /// As planned, or as the registry says.
        expected: String,
        /// As it arrived.
        found: String,
    },
    /// The archive cannot be written.
    #[error("the archive cannot be written")]
    Write(#[source] io::Error),
}

impl OciError {
    /// The one thing to do about it, if there is one.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        let hint = match &self.trouble {
            OciTrouble::Write(_) => return None,
            OciTrouble::Name(_, "repository") => {
                "write HOST/PATH, without `oci://`, tag and digest"
            }
            OciTrouble::Name(_, _) => "copy it from the registry's page or `helm show chart`",
            OciTrouble::Unpinned => "add `version:` or `digest:`",
            OciTrouble::Transport(_) | OciTrouble::TooSlow(_) | OciTrouble::Status(_) => {
                "try again, or give the path of an archive that `helm pull` made"
            }
            OciTrouble::NotFound => "check repository and version",
            OciTrouble::Denied(_) => {
                "pull it by `helm pull` with your own login, and give the path of the archive"
            }
            OciTrouble::NotAChart(_) => {
                "check the repository: charts and images lie in different ones"
            }
            OciTrouble::TooLarge(_) => "do not use this chart",
            OciTrouble::Digest { .. } => {
                "the tag may have been moved: find out by whom before you go on"
            }
        };
        Some(hint.to_owned())
    }
}
