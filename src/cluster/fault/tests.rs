use std::io;
use std::sync::Arc;

use kube::core::Status;
use kube::core::response::{StatusCause, StatusDetails, reason};
use rustls::CertificateError;
use rustls::pki_types::UnixTime;

use super::*;

fn refused(code: u16, reason: &str, message: &str) -> Status {
    Status::failure(message, reason).with_code(code)
}

fn details(name: &str, kind: &str) -> StatusDetails {
    StatusDetails {
        name: name.to_owned(),
        group: String::new(),
        kind: kind.to_owned(),
        uid: String::new(),
        causes: Vec::new(),
        retry_after_seconds: 0,
    }
}

/// The way that a TLS failure takes from rustls to a client's error.
fn tls(error: rustls::Error) -> kube::Error {
    let nested = io::Error::new(io::ErrorKind::InvalidData, error);
    kube::Error::Service(Box::new(io::Error::other(nested)))
}

fn certificate(error: CertificateError) -> Fault {
    diagnose(&tls(rustls::Error::InvalidCertificate(error)))
}

fn at(seconds: u64) -> UnixTime {
    UnixTime::since_unix_epoch(Duration::from_secs(seconds))
}

#[test]
fn certificate_problems_are_told_apart_by_type() {
    let expired = certificate(CertificateError::ExpiredContext {
        time: at(2_000_000_000),
        not_after: at(1_000_000_000),
    });
    assert_eq!(
        expired.to_string(),
        "the server's certificate expired at 2001-09-09T01:46:40Z"
    );
    let early = certificate(CertificateError::NotValidYetContext {
        time: at(1_000_000_000),
        not_before: at(2_000_000_000),
    });
    assert_eq!(
        early.to_string(),
        "the server's certificate is not valid yet, not before 2033-05-18T03:33:20Z; the clock here \
         says 2001-09-09T01:46:40Z"
    );
    for stranger in [
        CertificateError::UnknownIssuer,
        CertificateError::BadSignature,
    ] {
        assert_eq!(certificate(stranger), Fault::UnknownAuthority);
    }
    let other = certificate(CertificateError::NotValidForNameContext {
        expected: "other.example".try_into().expect("a name"),
        presented: vec![
            "DnsName(\"localhost\")".to_owned(),
            "IpAddress(127.0.0.1)".to_owned(),
        ],
    });
    assert_eq!(
        other.to_string(),
        "the server's certificate is not for other.example, but for localhost, 127.0.0.1"
    );
    for problem in [expired, early, other, Fault::UnknownAuthority] {
        assert!(problem.hint().is_some(), "{problem}");
        assert!(!problem.is_transient(), "{problem}");
    }
    let revoked = certificate(CertificateError::Revoked);
    assert!(matches!(revoked, Fault::Tls(_)), "{revoked}");
}

#[test]
fn a_deeply_wrapped_io_error_is_found() {
    let cases = [
        (io::ErrorKind::ConnectionRefused, Fault::ConnectionRefused),
        (io::ErrorKind::ConnectionReset, Fault::ConnectionLost),
        (io::ErrorKind::UnexpectedEof, Fault::ConnectionLost),
        (io::ErrorKind::TimedOut, Fault::Timeout),
    ];
    for (kind, expected) in cases {
        let wrapped = io::Error::other(io::Error::other(io::Error::from(kind)));
        let fault = diagnose(&kube::Error::Service(Box::new(wrapped)));
        assert_eq!(fault, expected);
        assert!(fault.is_transient());
    }
}

#[test]
fn a_watcher_s_error_is_read_like_a_client_s() {
    let status = refused(403, reason::FORBIDDEN, "no").boxed();
    let error = kube::runtime::watcher::Error::WatchError(status);
    let expected = Fault::Forbidden {
        message: "no".to_owned(),
    };
    assert_eq!(diagnose_chain(&error), expected);
    let status = refused(403, reason::FORBIDDEN, "no").boxed();
    let error = kube::runtime::watcher::Error::InitialListFailed(kube::Error::Api(status));
    let error = kube::runtime::wait::Error::ProbeFailed(error);
    assert_eq!(diagnose_chain(&error), expected);
}

#[test]
fn a_missing_kind_is_not_a_missing_object() {
    // An unknown group is answered without a `Status`; the client library makes this one up.
    let made_up = refused(404, "Failed to parse error data", "404 page not found");
    assert_eq!(from_status(&made_up), Fault::NoSuchResource);
    // A known group without this kind.
    let text = "the server could not find the requested resource";
    let kind = refused(404, reason::NOT_FOUND, text).with_details(details("", ""));
    assert_eq!(from_status(&kind), Fault::NoSuchResource);
    let object =
        refused(404, reason::NOT_FOUND, "pods \"x\" not found").with_details(details("x", "pods"));
    let fault = from_status(&object);
    assert_eq!(fault.to_string(), "there is no object x among the pods");
}

#[test]
fn reasons_that_share_a_code_are_told_apart() {
    let forbidden = |message: &str| from_status(&refused(403, reason::FORBIDDEN, message));
    assert!(matches!(
        forbidden("pods is forbidden: User \"u\" cannot list resource \"pods\""),
        Fault::Forbidden { .. }
    ));
    for text in [
        "pods \"x\" is forbidden: no API token found for service account \"default\", retry after \
         the token is automatically created and added to the service account",
        "pods \"x\" is forbidden: error looking up service account n/default: serviceaccount \
         \"default\" not found",
    ] {
        let fault = forbidden(text);
        assert!(matches!(fault, Fault::ServiceAccountNotReady { .. }));
        assert!(fault.is_transient());
    }
    assert!(matches!(
        forbidden("admission webhook \"policy.example.com\" denied the request: no"),
        Fault::Rejected { .. }
    ));
    let mut terminating = details("x", "pods");
    terminating.causes.push(StatusCause {
        reason: "NamespaceTerminating".to_owned(),
        message: "namespace n is being terminated".to_owned(),
        field: "metadata.namespace".to_owned(),
    });
    let status = refused(403, reason::FORBIDDEN, "no").with_details(terminating);
    assert!(matches!(
        from_status(&status),
        Fault::NamespaceTerminating { .. }
    ));
    let conflict = from_status(&refused(409, reason::CONFLICT, "modified"));
    assert!(matches!(conflict, Fault::Conflict { .. }));
    let exists = from_status(&refused(409, reason::ALREADY_EXISTS, "exists"));
    assert!(matches!(exists, Fault::AlreadyExists { .. }));
}

#[test]
fn a_full_etcd_is_recognised_whatever_the_code() {
    let text =
        "rpc error: code = ResourceExhausted desc = etcdserver: mvcc: database space exceeded";
    for code in [429, 500] {
        let fault = from_status(&refused(code, "", text));
        assert_eq!(fault, Fault::StorageFull);
        assert!(!fault.is_transient() && fault.hint().is_some());
    }
}

#[test]
fn an_overloaded_server_says_when_to_come_back() {
    let mut retry = details("", "");
    retry.retry_after_seconds = 3;
    let status = refused(429, reason::TOO_MANY_REQUESTS, "slow down").with_details(retry);
    assert_eq!(
        from_status(&status).to_string(),
        "the server has too many requests and asks to be tried again in 3 s"
    );
}

#[test]
fn without_a_reason_the_code_decides() {
    let of = |code| from_status(&refused(code, "Failed to parse error data", "text"));
    assert_eq!(of(401), Fault::Unauthorized);
    assert_eq!(of(504), Fault::Timeout);
    assert!(matches!(of(422), Fault::Rejected { .. }));
    assert!(matches!(of(429), Fault::TooManyRequests { .. }));
    assert!(matches!(of(502), Fault::Server { code: 502, .. }));
    assert_eq!(of(302), Fault::Other("text".to_owned()));
}

#[test]
fn what_has_no_type_keeps_its_words_and_says_nothing_twice() {
    let inner = io::Error::other("the inner reason");
    let error = kube::Error::Service(Box::new(io::Error::other(Arc::new(inner))));
    assert_eq!(
        diagnose(&error).to_string(),
        "ServiceError: the inner reason"
    );
}
