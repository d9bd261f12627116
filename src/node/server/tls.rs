//! What the kubelet port shows and what it asks of its clients.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem};
use rustls::server::{VerifierBuilderError, WebPkiClientVerifier};
use rustls::{RootCertStore, ServerConfig};
use tokio_rustls::TlsAcceptor;

use crate::host::files::{FileError, read_text};
use crate::node::options::ServingFiles;

/// The kubelet port cannot serve TLS.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// Certificate or key cannot be read.
    #[error(transparent)]
    File(#[from] FileError),
    /// A file does not hold what it should.
    #[error("{} holds no {what}", path.display())]
    Pem {
        /// The file.
        path: PathBuf,
        /// What was expected.
        what: &'static str,
        /// Why it was not found.
        source: pem::Error,
    },
    /// Certificate and key do not fit.
    #[error("cannot serve with the certificate in {}", path.display())]
    Serve {
        /// The certificate's file.
        path: PathBuf,
        /// Why.
        source: rustls::Error,
    },
    /// The authority of the clients is not PEM.
    #[error("the certificate authority of the kubelet's clients cannot be read")]
    ClientCa(#[source] pem::Error),
    /// It is PEM, but cannot vouch for anybody.
    #[error("the certificate authority of the kubelet's clients is of no use")]
    Verify(#[source] VerifierBuilderError),
    /// One of its certificates cannot be trusted.
    #[error("a certificate authority of the kubelet's clients is damaged")]
    Root(#[source] rustls::Error),
}

impl TlsError {
    /// The one thing to do about it, if there is one.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::File(error) => error.hint(),
            _ => None,
        }
    }
}

/// Serves with this certificate, and only clients that this authority vouches for.
pub(super) fn acceptor(
    serving: &ServingFiles,
    client_ca_pem: &str,
) -> Result<TlsAcceptor, TlsError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut roots = RootCertStore::empty();
    for root in CertificateDer::pem_slice_iter(client_ca_pem.as_bytes()) {
        let root = root.map_err(TlsError::ClientCa)?;
        roots.add(root).map_err(TlsError::Root)?;
    }
    let clients = WebPkiClientVerifier::builder_with_provider(roots.into(), Arc::clone(&provider))
        .build()
        .map_err(TlsError::Verify)?;
    let (chain, key) = read(serving)?;
    let serve = |source| TlsError::Serve {
        path: serving.cert.clone(),
        source,
    };
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(serve)?
        .with_client_cert_verifier(clients)
        .with_single_cert(chain, key)
        .map_err(serve)?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}

fn read(
    serving: &ServingFiles,
) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), TlsError> {
    let wrong = |path: &Path, what| {
        let path = path.to_owned();
        move |source| TlsError::Pem { path, what, source }
    };
    let cert = read_text(&serving.cert)?;
    let chain = CertificateDer::pem_slice_iter(cert.as_bytes())
        .collect::<Result<Vec<_>, _>>()
        .map_err(wrong(&serving.cert, "certificate"))?;
    let key = PrivateKeyDer::from_pem_slice(read_text(&serving.key)?.as_bytes())
        .map_err(wrong(&serving.key, "private key"))?;
    Ok((chain, key))
}
