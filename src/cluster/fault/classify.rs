//! From an error to the [`Fault`] behind it.

use std::error::Error;
use std::io;
use std::time::Duration;

use chrono::{DateTime, Utc};
use kube::core::Status;
use kube::core::response::reason;
use rustls::CertificateError;
use rustls::pki_types::UnixTime;

use super::Fault;
use crate::error_chain::{causes, chain};

/// Classifies a failed request.
#[must_use]
pub fn diagnose(error: &kube::Error) -> Fault {
    diagnose_chain(error)
}

/// Classifies any error that a failed request may be wrapped in, such as a watcher's.
#[must_use]
pub fn diagnose_chain(error: &(dyn Error + 'static)) -> Fault {
    // The innermost cause that has a type is the most telling one: a refused connection is reported
    // as a failed service because of a failed connector because of it.
    let causes: Vec<_> = causes(error).collect();
    causes
        .iter()
        .rev()
        .find_map(|cause| from_type(*cause))
        .unwrap_or_else(|| Fault::Other(chain(error)))
}

fn from_type(error: &(dyn Error + 'static)) -> Option<Fault> {
    if let Some(tls) = error.downcast_ref::<rustls::Error>() {
        return Some(from_tls(tls));
    }
    if let Some(io) = error.downcast_ref::<io::Error>() {
        return from_io(io);
    }
    if let Some(http) = error.downcast_ref::<hyper::Error>() {
        return from_http(http);
    }
    if error.is::<tokio::time::error::Elapsed>() {
        return Some(Fault::Timeout);
    }
    if let Some(kube::Error::Api(status)) = error.downcast_ref::<kube::Error>() {
        return Some(from_status(status));
    }
    // A watch reports the status without an error around it.
    let status = error.downcast_ref::<Status>();
    let boxed = error.downcast_ref::<Box<Status>>().map(AsRef::as_ref);
    status.or(boxed).map(from_status)
}

fn from_tls(error: &rustls::Error) -> Fault {
    let rustls::Error::InvalidCertificate(problem) = error else {
        return Fault::Tls(error.to_string());
    };
    match problem {
        CertificateError::Expired => Fault::CertificateExpired { not_after: None },
        CertificateError::ExpiredContext { not_after, .. } => Fault::CertificateExpired {
            not_after: date(*not_after),
        },
        CertificateError::NotValidYet => Fault::CertificateNotYetValid {
            not_before: None,
            now: None,
        },
        CertificateError::NotValidYetContext { time, not_before } => {
            Fault::CertificateNotYetValid {
                not_before: date(*not_before),
                now: date(*time),
            }
        }
        // A signature that does not fit means an authority of the same name with another key: an
        // earlier cluster's.
        CertificateError::UnknownIssuer | CertificateError::BadSignature => Fault::UnknownAuthority,
        CertificateError::NotValidForNameContext {
            expected,
            presented,
        } => Fault::NameMismatch {
            expected: expected.to_str().into_owned(),
            presented: presented.iter().map(|name| bare(name)).collect(),
        },
        CertificateError::NotValidForName => Fault::NameMismatch {
            expected: "this name".to_owned(),
            presented: Vec::new(),
        },
        other => Fault::Tls(other.to_string()),
    }
}

/// The verifier lists names as `DnsName("localhost")` and `IpAddress(127.0.0.1)`.
fn bare(name: &str) -> String {
    let inner = ["DnsName(", "IpAddress("]
        .iter()
        .find_map(|kind| name.strip_prefix(kind))
        .and_then(|rest| rest.strip_suffix(')'));
    inner
        .map_or(name, |inner| inner.trim_matches('"'))
        .to_owned()
}

fn from_io(error: &io::Error) -> Option<Fault> {
    use io::ErrorKind as Kind;
    Some(match error.kind() {
        Kind::ConnectionRefused => Fault::ConnectionRefused,
        Kind::ConnectionReset
        | Kind::ConnectionAborted
        | Kind::BrokenPipe
        | Kind::NotConnected
        | Kind::UnexpectedEof => Fault::ConnectionLost,
        Kind::TimedOut => Fault::Timeout,
        Kind::HostUnreachable | Kind::NetworkUnreachable | Kind::NetworkDown => {
            Fault::Unreachable(error.to_string())
        }
        _ => return None,
    })
}

fn from_http(error: &hyper::Error) -> Option<Fault> {
    if error.is_timeout() {
        return Some(Fault::Timeout);
    }
    let lost = error.is_incomplete_message() || error.is_closed() || error.is_canceled();
    lost.then_some(Fault::ConnectionLost)
}

/// Classifies a failure that the API server describes.
#[must_use]
pub fn from_status(status: &Status) -> Fault {
    let message = status.message.clone();
    // etcd's error reaches clients as text only.
    if message.contains("mvcc: database space exceeded") {
        return Fault::StorageFull;
    }
    let details = status.details.as_ref();
    let cause = |wanted: &str| {
        details.is_some_and(|details| details.causes.iter().any(|cause| cause.reason == wanted))
    };
    let retry_after = details
        .map(|details| details.retry_after_seconds)
        .filter(|seconds| *seconds > 0)
        .map(|seconds| Duration::from_secs(seconds.into()));
    match status.reason.as_str() {
        reason::UNAUTHORIZED => Fault::Unauthorized,
        reason::FORBIDDEN if cause("NamespaceTerminating") => {
            Fault::NamespaceTerminating { message }
        }
        reason::FORBIDDEN if lacks_service_account(&message) => {
            Fault::ServiceAccountNotReady { message }
        }
        // A webhook may deny with the reason that is meant for missing permissions.
        reason::FORBIDDEN if message.starts_with("admission webhook ") => {
            Fault::Rejected { message }
        }
        reason::FORBIDDEN => Fault::Forbidden { message },
        reason::NOT_FOUND => match details.filter(|details| !details.name.is_empty()) {
            Some(details) => Fault::NotFound {
                kind: details.kind.clone(),
                name: details.name.clone(),
            },
            None => Fault::NoSuchResource,
        },
        reason::ALREADY_EXISTS => Fault::AlreadyExists { message },
        reason::CONFLICT => Fault::Conflict { message },
        reason::GONE | reason::EXPIRED => Fault::Expired { message },
        reason::INVALID | reason::BAD_REQUEST => Fault::Rejected { message },
        reason::TOO_MANY_REQUESTS => Fault::TooManyRequests { retry_after },
        reason::TIMEOUT | reason::SERVER_TIMEOUT => Fault::Timeout,
        // No reason of Kubernetes: a webhook's own words, a proxy in between, or an answer without a
        // `Status`, for which the client library makes one up. The HTTP status is all there is.
        _ => match status.code {
            400 | 422 => Fault::Rejected { message },
            401 => Fault::Unauthorized,
            403 => Fault::Forbidden { message },
            404 => Fault::NoSuchResource,
            409 => Fault::Conflict { message },
            410 => Fault::Expired { message },
            429 => Fault::TooManyRequests { retry_after },
            504 => Fault::Timeout,
            code @ 500.. => Fault::Server { code, message },
            _ => Fault::Other(message),
        },
    }
}

/// The admission plugin for service accounts has no reason of its own. The first text is that of
/// older servers.
fn lacks_service_account(message: &str) -> bool {
    message.contains("no API token found for service account")
        || message.contains("error looking up service account")
}

fn date(at: UnixTime) -> Option<DateTime<Utc>> {
    let seconds = i64::try_from(at.as_secs()).ok()?;
    DateTime::from_timestamp(seconds, 0)
}
