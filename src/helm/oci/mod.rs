//! Pulls a chart from a registry, once, with every digest checked: the manifest's against the one that
//! was asked for, and the archive's against the manifest (ART-01, ART-02).
//!
//! Only what the distribution API serves to everybody: an anonymous token is fetched where the registry
//! wants one, and no credentials are read or written. A registry on this machine is spoken to in plain
//! HTTP and without a proxy; all others through HTTPS and the proxy of the environment.

mod challenge;
mod error;
mod wanted;

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use reqwest::header::{ACCEPT, HeaderMap, WWW_AUTHENTICATE};
use reqwest::{Client, Response, StatusCode, Url};
use serde::Deserialize;
use sha2::Digest as _;
use tokio::io::AsyncWriteExt as _;

use self::challenge::Challenge;
pub use self::error::{OciError, OciTrouble};
pub(super) use self::wanted::Wanted;
use crate::error_chain::innermost;
use crate::record::sha256_hex;

const CONNECT_LIMIT: Duration = Duration::from_secs(15);
/// The longest silence.
const READ_LIMIT: Duration = Duration::from_secs(30);
/// A chart has some tens of kilobytes.
const LIMIT: Duration = Duration::from_secs(180);

/// Most bytes of a manifest: what registries take.
const MOST_MANIFEST: u64 = 4 << 20;
/// Most bytes of an answer that holds a token.
const MOST_TOKEN: u64 = 1 << 20;
/// Most bytes of an archive: what Helm takes.
const MOST_ARCHIVE: u64 = 100 << 20;

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const CHART_CONFIG: &str = "application/vnd.cncf.helm.config.v1+json";
const CHART_LAYER: &str = "application/vnd.cncf.helm.chart.content.v1.tar+gzip";
const DIGEST_HEADER: &str = "docker-content-digest";

/// A chart that was pulled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pulled {
    /// The digest of its manifest, `sha256:` and 64 hex digits.
    pub(super) digest: String,
}

/// Pulls a chart to a new file.
pub(super) async fn pull(wanted: &Wanted, to: &Path) -> Result<Pulled, OciError> {
    let pulled = async {
        let mut session = Session::new(wanted)?;
        let (digest, layer) = session.manifest().await?;
        session.archive(&layer, to).await?;
        Ok(Pulled { digest })
    };
    let pulled = tokio::time::timeout(LIMIT, pulled).await;
    pulled
        .unwrap_or(Err(OciTrouble::TooSlow(LIMIT)))
        .map_err(|trouble| wanted.failed(trouble))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Manifest {
    #[serde(default)]
    config: Option<Descriptor>,
    #[serde(default)]
    layers: Vec<Descriptor>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Descriptor {
    media_type: String,
    digest: String,
    size: u64,
}

#[derive(Deserialize)]
struct Token {
    #[serde(default)]
    token: Option<String>,
    #[serde(default)]
    access_token: Option<String>,
}

/// One conversation with a registry.
struct Session<'a> {
    wanted: &'a Wanted,
    client: Client,
    token: Option<String>,
}

impl<'a> Session<'a> {
    fn new(wanted: &'a Wanted) -> Result<Self, OciTrouble> {
        // Without one, reqwest panics.
        if rustls::crypto::CryptoProvider::get_default().is_none() {
            let words = "no cryptography is installed in this process";
            return Err(OciTrouble::Transport(words.to_owned()));
        }
        let mut builder = Client::builder()
            .user_agent(concat!("aibom-qual/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(CONNECT_LIMIT)
            .read_timeout(READ_LIMIT)
            .https_only(!wanted.is_local());
        if wanted.is_local() {
            builder = builder.no_proxy();
        }
        let client = builder.build().map_err(transport)?;
        Ok(Self {
            wanted,
            client,
            token: None,
        })
    }

    /// The digest of the manifest, and the layer that is the chart.
    async fn manifest(&mut self) -> Result<(String, Descriptor), OciTrouble> {
        let address = self.wanted.manifest();
        let response = self.get(address, MANIFEST).await?;
        let announced = header(response.headers(), DIGEST_HEADER);
        let bytes = body(response, MOST_MANIFEST, "the manifest").await?;
        let digest = format!("sha256:{}", sha256_hex(&bytes));
        let expected = [self.wanted.digest().map(str::to_owned), announced];
        for expected in expected.into_iter().flatten() {
            if expected != digest {
                return Err(OciTrouble::Digest {
                    what: "the manifest",
                    expected,
                    found: digest,
                });
            }
        }
        let not_a_chart = |why: &str| OciTrouble::NotAChart(why.to_owned());
        let manifest: Manifest = serde_json::from_slice(&bytes)
            .map_err(|_| not_a_chart("its manifest cannot be read"))?;
        let kind = manifest.config.map(|config| config.media_type);
        if kind.as_deref() != Some(CHART_CONFIG) {
            let kind = kind.unwrap_or_else(|| "several images".to_owned());
            return Err(OciTrouble::NotAChart(format!("it is for {kind}")));
        }
        let mut layers = manifest.layers.into_iter();
        let chart = layers.find(|layer| layer.media_type == CHART_LAYER);
        Ok((
            digest,
            chart.ok_or_else(|| not_a_chart("it holds no archive of one"))?,
        ))
    }

    /// Writes the archive, and leaves none that is not the one that the manifest names.
    async fn archive(&mut self, layer: &Descriptor, to: &Path) -> Result<(), OciTrouble> {
        if layer.size > MOST_ARCHIVE {
            return Err(OciTrouble::TooLarge("the archive"));
        }
        let address = self.wanted.blob(&layer.digest);
        let response = self.get(address, "*/*").await?;
        let written = write(response, layer, to).await;
        if written.is_err() {
            // It may not be there at all.
            let _ = tokio::fs::remove_file(to).await;
        }
        written
    }

    /// Asks, and once more with an anonymous token where the registry wants one.
    async fn get(&mut self, address: Url, accept: &str) -> Result<Response, OciTrouble> {
        let mut response = self.ask(&address, accept).await?;
        if response.status() == StatusCode::UNAUTHORIZED && self.token.is_none() {
            let challenges = response.headers().get_all(WWW_AUTHENTICATE).iter();
            let mut challenges = challenges.filter_map(|value| value.to_str().ok());
            let challenge = challenges.find_map(Challenge::parse);
            let challenge = challenge.ok_or(OciTrouble::Denied(StatusCode::UNAUTHORIZED))?;
            self.token = Some(self.fetch_token(&challenge).await?);
            response = self.ask(&address, accept).await?;
        }
        accepted(response)
    }

    async fn ask(&self, address: &Url, accept: &str) -> Result<Response, OciTrouble> {
        let mut request = self.client.get(address.clone()).header(ACCEPT, accept);
        if let Some(token) = &self.token {
            request = request.bearer_auth(token);
        }
        request.send().await.map_err(transport)
    }

    async fn fetch_token(&self, challenge: &Challenge) -> Result<String, OciTrouble> {
        let address = challenge
            .address(&self.wanted.scope())
            .ok_or_else(|| OciTrouble::Transport("it names no place for tokens".to_owned()))?;
        let response = self.client.get(address).send().await.map_err(transport)?;
        let bytes = body(accepted(response)?, MOST_TOKEN, "the token").await?;
        let answer: Option<Token> = serde_json::from_slice(&bytes).ok();
        answer
            .and_then(|answer| answer.token.or(answer.access_token))
            .ok_or_else(|| OciTrouble::Transport("its token cannot be read".to_owned()))
    }
}

fn accepted(response: Response) -> Result<Response, OciTrouble> {
    match response.status() {
        status if status.is_success() => Ok(response),
        StatusCode::NOT_FOUND => Err(OciTrouble::NotFound),
        status @ (StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) => {
            Err(OciTrouble::Denied(status))
        }
        status => Err(OciTrouble::Status(status)),
    }
}

async fn body(
    mut response: Response,
    most: u64,
    what: &'static str,
) -> Result<Vec<u8>, OciTrouble> {
    let mut bytes = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(transport)? {
        bytes.extend_from_slice(&chunk);
        if bytes.len() as u64 > most {
            return Err(OciTrouble::TooLarge(what));
        }
    }
    Ok(bytes)
}

async fn write(mut response: Response, layer: &Descriptor, to: &Path) -> Result<(), OciTrouble> {
    let mut file = tokio::fs::File::create_new(to)
        .await
        .map_err(OciTrouble::Write)?;
    let mut hasher = sha2::Sha256::new();
    let mut size = 0;
    while let Some(chunk) = response.chunk().await.map_err(transport)? {
        size += chunk.len() as u64;
        if size > layer.size {
            return Err(OciTrouble::TooLarge("the archive"));
        }
        hasher.update(&chunk);
        file.write_all(&chunk).await.map_err(OciTrouble::Write)?;
    }
    file.flush().await.map_err(OciTrouble::Write)?;
    let mut found = "sha256:".to_owned();
    for byte in hasher.finalize() {
        // Writing to a `String` cannot fail.
        let _ = write!(found, "{byte:02x}");
    }
    if found == layer.digest {
        Ok(())
    } else {
        Err(OciTrouble::Digest {
            what: "the archive",
            expected: layer.digest.clone(),
            found,
        })
    }
}

fn header(headers: &HeaderMap, name: &str) -> Option<String> {
    headers.get(name)?.to_str().ok().map(str::to_owned)
}

/// The innermost cause, without the address: that of a redirect may hold a signature.
fn transport(error: reqwest::Error) -> OciTrouble {
    OciTrouble::Transport(innermost(&error.without_url()))
}

#[cfg(test)]
mod tests;
