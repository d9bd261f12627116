//! The controller's client: what it puts on the wire is what its metrics say.
//!
//! Nothing slows requests down. Each attempt counts in `rest_client_requests_total`, because the
//! meter sits below the retries: kube's own retries are off, and the ones here are client-go's, which
//! repeats a request only when the server says after how many seconds (`Retry-After` of a 429 or a
//! 5xx), or when it only reads and the connection is lost; ten times at most.

use std::error::Error as StdError;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::header::{RETRY_AFTER, USER_AGENT};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use kube::client::{Body, ClientBuilder};
use kube::{Client, Config};
use tower::buffer::BufferLayer;
use tower::retry::{Policy, RetryLayer};
use tower::{BoxError, Layer, Service};

use super::metrics::Metrics;

/// How long a server may take to accept a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a connection may be silent. The longest silence of a healthy server is a watch without
/// events, and a watch asks for at most ten minutes of it.
const READ_TIMEOUT: Duration = Duration::from_secs(11 * 60);
/// How often a request is repeated.
const RETRIES: u32 = 10;
/// How long a request that only reads waits after its connection was lost.
const LOST_WAIT: Duration = Duration::from_secs(1);
/// Requests that may wait for a connection's turn, before the next one waits to be accepted.
const QUEUED: usize = 1024;

/// No client can be made.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The name of the program cannot stand in a header.
    #[error("`{0}` cannot be a user agent")]
    UserAgent(String),
    /// The certificates or keys of the configuration are unusable.
    #[error("cannot make a client for {server}")]
    Unusable {
        /// The server's URL.
        server: String,
        /// Why.
        source: Box<kube::Error>,
    },
}

impl ClientError {
    /// The one thing to do about it, if there is one.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::UserAgent(_) => None,
            Self::Unusable { .. } => {
                Some("check the certificates and keys in the kubeconfig".to_owned())
            }
        }
    }
}

/// Makes the client. Nothing is sent yet. The server takes the field manager of a write from the part
/// of `user_agent` before its first slash.
///
/// # Errors
///
/// [`ClientError`] when the configuration is unusable.
pub fn connect(
    mut config: Config,
    user_agent: &str,
    metrics: Arc<Metrics>,
) -> Result<Client, ClientError> {
    let value = HeaderValue::from_str(user_agent)
        .map_err(|_| ClientError::UserAgent(user_agent.to_owned()))?;
    config.headers.push((USER_AGENT, value));
    config.default_retry = false;
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    config.read_timeout = Some(READ_TIMEOUT);
    // Else the time that a connection lay idle in the pool would count as silence of the server.
    config.reset_reader_on_write = true;
    let server = config.cluster_url.to_string();
    let meter = MeterLayer {
        // Requests are still without a host where the meter sits.
        host: config
            .cluster_url
            .authority()
            .map_or("", |authority| authority.as_str())
            .into(),
        metrics,
    };
    let builder = ClientBuilder::try_from(config).map_err(|source| ClientError::Unusable {
        server,
        source: Box::new(source),
    })?;
    Ok(with_layers(builder, meter).build())
}

/// Puts the meter around the wire, and the retries around the meter.
fn with_layers<S, B>(
    builder: ClientBuilder<S>,
    meter: MeterLayer,
) -> ClientBuilder<
    impl Service<Request<Body>, Response = Response<B>, Error = BoxError, Future: Send> + Send + 'static,
>
where
    S: Service<Request<Body>, Response = Response<B>, Error = BoxError> + Send + 'static,
    S::Future: Send + 'static,
    B: Send + 'static,
{
    builder
        .with_layer(&meter)
        .with_layer(&BufferLayer::new(QUEUED))
        .with_layer(&RetryLayer::new(RetryAfter { left: RETRIES }))
}

/// Counts what passes.
#[derive(Clone)]
struct MeterLayer {
    host: Arc<str>,
    metrics: Arc<Metrics>,
}

impl<S> Layer<S> for MeterLayer {
    type Service = Meter<S>;

    fn layer(&self, inner: S) -> Meter<S> {
        Meter {
            inner,
            layer: self.clone(),
        }
    }
}

struct Meter<S> {
    inner: S,
    layer: MeterLayer,
}

impl<S, B> Service<Request<Body>> for Meter<S>
where
    S: Service<Request<Body>, Response = Response<B>>,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let mut attempt = Attempt {
            layer: self.layer.clone(),
            method: request.method().clone(),
            code: None,
        };
        let answer = self.inner.call(request);
        Box::pin(async move {
            let answer = answer.await;
            attempt.over(&answer);
            answer
        })
    }
}

/// A request on the wire. It counts when it is over, also if nobody waits for its answer any more.
struct Attempt {
    layer: MeterLayer,
    method: Method,
    code: Option<StatusCode>,
}

impl Attempt {
    fn over<B, E>(&mut self, answer: &Result<Response<B>, E>) {
        self.code = answer.as_ref().ok().map(Response::status);
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        let code = self.code.as_ref().map_or("<error>", StatusCode::as_str);
        let MeterLayer { host, metrics } = &self.layer;
        metrics.request(code, self.method.as_str(), host);
    }
}

/// Repeats what the server asks to repeat, and what may be repeated without harm.
#[derive(Clone)]
struct RetryAfter {
    left: u32,
}

impl<B> Policy<Request<Body>, Response<B>, BoxError> for RetryAfter {
    type Future = tokio::time::Sleep;

    fn retry(
        &mut self,
        request: &mut Request<Body>,
        result: &mut Result<Response<B>, BoxError>,
    ) -> Option<Self::Future> {
        let after = match result {
            Ok(response) => asked_to_wait(response)?,
            Err(error) if request.method() == Method::GET && is_lost(&**error) => LOST_WAIT,
            Err(_) => return None,
        };
        self.left = self.left.checked_sub(1)?;
        Some(tokio::time::sleep(after))
    }

    fn clone_request(&mut self, request: &Request<Body>) -> Option<Request<Body>> {
        let mut copy = Request::new(request.body().try_clone()?);
        *copy.method_mut() = request.method().clone();
        *copy.uri_mut() = request.uri().clone();
        *copy.version_mut() = request.version();
        *copy.headers_mut() = request.headers().clone();
        *copy.extensions_mut() = request.extensions().clone();
        Some(copy)
    }
}

/// After how long the server wants the request again.
fn asked_to_wait<B>(response: &Response<B>) -> Option<Duration> {
    let status = response.status();
    if status != StatusCode::TOO_MANY_REQUESTS && !status.is_server_error() {
        return None;
    }
    let after = response.headers().get(RETRY_AFTER)?.to_str().ok()?;
    Some(Duration::from_secs(after.parse().ok()?))
}

/// Whether the connection ended before the answer.
fn is_lost(error: &(dyn StdError + 'static)) -> bool {
    let mut cause = Some(error);
    while let Some(error) = cause {
        let lost = match error.downcast_ref::<io::Error>() {
            Some(error) => matches!(
                error.kind(),
                io::ErrorKind::ConnectionReset | io::ErrorKind::UnexpectedEof
            ),
            None => error
                .downcast_ref::<hyper::Error>()
                .is_some_and(hyper::Error::is_incomplete_message),
        };
        if lost {
            return true;
        }
        cause = error.source();
    }
    false
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::Api;
    use serde_json::json;

    use super::super::scripted::{Answer, Script};
    use super::*;

    fn metered(script: &Script) -> (Client, Arc<Metrics>) {
        let metrics = Metrics::new().expect("metrics");
        let meter = MeterLayer {
            host: "127.0.0.1:6443".into(),
            metrics: Arc::clone(&metrics),
        };
        let builder = ClientBuilder::new(script.service(), "default");
        (with_layers(builder, meter).build(), metrics)
    }

    fn counted(metrics: &Metrics) -> Vec<String> {
        let text = metrics.render().expect("text");
        let series = text
            .lines()
            .filter(|line| line.starts_with("rest_client_requests_total"));
        series.map(str::to_owned).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn every_attempt_counts_and_waits_as_long_as_the_server_says() {
        let script = Script::new([
            Answer::status(429, "TooManyRequests").retry_after(3),
            Answer::status(503, "ServiceUnavailable").retry_after(2),
            Answer::json(200, &json!({"metadata": {"name": "x"}})),
        ]);
        let (client, metrics) = metered(&script);
        let start = tokio::time::Instant::now();
        let api: Api<ConfigMap> = Api::default_namespaced(client);
        api.get("x").await.expect("an object");
        assert_eq!(start.elapsed(), Duration::from_secs(5));
        assert_eq!(
            counted(&metrics),
            [
                "rest_client_requests_total{code=\"200\",host=\"127.0.0.1:6443\",method=\"GET\"} 1",
                "rest_client_requests_total{code=\"429\",host=\"127.0.0.1:6443\",method=\"GET\"} 1",
                "rest_client_requests_total{code=\"503\",host=\"127.0.0.1:6443\",method=\"GET\"} 1",
            ]
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_write_is_repeated_with_its_body() {
        let script = Script::new([
            Answer::status(429, "TooManyRequests").retry_after(1),
            Answer::json(201, &json!({"metadata": {"name": "x"}})),
        ]);
        let (client, metrics) = metered(&script);
        let api: Api<ConfigMap> = Api::default_namespaced(client);
        let object = serde_json::from_value(json!({"metadata": {"name": "x"}})).expect("an object");
        api.create(&kube::api::PostParams::default(), &object)
            .await
            .expect("created");
        let bodies: Vec<_> = script.seen().into_iter().map(|seen| seen.body).collect();
        assert_eq!(bodies.len(), 2);
        assert!(bodies[0].contains("\"x\""));
        assert_eq!(bodies[0], bodies[1]);
        assert_eq!(counted(&metrics).len(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_repeated_that_the_server_does_not_ask_for() {
        for answer in [
            Answer::status(500, "InternalError"),
            Answer::status(429, "TooManyRequests"),
            Answer::status(409, "Conflict").retry_after(1),
            Answer::refused(),
        ] {
            let script = Script::new([answer]);
            let (client, _metrics) = metered(&script);
            let api: Api<ConfigMap> = Api::default_namespaced(client);
            api.get("x").await.expect_err("an error");
            assert_eq!(script.seen().len(), 1);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn after_a_lost_connection_only_reads_are_repeated() {
        let script = Script::new([
            Answer::reset(),
            Answer::json(200, &json!({"metadata": {"name": "x"}})),
            Answer::reset(),
        ]);
        let (client, metrics) = metered(&script);
        let start = tokio::time::Instant::now();
        let api: Api<ConfigMap> = Api::default_namespaced(client);
        let object = api.get("x").await.expect("an object");
        assert_eq!(start.elapsed(), LOST_WAIT);
        let parameters = kube::api::PostParams::default();
        let created = api.create(&parameters, &object).await;
        created.expect_err("it may have been made");
        assert_eq!(
            counted(&metrics),
            [
                "rest_client_requests_total{code=\"200\",host=\"127.0.0.1:6443\",method=\"GET\"} 1",
                "rest_client_requests_total{code=\"<error>\",host=\"127.0.0.1:6443\",method=\"GET\"} 1",
                "rest_client_requests_total{code=\"<error>\",host=\"127.0.0.1:6443\",method=\"POST\"} 1",
            ]
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_nobody_waits_for_counts_as_an_error() {
        let script = Script::new([]);
        let (client, metrics) = metered(&script);
        let api: Api<ConfigMap> = Api::default_namespaced(client);
        let waited = tokio::time::timeout(Duration::from_secs(60), api.get("x")).await;
        waited.expect_err("no answer");
        assert_eq!(
            counted(&metrics),
            [
                "rest_client_requests_total{code=\"<error>\",host=\"127.0.0.1:6443\",method=\"GET\"} 1",
            ]
        );
    }

    #[tokio::test(start_paused = true)]
    async fn ten_retries_are_the_end_and_a_lost_connection_counts_as_an_error() {
        let script = Script::new(
            (0..11)
                .map(|_| Answer::status(429, "TooManyRequests").retry_after(1))
                .chain([Answer::refused()]),
        );
        let (client, metrics) = metered(&script);
        let api: Api<ConfigMap> = Api::default_namespaced(client);
        api.get("x").await.expect_err("too many");
        api.get("x").await.expect_err("refused");
        assert_eq!(
            counted(&metrics),
            [
                "rest_client_requests_total{code=\"429\",host=\"127.0.0.1:6443\",method=\"GET\"} 11",
                "rest_client_requests_total{code=\"<error>\",host=\"127.0.0.1:6443\",method=\"GET\"} 1",
            ]
        );
    }

    #[tokio::test]
    async fn the_program_names_itself_and_a_bad_name_is_an_error() {
        let metrics = Metrics::new().expect("metrics");
        let config = Config::new("http://127.0.0.1:1".parse().expect("a URL"));
        connect(config.clone(), "manager/v1", Arc::clone(&metrics)).expect("a client");
        let error = connect(config, "a\nb", metrics).err().expect("an error");
        assert!(matches!(error, ClientError::UserAgent(_)), "{error}");
    }
}
