//! A client for exactly the cluster that a kubeconfig file names.

use std::env;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use http::Request;
use hyper_util::client::proxy::matcher::Matcher;
use kube::client::{Body, ClientBuilder};
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Client, Config};
use tower::util::MapRequestLayer;

use super::fault::{Fault, diagnose};
use super::meter::Meter;

/// How long a server may take to accept a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a connection may be silent after the last thing that was sent on it. The longest silence
/// of a healthy server is a watch without events: clients ask for at most ten minutes of it.
const READ_TIMEOUT: Duration = Duration::from_secs(11 * 60);

/// No client can be made from a kubeconfig.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    /// The file cannot be read, or what its current context leads to cannot.
    #[error("cannot use the kubeconfig {}", path.display())]
    Kubeconfig {
        /// The file.
        path: PathBuf,
        /// Why.
        source: KubeconfigError,
    },
    /// The file has no such context.
    #[error("the kubeconfig {} has no context `{context}`", path.display())]
    NoContext {
        /// The file.
        path: PathBuf,
        /// The context that was asked for.
        context: String,
        /// The contexts that it has.
        known: Vec<String>,
    },
    /// The current context names a user that the file does not define. (Most clients then go on as
    /// an anonymous user and fail later, with an error about permissions.)
    #[error("the kubeconfig {} has no user `{user}`, which its context `{context}` names", path.display())]
    NoUser {
        /// The file.
        path: PathBuf,
        /// The context.
        context: String,
        /// The user that is missing.
        user: String,
    },
    /// The server is not on this machine and a proxy is configured for it.
    #[error(
        "the server {server} is to be reached through the proxy {proxy}, which is not supported"
    )]
    Proxy {
        /// The server's URL.
        server: String,
        /// The proxy's URL, without its credentials.
        proxy: String,
    },
    /// The certificates or keys in the file are unusable.
    #[error("cannot make a client from the kubeconfig {}", path.display())]
    Client {
        /// The file.
        path: PathBuf,
        /// Why.
        source: Box<Fault>,
    },
}

impl ClusterError {
    /// The one thing to do about it, if there is one.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::NoContext { path, known, .. } => Some(if known.is_empty() {
                format!("{} defines no context at all; take another file", path.display())
            } else {
                format!("name one that it has: {}", known.join(", "))
            }),
            Self::Kubeconfig { path, source } => Some(match source {
                KubeconfigError::ReadConfig(..) => {
                    "check the path given to --kubeconfig".to_owned()
                }
                KubeconfigError::CurrentContextNotSet => {
                    format!("set current-context in {}", path.display())
                }
                KubeconfigError::ParseProxyUrl(_) => {
                    "correct proxy-url in the file, or HTTPS_PROXY in the environment".to_owned()
                }
                _ => format!(
                    "correct the file; `kubectl --kubeconfig {} config view` shows how it is read",
                    path.display()
                ),
            }),
            Self::NoUser { path, user, .. } => {
                Some(format!("define the user `{user}` in {}", path.display()))
            }
            Self::Proxy { .. } => Some(
                "if the server can be reached directly, add its host to NO_PROXY and remove proxy-url from \
                 the file"
                    .to_owned(),
            ),
            Self::Client { source, .. } => source.hint(),
        }
    }
}

/// Makes a client for the current context of this file; see [`connect_to`].
///
/// # Errors
///
/// [`ClusterError`] when the file or anything that its current context leads to is unusable.
pub async fn connect(kubeconfig: &Path) -> Result<Client, ClusterError> {
    connect_to(kubeconfig, None).await
}

/// Makes a client for a context of this file, the current one when `None`. Nothing is sent yet.
///
/// Only the file counts: neither `KUBECONFIG` nor the cluster around a pod is looked at. A server on
/// the loopback address, or one that `NO_PROXY` exempts, is reached directly, whatever proxy the
/// environment names. Requests are neither slowed down nor repeated: a measured count of requests
/// would otherwise be wrong, and an overloaded server would look like a slow one.
///
/// # Errors
///
/// [`ClusterError`] when the file or anything that the context leads to is unusable.
pub async fn connect_to(kubeconfig: &Path, context: Option<&str>) -> Result<Client, ClusterError> {
    let config = file_config(kubeconfig, context).await?;
    Client::try_from(config).map_err(|error| unusable(kubeconfig, &error))
}

/// The same as [`connect_to`], with a meter that counts every request that is sent (MET-05).
///
/// # Errors
///
/// [`ClusterError`] when the file or anything that the context leads to is unusable.
pub async fn connect_metered(
    kubeconfig: &Path,
    context: Option<&str>,
    meter: &Meter,
) -> Result<Client, ClusterError> {
    let config = file_config(kubeconfig, context).await?;
    let builder = ClientBuilder::try_from(config).map_err(|error| unusable(kubeconfig, &error))?;
    let meter = meter.clone();
    let counted = MapRequestLayer::new(move |request: Request<Body>| {
        meter.count(&request);
        request
    });
    // The client repeats nothing, so that nothing inside of this layer sends a request twice.
    Ok(builder.with_layer(&counted).build())
}

fn unusable(kubeconfig: &Path, error: &kube::Error) -> ClusterError {
    ClusterError::Client {
        path: kubeconfig.to_owned(),
        source: Box::new(diagnose(error)),
    }
}

async fn file_config(kubeconfig: &Path, context: Option<&str>) -> Result<Config, ClusterError> {
    let read = |name| env::var(name).ok().filter(|value| !value.is_empty());
    let exempt = read("NO_PROXY").or_else(|| read("no_proxy"));
    config(kubeconfig, context, exempt.as_deref()).await
}

async fn config(
    path: &Path,
    context: Option<&str>,
    no_proxy: Option<&str>,
) -> Result<Config, ClusterError> {
    let unusable = |source| ClusterError::Kubeconfig {
        path: path.to_owned(),
        source,
    };
    let mut file = Kubeconfig::read_from(path).map_err(unusable)?;
    if let Some(context) = context {
        choose(path, &mut file, context)?;
    }
    require_user(path, &file)?;
    let direct = bypass_proxy(&mut file, no_proxy);
    let mut config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default())
        .await
        .map_err(unusable)?;
    if direct {
        config.proxy_url = None;
    }
    if let Some(proxy) = &config.proxy_url {
        return Err(ClusterError::Proxy {
            server: config.cluster_url.to_string(),
            proxy: format!(
                "{}://{}",
                proxy.scheme_str().unwrap_or("http"),
                proxy.host().unwrap_or_default()
            ),
        });
    }
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    config.read_timeout = Some(READ_TIMEOUT);
    // Else the time that a connection lay idle in the pool would count as silence of the server.
    config.reset_reader_on_write = true;
    config.default_retry = false;
    Ok(config)
}

fn choose(path: &Path, file: &mut Kubeconfig, context: &str) -> Result<(), ClusterError> {
    let known: Vec<String> = file
        .contexts
        .iter()
        .map(|named| named.name.clone())
        .collect();
    if !known.iter().any(|name| name == context) {
        return Err(ClusterError::NoContext {
            path: path.to_owned(),
            context: context.to_owned(),
            known,
        });
    }
    file.current_context = Some(context.to_owned());
    Ok(())
}

fn require_user(path: &Path, file: &Kubeconfig) -> Result<(), ClusterError> {
    let Some(name) = &file.current_context else {
        // The conversion reports this, and a context or cluster that is missing.
        return Ok(());
    };
    let named = file.contexts.iter().find(|context| &context.name == name);
    let context = named.and_then(|named| named.context.as_ref());
    let Some(user) = context.and_then(|context| context.user.as_ref()) else {
        return Ok(());
    };
    let defined = file.auth_infos.iter().any(|info| &info.name == user);
    if user.is_empty() || defined {
        return Ok(());
    }
    Err(ClusterError::NoUser {
        path: path.to_owned(),
        context: name.clone(),
        user: user.clone(),
    })
}

/// Keeps the environment's proxy away from servers that it is not meant for: those on the loopback
/// and those that `NO_PROXY` exempts. Says whether this is one of them.
///
/// The conversion to a [`Config`] takes the proxy from the environment, and fails when that is not a
/// URL, unless the file names one; it knows nothing of `NO_PROXY`. So such a server gets a stand-in,
/// which is taken out again afterwards. A proxy that the file itself names counts in any case.
fn bypass_proxy(file: &mut Kubeconfig, no_proxy: Option<&str>) -> bool {
    let context = file.current_context.as_ref();
    let context = context.and_then(|name| file.contexts.iter().find(|named| &named.name == name));
    let Some(name) = context
        .and_then(|named| named.context.as_ref())
        .map(|context| context.cluster.clone())
    else {
        return false;
    };
    let named = file.clusters.iter_mut().find(|named| named.name == name);
    let Some(cluster) = named.and_then(|named| named.cluster.as_mut()) else {
        return false;
    };
    let explicit = cluster
        .proxy_url
        .as_deref()
        .is_some_and(|url| !url.is_empty());
    let direct = cluster
        .server
        .as_deref()
        .is_some_and(|server| is_loopback(server) || is_exempt(server, no_proxy));
    if explicit || !direct {
        return false;
    }
    cluster.proxy_url = Some("http://127.0.0.1".to_owned());
    true
}

/// Whether a server's URL leads to this machine.
fn is_loopback(server: &str) -> bool {
    let Ok(uri) = server.parse::<http::Uri>() else {
        return false;
    };
    let Some(host) = uri.host() else {
        return false;
    };
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    match bare.parse::<IpAddr>() {
        Ok(address) => address.is_loopback(),
        Err(_) => bare.eq_ignore_ascii_case("localhost"),
    }
}

/// Whether `NO_PROXY` exempts this server, by the rules that most clients share: domains and their
/// subdomains, addresses, networks and `*`.
fn is_exempt(server: &str, no_proxy: Option<&str>) -> bool {
    let (Ok(uri), Some(no_proxy)) = (server.parse::<http::Uri>(), no_proxy) else {
        return false;
    };
    let any_proxy = Matcher::builder()
        .all("http://127.0.0.1")
        .no(no_proxy)
        .build();
    any_proxy.intercept(&uri).is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "
apiVersion: v1
kind: Config
current-context: here
clusters:
- {name: local, cluster: {server: 'https://127.0.0.1:24680'}}
- {name: remote, cluster: {server: 'https://cluster.example'}}
- {name: tunnel, cluster: {server: 'https://127.0.0.1:1', proxy-url: 'http://user:secret@proxy.example:3128'}}
users:
- {name: admin, user: {token: t}}
contexts:
- {name: here, context: {cluster: local, user: admin}}
- {name: tunnelled, context: {cluster: tunnel, user: admin}}
- {name: stranger, context: {cluster: local, user: nobody}}
- {name: astray, context: {cluster: nowhere, user: admin}}
";

    async fn read(text: &str) -> Result<Config, ClusterError> {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let path = dir.path().join("kubeconfig");
        std::fs::write(&path, text).expect("a file");
        config(&path, None, None).await
    }

    fn in_context(name: &str) -> String {
        FILE.replace("current-context: here", &format!("current-context: {name}"))
    }

    #[tokio::test]
    async fn the_client_is_direct_unlimited_and_patient_with_watches() {
        let config = read(FILE).await.expect("a config");
        assert_eq!(config.cluster_url.to_string(), "https://127.0.0.1:24680/");
        assert_eq!(config.proxy_url, None);
        assert!(!config.default_retry);
        assert!(config.read_timeout > Some(Duration::from_secs(600)));
        assert!(config.reset_reader_on_write);
    }

    #[tokio::test]
    async fn a_proxy_that_the_file_names_is_an_error_and_its_password_stays_unsaid() {
        let error = read(&in_context("tunnelled")).await.expect_err("a proxy");
        let text = error.to_string();
        assert!(text.contains("http://proxy.example"), "{text}");
        assert!(!text.contains("secret"), "{text}");
    }

    #[tokio::test]
    async fn a_missing_user_is_not_replaced_by_an_anonymous_one() {
        let error = read(&in_context("stranger")).await.expect_err("no user");
        assert!(matches!(error, ClusterError::NoUser { .. }), "{error}");
    }

    #[tokio::test]
    async fn what_is_missing_from_the_file_is_an_error() {
        for text in ["", "apiVersion: v1\nkind: Config\n", &in_context("astray")] {
            let error = read(text).await.expect_err("incomplete");
            assert!(matches!(error, ClusterError::Kubeconfig { .. }), "{error}");
            assert!(error.hint().is_some(), "{error}");
        }
        let error = config(Path::new("/nonexistent/kubeconfig"), None, None)
            .await
            .expect_err("no file");
        assert!(error.to_string().contains("/nonexistent/kubeconfig"));
        assert!(error.hint().is_some());
    }

    #[tokio::test]
    async fn a_context_can_be_named_and_an_unknown_one_is_refused() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let path = dir.path().join("kubeconfig");
        std::fs::write(&path, FILE).expect("a file");
        let error = config(&path, Some("stranger"), None).await;
        assert!(matches!(error, Err(ClusterError::NoUser { .. })));
        let error = config(&path, Some("elsewhere"), None)
            .await
            .expect_err("there is none");
        assert!(error.to_string().ends_with("has no context `elsewhere`"));
        assert!(error.hint().is_some_and(|hint| hint.contains("tunnelled")));
    }

    #[test]
    fn a_server_that_no_proxy_exempts_is_reached_directly() {
        let server = "https://cluster.example";
        for exempt in ["cluster.example", ".example", "a, example", "*"] {
            assert!(is_exempt(server, Some(exempt)), "{exempt}");
        }
        assert!(is_exempt("https://10.1.2.3:6443", Some("10.0.0.0/8")));
        for other in [None, Some(""), Some("other.example"), Some("10.0.0.0/8")] {
            assert!(!is_exempt(server, other), "{other:?}");
        }
        let text = FILE.replace("cluster: local", "cluster: remote");
        let mut file = Kubeconfig::from_yaml(&text).expect("a kubeconfig");
        assert!(!bypass_proxy(&mut file, None));
        assert!(bypass_proxy(&mut file, Some("cluster.example")));
        // What the file itself names is not the environment's to take away.
        let mut file = Kubeconfig::from_yaml(&in_context("tunnelled")).expect("a kubeconfig");
        assert!(!bypass_proxy(&mut file, Some("*")));
    }

    #[test]
    fn loopback_servers_are_recognised_by_their_host() {
        for server in [
            "https://127.0.0.1:6443",
            "https://127.8.9.1",
            "https://[::1]:6443",
            "https://LocalHost:1/",
        ] {
            assert!(is_loopback(server), "{server}");
        }
        for server in ["https://10.0.0.1", "https://127.0.0.1.example", "", "x"] {
            assert!(!is_loopback(server), "{server}");
        }
    }
}
