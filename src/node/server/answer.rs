//! What the kubelet port answers with.

use std::io;

use futures_util::{Stream, TryStreamExt as _};
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::{Bytes, Frame};

/// A body that is there at once, or comes bit by bit.
pub(super) type Body = UnsyncBoxBody<Bytes, io::Error>;

/// A request that gets nothing but the reason, which clients of the API server are shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    status: StatusCode,
    why: String,
}

impl Refusal {
    pub(super) fn new(status: StatusCode, why: impl Into<String>) -> Self {
        let why = why.into();
        Self { status, why }
    }
}

impl From<Refusal> for Response<Body> {
    fn from(refusal: Refusal) -> Self {
        text(refusal.status, refusal.why)
    }
}

/// Plain text.
pub(super) fn text(status: StatusCode, text: impl Into<Bytes>) -> Response<Body> {
    let body = Full::new(text.into()).map_err(|never| match never {});
    plain(status, body.boxed_unsync())
}

/// Plain text as it comes.
pub(super) fn stream(
    chunks: impl Stream<Item = io::Result<Bytes>> + Send + 'static,
) -> Response<Body> {
    let frames = chunks.map_ok(Frame::data);
    plain(StatusCode::OK, StreamBody::new(frames).boxed_unsync())
}

fn plain(status: StatusCode, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let kind = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}
