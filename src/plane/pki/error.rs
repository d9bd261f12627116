//! Why the certificates of a plane could not be made or kept.

use std::fmt;
use std::path::PathBuf;

use chrono::{DateTime, SecondsFormat, Utc};

use crate::host::files::FileError;

/// One of the three certificate authorities of a plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuthorityName {
    /// Vouches for servers: the API server and kubelets.
    Server,
    /// Vouches for the identities of users, components and nodes.
    Client,
    /// Vouches for the API server towards aggregated API servers.
    FrontProxy,
}

impl AuthorityName {
    /// The start of its file names.
    pub(super) fn stem(self) -> &'static str {
        match self {
            Self::Server => "server-ca",
            Self::Client => "client-ca",
            Self::FrontProxy => "front-proxy-ca",
        }
    }
}

impl fmt::Display for AuthorityName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Server => "server",
            Self::Client => "client",
            Self::FrontProxy => "front-proxy",
        })
    }
}

/// Why an existing authority or the service-account key cannot be kept.
#[derive(Debug, thiserror::Error)]
pub enum Unusable {
    /// A file of it does not exist.
    #[error("{} is missing", .0.display())]
    Missing(PathBuf),
    /// A file of it exists, but cannot be read.
    #[error(transparent)]
    File(FileError),
    /// A file of it holds something else.
    #[error("{} is damaged: {reason}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with its content.
        reason: String,
    },
    /// Certificate and key belong to different pairs.
    #[error("the key in {} does not belong to its certificate", .0.display())]
    WrongKey(PathBuf),
    /// The certificate's time is over.
    #[error("it expired at {}", time(.0))]
    Expired(DateTime<Utc>),
    /// The certificate's time has not begun: the clock was set back since it was made.
    #[error("it is not valid before {}", time(.0))]
    NotYetValid(DateTime<Utc>),
}

/// The certificates of a plane could not be made or kept.
#[derive(Debug, thiserror::Error)]
pub enum PkiError {
    /// An existing authority cannot be kept.
    #[error("the {name} certificate authority of the plane cannot be kept")]
    Authority {
        /// Which one.
        name: AuthorityName,
        /// Why.
        source: Unusable,
    },
    /// The existing service-account key cannot be kept.
    #[error("the service-account key of the plane cannot be kept")]
    ServiceAccountKey {
        /// Why.
        source: Unusable,
    },
    /// A key or a certificate could not be made.
    #[error("cannot make {what}")]
    Make {
        /// What was being made.
        what: String,
        /// Why.
        source: rcgen::Error,
    },
    /// The operating system gave no random bytes.
    #[error("the operating system gave no random bytes for a serial number")]
    Random,
    /// A validity ends or begins outside of the years that a certificate can express.
    #[error("no certificate can express the date {}", time(.0))]
    Date(DateTime<Utc>),
    /// Not a name that a node can have.
    #[error("`{0}` is not a node name: it must be a lower-case DNS subdomain")]
    NodeName(String),
    /// A file could not be written.
    #[error(transparent)]
    File(#[from] FileError),
}

impl PkiError {
    /// The one thing to do about it, if there is one.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Authority { source, .. } | Self::ServiceAccountKey { source } => {
                Some(match source {
                    Unusable::NotYetValid(_) => "check the clock of this machine".to_owned(),
                    Unusable::File(error) => return error.hint(),
                    _ => "delete the plane and start it anew: what it holds was made with this key"
                        .to_owned(),
                })
            }
            Self::File(error) => error.hint(),
            Self::Make { .. } | Self::Random | Self::Date(_) | Self::NodeName(_) => None,
        }
    }
}

fn time(at: &DateTime<Utc>) -> String {
    at.to_rfc3339_opts(SecondsFormat::Secs, true)
}
