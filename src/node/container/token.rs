//! Tokens of a pod's ServiceAccount, in files that are rewritten before a token expires.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::authentication::v1::{BoundObjectReference, TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccountTokenProjection;
use tokio::task::spawn_blocking;
use tokio::time::sleep;

use super::objects::{ObjectError, Objects};
use crate::host::files::{FileError, SECRET, write_atomic};

/// The life of a token whose pod does not say (the API's default), in seconds.
const DEFAULT_SECONDS: i64 = 3600;
/// No token is used for longer, as with a kubelet.
const OLDEST: Duration = Duration::from_secs(24 * 60 * 60);
/// Refreshes are spread over this time, so that pods that started together do not ask together.
const JITTER: Duration = Duration::from_secs(10);
/// Pauses after a failed refresh grow from this one …
const FIRST_RETRY: Duration = Duration::from_secs(1);
/// … to this one.
const LONGEST_RETRY: Duration = Duration::from_secs(60);

/// Whose tokens.
#[derive(Clone, Debug)]
pub(super) struct Holder {
    /// The pod's name.
    pub(super) pod: String,
    /// The pod's UID: a token ends with its pod.
    pub(super) uid: String,
    /// The pod's ServiceAccount.
    pub(super) service_account: String,
}

/// One file with a token.
#[derive(Clone)]
pub(super) struct TokenFile {
    objects: Objects,
    holder: Arc<Holder>,
    audience: Option<String>,
    seconds: i64,
    path: PathBuf,
}

/// Why a token cannot be had.
#[derive(Debug, thiserror::Error)]
pub(super) enum TokenError {
    /// The API server gives none.
    #[error("failed to fetch token: {0}")]
    Request(#[from] ObjectError),
    /// Its answer holds none.
    #[error("failed to fetch token: the answer holds no token")]
    NoToken,
    /// It cannot be written.
    #[error(transparent)]
    File(#[from] FileError),
    /// The thread that writes it ended.
    #[error("cannot write a token")]
    Writer(#[from] tokio::task::JoinError),
}

impl TokenFile {
    /// The file that this part of a volume asks for.
    pub(super) fn new(
        objects: Objects,
        holder: Arc<Holder>,
        projection: &ServiceAccountTokenProjection,
        path: PathBuf,
    ) -> Self {
        Self {
            objects,
            holder,
            audience: projection.audience.clone().filter(|name| !name.is_empty()),
            seconds: projection.expiration_seconds.unwrap_or(DEFAULT_SECONDS),
            path,
        }
    }

    /// Requests a token and writes it. Returns how long the token lives.
    ///
    /// # Errors
    ///
    /// [`TokenError`].
    pub(super) async fn write(&self) -> Result<Duration, TokenError> {
        let holder = &self.holder;
        let request = TokenRequest {
            spec: TokenRequestSpec {
                audiences: self.audience.iter().cloned().collect(),
                expiration_seconds: Some(self.seconds),
                bound_object_ref: Some(BoundObjectReference {
                    api_version: Some("v1".to_owned()),
                    kind: Some("Pod".to_owned()),
                    name: Some(holder.pod.clone()),
                    uid: Some(holder.uid.clone()),
                }),
            },
            ..TokenRequest::default()
        };
        let answer = self
            .objects
            .token(&holder.service_account, &request)
            .await?;
        let token = answer.status.map(|status| status.token);
        let token = token.filter(|token| !token.is_empty());
        let token = token.ok_or(TokenError::NoToken)?;
        let path = self.path.clone();
        spawn_blocking(move || write_atomic(&path, token.as_bytes(), SECRET)).await??;
        // The server may give a token another life than was asked for.
        let seconds = answer.spec.expiration_seconds.unwrap_or(self.seconds);
        Ok(Duration::from_secs(u64::try_from(seconds).unwrap_or(0)))
    }

    /// Replaces the token for ever, each before its end. As long as that fails, the old one stays.
    pub(super) async fn keep_fresh(self, first_life: Duration) {
        let mut life = first_life;
        loop {
            sleep(refresh_after(life, JITTER.mul_f64(fastrand::f64()))).await;
            let mut pause = FIRST_RETRY;
            life = loop {
                match self.write().await {
                    Ok(life) => break life,
                    Err(error) => {
                        tracing::warn!(
                            path = %self.path.display(),
                            "cannot refresh a token, trying again in {} s: {error}",
                            pause.as_secs(),
                        );
                    }
                }
                sleep(pause.mul_f64(1.0 + 0.2 * fastrand::f64())).await;
                pause = LONGEST_RETRY.min(2 * pause);
            };
        }
    }
}

/// When a token of this life is replaced: with a fifth of it left.
fn refresh_after(life: Duration, jitter: Duration) -> Duration {
    let due = (life * 4 / 5).min(OLDEST);
    due.saturating_sub(jitter).max(FIRST_RETRY)
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::atomic::{AtomicU32, Ordering};

    use http::{Request, Response};
    use http_body_util::BodyExt as _;
    use kube::Client;
    use kube::client::Body;
    use serde_json::{Value, json};

    use super::*;

    /// Gives `token-1`, `token-2` and so on, and fails at the second request.
    fn issuer(requests: Arc<AtomicU32>) -> Client {
        let service = tower::service_fn(move |request: Request<Body>| {
            let number = requests.fetch_add(1, Ordering::SeqCst) + 1;
            async move {
                let body = request.into_body().collect().await.expect("a body");
                let mut answer: Value = serde_json::from_slice(&body.to_bytes()).expect("JSON");
                assert_eq!(answer["spec"]["boundObjectRef"]["uid"], "u-1");
                assert_eq!(answer["spec"]["expirationSeconds"], 3607);
                answer["status"] = json!({
                    "token": format!("token-{number}"),
                    "expirationTimestamp": "2030-01-01T00:00:00Z",
                });
                let answer = Response::builder()
                    .status(if number == 2 { 500 } else { 201 })
                    .body(Body::from(answer.to_string().into_bytes()));
                Ok::<_, Infallible>(answer.expect("an answer"))
            }
        });
        Client::new(service, "default")
    }

    #[tokio::test(start_paused = true)]
    async fn a_token_is_replaced_before_its_end_and_kept_when_there_is_no_other() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let path = dir.path().join("token");
        let requests = Arc::new(AtomicU32::new(0));
        let objects = Objects::new(
            issuer(Arc::clone(&requests)),
            "ns".to_owned(),
            "node".to_owned(),
        );
        let holder = Holder {
            pod: "p".to_owned(),
            uid: "u-1".to_owned(),
            service_account: "default".to_owned(),
        };
        let projection = ServiceAccountTokenProjection {
            expiration_seconds: Some(3607),
            path: "token".to_owned(),
            audience: None,
        };
        let file = TokenFile::new(objects, Arc::new(holder), &projection, path.clone());
        let read = || std::fs::read_to_string(&path).expect("a token");

        let life = file.write().await.expect("a token");
        assert_eq!((life.as_secs(), read()), (3607, "token-1".to_owned()));
        let keeper = tokio::spawn(file.keep_fresh(life));
        sleep(Duration::from_secs(2870)).await;
        assert_eq!(requests.load(Ordering::SeqCst), 1);
        // Refused at 2886 s at the latest, asked for again a second later.
        sleep(Duration::from_secs(20)).await;
        assert_eq!(read(), "token-3");
        keeper.abort();
    }

    #[test]
    fn a_token_is_replaced_with_a_fifth_of_its_life_left() {
        let after = |life, jitter| {
            refresh_after(Duration::from_secs(life), Duration::from_secs(jitter)).as_secs()
        };
        assert_eq!(after(600, 0), 480);
        assert_eq!(after(600, 10), 470);
        assert_eq!(after(10 * 365 * 86_400, 0), 86_400);
        assert_eq!(after(0, 10), 1);
    }
}
