//! What can go wrong with a list or a watch, and what client-go makes of it.

use std::error::Error as StdError;
use std::io;
use std::time::Duration;

/// A list or a watch failed.
#[derive(Debug, thiserror::Error)]
pub enum WatchError {
    /// The server knows no such kind: its CRD is not installed, or does not serve this version.
    #[error("the server does not serve {kind}")]
    NotServed {
        /// The kind.
        kind: String,
    },
    /// The resource version to go on from is too old, or newer than the server's cache.
    #[error("cannot {verb} {kind} from the last resource version")]
    VersionUnavailable {
        /// `list` or `watch`.
        verb: &'static str,
        /// The kind.
        kind: String,
        /// What the server said.
        source: Box<kube::Error>,
    },
    /// The server refused the request, could not be reached, or its answer could not be read.
    #[error("cannot {verb} {kind}")]
    Request {
        /// `list` or `watch`.
        verb: &'static str,
        /// The kind.
        kind: String,
        /// Why.
        source: Box<kube::Error>,
    },
    /// No answer, or an initial list that does not go on.
    #[error("no word from the server for {} s on the {verb} of {kind}", waited.as_secs())]
    Silent {
        /// `list` or `watch`.
        verb: &'static str,
        /// The kind.
        kind: String,
        /// How long.
        waited: Duration,
    },
    /// The watch was closed at once.
    #[error("the watch of {kind} was closed within a second and without an event")]
    VeryShort {
        /// The kind.
        kind: String,
    },
}

impl WatchError {
    /// The one thing to do about it, if there is one.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::NotServed { kind } => Some(format!(
                "install the CustomResourceDefinition that serves {kind}"
            )),
            Self::Request { .. } if self.status() == Some(403) => {
                Some("check the rules of the controller's ClusterRole".to_owned())
            }
            _ => None,
        }
    }

    /// Sorts an error of the client.
    pub(super) fn from_kube(verb: &'static str, kind: &str, error: kube::Error) -> Self {
        let kind = kind.to_owned();
        let source = Box::new(error);
        match &*source {
            // 410 comes over HTTP as well as in an event of a watch that began well. A version that the
            // server has not reached yet is told apart from other 504s by its message.
            kube::Error::Api(status)
                if status.code == 410
                    || status.reason == "Expired"
                    || status.reason == "Gone"
                    || (status.code == 504
                        && status.message.contains("Too large resource version")) =>
            {
                Self::VersionUnavailable { verb, kind, source }
            }
            kube::Error::Api(status) if status.code == 404 => Self::NotServed { kind },
            _ => Self::Request { verb, kind, source },
        }
    }

    /// The HTTP status that the server answered with.
    #[must_use]
    pub fn status(&self) -> Option<u16> {
        match self {
            Self::NotServed { .. } => Some(404),
            Self::VersionUnavailable { source, .. } | Self::Request { source, .. } => {
                match &**source {
                    kube::Error::Api(status) => Some(status.code),
                    _ => None,
                }
            }
            Self::Silent { .. } | Self::VeryShort { .. } => None,
        }
    }

    pub(super) fn is_version_unavailable(&self) -> bool {
        matches!(self, Self::VersionUnavailable { .. })
    }

    pub(super) fn is_too_many_requests(&self) -> bool {
        self.status() == Some(429)
    }

    pub(super) fn is_refused_connection(&self) -> bool {
        let mut cause = match self {
            Self::Request { source, .. } => StdError::source(&**source),
            _ => None,
        };
        while let Some(error) = cause {
            if let Some(error) = error.downcast_ref::<io::Error>()
                && error.kind() == io::ErrorKind::ConnectionRefused
            {
                return true;
            }
            cause = error.source();
        }
        false
    }
}
