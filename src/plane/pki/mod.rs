//! The certificates and keys of a plane: three authorities, so that a certificate of one trust can
//! never be used for another, and one key pair that signs service-account tokens. All keys are EC
//! P-256.

mod authority;
mod error;
mod options;
#[cfg(test)]
mod tests;

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};

use chrono::{DateTime, Utc};
use rcgen::SanType;

pub use self::authority::Authority;
pub use self::error::{AuthorityName, PkiError, Unusable};
pub use self::options::PkiOptions;

use self::authority::{Leaf, Purpose, load_key, new_key};
use crate::host::files::{PUBLIC, SECRET, private_dir, write_atomic};

/// The names under which clients inside and outside reach the API server.
const APISERVER_NAMES: [&str; 5] = [
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
];

/// A certificate and its key, on disk and in memory.
pub struct Pair {
    cert: PathBuf,
    key: PathBuf,
    cert_pem: String,
    key_pem: String,
    not_after: DateTime<Utc>,
}

impl Pair {
    /// The certificate's file (mode 0644).
    #[must_use]
    pub fn cert(&self) -> &Path {
        &self.cert
    }

    /// The key's file (mode 0600, PKCS#8).
    #[must_use]
    pub fn key(&self) -> &Path {
        &self.key
    }

    /// The certificate, for a kubeconfig.
    #[must_use]
    pub fn cert_pem(&self) -> &str {
        &self.cert_pem
    }

    /// The key, for a kubeconfig.
    #[must_use]
    pub fn key_pem(&self) -> &str {
        &self.key_pem
    }

    /// The end of the certificate's validity.
    #[must_use]
    pub fn not_after(&self) -> DateTime<Utc> {
        self.not_after
    }
}

impl fmt::Debug for Pair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pair")
            .field("cert", &self.cert)
            .field("key", &self.key)
            .field("not_after", &self.not_after)
            .finish_non_exhaustive()
    }
}

/// The certificates of one node.
#[derive(Debug)]
pub struct NodePairs {
    /// What its kubelet serves with.
    pub serving: Pair,
    /// What its kubelet is known to the API server by: `system:node:NAME` in `system:nodes`.
    pub client: Pair,
}

/// All certificates and keys of one plane.
#[derive(Debug)]
pub struct Pki {
    dir: PathBuf,
    server_ca: Authority,
    client_ca: Authority,
    front_proxy_ca: Authority,
    apiserver: Pair,
    kubelet_client: Pair,
    front_proxy_client: Pair,
    admin: Pair,
    controller_manager: Pair,
    scheduler: Pair,
    service_account: ServiceAccount,
}

/// The files of the key pair that signs service-account tokens.
#[derive(Debug)]
struct ServiceAccount {
    private: PathBuf,
    public: PathBuf,
}

impl Pki {
    /// Makes everything anew in this folder (created with mode 0700). Files of the same name are
    /// replaced, so that it also repairs what an interrupted creation left.
    ///
    /// # Errors
    ///
    /// [`PkiError`] when a key cannot be made or a file cannot be written.
    pub fn create(dir: &Path, options: &PkiOptions) -> Result<Self, PkiError> {
        private_dir(dir)?;
        let authority = |name| Authority::create(dir, name, options);
        Self::issue_all(
            dir,
            options,
            [
                authority(AuthorityName::Server)?,
                authority(AuthorityName::Client)?,
                authority(AuthorityName::FrontProxy)?,
            ],
            ServiceAccount::create(dir)?,
        )
    }

    /// Keeps the authorities and the service-account key of a plane that was stopped, and issues all
    /// other certificates again: tokens and trust survive, and nothing expires in a plane that is
    /// started now and then.
    ///
    /// # Errors
    ///
    /// [`PkiError::Authority`] or [`PkiError::ServiceAccountKey`] when one of them is missing,
    /// damaged or expired; nothing has been written then. Otherwise as for [`Pki::create`].
    pub fn renew(dir: &Path, options: &PkiOptions) -> Result<Self, PkiError> {
        let authority = |name| Authority::load(dir, name, options.now);
        let authorities = [
            authority(AuthorityName::Server)?,
            authority(AuthorityName::Client)?,
            authority(AuthorityName::FrontProxy)?,
        ];
        let service_account = ServiceAccount::load(dir)?;
        private_dir(dir)?;
        Self::issue_all(dir, options, authorities, service_account)
    }

    fn issue_all(
        dir: &Path,
        options: &PkiOptions,
        [server_ca, client_ca, front_proxy_ca]: [Authority; 3],
        service_account: ServiceAccount,
    ) -> Result<Self, PkiError> {
        let mut names = APISERVER_NAMES
            .iter()
            .map(|name| dns(name))
            .collect::<Result<Vec<_>, _>>()?;
        names.push(SanType::IpAddress(IpAddr::V4(Ipv4Addr::LOCALHOST)));
        names.push(SanType::IpAddress(options.service_ip));
        let client = |issuer: &Authority, stem, common_name, organization| {
            let leaf = Leaf {
                stem,
                common_name,
                organization,
                purpose: Purpose::Identify,
            };
            issuer.issue(dir, leaf, options)
        };
        Ok(Self {
            dir: dir.to_owned(),
            apiserver: server_ca.issue(
                dir,
                Leaf {
                    stem: "apiserver",
                    common_name: "kube-apiserver",
                    organization: None,
                    purpose: Purpose::Serve(names),
                },
                options,
            )?,
            kubelet_client: client(
                &client_ca,
                "apiserver-kubelet-client",
                "apiserver-kubelet-client",
                Some("system:masters"),
            )?,
            front_proxy_client: client(
                &front_proxy_ca,
                "front-proxy-client",
                Self::FRONT_PROXY_NAME,
                None,
            )?,
            admin: client(
                &client_ca,
                "admin",
                "aibom-qual-admin",
                Some("system:masters"),
            )?,
            controller_manager: client(
                &client_ca,
                "controller-manager",
                "system:kube-controller-manager",
                None,
            )?,
            scheduler: client(&client_ca, "scheduler", "system:kube-scheduler", None)?,
            server_ca,
            client_ca,
            front_proxy_ca,
            service_account,
        })
    }

    /// The common name of the front-proxy client, for `--requestheader-allowed-names`.
    pub const FRONT_PROXY_NAME: &str = "front-proxy-client";

    /// Issues what a kubelet on this machine needs: a serving certificate for its host name and
    /// 127.0.0.1, and an identity for the Node authorizer.
    ///
    /// # Errors
    ///
    /// [`PkiError::NodeName`] when the name is not one that a Node object can have; otherwise as for
    /// [`Pki::create`].
    pub fn issue_node(&self, name: &str, options: &PkiOptions) -> Result<NodePairs, PkiError> {
        if !is_dns_subdomain(name) {
            return Err(PkiError::NodeName(name.to_owned()));
        }
        let user = format!("system:node:{name}");
        let leaf = |stem, purpose| Leaf {
            stem,
            common_name: &user,
            organization: Some("system:nodes"),
            purpose,
        };
        let addresses = vec![
            dns(name)?,
            SanType::IpAddress(IpAddr::V4(Ipv4Addr::LOCALHOST)),
        ];
        let (serving, client) = (
            format!("node-{name}-serving"),
            format!("node-{name}-client"),
        );
        Ok(NodePairs {
            serving: self.server_ca.issue(
                &self.dir,
                leaf(&serving, Purpose::Serve(addresses)),
                options,
            )?,
            client: self
                .client_ca
                .issue(&self.dir, leaf(&client, Purpose::Identify), options)?,
        })
    }

    /// Issues what a component on this machine serves its own health and metrics with.
    ///
    /// # Errors
    ///
    /// As for [`Pki::create`].
    pub fn issue_serving(&self, component: &str, options: &PkiOptions) -> Result<Pair, PkiError> {
        let addresses = vec![
            dns("localhost")?,
            SanType::IpAddress(IpAddr::V4(Ipv4Addr::LOCALHOST)),
        ];
        let leaf = Leaf {
            stem: &format!("{component}-serving"),
            common_name: component,
            organization: None,
            purpose: Purpose::Serve(addresses),
        };
        self.server_ca.issue(&self.dir, leaf, options)
    }

    /// The folder that everything lies in.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Vouches for the API server and for kubelets: a client's trust anchor.
    #[must_use]
    pub fn server_ca(&self) -> &Authority {
        &self.server_ca
    }

    /// Vouches for users, components and nodes: the API server's `--client-ca-file`.
    #[must_use]
    pub fn client_ca(&self) -> &Authority {
        &self.client_ca
    }

    /// Vouches for the API server towards aggregated API servers: `--requestheader-client-ca-file`.
    #[must_use]
    pub fn front_proxy_ca(&self) -> &Authority {
        &self.front_proxy_ca
    }

    /// What the API server serves with.
    #[must_use]
    pub fn apiserver(&self) -> &Pair {
        &self.apiserver
    }

    /// What the API server is known to kubelets by.
    #[must_use]
    pub fn kubelet_client(&self) -> &Pair {
        &self.kubelet_client
    }

    /// What the API server is known to aggregated API servers by.
    #[must_use]
    pub fn front_proxy_client(&self) -> &Pair {
        &self.front_proxy_client
    }

    /// The user of the plane: `aibom-qual-admin` in `system:masters`.
    #[must_use]
    pub fn admin(&self) -> &Pair {
        &self.admin
    }

    /// The controller manager's identity.
    #[must_use]
    pub fn controller_manager(&self) -> &Pair {
        &self.controller_manager
    }

    /// The scheduler's identity.
    #[must_use]
    pub fn scheduler(&self) -> &Pair {
        &self.scheduler
    }

    /// The key that signs service-account tokens (mode 0600, PKCS#8).
    #[must_use]
    pub fn service_account_private_key(&self) -> &Path {
        &self.service_account.private
    }

    /// The key that service-account tokens are checked with (PEM `PUBLIC KEY`).
    #[must_use]
    pub fn service_account_public_key(&self) -> &Path {
        &self.service_account.public
    }
}

impl ServiceAccount {
    fn paths(dir: &Path) -> Self {
        Self {
            private: dir.join("service-account.key"),
            public: dir.join("service-account.pub"),
        }
    }

    fn create(dir: &Path) -> Result<Self, PkiError> {
        let paths = Self::paths(dir);
        let key = new_key(|| "the service accounts".to_owned())?;
        write_atomic(&paths.private, key.serialize_pem().as_bytes(), SECRET)?;
        write_atomic(&paths.public, key.public_key_pem().as_bytes(), PUBLIC)?;
        Ok(paths)
    }

    /// The public half follows from the private one and is written again.
    fn load(dir: &Path) -> Result<Self, PkiError> {
        let paths = Self::paths(dir);
        let key =
            load_key(&paths.private).map_err(|source| PkiError::ServiceAccountKey { source })?;
        write_atomic(&paths.public, key.public_key_pem().as_bytes(), PUBLIC)?;
        Ok(paths)
    }
}

fn dns(name: &str) -> Result<SanType, PkiError> {
    let name = name.try_into().map_err(|source| PkiError::Make {
        what: format!("a certificate for `{name}`"),
        source,
    })?;
    Ok(SanType::DnsName(name))
}

/// What Kubernetes accepts as the name of a Node (RFC 1123 subdomain).
fn is_dns_subdomain(name: &str) -> bool {
    let label = |label: &str| {
        let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        (1..=63).contains(&label.len())
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.bytes().all(inner)
    };
    name.len() <= 253 && name.split('.').all(label)
}
