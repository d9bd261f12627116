//! Kubeconfigs: of a plane, with everything embedded, so that the file works wherever it is copied to;
//! and of a pod, whose token is in a file beside it and is replaced there.

use std::fmt;
use std::path::{Path, PathBuf};

use k8s_openapi::ByteString;
use serde::Serialize;

use super::files::{FileError, SECRET, write_atomic};

/// The names by which the entries of a kubeconfig refer to each other.
#[derive(Clone, Copy, Debug)]
pub struct Names<'a> {
    /// The cluster entry.
    pub cluster: &'a str,
    /// The user entry.
    pub user: &'a str,
    /// The context that joins both, and the current one.
    pub context: &'a str,
}

/// A kubeconfig with one cluster, one user and one context.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Kubeconfig {
    #[serde(rename = "apiVersion")]
    api_version: &'static str,
    kind: &'static str,
    clusters: [NamedCluster; 1],
    users: [NamedUser; 1],
    contexts: [NamedContext; 1],
    current_context: String,
}

#[derive(Debug, Serialize)]
struct NamedCluster {
    name: String,
    cluster: Cluster,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
struct Cluster {
    server: String,
    certificate_authority_data: Data,
}

#[derive(Debug, Serialize)]
struct NamedUser {
    name: String,
    user: User,
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum User {
    #[serde(rename_all = "kebab-case")]
    Certificate {
        client_certificate_data: Data,
        client_key_data: Data,
    },
    #[serde(rename_all = "camelCase")]
    TokenFile { token_file: PathBuf },
}

#[derive(Debug, Serialize)]
struct NamedContext {
    name: String,
    context: Context,
}

#[derive(Debug, Serialize)]
struct Context {
    cluster: String,
    user: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    namespace: Option<String>,
}

/// Bytes that are written in base64 and never shown by `Debug`: one of them is a private key.
#[derive(Serialize)]
#[serde(transparent)]
struct Data(ByteString);

impl Data {
    fn new(text: &str) -> Self {
        Self(ByteString(text.as_bytes().to_vec()))
    }
}

impl fmt::Debug for Data {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<{} bytes>", self.0.0.len())
    }
}

/// The kubeconfig could not be written.
#[derive(Debug, thiserror::Error)]
pub enum KubeconfigError {
    /// It has no form in YAML.
    #[error("cannot write a kubeconfig as YAML")]
    Yaml(#[from] serde_yaml::Error),
    /// The file could not be written.
    #[error(transparent)]
    File(#[from] FileError),
}

impl KubeconfigError {
    /// The one thing to do about it, if there is one.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Yaml(_) => None,
            Self::File(error) => error.hint(),
        }
    }
}

impl Kubeconfig {
    /// A kubeconfig for the server at this URL, whose certificate `ca_pem` vouches for, as the user
    /// that the client certificate names. Certificates and key are PEM.
    #[must_use]
    pub fn new(
        server_url: impl Into<String>,
        ca_pem: &str,
        client_cert_pem: &str,
        client_key_pem: &str,
        names: Names<'_>,
    ) -> Self {
        let user = User::Certificate {
            client_certificate_data: Data::new(client_cert_pem),
            client_key_data: Data::new(client_key_pem),
        };
        Self::of_user(server_url.into(), ca_pem, user, None, names)
    }

    /// The same as the user whose token is in a file. Clients read the file anew from time to time, so
    /// that a token can be replaced. `namespace` is where a client acts that is not told another one.
    #[must_use]
    pub fn with_token_file(
        server_url: impl Into<String>,
        ca_pem: &str,
        token_file: impl Into<PathBuf>,
        namespace: impl Into<String>,
        names: Names<'_>,
    ) -> Self {
        let token_file = token_file.into();
        let user = User::TokenFile { token_file };
        Self::of_user(
            server_url.into(),
            ca_pem,
            user,
            Some(namespace.into()),
            names,
        )
    }

    fn of_user(
        server: String,
        ca_pem: &str,
        user: User,
        namespace: Option<String>,
        names: Names<'_>,
    ) -> Self {
        Self {
            api_version: "v1",
            kind: "Config",
            clusters: [NamedCluster {
                name: names.cluster.to_owned(),
                cluster: Cluster {
                    server,
                    certificate_authority_data: Data::new(ca_pem),
                },
            }],
            users: [NamedUser {
                name: names.user.to_owned(),
                user,
            }],
            contexts: [NamedContext {
                name: names.context.to_owned(),
                context: Context {
                    cluster: names.cluster.to_owned(),
                    user: names.user.to_owned(),
                    namespace,
                },
            }],
            current_context: names.context.to_owned(),
        }
    }

    /// The file's text.
    ///
    /// # Errors
    ///
    /// [`KubeconfigError::Yaml`].
    pub fn to_yaml(&self) -> Result<String, KubeconfigError> {
        Ok(serde_yaml::to_string(self)?)
    }

    /// Writes the file whole or not at all, with mode 0600: it holds a private key.
    ///
    /// # Errors
    ///
    /// [`KubeconfigError`].
    pub fn write(&self, path: &Path) -> Result<(), KubeconfigError> {
        Ok(write_atomic(path, self.to_yaml()?.as_bytes(), SECRET)?)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn example() -> Kubeconfig {
        Kubeconfig::new(
            "https://127.0.0.1:24680",
            "the authority\n",
            "the certificate\n",
            "the key\n",
            Names {
                cluster: "aibom-qual-ci",
                user: "admin",
                context: "no",
            },
        )
    }

    fn base64(text: &str) -> serde_json::Value {
        serde_json::to_value(ByteString(text.as_bytes().to_vec())).expect("it is a string")
    }

    #[test]
    fn kube_reads_what_was_written() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let path = dir.path().join("kubeconfig");
        example().write(&path).expect("it is written");
        let mode = path.metadata().expect("it exists").permissions().mode();
        assert_eq!(mode & 0o7777, 0o600);

        let read = kube::config::Kubeconfig::read_from(&path).expect("kube reads it");
        // A context called `no` stays text.
        assert_eq!(read.current_context.as_deref(), Some("no"));
        let read = serde_json::to_value(read).expect("it is data");
        let cluster = &read["clusters"][0]["cluster"];
        assert_eq!(cluster["server"], "https://127.0.0.1:24680");
        assert_eq!(
            cluster["certificate-authority-data"],
            base64("the authority\n")
        );
        let user = &read["users"][0]["user"];
        assert_eq!(user["client-certificate-data"], base64("the certificate\n"));
        assert_eq!(user["client-key-data"], base64("the key\n"));
        assert_eq!(read["contexts"][0]["context"]["cluster"], "aibom-qual-ci");
        assert_eq!(read["contexts"][0]["context"]["user"], "admin");
    }

    #[test]
    fn nothing_refers_to_a_file() {
        let text = example().to_yaml().expect("it has a form");
        for reference in [
            "certificate-authority:",
            "client-certificate:",
            "client-key:",
        ] {
            assert!(!text.contains(reference), "{reference} in {text}");
        }
    }

    #[test]
    fn kube_reads_the_user_with_a_token_file() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let path = dir.path().join("kubeconfig");
        let names = Names {
            cluster: "aibom-qual",
            user: "system:serviceaccount:models:vllm",
            context: "pod",
        };
        Kubeconfig::with_token_file(
            "https://127.0.0.1:24680",
            "ca\n",
            "/t/token",
            "models",
            names,
        )
        .write(&path)
        .expect("it is written");
        let read = kube::config::Kubeconfig::read_from(&path).expect("kube reads it");
        let read = serde_json::to_value(read).expect("it is data");
        let user = &read["users"][0];
        assert_eq!(user["name"], "system:serviceaccount:models:vllm");
        assert_eq!(user["user"]["tokenFile"], "/t/token");
        assert_eq!(user["user"]["client-key-data"], serde_json::Value::Null);
        assert_eq!(read["contexts"][0]["context"]["namespace"], "models");
    }

    #[test]
    fn debug_shows_no_key() {
        let shown = format!("{:?}", example());
        assert!(shown.contains("client_key_data: <8 bytes>"), "{shown}");
    }
}
