use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use flate2::{Compression, write::GzEncoder};
use http::{Request, StatusCode as Status};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use super::*;
use crate::error_chain::chain;
use crate::helm::{Chart, Rendered};
use crate::scenario::{ChartPlan, ChartSource, ValuesChoice};

const TOKEN: &str = "anonymous-token";
const PATH: &str = "charts/k8s-aibom";

/// What a registry holds and how it behaves.
#[derive(Clone, Default)]
struct Behaviour {
    files: BTreeMap<String, Vec<u8>>,
    /// Whether it wants a token.
    closed: bool,
    /// What it says the manifest's digest is.
    announced: Option<String>,
}

/// A registry on loopback, until it is dropped.
struct Registry {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<String>>>,
    task: JoinHandle<()>,
}

impl Registry {
    async fn start(behaviour: Behaviour) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("loopback");
        let address = listener.local_addr().expect("bound");
        let asked = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&asked);
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (behaviour, asked) = (behaviour.clone(), Arc::clone(&kept));
                let service = service_fn(move |request: Request<Incoming>| {
                    asked
                        .lock()
                        .expect("no panic")
                        .push(request.uri().to_string());
                    let answer = answer(&behaviour, &request, address);
                    async move { Ok::<_, Infallible>(answer) }
                });
                tokio::spawn(async move {
                    let connection = hyper::server::conn::http1::Builder::new();
                    let _ = connection
                        .serve_connection(TokioIo::new(stream), service)
                        .await;
                });
            }
        });
        Self {
            address,
            asked,
            task,
        }
    }

    fn wanted(&self, version: Option<&str>, digest: Option<&str>) -> Wanted {
        let repository = format!("{}/{PATH}", self.address);
        Wanted::new(&repository, version, digest).expect("a chart")
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().expect("no panic").clone()
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn answer(
    behaviour: &Behaviour,
    request: &Request<Incoming>,
    address: SocketAddr,
) -> http::Response<Full<Bytes>> {
    let path = request.uri().path();
    let response = http::Response::builder();
    let body = |bytes: &[u8]| Full::new(Bytes::copy_from_slice(bytes));
    let built = if path == "/token" {
        let query = request.uri().query().unwrap_or_default();
        assert_eq!(
            query,
            format!(
                "service=fixture&scope=repository%3A{}%3Apull",
                PATH.replace('/', "%2F")
            )
        );
        response.body(body(json!({"token": TOKEN}).to_string().as_bytes()))
    } else if behaviour.closed && authorization(request) != format!("Bearer {TOKEN}") {
        let challenge = format!(r#"Bearer realm="http://{address}/token",service="fixture""#);
        let response = response.status(Status::UNAUTHORIZED);
        response
            .header("www-authenticate", challenge)
            .body(body(b""))
    } else if let Some(file) = behaviour.files.get(path) {
        let response = match &behaviour.announced {
            Some(digest) if path.contains("/manifests/") => response.header(DIGEST_HEADER, digest),
            _ => response,
        };
        response.body(body(file))
    } else {
        response.status(Status::NOT_FOUND).body(body(b"{}"))
    };
    built.expect("an answer")
}

fn authorization(request: &Request<Incoming>) -> String {
    let header = request.headers().get("authorization");
    let header = header.and_then(|value| value.to_str().ok());
    header.unwrap_or_default().to_owned()
}

const ARCHIVE: &[u8] = b"the archive of a chart";

fn digest_of(bytes: &[u8]) -> String {
    format!("sha256:{}", sha256_hex(bytes))
}

fn manifest(archive: &[u8]) -> Value {
    json!({
        "schemaVersion": 2,
        "config": {"mediaType": CHART_CONFIG, "digest": digest_of(b"{}"), "size": 2},
        "layers": [
            {
                "mediaType": "application/vnd.cncf.helm.chart.provenance.v1.prov",
                "digest": digest_of(b"words"), "size": 5,
            },
            {"mediaType": CHART_LAYER, "digest": digest_of(archive), "size": archive.len()},
        ],
    })
}

/// A registry with one chart, and the digest of its manifest.
fn holding(manifest: &Value) -> (Behaviour, String) {
    let bytes = manifest.to_string().into_bytes();
    let digest = digest_of(&bytes);
    let files = BTreeMap::from([
        (format!("/v2/{PATH}/manifests/1.3.0"), bytes.clone()),
        (format!("/v2/{PATH}/manifests/{digest}"), bytes),
        (
            format!("/v2/{PATH}/blobs/{}", digest_of(ARCHIVE)),
            ARCHIVE.to_vec(),
        ),
    ]);
    let behaviour = Behaviour {
        files,
        ..Behaviour::default()
    };
    (behaviour, digest)
}

async fn pulled(wanted: &Wanted) -> Result<(Pulled, Vec<u8>), OciError> {
    let folder = tempfile::tempdir().expect("a folder");
    let to = folder.path().join("chart.tgz");
    let result = pull(wanted, &to).await;
    if result.is_err() {
        assert!(!to.exists(), "an archive was left");
    }
    Ok((result?, std::fs::read(&to).expect("an archive")))
}

async fn refused(wanted: &Wanted) -> String {
    let error = pulled(wanted).await.expect_err("refused");
    assert!(error.hint().is_some(), "{error}");
    chain(&error)
}

#[tokio::test]
async fn a_chart_is_pulled_by_version_or_digest_or_both() {
    let (mut behaviour, digest) = holding(&manifest(ARCHIVE));
    behaviour.announced = Some(digest.clone());
    let registry = Registry::start(behaviour).await;
    for (version, wanted) in [
        (Some("1.3.0"), None),
        (None, Some(digest.as_str())),
        (Some("1.3.0"), Some(digest.as_str())),
    ] {
        let (pulled, archive) = pulled(&registry.wanted(version, wanted))
            .await
            .expect("a chart");
        assert_eq!(pulled.digest, digest);
        assert_eq!(archive, ARCHIVE);
    }
    assert_eq!(registry.asked().len(), 6, "each file is asked for once");
}

#[tokio::test]
async fn an_anonymous_token_is_fetched_once_where_one_is_wanted() {
    let (mut behaviour, digest) = holding(&manifest(ARCHIVE));
    behaviour.closed = true;
    let registry = Registry::start(behaviour).await;
    let (pulled, _) = pulled(&registry.wanted(Some("1.3.0"), None))
        .await
        .expect("a chart");
    assert_eq!(pulled.digest, digest);
    let tokens = registry
        .asked()
        .into_iter()
        .filter(|path| path.starts_with("/token"));
    assert_eq!(tokens.count(), 1);
}

#[tokio::test]
async fn a_tag_that_was_moved_is_noticed() {
    let (behaviour, _) = holding(&manifest(ARCHIVE));
    let registry = Registry::start(behaviour).await;
    let planned = digest_of(b"another manifest");
    let words = refused(&registry.wanted(Some("1.3.0"), Some(&planned))).await;
    assert!(
        words.contains("the manifest has the digest sha256:"),
        "{words}"
    );
    assert!(
        words.ends_with(&format!("{planned} was expected")),
        "{words}"
    );
}

#[tokio::test]
async fn a_manifest_that_is_not_the_announced_one_is_refused() {
    let (mut behaviour, _) = holding(&manifest(ARCHIVE));
    behaviour.announced = Some(digest_of(b"another manifest"));
    let registry = Registry::start(behaviour).await;
    let words = refused(&registry.wanted(Some("1.3.0"), None)).await;
    assert!(words.contains("the manifest has the digest"), "{words}");
}

#[tokio::test]
async fn an_archive_that_is_not_the_named_one_is_refused_and_not_left() {
    for (served, told) in [
        (&b"the archive of a CHART"[..], "the archive has the digest"),
        (b"shorter", "the archive has the digest"),
        (
            b"the archive of a chart, and more",
            "the archive is too large",
        ),
    ] {
        let (mut behaviour, _) = holding(&manifest(ARCHIVE));
        let blob = format!("/v2/{PATH}/blobs/{}", digest_of(ARCHIVE));
        behaviour.files.insert(blob, served.to_vec());
        let registry = Registry::start(behaviour).await;
        let words = refused(&registry.wanted(Some("1.3.0"), None)).await;
        assert!(words.contains(told), "{words}");
    }
}

#[tokio::test]
async fn what_is_not_a_chart_is_refused() {
    let mut image = manifest(ARCHIVE);
    image["config"]["mediaType"] = json!("application/vnd.oci.image.config.v1+json");
    let mut empty = manifest(ARCHIVE);
    empty["layers"] = json!([]);
    let index = json!({"schemaVersion": 2, "manifests": []});
    let mut huge = manifest(ARCHIVE);
    huge["layers"][1]["size"] = json!(MOST_ARCHIVE + 1);
    for (manifest, told) in [
        (
            image,
            "it is not a chart: it is for application/vnd.oci.image.config.v1+json",
        ),
        (empty, "it is not a chart: it holds no archive of one"),
        (index, "it is not a chart: it is for several images"),
        (
            json!("words"),
            "it is not a chart: its manifest cannot be read",
        ),
        (huge, "the archive is too large"),
    ] {
        let registry = Registry::start(holding(&manifest).0).await;
        let words = refused(&registry.wanted(Some("1.3.0"), None)).await;
        assert!(words.ends_with(told), "{words}");
    }
}

#[tokio::test]
async fn a_registry_without_it_or_without_a_voice_is_told() {
    let (behaviour, _) = holding(&manifest(ARCHIVE));
    let registry = Registry::start(behaviour).await;
    let words = refused(&registry.wanted(Some("9.9.9"), None)).await;
    assert!(
        words.ends_with(":9.9.9: the registry does not have it"),
        "{words}"
    );

    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("bound");
    drop(listener);
    let wanted = Wanted::new(&format!("{address}/a"), Some("1.0.0"), None).expect("a chart");
    let words = refused(&wanted).await;
    assert!(words.contains("the registry cannot be used: "), "{words}");
}

/// An archive of a chart of this version.
fn packed(version: &str) -> Vec<u8> {
    let text = format!("apiVersion: v2\nname: k8s-aibom\nversion: {version}\n");
    let mut header = tar::Header::new_gnu();
    header.set_size(text.len() as u64);
    header.set_mode(0o644);
    let encoder = GzEncoder::new(Vec::new(), Compression::fast());
    let mut builder = tar::Builder::new(encoder);
    builder
        .append_data(&mut header, "k8s-aibom/Chart.yaml", text.as_bytes())
        .expect("appended");
    let packed = builder.into_inner().and_then(GzEncoder::finish);
    packed.expect("packed")
}

#[tokio::test]
async fn a_chart_that_was_pulled_is_installed_as_it_came() {
    for (inside, accepted) in [("1.3.0", true), ("1.4.0", false)] {
        let archive = packed(inside);
        let (mut behaviour, digest) = holding(&manifest(&archive));
        let blob = format!("/v2/{PATH}/blobs/{}", digest_of(&archive));
        behaviour.files.insert(blob, archive.clone());
        let registry = Registry::start(behaviour).await;
        let repository = format!("{}/{PATH}", registry.address);
        let plan = ChartPlan {
            source: ChartSource::Oci {
                repository: repository.clone(),
                version: Some("1.3.0".to_owned()),
                digest: None,
            },
            values: ValuesChoice::ChartDefault,
        };
        let work = tempfile::tempdir().expect("a folder");
        let opened = Chart::open(&plan, work.path()).await;
        if !accepted {
            let error = opened.expect_err("another version");
            let told = format!("oci://{repository}:1.3.0 is of version {inside}");
            assert_eq!(error.to_string(), told);
            continue;
        }
        let chart = opened.expect("a chart");
        assert_eq!(std::fs::read(chart.path()).expect("an archive"), archive);
        let rendered = Rendered {
            objects: vec![json!({"kind": "Deployment", "metadata": {"name": "a"}})],
            values: json!({}),
        };
        let record = chart.record(&rendered).expect("a record");
        assert_eq!(record.oci_digest, Some(digest));
        assert_eq!(record.sha256, sha256_hex(&archive));
        assert_eq!(record.source, format!("oci://{repository}:1.3.0"));
    }
}
