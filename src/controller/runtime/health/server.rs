//! A small HTTP server: a few addresses, plain text, no authentication.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use http::header::{CONTENT_TYPE, HeaderValue, X_CONTENT_TYPE_OPTIONS};
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::super::metrics::{self, Metrics};
use super::check::Endpoint;

/// How long a client may take to say what it wants.
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);
/// How long to wait when no connection can be accepted, for instance because no descriptor is left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
const TEXT: &str = "text/plain; charset=utf-8";

/// Where to listen, as the controller's flags say it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Bind {
    /// `0`: nowhere.
    Disabled,
    /// `HOST:PORT`, or `:PORT` for all addresses.
    Address {
        /// The host; empty for all addresses.
        host: String,
        /// The port; 0 lets the system choose.
        port: u16,
    },
}

/// Nothing can be served there.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// It is not an address.
    #[error("`{0}` is not HOST:PORT, :PORT or 0")]
    Address(String),
    /// The system refuses.
    #[error("cannot listen on {address}")]
    Listen {
        /// The address.
        address: String,
        /// Why.
        source: io::Error,
    },
}

impl BindError {
    /// The one thing to do about it, if there is one.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Listen { source, .. } if source.kind() == io::ErrorKind::AddrInUse => {
                Some("choose another port, or end what listens on this one".to_owned())
            }
            _ => None,
        }
    }
}

impl FromStr for Bind {
    type Err = BindError;

    fn from_str(text: &str) -> Result<Self, BindError> {
        if text == "0" {
            return Ok(Self::Disabled);
        }
        let wrong = || BindError::Address(text.to_owned());
        let (host, port) = text.rsplit_once(':').ok_or_else(wrong)?;
        let bare = host.strip_prefix('[').and_then(|h| h.strip_suffix(']'));
        let host = match bare {
            Some(bare) => bare,
            None if host.contains(':') => return Err(wrong()),
            None => host,
        };
        Ok(Self::Address {
            host: host.to_owned(),
            port: port.parse().map_err(|_| wrong())?,
        })
    }
}

/// Listens, if the flag says so.
///
/// # Errors
///
/// [`BindError`] when the system refuses the address.
pub async fn bind(to: &Bind) -> Result<Option<TcpListener>, BindError> {
    let Bind::Address { host, port } = to else {
        return Ok(None);
    };
    let listener = if host.is_empty() {
        // Both families where there are two, as a Go process listens.
        match TcpListener::bind((std::net::Ipv6Addr::UNSPECIFIED, *port)).await {
            Err(error) if error.kind() != io::ErrorKind::AddrInUse => {
                TcpListener::bind((std::net::Ipv4Addr::UNSPECIFIED, *port)).await
            }
            result => result,
        }
    } else {
        TcpListener::bind((host.as_str(), *port)).await
    };
    listener.map(Some).map_err(|source| BindError::Listen {
        address: format!("{host}:{port}"),
        source,
    })
}

/// What a server answers.
#[derive(Default)]
pub struct Routes {
    /// Health endpoints.
    pub endpoints: Vec<Endpoint>,
    /// What `/metrics` shows, if anything.
    pub metrics: Option<Arc<Metrics>>,
}

/// Serves until told to stop. Connections that are open then are cut.
pub async fn serve(listener: TcpListener, routes: Routes, stop: CancellationToken) {
    let routes = Arc::new(routes);
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => return,
            Some(_) = connections.join_next() => continue,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, from)) => {
                let routes = Arc::clone(&routes);
                connections.spawn(connection(stream, from, routes));
            }
            Err(error) => {
                tracing::debug!(%error, "cannot accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn connection(stream: TcpStream, from: SocketAddr, routes: Arc<Routes>) {
    let service = service_fn(move |request: Request<Incoming>| {
        let routes = Arc::clone(&routes);
        async move {
            let uri = request.uri();
            Ok::<_, Infallible>(routes.answer(uri.path(), uri.query()).await)
        }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .serve_connection(TokioIo::new(stream), service)
        .await;
    if let Err(error) = served {
        tracing::debug!(%error, %from, "connection ended");
    }
}

impl Routes {
    async fn answer(&self, path: &str, query: Option<&str>) -> Response<Full<Bytes>> {
        if path == "/metrics"
            && let Some(metrics) = &self.metrics
        {
            return match metrics.render() {
                Ok(text) => response(StatusCode::OK, metrics::CONTENT_TYPE, text),
                Err(error) => response(
                    StatusCode::INTERNAL_SERVER_ERROR,
                    TEXT,
                    format!("{error}\n"),
                ),
            };
        }
        for endpoint in &self.endpoints {
            if let Some((status, text)) = endpoint.answer(path, query).await {
                return response(status, TEXT, text);
            }
        }
        response(
            StatusCode::NOT_FOUND,
            TEXT,
            "404 page not found\n".to_owned(),
        )
    }
}

fn response(status: StatusCode, content_type: &'static str, text: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::super::check::Check;
    use super::*;

    #[test]
    fn addresses_are_written_as_go_writes_them() {
        let address = |host: &str, port| Bind::Address {
            host: host.to_owned(),
            port,
        };
        for (text, bind) in [
            ("0", Bind::Disabled),
            (":8081", address("", 8081)),
            ("127.0.0.1:8080", address("127.0.0.1", 8080)),
            ("[::1]:0", address("::1", 0)),
        ] {
            assert_eq!(text.parse::<Bind>().expect("an address"), bind, "{text}");
        }
        for text in ["", "8081", ":", ":port", "::1:80", ":65536"] {
            let error = text.parse::<Bind>().expect_err("not an address");
            assert!(error.to_string().contains(text), "{error}");
        }
    }

    async fn get(address: SocketAddr, path: &str) -> String {
        let mut stream = TcpStream::connect(address).await.expect("a connection");
        let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.expect("written");
        let mut text = String::new();
        stream.read_to_string(&mut text).await.expect("an answer");
        text
    }

    #[tokio::test]
    async fn the_addresses_answer_over_http() {
        let bind_to = "127.0.0.1:0".parse().expect("an address");
        let listener = bind(&bind_to).await.expect("a listener").expect("enabled");
        let address = listener.local_addr().expect("an address");
        let routes = Routes {
            endpoints: vec![Endpoint::new("/healthz", vec![Check::passing("healthz")])],
            metrics: Some(Metrics::new().expect("metrics")),
        };
        let stop = CancellationToken::new();
        let server = tokio::spawn(serve(listener, routes, stop.clone()));

        let health = get(address, "/healthz").await;
        assert!(health.starts_with("HTTP/1.1 200 OK\r\n"), "{health}");
        assert!(health.ends_with("\r\n\r\nok"), "{health}");
        let metrics = get(address, "/metrics").await;
        assert!(
            metrics.contains("content-type: text/plain; version=0.0.4"),
            "{metrics}"
        );
        assert!(
            metrics.contains("\nprocess_start_time_seconds "),
            "{metrics}"
        );
        let nothing = get(address, "/elsewhere").await;
        assert!(
            nothing.starts_with("HTTP/1.1 404 Not Found\r\n"),
            "{nothing}"
        );

        let taken = Bind::Address {
            host: "127.0.0.1".to_owned(),
            port: address.port(),
        };
        let error = bind(&taken).await.expect_err("in use");
        assert!(error.hint().is_some(), "{error}");
        assert!(bind(&Bind::Disabled).await.expect("no error").is_none());
        stop.cancel();
        server.await.expect("no panic");
    }
}
