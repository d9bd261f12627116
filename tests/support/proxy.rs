//! A reverse proxy in front of a real API server that makes the faults which no real server makes on
//! demand.
//!
//! Plain HTTP on loopback for the client under test, TLS with the administrator's identity towards
//! the server. Watches stream through and can be interrupted while they are open. Whatever was asked
//! and answered is on record, so that a client's own counters can be compared with it.

#![allow(dead_code, reason = "each test binary uses a part of this")]

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use futures_util::{Stream, StreamExt as _, stream};
use http::header::{CONNECTION, CONTENT_TYPE, HOST, RETRY_AFTER, TRANSFER_ENCODING};
use http::request::Parts;
use http::{HeaderMap, Method, Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::{Bytes, Frame, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use kube::Client;
use kube::client::Body;
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::controller::Requests;
use crate::support::World;

/// What a request wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Verb {
    /// A list, an object, or what the server serves.
    Read,
    /// A watch that begins with everything that exists.
    StreamList,
    /// A watch that goes on from somewhere.
    Watch,
    Create,
    Update,
    UpdateStatus,
    Patch,
    Delete,
}

/// A request, and what came of it.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) method: Method,
    pub(crate) verb: Verb,
    /// Plural of the kind; empty where the path names none.
    pub(crate) resource: String,
    pub(crate) namespace: String,
    pub(crate) at: Instant,
    /// The code of the answer, `<error>` if there was none.
    pub(crate) code: String,
}

impl Asked {
    fn read(parts: &Parts) -> Self {
        let mut path = parts.uri.path().trim_matches('/').split('/');
        // The version follows, and a group before it.
        let skipped = if path.next() == Some("api") { 1 } else { 2 };
        let mut rest: Vec<&str> = path.skip(skipped).collect();
        let namespace = match rest.as_slice() {
            ["namespaces", namespace, _, ..] => (*namespace).to_owned(),
            _ => String::new(),
        };
        if !namespace.is_empty() {
            rest.drain(..2);
        }
        let query = parts.uri.query().unwrap_or_default();
        let has = |pair: &str| query.split('&').any(|part| part == pair);
        let verb = match parts.method {
            Method::POST => Verb::Create,
            Method::PUT if rest.get(2) == Some(&"status") => Verb::UpdateStatus,
            Method::PUT => Verb::Update,
            Method::PATCH => Verb::Patch,
            Method::DELETE => Verb::Delete,
            _ if has("sendInitialEvents=true") => Verb::StreamList,
            _ if has("watch=true") || has("watch=1") => Verb::Watch,
            _ => Verb::Read,
        };
        Self {
            method: parts.method.clone(),
            verb,
            resource: rest.first().copied().unwrap_or_default().to_owned(),
            namespace,
            at: Instant::now(),
            code: String::new(),
        }
    }
}

/// What goes wrong with a request.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fault {
    /// The server refuses, and says after how many seconds the request may be repeated.
    Refuse(u16, &'static str, Option<u8>),
    /// The connection closes before the server hears of the request.
    LoseRequest,
    /// The server does what is asked, and the connection closes without an answer.
    LoseAnswer,
    /// The connection closes in the middle of the answer's body.
    CutAnswer,
}

/// What goes wrong with a watch that is open.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Interruption {
    /// The server says by an event of this code and reason that it cannot go on.
    Error(u16, &'static str),
    /// The connection closes in the middle of an event.
    Cut,
    /// The server ends the watch, as it does when its time is over.
    Close,
}

/// Which requests go wrong, how, and how many of them.
#[derive(Clone, Debug)]
pub(crate) struct Rule {
    verb: Verb,
    resource: Option<&'static str>,
    namespace: Option<String>,
    fault: Fault,
    left: usize,
}

impl Rule {
    /// The next `times` requests of this verb go wrong.
    pub(crate) fn new(times: usize, verb: Verb, fault: Fault) -> Self {
        Self {
            verb,
            resource: None,
            namespace: None,
            fault,
            left: times,
        }
    }

    /// Only those for this kind.
    pub(crate) fn of(mut self, resource: &'static str) -> Self {
        self.resource = Some(resource);
        self
    }

    /// Only those in this namespace.
    pub(crate) fn within(mut self, namespace: &str) -> Self {
        self.namespace = Some(namespace.to_owned());
        self
    }

    fn fits(&self, asked: &Asked) -> bool {
        self.left > 0
            && self.verb == asked.verb
            && self.resource.is_none_or(|name| name == asked.resource)
            && self
                .namespace
                .as_ref()
                .is_none_or(|name| *name == asked.namespace)
    }
}

/// Serves on loopback until it is dropped.
pub(crate) struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    accepting: JoinHandle<()>,
}

struct Shared {
    client: Client,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    rules: Vec<Rule>,
    asked: Vec<Asked>,
    watches: Vec<(String, UnboundedSender<Interruption>)>,
    /// Cancelled to close every connection that was accepted since the last time.
    connections: CancellationToken,
}

/// The connection is closed because of this.
#[derive(Debug, thiserror::Error)]
#[error("lost on purpose")]
struct Lost;

type Payload = UnsyncBoxBody<Bytes, Lost>;

impl Proxy {
    /// A proxy to the server of this client.
    pub(crate) async fn start(client: Client) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("loopback");
        let address = listener.local_addr().expect("bound");
        let shared = Arc::new(Shared {
            client,
            state: Mutex::default(),
        });
        let accepting = tokio::spawn({
            let shared = Arc::clone(&shared);
            async move {
                while let Ok((stream, _)) = listener.accept().await {
                    tokio::spawn(serve(stream, Arc::clone(&shared)));
                }
            }
        });
        Self {
            address,
            shared,
            accepting,
        }
    }

    /// Writes a kubeconfig that leads to this proxy.
    pub(crate) fn kubeconfig(&self, world: &World) -> PathBuf {
        let file = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "proxy", "cluster": {"server": format!("http://{}", self.address)}}],
            "users": [{"name": "nobody", "user": {}}],
            "contexts": [{"name": "proxy", "context": {"cluster": "proxy", "user": "nobody"}}],
            "current-context": "proxy",
        });
        let path = world.path("proxy.kubeconfig");
        std::fs::write(&path, file.to_string()).expect("it is written");
        path
    }

    /// Makes requests go wrong. A request that several rules fit goes wrong by the first of them.
    pub(crate) fn inject(&self, rules: impl IntoIterator<Item = Rule>) {
        self.shared.state().rules.extend(rules);
    }

    /// How many faults that were injected have not happened yet.
    pub(crate) fn pending(&self) -> usize {
        let state = self.shared.state();
        state.rules.iter().map(|rule| rule.left).sum()
    }

    /// Interrupts the open watches of this kind; there has to be one.
    pub(crate) fn interrupt(&self, resource: &str, interruption: Interruption) {
        let mut state = self.shared.state();
        state.watches.retain(|(_, watch)| !watch.is_closed());
        let watches = state.watches.iter().filter(|(name, _)| name == resource);
        let told = watches.filter(|(_, watch)| watch.send(interruption).is_ok());
        assert_eq!(told.count(), 1, "watches of {resource}");
    }

    /// Closes every connection at once.
    pub(crate) fn cut(&self) {
        std::mem::take(&mut self.shared.state().connections).cancel();
    }

    /// How many requests there were. What comes later is [`since`](Self::since) this number.
    pub(crate) fn mark(&self) -> usize {
        self.shared.state().asked.len()
    }

    /// The requests since this mark.
    pub(crate) fn since(&self, mark: usize) -> Vec<Asked> {
        self.shared.state().asked[mark..].to_vec()
    }

    /// How many there were since this mark, as a client's own metrics should have them.
    pub(crate) fn requests(&self, mark: usize) -> Requests {
        let mut requests = BTreeMap::new();
        for asked in self.since(mark) {
            let key = format!("{} {}", asked.method, asked.code);
            *requests.entry(key).or_default() += 1;
        }
        requests
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
        self.cut();
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("not poisoned")
    }

    /// The fault that this request meets.
    fn fault(&self, asked: &Asked) -> Option<Fault> {
        let mut state = self.state();
        let rule = state.rules.iter_mut().find(|rule| rule.fits(asked))?;
        rule.left -= 1;
        Some(rule.fault)
    }

    fn record(&self, mut asked: Asked, code: &str) {
        asked.code = code.to_owned();
        self.state().asked.push(asked);
    }

    fn register(&self, resource: &str) -> UnboundedReceiver<Interruption> {
        let (sender, receiver) = unbounded_channel();
        self.state().watches.push((resource.to_owned(), sender));
        receiver
    }

    async fn answer(&self, request: Request<Incoming>) -> Result<Response<Payload>, Lost> {
        let (mut parts, body) = request.into_parts();
        let asked = Asked::read(&parts);
        let fault = self.fault(&asked);
        let body = body.collect().await.map_err(|_| Lost)?.to_bytes();
        match fault {
            Some(Fault::LoseRequest) => {
                self.record(asked, "<error>");
                return Err(Lost);
            }
            Some(Fault::Refuse(code, reason, retry_after)) => {
                self.record(asked, &code.to_string());
                return Ok(refusal(code, reason, retry_after));
            }
            _ => {}
        }
        for name in [HOST, CONNECTION, TRANSFER_ENCODING] {
            parts.headers.remove(name);
        }
        let sent = Request::from_parts(parts, Body::from(body));
        let answer = self.client.send(sent).await;
        let (Ok(answer), false) = (answer, matches!(fault, Some(Fault::LoseAnswer))) else {
            self.record(asked, "<error>");
            return Err(Lost);
        };
        let is_watch = matches!(asked.verb, Verb::StreamList | Verb::Watch);
        let interruptions =
            (is_watch && answer.status().is_success()).then(|| self.register(&asked.resource));
        self.record(asked, answer.status().as_str());
        let (mut parts, body) = answer.into_parts();
        without_hops(&mut parts.headers);
        let body = match interruptions {
            Some(interruptions) => watched(body, interruptions),
            None => {
                let whole = body.collect_bytes().await.map_err(|_| Lost)?;
                match fault {
                    Some(Fault::CutAnswer) => cut(&whole),
                    _ => Full::new(whole).map_err(never).boxed_unsync(),
                }
            }
        };
        Ok(Response::from_parts(parts, body))
    }
}

async fn serve(stream: TcpStream, shared: Arc<Shared>) {
    let closed = shared.state().connections.clone();
    let service = service_fn(|request| shared.answer(request));
    let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
    tokio::select! {
        // An error is a fault that was asked for, or a client that went away.
        _ = connection => {}
        () = closed.cancelled() => {}
    }
}

/// What holds for one connection only.
fn without_hops(headers: &mut HeaderMap) {
    headers.remove(CONNECTION);
    headers.remove(TRANSFER_ENCODING);
}

fn never(never: Infallible) -> Lost {
    match never {}
}

/// What a server says when something went wrong.
fn status(code: u16, reason: &str) -> serde_json::Value {
    json!({
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": "refused on purpose",
        "reason": reason,
        "code": code,
    })
}

fn refusal(code: u16, reason: &str, retry_after: Option<u8>) -> Response<Payload> {
    let mut builder = Response::builder()
        .status(code)
        .header(CONTENT_TYPE, "application/json");
    if let Some(seconds) = retry_after {
        builder = builder.header(RETRY_AFTER, seconds.to_string());
    }
    let text = status(code, reason).to_string();
    let body = Full::new(Bytes::from(text)).map_err(never).boxed_unsync();
    builder.body(body).expect("a response")
}

/// An error, as soon as what was written before it is on its way.
async fn lost() -> Lost {
    tokio::time::sleep(Duration::from_millis(20)).await;
    Lost
}

/// The first half of a body. The length that the head tells is that of the whole.
fn cut(whole: &Bytes) -> Payload {
    let half = whole.slice(..whole.len() / 2);
    let begin = stream::iter([Ok(Frame::data(half))]);
    let end = stream::once(async { Err(lost().await) });
    StreamBody::new(begin.chain(end)).boxed_unsync()
}

/// The rest of an open watch.
struct Watched {
    events: Pin<Box<dyn Stream<Item = Result<Bytes, kube::Error>> + Send>>,
    interruptions: UnboundedReceiver<Interruption>,
    end: Option<End>,
}

/// How an interrupted watch ends, once the last of it has been delivered.
enum End {
    Closed,
    Broken,
}

fn watched(body: Body, interruptions: UnboundedReceiver<Interruption>) -> Payload {
    let watched = Watched {
        events: body.into_data_stream().boxed(),
        interruptions,
        end: None,
    };
    let frames = stream::unfold(watched, |mut watched| async {
        Some((watched.next().await?, watched))
    });
    StreamBody::new(frames.map(|bytes| bytes.map(Frame::data))).boxed_unsync()
}

impl Watched {
    async fn next(&mut self) -> Option<Result<Bytes, Lost>> {
        match self.end {
            Some(End::Closed) => return None,
            Some(End::Broken) => return Some(Err(lost().await)),
            None => {}
        }
        tokio::select! {
            biased;
            Some(interruption) = self.interruptions.recv() => self.interrupted(interruption),
            event = self.events.next() => match event? {
                Ok(bytes) => Some(Ok(bytes)),
                Err(_) => Some(Err(Lost)),
            },
        }
    }

    fn interrupted(&mut self, interruption: Interruption) -> Option<Result<Bytes, Lost>> {
        match interruption {
            Interruption::Error(code, reason) => {
                self.end = Some(End::Closed);
                let event = json!({"type": "ERROR", "object": status(code, reason)});
                Some(Ok(format!("{event}\n").into()))
            }
            Interruption::Cut => {
                self.end = Some(End::Broken);
                Some(Ok("{\"type\":\"MODIFIED\",\"object\":{\"kind".into()))
            }
            Interruption::Close => None,
        }
    }
}
