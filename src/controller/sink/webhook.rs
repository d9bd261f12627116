//! The webhook: documents by POST, to an endpoint that cannot be read back from.

use std::fmt;
use std::sync::Arc;

use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderValue};
use hyper::body::Bytes;
use reqwest::dns::Resolve;
use reqwest::{Certificate, Client, Identity, Response, Url, redirect};

use super::guard::{self, Guard};
use super::retry::{self, Refusal};
use super::secret::SecretValue;
use crate::controller::profile::Sinks;
use crate::controller::status::SinkOutcome;
use crate::error_chain::{chain, innermost};

/// What the status and the metrics call it, whatever its configured name.
pub const NAME: &str = "webhook";
/// Most of an answer's body that is told, in bytes.
const SAID: usize = 256;
/// From so many bytes on, an answer that ends within the token has told of it.
const PART: usize = 8;
/// What is told in the place of a token.
const HIDDEN: &[u8] = b"[REDACTED:token]";

/// How the controller identifies itself.
#[derive(Clone, Debug, Default)]
pub enum Credentials {
    /// Not at all.
    #[default]
    None,
    /// By a token.
    Bearer(SecretValue),
    /// By a certificate; everything is PEM.
    Mutual {
        /// The certificate, and those that lead to an authority.
        certificate: SecretValue,
        /// Its private key.
        key: SecretValue,
        /// Authorities that the endpoint is trusted by, instead of the system's.
        authorities: Option<SecretValue>,
    },
}

/// A webhook cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum ConstructError {
    /// The endpoint is inside the network.
    #[error("webhook sink: endpoint URL points to loopback/private interface")]
    Internal,
    /// The endpoint is no URL.
    #[error("webhook sink: endpoint URL is invalid: {0}")]
    Endpoint(String),
    /// The token has characters that no header may have.
    #[error("webhook sink: the bearer token cannot stand in a header")]
    Token,
    /// There is no certificate and key to identify with.
    #[error("webhook sink: the client certificate and key are not a pair in PEM")]
    Identity,
    /// There is no certificate of an authority.
    #[error("webhook sink: the authorities are not certificates in PEM")]
    Authorities,
    /// TLS refuses the certificates.
    #[error("webhook sink: TLS cannot be set up: {0}")]
    Tls(String),
}

/// An endpoint that takes documents.
pub struct Webhook {
    /// As it is told.
    endpoint: String,
    url: Url,
    client: Client,
    /// The header, and the token in it.
    bearer: Option<(HeaderValue, SecretValue)>,
    rules: Sinks,
}

impl fmt::Debug for Webhook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut described = f.debug_struct("Webhook");
        described.field("endpoint", &self.endpoint);
        described.finish_non_exhaustive()
    }
}

impl Webhook {
    /// A webhook that has not connected yet.
    ///
    /// # Errors
    ///
    /// [`ConstructError`] when the endpoint is refused or the credentials cannot be used.
    pub fn new(
        endpoint: &str,
        credentials: Credentials,
        guard: Guard,
        rules: Sinks,
    ) -> Result<Self, ConstructError> {
        let url: Url = endpoint
            .parse()
            .map_err(|error| ConstructError::Endpoint(format!("{error}")))?;
        let resolver = match guard {
            Guard::Enforced if url.host_str().is_some_and(guard::names_internal) => {
                return Err(ConstructError::Internal);
            }
            Guard::Enforced => Some(guard::resolver()),
            Guard::Disabled => None,
        };
        let client = client(&url, &credentials, resolver)?;
        let bearer = match credentials {
            Credentials::Bearer(token) => Some(bearer(token)?),
            Credentials::None | Credentials::Mutual { .. } => None,
        };
        Ok(Self {
            endpoint: told(endpoint, &url),
            url,
            client,
            bearer,
            rules,
        })
    }

    /// Sends a document until it is taken, or it is clear that it will not be.
    pub(super) async fn deliver(&self, document: &Bytes, headers: &HeaderMap) -> SinkOutcome {
        let Self { endpoint, .. } = self;
        let delivered = retry::deliver(&self.rules, || self.attempt(document, headers)).await;
        SinkOutcome {
            name: NAME,
            write_only: true,
            delivered: delivered
                .map(|()| endpoint.clone())
                .map_err(|error| format!("webhook sink: POST {endpoint} {error}")),
        }
    }

    async fn attempt(&self, document: &Bytes, headers: &HeaderMap) -> Result<(), Refusal> {
        let mut headers = headers.clone();
        if let Some((value, _)) = &self.bearer {
            headers.insert(AUTHORIZATION, value.clone());
        }
        let request = self.client.post(self.url.clone()).headers(headers);
        let answer = request.body(document.clone()).send().await;
        let answer = answer.map_err(|error| Refusal::Transport(innermost(&error.without_url())))?;
        let status = answer.status();
        if status.is_success() {
            return Ok(());
        }
        Err(Refusal::Answered {
            status: status.as_u16(),
            said: self.said(answer).await,
        })
    }

    /// The beginning of an answer's body; the token is hidden if the endpoint sends it back.
    async fn said(&self, mut answer: Response) -> String {
        let token = self.bearer.as_ref().map(|(_, token)| trimmed(token));
        let token = token.unwrap_or_default();
        // A token that begins in what is told has to be read to its end to be known.
        let enough = SAID + token.len();
        let mut body = Vec::new();
        while body.len() < enough
            && let Ok(Some(chunk)) = answer.chunk().await
        {
            body.extend_from_slice(&chunk);
        }
        excerpt(&body, token)
    }
}

/// What is told of a body.
fn excerpt(body: &[u8], token: &[u8]) -> String {
    let end = body.len().min(SAID);
    let mut told = Vec::new();
    let mut at = 0;
    while at < end {
        let rest = &body[at..];
        let is_whole = !token.is_empty() && rest.starts_with(token);
        if is_whole || (rest.len() >= PART && token.starts_with(rest)) {
            told.extend_from_slice(HIDDEN);
            at += token.len();
        } else {
            told.push(body[at]);
            at += 1;
        }
    }
    String::from_utf8_lossy(&told).trim().to_owned()
}

/// An endpoint without what may be a credential in it: user, password, query and fragment. One that has
/// none of these is told as it is configured.
fn told(endpoint: &str, url: &Url) -> String {
    let mut bare = url.clone();
    bare.set_query(None);
    bare.set_fragment(None);
    // Fails only for addresses that have no place for them.
    let _ = bare.set_username("");
    let _ = bare.set_password(None);
    if bare == *url {
        endpoint.to_owned()
    } else {
        bare.into()
    }
}

/// The token without the line break that a file ends with.
fn trimmed(token: &SecretValue) -> &[u8] {
    token.bytes().trim_ascii()
}

fn bearer(token: SecretValue) -> Result<(HeaderValue, SecretValue), ConstructError> {
    let text = [b"Bearer ", trimmed(&token)].concat();
    let mut value = HeaderValue::from_bytes(&text).map_err(|_| ConstructError::Token)?;
    value.set_sensitive(true);
    Ok((value, token))
}

fn client(
    url: &Url,
    credentials: &Credentials,
    resolver: Option<Arc<dyn Resolve>>,
) -> Result<Client, ConstructError> {
    let mut builder = Client::builder()
        // Names of headers on the wire are those of Go.
        .http1_title_case_headers()
        .redirect(redirect::Policy::none())
        // A proxy would connect to what nobody has checked.
        .no_proxy();
    if let Some(resolver) = resolver {
        builder = builder.dns_resolver(resolver);
    }
    let mut trusted = None;
    if let Credentials::Mutual {
        certificate,
        key,
        authorities,
    } = credentials
    {
        let pair = [certificate.bytes(), b"\n", key.bytes()].concat();
        let pair = Identity::from_pem(&pair).map_err(|_| ConstructError::Identity)?;
        builder = builder.identity(pair);
        if let Some(authorities) = authorities {
            let found = Certificate::from_pem_bundle(authorities.bytes());
            let found = found.map_err(|_| ConstructError::Authorities)?;
            if found.is_empty() {
                return Err(ConstructError::Authorities);
            }
            trusted = Some(found);
        }
    }
    if url.scheme() == "http" {
        // Nobody is asked to vouch for it, so that a system without authorities will do.
        trusted.get_or_insert_default();
    }
    if let Some(trusted) = trusted {
        builder = builder.tls_certs_only(trusted);
    }
    builder
        .build()
        .map_err(|error| ConstructError::Tls(chain(&error)))
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::super::guard::Checked;
    use super::super::guard::tests::Fixed;
    use super::*;
    use crate::controller::profile::V1_3_0;

    const TOKEN: &str = "s3cr3t-token-of-the-test";

    fn token(text: &str) -> Credentials {
        Credentials::Bearer(SecretValue::new(text.into()))
    }

    fn made(endpoint: &str, credentials: Credentials, guard: Guard) -> Result<Webhook, String> {
        // Without one, reqwest panics.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let made = Webhook::new(endpoint, credentials, guard, V1_3_0.sinks);
        made.map_err(|error| error.to_string())
    }

    #[test]
    fn an_endpoint_inside_the_network_makes_no_sink_unless_that_is_allowed() {
        for endpoint in [
            "http://127.0.0.1:1/x",
            "https://[::1]/",
            "http://localhost:8080",
        ] {
            assert_eq!(
                made(endpoint, Credentials::None, Guard::Enforced).expect_err("refused"),
                "webhook sink: endpoint URL points to loopback/private interface"
            );
            made(endpoint, Credentials::None, Guard::Disabled).expect("allowed");
        }
        made("http://hook.example", Credentials::None, Guard::Enforced).expect("a name");
        let error = made("https://a b", Credentials::None, Guard::Enforced);
        let error = error.expect_err("no URL");
        assert!(
            error.starts_with("webhook sink: endpoint URL is invalid: "),
            "{error}"
        );
    }

    #[tokio::test]
    async fn a_name_that_leads_inside_is_not_connected_to() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("its address").port();
        let endpoint = format!("http://hook.example:{port}/x");
        let mut hook = made(&endpoint, Credentials::None, Guard::Enforced).expect("a sink");
        hook.rules.webhook_waits = &[];
        let resolver = Arc::new(Checked(Fixed(vec![[127, 0, 0, 1].into()])));
        let guarded = client(&hook.url, &Credentials::None, Some(resolver));
        hook.client = guarded.expect("a client");
        let outcome = hook.deliver(&Bytes::new(), &HeaderMap::new()).await;
        assert_eq!(
            outcome.delivered,
            Err(format!(
                "webhook sink: POST {endpoint} failed: hook.example resolves to 127.0.0.1, a \
                 loopback or private address"
            ))
        );
        listener.set_nonblocking(true).expect("set");
        listener.accept().expect_err("nobody connected");
    }

    #[test]
    fn a_token_is_never_shown() {
        let endpoint = "https://hook.example/x";
        let hook = made(endpoint, token(&format!("{TOKEN}\n")), Guard::Enforced).expect("a sink");
        let (header, _) = hook.bearer.as_ref().expect("a token");
        assert_eq!(header, &format!("Bearer {TOKEN}"));
        let shown = format!("{hook:?} {:?} {header:?}", token(TOKEN));
        assert!(
            !shown.contains(TOKEN) && shown.contains(endpoint),
            "{shown}"
        );
        let error = made(endpoint, token("two\nlines"), Guard::Enforced).expect_err("an error");
        assert_eq!(
            error,
            "webhook sink: the bearer token cannot stand in a header"
        );
    }

    #[tokio::test]
    async fn credentials_in_an_endpoint_are_not_told() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("its address").port();
        drop(listener);
        let endpoint = format!("http://me:hidden@127.0.0.1:{port}/x?key=hidden#hidden");
        let mut hook = made(&endpoint, Credentials::None, Guard::Disabled).expect("a sink");
        hook.rules.webhook_waits = &[];
        assert_eq!(hook.url.as_str(), endpoint, "it is sent to all the same");
        let outcome = hook.deliver(&Bytes::new(), &HeaderMap::new()).await;
        let said = outcome.delivered.expect_err("nobody listens");
        let told = format!("webhook sink: POST http://127.0.0.1:{port}/x ");
        assert!(said.starts_with(&told), "{said}");
        let shown = format!("{said} {hook:?}");
        assert!(!shown.contains("hidden"), "{shown}");
    }

    #[test]
    fn the_beginning_of_a_body_is_told_without_the_token() {
        let told = |body: &str, token: &str| excerpt(body.as_bytes(), token.as_bytes());
        assert_eq!(told(" no luck\n", ""), "no luck");
        assert_eq!(told(&"x".repeat(1000), TOKEN), "x".repeat(SAID));
        assert_eq!(
            told(&format!("bad: {TOKEN}, really {TOKEN}!"), TOKEN),
            "bad: [REDACTED:token], really [REDACTED:token]!"
        );
        let filler = "x".repeat(SAID - 3);
        assert_eq!(
            told(&format!("{filler}{TOKEN} y"), TOKEN),
            format!("{filler}[REDACTED:token]")
        );
        assert_eq!(
            told(&format!("cut {}", &TOKEN[..12]), TOKEN),
            "cut [REDACTED:token]"
        );
    }

    #[test]
    fn certificates_that_are_none_make_no_sink() {
        let pem = |text: &str| SecretValue::new(text.into());
        let mutual = |authorities| Credentials::Mutual {
            certificate: pem("no certificate"),
            key: pem("no key"),
            authorities,
        };
        let endpoint = "https://hook.example/x";
        assert_eq!(
            made(endpoint, mutual(None), Guard::Enforced).expect_err("an error"),
            "webhook sink: the client certificate and key are not a pair in PEM"
        );
    }
}
