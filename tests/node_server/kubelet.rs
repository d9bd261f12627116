//! A kubelet port with pods to show, and clients with certificates.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, LazyLock};

use aibom_qual::host::launch::Launcher;
use aibom_qual::host::ports::PortPicker;
use aibom_qual::node::image::ImageTable;
use aibom_qual::node::options::{NodeOptions, ServingFiles};
use aibom_qual::node::server::Server;
use aibom_qual::node::view::{ContainerView, PodKey, PodView, Pods};
use aibom_qual::plane::pki::{NodePairs, Pair, Pki, PkiOptions};
use rustls::ClientConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// Certificates are made once for all tests.
pub(crate) struct Certificates {
    _dir: TempDir,
    pub(crate) pki: Pki,
    pub(crate) node: NodePairs,
}

pub(crate) static CERTIFICATES: LazyLock<Certificates> = LazyLock::new(|| {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let dir = tempfile::tempdir().expect("a folder");
    let options = PkiOptions::default();
    let pki = Pki::create(&dir.path().join("pki"), &options).expect("certificates");
    let node = pki.issue_node("n1", &options).expect("a node's");
    Certificates {
        _dir: dir,
        pki,
        node,
    }
});

pub(crate) struct Kubelet {
    pub(crate) dir: TempDir,
    pub(crate) pods: Pods,
    pub(crate) picker: Arc<PortPicker>,
    pub(crate) server: Server,
}

impl Kubelet {
    pub(crate) async fn start() -> Self {
        let dir = tempfile::tempdir().expect("a folder");
        let pods = Pods::default();
        let options = options(dir.path().to_owned());
        let server = Server::start(&options, pods.clone())
            .await
            .expect("a server");
        Self {
            dir,
            pods,
            picker: options.ports,
            server,
        }
    }

    /// Shows a pod `models/web` of one container `main`.
    pub(crate) fn show(&self, view: ContainerView) {
        self.show_all([("main", view)]);
    }

    pub(crate) fn show_all<const N: usize>(&self, containers: [(&str, ContainerView); N]) {
        let order = containers.iter().map(|(name, _)| (*name).to_owned());
        let pod = PodView {
            uid: "u1".to_owned(),
            order: order.collect(),
            containers: containers
                .into_iter()
                .map(|(name, view)| (name.to_owned(), view))
                .collect::<BTreeMap<_, _>>(),
        };
        self.pods.show(key(), pod);
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("https://{}{path}", self.server.address())
    }

    /// What the API server gets.
    pub(crate) async fn get(&self, path: &str) -> (u16, String) {
        let answer = client(Some(CERTIFICATES.pki.kubelet_client()))
            .get(self.url(path))
            .send()
            .await
            .expect("an answer");
        let status = answer.status().as_u16();
        (status, answer.text().await.expect("text"))
    }

    /// A connection of the API server.
    pub(crate) async fn connect(&self) -> TlsStream<TcpStream> {
        let Certificates { pki, .. } = &*CERTIFICATES;
        let mut roots = rustls::RootCertStore::empty();
        let root = CertificateDer::from_pem_slice(pki.server_ca().cert_pem().as_bytes());
        roots.add(root.expect("PEM")).expect("an authority");
        let pair = pki.kubelet_client();
        let cert = CertificateDer::from_pem_slice(pair.cert_pem().as_bytes()).expect("PEM");
        let key = PrivateKeyDer::from_pem_slice(pair.key_pem().as_bytes()).expect("PEM");
        let config = ClientConfig::builder()
            .with_root_certificates(roots)
            .with_client_auth_cert(vec![cert], key)
            .expect("a pair");
        let stream = TcpStream::connect(self.server.address())
            .await
            .expect("it listens");
        let name = ServerName::try_from("127.0.0.1").expect("an address");
        TlsConnector::from(Arc::new(config))
            .connect(name, stream)
            .await
            .expect("a handshake")
    }
}

pub(crate) fn key() -> PodKey {
    PodKey {
        namespace: "models".to_owned(),
        name: "web".to_owned(),
    }
}

pub(crate) fn options(dir: PathBuf) -> NodeOptions {
    let Certificates { pki, node, .. } = &*CERTIFICATES;
    NodeOptions {
        name: "n1".to_owned(),
        server: "https://127.0.0.1:1".to_owned(),
        server_ca_pem: pki.server_ca().cert_pem().to_owned(),
        kubeconfig: dir.join("kubeconfig"),
        serving: ServingFiles {
            cert: node.serving.cert().to_owned(),
            key: node.serving.key().to_owned(),
        },
        client_ca_pem: pki.client_ca().cert_pem().to_owned(),
        dir,
        launcher: Launcher::new(env!("CARGO_BIN_EXE_aibom-qual")),
        images: ImageTable::default(),
        ports: Arc::new(PortPicker::new()),
        kubelet_version: "v1.36.3".to_owned(),
    }
}

/// An HTTP client that trusts the plane and shows this certificate.
pub(crate) fn client(pair: Option<&Pair>) -> reqwest::Client {
    let ca = CERTIFICATES.pki.server_ca().cert_pem();
    let mut builder = reqwest::Client::builder()
        .no_proxy()
        .tls_certs_only([reqwest::Certificate::from_pem(ca.as_bytes()).expect("PEM")]);
    if let Some(pair) = pair {
        let pem = format!("{}{}", pair.cert_pem(), pair.key_pem());
        let identity = reqwest::Identity::from_pem(pem.as_bytes()).expect("PEM");
        builder = builder.identity(identity);
    }
    builder.build().expect("a client")
}
