//! One HTTP exchange over a stream.

use std::pin::pin;

use chrono::{DateTime, Utc};
use http::header::{CONNECTION, CONTENT_LENGTH, HOST, TRANSFER_ENCODING};
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::handshake;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};

use super::files::ScrapeFiles;
use crate::error_chain::chain;

/// A body is 50 to 100 kB; one beyond this is not what was asked for.
const MOST: usize = 16 << 20;

/// A whole answer.
#[derive(Debug)]
pub(super) struct Answer {
    /// When it began.
    pub(super) at: DateTime<Utc>,
    /// The same in milliseconds since the run began.
    pub(super) at_ms: u64,
    /// All of its body.
    pub(super) body: Bytes,
}

/// Asks for `/metrics`. The server's last word is the length of the body or its last chunk: a body
/// that just ends may have been cut off.
pub(super) async fn get<S>(stream: S, clock: &ScrapeFiles) -> Result<Answer, String>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (mut sender, connection) = handshake(TokioIo::new(stream))
        .await
        .map_err(|error| chain(&error))?;
    let exchange = async move {
        let request = Request::get("/metrics")
            .header(HOST, "localhost")
            .header(CONNECTION, "close")
            .body(Empty::<Bytes>::new())
            .map_err(|error| chain(&error))?;
        let response = sender.send_request(request).await;
        let response = response.map_err(|error| chain(&error))?;
        let (at, at_ms) = clock.now();
        check(&response)?;
        let body = Limited::new(response.into_body(), MOST).collect().await;
        let body = body.map_err(|error| chain(&*error))?.to_bytes();
        Ok(Answer { at, at_ms, body })
    };
    let (mut exchange, mut connection) = (pin!(exchange), pin!(connection));
    tokio::select! {
        biased;
        answer = &mut exchange => return answer,
        // What it fails of, the exchange tells as well.
        _ = &mut connection => {}
    }
    exchange.await
}

fn check(response: &Response<Incoming>) -> Result<(), String> {
    let status = response.status();
    if status != StatusCode::OK {
        return Err(format!("status {status}"));
    }
    let headers = response.headers();
    let chunked = headers.get(TRANSFER_ENCODING);
    let framed = headers.contains_key(CONTENT_LENGTH)
        || chunked.is_some_and(|coding| coding.as_bytes().eq_ignore_ascii_case(b"chunked"));
    if !framed {
        return Err("it tells neither its length nor its last chunk".to_owned());
    }
    Ok(())
}
