//! Asking a container over HTTP as a kubelet does.

use std::io;
use std::time::Duration;

use http::header::{ACCEPT, CONNECTION, HOST, HeaderMap, HeaderName, HeaderValue, USER_AGENT};
use k8s_openapi::api::core::v1::HTTPGetAction;
use reqwest::{Client, Response, Url, redirect};

use super::action::dial_error;
use super::worker::Outcome;
use crate::error_chain::{causes, innermost};

/// Of an answer's body, what is waited for, in bytes.
const BODY_LIMIT: usize = 10 * 1024;
/// Requests before a redirect is refused, the first one included.
const MOST_REQUESTS: usize = 10;
/// Services tell probes from users by how this begins.
const AGENT: HeaderValue = HeaderValue::from_static(concat!(
    "kube-probe/",
    env!("CARGO_PKG_VERSION_MAJOR"),
    ".",
    env!("CARGO_PKG_VERSION_MINOR")
));

/// A request of an `httpGet` probe, ready to be sent to whatever port stands for the container's.
pub(super) struct HttpGet {
    client: Client,
    scheme: &'static str,
    /// Path and query, with the slash.
    path: String,
    headers: HeaderMap,
}

impl HttpGet {
    pub(super) fn new(get: &HTTPGetAction, timeout: Duration) -> Result<Self, String> {
        // Without one, reqwest panics.
        if rustls::crypto::CryptoProvider::get_default().is_none() {
            return Err("no cryptography is installed in this process".to_owned());
        }
        let client = Client::builder()
            .no_proxy()
            .pool_max_idle_per_host(0)
            // A pod's certificate is nobody's business but its clients'; a kubelet does not look.
            .tls_danger_accept_invalid_certs(true)
            .redirect(redirect::Policy::custom(follow))
            .timeout(timeout)
            .build()
            .map_err(|error| innermost(&error))?;
        let scheme = match get.scheme.as_deref() {
            None | Some("" | "HTTP") => "http",
            Some("HTTPS") => "https",
            Some(other) => return Err(format!("unsupported scheme {other:?}")),
        };
        let path = get.path.as_deref().unwrap_or_default();
        let slash = if path.starts_with('/') { "" } else { "/" };
        Ok(Self {
            client,
            scheme,
            path: format!("{slash}{path}"),
            headers: headers(get)?,
        })
    }

    pub(super) async fn ask(&self, port: u16) -> Outcome {
        let url = format!("{}://127.0.0.1:{port}{}", self.scheme, self.path);
        let url = match Url::parse(&url) {
            Ok(url) => url,
            Err(error) => return Outcome::Error(format!("parse {url:?}: {error}")),
        };
        let request = self.client.get(url.clone()).headers(self.headers.clone());
        match request.send().await {
            Ok(response) => judge(response).await,
            Err(error) => {
                let url = error.url().unwrap_or(&url);
                let port = url.port_or_known_default().unwrap_or(port);
                Outcome::Failure(format!(
                    "Get {:?}: {}",
                    url.as_str(),
                    send_error(&error, port)
                ))
            }
        }
    }
}

/// The body comes first: an answer that does not end in time is none, whatever its status.
async fn judge(mut response: Response) -> Outcome {
    let status = response.status();
    let mut length = 0;
    while length < BODY_LIMIT {
        match response.chunk().await {
            Ok(Some(chunk)) => length += chunk.len(),
            Ok(None) => break,
            Err(error) if error.is_timeout() => {
                return Outcome::Error(
                    "context deadline exceeded (Client.Timeout or context cancellation while \
                     reading body)"
                        .to_owned(),
                );
            }
            Err(_) => return Outcome::Error("unexpected EOF".to_owned()),
        }
    }
    if status.is_success() || status.is_redirection() {
        Outcome::Success
    } else {
        let code = status.as_u16();
        Outcome::Failure(format!("HTTP probe failed with statuscode: {code}"))
    }
}

/// A redirect to another host ends there, and its 3xx counts as a success.
fn follow(attempt: redirect::Attempt<'_>) -> redirect::Action {
    let first = attempt.previous().first().and_then(Url::host_str);
    if first != attempt.url().host_str() {
        attempt.stop()
    } else if attempt.previous().len() >= MOST_REQUESTS {
        attempt.error(format!("stopped after {MOST_REQUESTS} redirects"))
    } else {
        attempt.follow()
    }
}

/// The spec's headers, and those that a kubelet adds.
fn headers(get: &HTTPGetAction) -> Result<HeaderMap, String> {
    let mut headers = HeaderMap::new();
    for header in get.http_headers.iter().flatten() {
        let name = HeaderName::from_bytes(header.name.as_bytes())
            .map_err(|_| format!("invalid header field name {:?}", header.name))?;
        let value = HeaderValue::from_str(&header.value)
            .map_err(|_| format!("invalid header field value for {:?}", header.name))?;
        if name == HOST {
            // Only the first one can be the request's.
            headers.entry(name).or_insert(value);
        } else {
            headers.append(name, value);
        }
    }
    headers.entry(USER_AGENT).or_insert(AGENT);
    // The kubelet keeps no connection either.
    headers.insert(CONNECTION, HeaderValue::from_static("close"));
    headers
        .entry(ACCEPT)
        .or_insert(HeaderValue::from_static("*/*"));
    Ok(headers)
}

/// Why there is no answer, as Go says it.
fn send_error(error: &reqwest::Error, port: u16) -> String {
    if error.is_timeout() {
        return "context deadline exceeded (Client.Timeout exceeded while awaiting headers)"
            .to_owned();
    }
    let system = causes(error).find_map(|cause| {
        let system = cause.downcast_ref::<io::Error>()?;
        system.raw_os_error().map(|_| system)
    });
    match system {
        Some(system) if error.is_connect() => dial_error(port, system),
        Some(system) if system.kind() == io::ErrorKind::ConnectionReset => {
            format!("read tcp 127.0.0.1:{port}: read: connection reset by peer")
        }
        _ => {
            let ended = causes(error)
                .filter_map(|cause| cause.downcast_ref::<hyper::Error>())
                .any(hyper::Error::is_incomplete_message);
            if ended {
                "EOF".to_owned()
            } else {
                innermost(error)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::HTTPHeader;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;
    use tokio::task::JoinHandle;

    use super::*;

    const TIMEOUT: Duration = Duration::from_millis(500);

    fn get(path: &str) -> HTTPGetAction {
        HTTPGetAction {
            path: Some(path.to_owned()),
            ..HTTPGetAction::default()
        }
    }

    fn probe(get: &HTTPGetAction) -> HttpGet {
        let _ = rustls::crypto::ring::default_provider().install_default();
        HttpGet::new(get, TIMEOUT).expect("a probe")
    }

    /// Gives each of these to one connection, as it stands, and closes; [`None`] leaves it open.
    /// Returns what it was asked.
    async fn serve(answers: Vec<Option<String>>) -> (u16, JoinHandle<Vec<String>>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let task = tokio::spawn(async move {
            let (mut asked, mut open) = (Vec::new(), Vec::new());
            for answer in answers {
                let (mut stream, _) = listener.accept().await.expect("a client");
                let mut request = Vec::new();
                while !request.ends_with(b"\r\n\r\n") {
                    let byte = stream.read_u8().await.expect("a request");
                    request.push(byte);
                }
                asked.push(String::from_utf8(request).expect("text"));
                match answer {
                    Some(answer) => {
                        let _ = stream.write_all(answer.as_bytes()).await;
                        let _ = stream.shutdown().await;
                    }
                    None => open.push(stream),
                }
            }
            asked
        });
        (port, task)
    }

    fn status(line: &str) -> Option<String> {
        Some(format!("HTTP/1.1 {line}\r\nContent-Length: 2\r\n\r\nok"))
    }

    fn redirect(to: &str) -> Option<String> {
        Some(format!(
            "HTTP/1.1 302 Found\r\nLocation: {to}\r\nContent-Length: 0\r\n\r\n"
        ))
    }

    #[tokio::test]
    async fn the_status_decides() {
        for (line, expected) in [
            ("200 OK", Outcome::Success),
            ("204 No Content", Outcome::Success),
            ("304 Not Modified", Outcome::Success),
            (
                "400 Bad Request",
                Outcome::Failure("HTTP probe failed with statuscode: 400".to_owned()),
            ),
            (
                "500 Internal Server Error",
                Outcome::Failure("HTTP probe failed with statuscode: 500".to_owned()),
            ),
        ] {
            let (port, _) = serve(vec![status(line)]).await;
            assert_eq!(probe(&get("/readyz")).ask(port).await, expected, "{line}");
        }
    }

    #[tokio::test]
    async fn the_request_is_the_spec_s_and_the_kubelet_s() {
        let header = |name: &str, value: &str| HTTPHeader {
            name: name.to_owned(),
            value: value.to_owned(),
        };
        let (port, asked) = serve(vec![status("200 OK"), status("200 OK")]).await;
        probe(&get("healthz?full=1")).ask(port).await;
        let with_headers = HTTPGetAction {
            host: Some("elsewhere.example".to_owned()),
            http_headers: Some(vec![
                header("Host", "pod.example"),
                header("X-Two", "a"),
                header("X-Two", "b"),
                header("User-Agent", "mine"),
            ]),
            ..get("/")
        };
        probe(&with_headers).ask(port).await;
        let asked = asked.await.expect("two requests");
        let plain = asked[0].to_ascii_lowercase();
        assert!(plain.starts_with("get /healthz?full=1 http/1.1\r\n"));
        for line in [
            format!("host: 127.0.0.1:{port}"),
            "user-agent: kube-probe/".to_owned(),
            "accept: */*".to_owned(),
            "connection: close".to_owned(),
        ] {
            assert!(plain.contains(&line), "{line}\n{plain}");
        }
        assert!(!plain.contains("accept-encoding"), "{plain}");
        let rich = asked[1].to_ascii_lowercase();
        for line in [
            "host: pod.example",
            "x-two: a",
            "x-two: b",
            "user-agent: mine",
        ] {
            assert!(rich.contains(line), "{line}\n{rich}");
        }
        assert!(!rich.contains("kube-probe"), "{rich}");
    }

    #[tokio::test]
    async fn anybody_s_certificate_will_do() {
        let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
        let made = rcgen::generate_simple_self_signed(["elsewhere.example".to_owned()])
            .expect("a certificate");
        let key = made.signing_key.serialize_der();
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_no_client_auth()
            .with_single_cert(
                vec![made.cert.der().clone()],
                key.try_into().expect("a key"),
            )
            .expect("a pair");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let serving = tokio::spawn(async move {
            let (stream, _) = listener.accept().await.expect("a client");
            let acceptor = tokio_rustls::TlsAcceptor::from(std::sync::Arc::new(config));
            let mut stream = acceptor.accept(stream).await.expect("a handshake");
            let mut request = [0; 1_024];
            let length = stream.read(&mut request).await.expect("a request");
            assert!(request[..length].starts_with(b"GET /readyz "));
            let answer = status("200 OK").expect("an answer");
            stream.write_all(answer.as_bytes()).await.expect("sent");
        });
        let https = HTTPGetAction {
            scheme: Some("HTTPS".to_owned()),
            ..get("/readyz")
        };
        assert_eq!(probe(&https).ask(port).await, Outcome::Success);
        serving.await.expect("it was asked");
        let odd = HTTPGetAction {
            scheme: Some("FTP".to_owned()),
            ..get("/")
        };
        assert!(HttpGet::new(&odd, TIMEOUT).is_err());
    }

    #[tokio::test]
    async fn redirects_are_followed_on_the_same_host_only() {
        let (port, asked) =
            serve(vec![redirect("/other"), status("503 Service Unavailable")]).await;
        assert_eq!(
            probe(&get("/")).ask(port).await,
            Outcome::Failure("HTTP probe failed with statuscode: 503".to_owned())
        );
        assert!(asked.await.expect("two requests")[1].starts_with("GET /other "));

        let (port, _) = serve(vec![redirect("http://elsewhere.example/")]).await;
        assert_eq!(probe(&get("/")).ask(port).await, Outcome::Success);

        let (port, asked) = serve(vec![redirect("/again"); MOST_REQUESTS]).await;
        assert_eq!(
            probe(&get("/")).ask(port).await,
            Outcome::Failure(format!(
                "Get \"http://127.0.0.1:{port}/again\": stopped after 10 redirects"
            ))
        );
        assert_eq!(asked.await.expect("ten requests").len(), MOST_REQUESTS);
    }

    #[tokio::test]
    async fn failures_read_as_the_kubelet_s() {
        let failure = |port: u16, why: &str| {
            Outcome::Failure(format!("Get \"http://127.0.0.1:{port}/readyz\": {why}"))
        };
        let closed = crate::host::ports::PortPicker::new()
            .next()
            .expect("a free port");
        assert_eq!(
            probe(&get("/readyz")).ask(closed).await,
            failure(
                closed,
                &format!("dial tcp 127.0.0.1:{closed}: connect: connection refused")
            )
        );
        let (silent, _serving) = serve(vec![None, None]).await;
        assert_eq!(
            probe(&get("/readyz")).ask(silent).await,
            failure(
                silent,
                "context deadline exceeded (Client.Timeout exceeded while awaiting headers)"
            )
        );
        let (rude, _) = serve(vec![Some(String::new())]).await;
        assert_eq!(probe(&get("/readyz")).ask(rude).await, failure(rude, "EOF"));
    }

    #[tokio::test]
    async fn a_body_that_does_not_end_says_nothing_and_a_long_one_is_not_awaited() {
        let cut = Some("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort".to_owned());
        let (port, _) = serve(vec![cut]).await;
        assert_eq!(
            probe(&get("/")).ask(port).await,
            Outcome::Error("unexpected EOF".to_owned())
        );
        let body = "x".repeat(BODY_LIMIT);
        let long = Some(format!(
            "HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n{body}"
        ));
        let (port, _) = serve(vec![long]).await;
        assert_eq!(probe(&get("/")).ask(port).await, Outcome::Success);
    }
}
