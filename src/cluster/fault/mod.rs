//! What a failed request means.
//!
//! A client library reports where it noticed a failure; a person needs to know what is wrong. The
//! classification reads types on the way down the chain of errors, and the API server's `Status`;
//! text is compared only where neither the library nor Kubernetes has a type.

mod classify;
#[cfg(test)]
mod tests;

use std::time::Duration;

use chrono::{DateTime, SecondsFormat, Utc};

pub use self::classify::{diagnose, diagnose_chain, from_status};

/// Why a request failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// The server's certificate is no longer valid.
    #[error("the server's certificate expired{}", moment(" at ", *not_after))]
    CertificateExpired {
        /// The end of its validity, when it is known.
        not_after: Option<DateTime<Utc>>,
    },
    /// The server's certificate is not valid yet.
    #[error("the server's certificate is not valid yet{}{}", moment(", not before ", *not_before), moment("; the clock here says ", *now))]
    CertificateNotYetValid {
        /// The begin of its validity, when it is known.
        not_before: Option<DateTime<Utc>>,
        /// What this machine's clock said.
        now: Option<DateTime<Utc>>,
    },
    /// The server's certificate was not issued by the authority for servers that the kubeconfig names.
    #[error(
        "the server's certificate was not issued by the authority for servers in the kubeconfig \
         (certificate-authority)"
    )]
    UnknownAuthority,
    /// The server's certificate is for another name or address.
    #[error(
        "the server's certificate is not for {expected}, but for {}",
        list(presented)
    )]
    NameMismatch {
        /// The name or address that was asked for.
        expected: String,
        /// The names and addresses in the certificate.
        presented: Vec<String>,
    },
    /// TLS failed in another way.
    #[error("the TLS connection failed: {0}")]
    Tls(String),
    /// The server does not accept who we say we are: another authority than the server's own one
    /// decides about that.
    #[error(
        "the server does not accept the client's credentials: its authority for clients did not \
         issue this certificate, or it has expired, or the token is not one of this server's"
    )]
    Unauthorized,
    /// The server knows who we are and does not allow the request.
    #[error("the server does not allow it: {message}")]
    Forbidden {
        /// The server's words.
        message: String,
    },
    /// A pod was refused because its service account does not exist, or has no token yet.
    #[error("the pod's service account is not ready: {message}")]
    ServiceAccountNotReady {
        /// The server's words.
        message: String,
    },
    /// Something was to be created in a namespace that is being deleted.
    #[error("the namespace is being deleted: {message}")]
    NamespaceTerminating {
        /// The server's words.
        message: String,
    },
    /// An object that is to be worked with is being deleted.
    #[error("the {kind} {name} is being deleted")]
    Terminating {
        /// The kind, in words.
        kind: String,
        /// The object.
        name: String,
    },
    /// Something awaited did not come before the deadline.
    #[error("{message}")]
    Overdue {
        /// What, for how long, and the last state seen.
        message: String,
    },
    /// Nothing listens at the server's address.
    #[error("nothing listens at the server's address (connection refused)")]
    ConnectionRefused,
    /// The connection ended in the middle of a request.
    #[error("the server closed the connection before it had answered")]
    ConnectionLost,
    /// The server's host or network cannot be reached, or its name is unknown.
    #[error("the server cannot be reached: {0}")]
    Unreachable(String),
    /// No answer in time.
    #[error("the server did not answer in time")]
    Timeout,
    /// The server does not serve this kind of object.
    #[error("the server does not know this kind of object")]
    NoSuchResource,
    /// The server serves this kind, but there is no such object.
    #[error("there is no object {name} among the {kind}")]
    NotFound {
        /// The kind, in the plural.
        kind: String,
        /// The object.
        name: String,
    },
    /// The server's etcd refuses writes because it has reached its size limit.
    #[error("the server's etcd is full (mvcc: database space exceeded)")]
    StorageFull,
    /// The server has too much to do.
    #[error("the server has too many requests{}", retry(*retry_after))]
    TooManyRequests {
        /// When it asks to be tried again.
        retry_after: Option<Duration>,
    },
    /// The request or its object is invalid, or an admission rule or webhook denied it.
    #[error("the server rejects the request: {message}")]
    Rejected {
        /// The server's words.
        message: String,
    },
    /// The object was changed by somebody else in the meantime, or a field is owned by them.
    #[error("the object was changed by another client: {message}")]
    Conflict {
        /// The server's words.
        message: String,
    },
    /// An object of this name exists.
    #[error("the object exists already: {message}")]
    AlreadyExists {
        /// The server's words.
        message: String,
    },
    /// A watch or the next page of a list asks for a state that the server has forgotten.
    #[error("the server no longer knows the state asked for: {message}")]
    Expired {
        /// The server's words.
        message: String,
    },
    /// The server failed, or something in between did.
    #[error("the server failed with status {code}: {message}")]
    Server {
        /// The HTTP status.
        code: u16,
        /// The server's words.
        message: String,
    },
    /// Anything else.
    #[error("{0}")]
    Other(String),
}

impl Fault {
    /// The one thing to do about it, if there is one.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::CertificateExpired { .. } => {
                "restart the control plane to renew its certificates, or check this machine's clock"
            }
            Self::CertificateNotYetValid { .. } => "check the clock of this machine",
            Self::UnknownAuthority => {
                "take the kubeconfig of this very cluster: it may be a new cluster at an old address, or \
                 a proxy in between that shows a certificate of its own"
            }
            Self::NameMismatch { .. } => {
                "use one of these names in the kubeconfig, or set tls-server-name there"
            }
            Self::Unauthorized => {
                "take client-certificate and client-key, or the token, from this cluster's present \
                 kubeconfig, and check the clock"
            }
            Self::Forbidden { .. } => "grant the permission that the message names",
            Self::ServiceAccountNotReady { .. } => {
                "check that the controller manager runs: it creates the service accounts"
            }
            Self::Terminating { .. } => {
                "wait until it is gone; `kubectl get -o yaml` shows the finalizers that hold it"
            }
            Self::Overdue { .. } => {
                "the state last seen says what is missing; allow more time if it was about to come"
            }
            Self::ConnectionRefused => "check that the API server runs, and at this port",
            Self::NoSuchResource => {
                "check that its CustomResourceDefinition is installed and established"
            }
            Self::StorageFull => "compact and defragment etcd, or raise --quota-backend-bytes",
            Self::TooManyRequests { .. } => "lower the rate of requests",
            _ => return None,
        };
        Some(hint.to_owned())
    }

    /// Whether the same request may succeed a moment later without anybody doing anything.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        matches!(
            self,
            Self::ConnectionRefused
                | Self::ConnectionLost
                | Self::Timeout
                | Self::TooManyRequests { .. }
                | Self::ServiceAccountNotReady { .. }
                | Self::Expired { .. }
                | Self::Server { .. }
        )
    }
}

fn moment(before: &str, at: Option<DateTime<Utc>>) -> String {
    match at {
        Some(at) => format!("{before}{}", at.to_rfc3339_opts(SecondsFormat::Secs, true)),
        None => String::new(),
    }
}

fn list(names: &[String]) -> String {
    if names.is_empty() {
        return "another name".to_owned();
    }
    names.join(", ")
}

fn retry(after: Option<Duration>) -> String {
    after.map_or_else(String::new, |after| {
        format!(" and asks to be tried again in {} s", after.as_secs())
    })
}
