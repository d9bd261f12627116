//! Webhooks on loopback: what they are sent, how often, and what is told of their answers.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use aibom_qual::controller::document::{Document, category};
use aibom_qual::controller::profile::{Profile, Sinks, V1_3_0};
use aibom_qual::controller::sha256;
use aibom_qual::controller::sink::guard::Guard;
use aibom_qual::controller::sink::secret::SecretValue;
use aibom_qual::controller::sink::webhook::{Credentials, Webhook};
use aibom_qual::controller::sink::{Delivery, SinkSet};
use aibom_qual::controller::status::SinkOutcome;
use aibom_qual::controller::workload::Workload;
use k8s_openapi::api::apps::v1::Deployment;
use rcgen::{CertificateParams, Issuer, KeyPair};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, ServerConnection, StreamOwned};
use serde_json::json;

use crate::fixtures;
use crate::http::{Answer, Server};

const PROFILE: Profile = V1_3_0;
/// Those of the profile, without the waiting.
const RULES: Sinks = Sinks {
    webhook_waits: &[Duration::from_millis(20); 3],
    ..PROFILE.sinks
};

fn sink(endpoint: &str, credentials: Credentials) -> Webhook {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let made = Webhook::new(endpoint, credentials, Guard::Disabled, RULES);
    made.expect("a sink")
}

fn bearer(token: &str) -> Credentials {
    Credentials::Bearer(SecretValue::new(token.into()))
}

fn workload() -> Deployment {
    fixtures::deployment(json!({"containers": [{
        "name": "vllm",
        "image": "vllm/vllm-openai:v0.6.3",
    }]}))
}

/// Delivers the document of the workload above.
async fn deliver(sinks: impl IntoIterator<Item = Webhook>) -> (Document, Vec<SinkOutcome>) {
    let deployment = workload();
    let workload = Workload::from(&deployment);
    let scrape = fixtures::scrape(&PROFILE, &workload, &[]);
    let at = "2026-08-19T12:00:00Z";
    let document = fixtures::document(&PROFILE, &workload, &scrape, PROFILE.version, at);
    let delivery = Delivery {
        document: &document,
        workload: &workload,
        category: category(&scrape),
        controller_version: PROFILE.version,
        content_type: PROFILE.sinks.webhook_content_type,
    };
    let sinks: SinkSet = sinks.into_iter().collect();
    let outcomes = sinks.deliver(&delivery).await;
    (document, outcomes)
}

/// Why the only sink did not take the document.
async fn failure(sink: Webhook) -> String {
    let (_, outcomes) = deliver([sink]).await;
    let [outcome] = outcomes.try_into().expect("one outcome");
    outcome.delivered.expect_err("it fails")
}

#[tokio::test]
async fn a_webhook_gets_the_exact_bytes_and_is_told_what_they_are() {
    let server = Server::start(|_| Answer::status(204)).await;
    let endpoint = format!("{}?to=here", server.url());
    let (document, outcomes) = deliver([sink(&endpoint, bearer("s3cr3t\n"))]).await;
    assert_eq!(
        outcomes,
        [SinkOutcome {
            name: "webhook",
            write_only: true,
            // What may be a credential is not told.
            delivered: Ok(server.url().to_string()),
        }]
    );
    let [posted] = server.posted().try_into().expect("one request");
    assert_eq!(posted.path, "/mirror?to=here");
    assert_eq!(posted.body, document.bytes);
    let hash = format!("sha256:{}", sha256::hex(&posted.body));
    for (name, value) in [
        ("Content-Type", "application/json"),
        ("X-Aibom-Document-Hash", hash.as_str()),
        ("X-Aibom-Workload-Kind", "Deployment"),
        ("X-Aibom-Workload-Namespace", "ns"),
        ("X-Aibom-Workload-Name", "web"),
        ("X-Aibom-Workload-Category", "inference"),
        ("X-Aibom-Controller-Version", "v1.3.0"),
        ("Authorization", "Bearer s3cr3t"),
    ] {
        assert_eq!(posted.header(name), Some(value), "{name}");
    }
}

#[tokio::test]
async fn an_answer_decides_how_often_it_is_tried_and_what_is_told() {
    for (answer, attempts, told) in [
        (Answer::status(503), 4, "returned HTTP 503 (empty body)"),
        (
            Answer::status(500).body("no luck\n"),
            4,
            "returned HTTP 500: no luck",
        ),
        (
            Answer::status(401).body("not you, s3cr3t"),
            1,
            "returned HTTP 401: not you, [REDACTED:token]",
        ),
        (Answer::status(404), 1, "returned HTTP 404 (empty body)"),
        (
            Answer::redirect("/elsewhere"),
            1,
            "returned HTTP 302 (empty body)",
        ),
        // What came before the connection broke is told.
        (
            Answer::status(502).body("half of it").cut(4),
            4,
            "returned HTTP 502: half",
        ),
    ] {
        let server = Server::start(move |_| answer.clone()).await;
        let endpoint = server.url().to_string();
        let error = failure(sink(&endpoint, bearer("s3cr3t"))).await;
        assert_eq!(error, format!("webhook sink: POST {endpoint} {told}"));
        assert_eq!(server.posted().len(), attempts, "{told}");
        assert_eq!(server.asked("/elsewhere"), [], "{told}");
    }
}

#[tokio::test]
async fn nobody_there_is_told_as_the_system_tells_it() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("its address");
    drop(listener);
    let endpoint = format!("http://{address}/");
    let error = failure(sink(&endpoint, Credentials::None)).await;
    let told = "failed: Connection refused (os error 111)";
    assert_eq!(error, format!("webhook sink: POST {endpoint} {told}"));
}

#[tokio::test]
async fn sinks_are_served_at_once_and_told_in_their_order() {
    let server = Server::start(|asked| {
        Answer::status(if asked.path.ends_with("/bad") {
            503
        } else {
            200
        })
    })
    .await;
    let endpoint = |name: &str| format!("{}/{name}", server.url());
    let sinks = ["bad", "good"].map(|name| sink(&endpoint(name), Credentials::None));
    let (_, outcomes) = deliver(sinks).await;
    let failed: Vec<_> = outcomes.iter().map(SinkOutcome::has_failed).collect();
    assert_eq!(failed, [true, false]);
    // One after the other, the good one would have been asked last.
    let last = server.posted().pop().expect("requests");
    assert_eq!(last.path, "/mirror/bad");
}

/// A certificate for this address, made by an authority of its own; all in PEM.
struct Certified {
    authority: String,
    certificate: rcgen::Certificate,
    key: KeyPair,
}

impl Certified {
    fn new(name: &str) -> Self {
        let key = || KeyPair::generate().expect("a key");
        let params = |names: Vec<String>| CertificateParams::new(names).expect("parameters");
        let (mut authority, authority_key) = (params(Vec::new()), key());
        authority.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        authority
            .distinguished_name
            .push(rcgen::DnType::CommonName, format!("authority of {name}"));
        let own = authority.self_signed(&authority_key).expect("signed");
        let issuer = Issuer::new(authority, authority_key);
        let key = key();
        let certificate = params(vec![name.to_owned()]).signed_by(&key, &issuer);
        Self {
            authority: own.pem(),
            certificate: certificate.expect("signed"),
            key,
        }
    }

    fn roots(&self) -> RootCertStore {
        let mut store = RootCertStore::empty();
        let pem = pem_of(&self.authority);
        store.add(pem.into()).expect("an authority");
        store
    }

    fn credentials(&self, trusted: &Self) -> Credentials {
        let pem = |text: String| SecretValue::new(text.into_bytes());
        Credentials::Mutual {
            certificate: pem(self.certificate.pem()),
            key: pem(self.key.serialize_pem()),
            authorities: Some(pem(trusted.authority.clone())),
        }
    }
}

/// The content of the first PEM block.
fn pem_of(text: &str) -> Vec<u8> {
    use rustls::pki_types::pem::PemObject as _;
    rustls::pki_types::CertificateDer::from_pem_slice(text.as_bytes())
        .expect("PEM")
        .to_vec()
}

/// Answers each connection with 204 if the client shows a certificate of that authority. Ends with
/// the test process.
fn tls_server(own: &Certified, clients: &Certified) -> String {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let verifier = WebPkiClientVerifier::builder(Arc::new(clients.roots()));
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(own.key.serialize_der()));
    let config = ServerConfig::builder()
        .with_client_cert_verifier(verifier.build().expect("a verifier"))
        .with_single_cert(vec![own.certificate.der().clone()], key)
        .expect("a configuration");
    let config = Arc::new(config);
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("its address");
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let session = ServerConnection::new(Arc::clone(&config)).expect("a session");
            let mut stream = StreamOwned::new(session, stream);
            let mut request = [0; 16 * 1024];
            // Fails when the client shows nothing that the server trusts.
            if stream.read(&mut request).is_ok() {
                let _ = stream.write_all(b"HTTP/1.1 204 X\r\nConnection: close\r\n\r\n");
            }
        }
    });
    format!("https://{address}/hook")
}

#[tokio::test]
async fn a_client_shows_its_certificate_and_trusts_the_given_authority() {
    let (server, client) = (Certified::new("127.0.0.1"), Certified::new("client"));
    let endpoint = tls_server(&server, &client);
    let (_, outcomes) = deliver([sink(&endpoint, client.credentials(&server))]).await;
    assert_eq!(outcomes[0].delivered, Ok(endpoint.clone()));

    let stranger = Certified::new("client");
    let error = failure(sink(&endpoint, stranger.credentials(&server))).await;
    assert!(error.contains(" failed: "), "{error}");
    let error = failure(sink(&endpoint, client.credentials(&stranger))).await;
    let told = "invalid peer certificate: UnknownIssuer";
    assert_eq!(
        error,
        format!("webhook sink: POST {endpoint} failed: {told}")
    );
    let error = failure(sink(&endpoint, Credentials::None)).await;
    assert!(error.contains("invalid peer certificate: "), "{error}");
}

#[test]
fn certificates_that_do_not_fit_make_no_sink() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let (one, other) = (Certified::new("one"), Certified::new("other"));
    let pem = |text: String| SecretValue::new(text.into_bytes());
    let made = |key: String, authorities: &str| {
        let credentials = Credentials::Mutual {
            certificate: pem(one.certificate.pem()),
            key: pem(key),
            authorities: Some(pem(authorities.to_owned())),
        };
        let made = Webhook::new("https://hook.example", credentials, Guard::Enforced, RULES);
        made.map(drop).map_err(|error| error.to_string())
    };
    made(one.key.serialize_pem(), &one.authority).expect("a sink");
    let error = made(other.key.serialize_pem(), &one.authority).expect_err("not its key");
    assert!(
        error.starts_with("webhook sink: TLS cannot be set up: ") && error.contains("KeyMismatch"),
        "{error}"
    );
    assert_eq!(
        made(one.key.serialize_pem(), "nothing").expect_err("no authority"),
        "webhook sink: the authorities are not certificates in PEM"
    );
}
