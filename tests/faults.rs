//! Real TLS handshakes and real sockets against the client, for the faults that a healthy API server
//! does not produce on demand.

#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests fail like the tests themselves"
)]

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use aibom_qual::cluster::client::connect;
use aibom_qual::cluster::fault::{Fault, diagnose};
use aibom_qual::host::kubeconfig::{Kubeconfig, Names};
use aibom_qual::plane::pki::{Pki, PkiOptions};
use chrono::{TimeDelta, Utc};
use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use kube::api::ListParams;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use tempfile::TempDir;

/// Listens on a loopback port and lets the handler talk to each client.
fn serve(handler: impl Fn(TcpStream) + Send + 'static) -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a listener");
    let port = listener.local_addr().expect("its address").port();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            handler(stream);
        }
    });
    port
}

/// Speaks TLS with the API server's certificate and answers every request with these bytes.
fn serve_tls(pki: &Pki, answer: &'static str) -> u16 {
    let cert = CertificateDer::from_pem_slice(pki.apiserver().cert_pem().as_bytes());
    let key = PrivateKeyDer::from_pem_slice(pki.apiserver().key_pem().as_bytes());
    let config =
        ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("protocol versions")
            .with_no_client_auth()
            .with_single_cert(vec![cert.expect("PEM")], key.expect("PEM"))
            .expect("a certificate");
    let config = Arc::new(config);
    serve(move |stream| {
        let connection = ServerConnection::new(Arc::clone(&config)).expect("a connection");
        let mut stream = StreamOwned::new(connection, stream);
        // A failed handshake is what most of these tests are about.
        if stream.read(&mut [0; 4096]).is_ok() {
            let _ = stream.write_all(answer.as_bytes());
            stream.conn.send_close_notify();
            let _ = stream.flush();
        }
    })
}

fn pki(dir: &TempDir, name: &str, options: &PkiOptions) -> Pki {
    Pki::create(&dir.path().join(name), options).expect("a PKI")
}

fn write_kubeconfig(path: &Path, port: u16, trusted: &Pki) {
    Kubeconfig::new(
        format!("https://127.0.0.1:{port}"),
        trusted.server_ca().cert_pem(),
        trusted.admin().cert_pem(),
        trusted.admin().key_pem(),
        Names {
            cluster: "c",
            user: "u",
            context: "x",
        },
    )
    .write(path)
    .expect("a kubeconfig");
}

/// What a list of namespaces fails with.
async fn fault(kubeconfig: &Path) -> Fault {
    let client = connect(kubeconfig).await.expect("a client");
    let (namespaces, all) = (Api::<Namespace>::all(client), ListParams::default());
    let error = tokio::time::timeout(Duration::from_secs(20), namespaces.list(&all))
        .await
        .expect("an answer in time")
        .expect_err("a failure");
    diagnose(&error)
}

fn dir() -> TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

/// A server whose certificates were made with these options, and a client that trusts it.
async fn fault_with(options: PkiOptions) -> Fault {
    let dir = dir();
    let pki = pki(&dir, "pki", &options);
    let path = dir.path().join("kubeconfig");
    write_kubeconfig(&path, serve_tls(&pki, ""), &pki);
    fault(&path).await
}

#[tokio::test]
async fn an_expired_serving_certificate() {
    let now = Utc::now() - TimeDelta::days(30);
    let fault = fault_with(PkiOptions {
        now,
        leaf_validity: Duration::from_secs(86_400),
        ..PkiOptions::default()
    })
    .await;
    let Fault::CertificateExpired {
        not_after: Some(not_after),
    } = fault
    else {
        panic!("unexpected fault {fault:?}");
    };
    assert_eq!(
        not_after.timestamp(),
        (now + TimeDelta::days(1)).timestamp()
    );
}

#[tokio::test]
async fn a_serving_certificate_of_the_future() {
    let fault = fault_with(PkiOptions {
        now: Utc::now() + TimeDelta::days(2),
        ..PkiOptions::default()
    })
    .await;
    assert!(
        matches!(fault, Fault::CertificateNotYetValid { .. }),
        "{fault:?}"
    );
}

#[tokio::test]
async fn an_authority_of_the_same_name_with_another_key() {
    let dir = dir();
    let old = pki(&dir, "old", &PkiOptions::default());
    let new = pki(&dir, "new", &PkiOptions::default());
    let path = dir.path().join("kubeconfig");
    write_kubeconfig(&path, serve_tls(&new, ""), &old);
    assert_eq!(fault(&path).await, Fault::UnknownAuthority);
}

#[tokio::test]
async fn a_name_that_the_certificate_lacks() {
    let dir = dir();
    let pki = pki(&dir, "pki", &PkiOptions::default());
    let path = dir.path().join("kubeconfig");
    write_kubeconfig(&path, serve_tls(&pki, ""), &pki);
    let text = std::fs::read_to_string(&path).expect("a file");
    let text = text.replace("server:", "tls-server-name: other.example\n    server:");
    std::fs::write(&path, text).expect("a file");
    let fault = fault(&path).await;
    let Fault::NameMismatch {
        expected,
        presented,
    } = fault
    else {
        panic!("unexpected fault {fault:?}");
    };
    assert_eq!(expected, "other.example");
    assert!(presented.contains(&"kubernetes.default.svc".to_owned()));
    assert!(presented.contains(&"127.0.0.1".to_owned()), "{presented:?}");
}

#[tokio::test]
async fn nothing_listens() {
    let dir = dir();
    let pki = pki(&dir, "pki", &PkiOptions::default());
    let path = dir.path().join("kubeconfig");
    let port = {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a listener");
        listener.local_addr().expect("its address").port()
    };
    write_kubeconfig(&path, port, &pki);
    assert_eq!(fault(&path).await, Fault::ConnectionRefused);
}

#[tokio::test]
async fn the_server_hangs_up() {
    let dir = dir();
    let pki = pki(&dir, "pki", &PkiOptions::default());
    let path = dir.path().join("kubeconfig");
    write_kubeconfig(&path, serve(drop), &pki);
    assert_eq!(fault(&path).await, Fault::ConnectionLost);
    write_kubeconfig(&path, serve_tls(&pki, ""), &pki);
    assert_eq!(fault(&path).await, Fault::ConnectionLost);
}

#[tokio::test]
async fn an_answer_without_a_status() {
    let dir = dir();
    let pki = pki(&dir, "pki", &PkiOptions::default());
    let path = dir.path().join("kubeconfig");
    let answer = "HTTP/1.1 404 Not Found\r\nContent-Length: 19\r\n\r\n404 page not found\n";
    write_kubeconfig(&path, serve_tls(&pki, answer), &pki);
    assert_eq!(fault(&path).await, Fault::NoSuchResource);
}

#[tokio::test]
async fn an_overloaded_server_is_reported_at_once() {
    let dir = dir();
    let pki = pki(&dir, "pki", &PkiOptions::default());
    let path = dir.path().join("kubeconfig");
    let answer = "HTTP/1.1 429 Too Many Requests\r\nContent-Length: 0\r\n\r\n";
    write_kubeconfig(&path, serve_tls(&pki, answer), &pki);
    assert!(matches!(fault(&path).await, Fault::TooManyRequests { .. }));
}
