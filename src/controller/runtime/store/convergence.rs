//! A server that changes, forgets its history and breaks connections at random: whatever it does, the
//! cache ends equal to it, and what the handlers were told adds up to the same.

use std::sync::{Arc, Mutex};

use futures_util::stream;
use http::{Request, Response};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Bytes, Frame};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::client::Body;
use kube::{Api, Client};
use serde_json::{Value, json};
use tower::{BoxError, service_fn};

use super::super::scripted::{Answer, AnswerBody, object, respond, status};
use super::super::watch::Watch;
use super::*;

const TICK: Duration = Duration::from_millis(200);
const CHANGES: u32 = 400;

/// The server's state.
struct Server {
    rng: fastrand::Rng,
    version: u32,
    objects: BTreeMap<String, u32>,
    /// What happened, in order: version, kind of event, object.
    history: Vec<(u32, &'static str, Value)>,
    /// Versions up to this one are forgotten.
    forgotten: u32,
    faulty: bool,
    streams: bool,
}

type Shared = Arc<Mutex<Server>>;

impl Server {
    fn fault(&mut self, one_in: u32) -> bool {
        self.faulty && self.rng.u32(0..one_in) == 0
    }

    /// Makes, changes or deletes an object, and sometimes forgets.
    fn change(&mut self) {
        self.version += 1;
        let version = self.version;
        let name = format!("x{}", self.rng.u32(0..12));
        let known = self.objects.contains_key(&name);
        let kind = if known && self.rng.bool() {
            self.objects.remove(&name);
            "DELETED"
        } else {
            self.objects.insert(name.clone(), version);
            if known { "MODIFIED" } else { "ADDED" }
        };
        self.history.push((version, kind, object(&name, version)));
        if self.rng.u32(0..25) == 0 {
            self.forgotten = version;
        }
    }

    fn all(&self) -> Vec<Value> {
        let objects = self.objects.iter();
        objects
            .map(|(name, version)| object(name, *version))
            .collect()
    }
}

fn parameter<'a>(query: &'a str, name: &str) -> Option<&'a str> {
    let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    pairs.find_map(|(key, value)| (key == name).then_some(value))
}

async fn serve(server: Shared, request: Request<Body>) -> Result<Response<AnswerBody>, BoxError> {
    let query = request.uri().query().unwrap_or_default().to_owned();
    let from = parameter(&query, "resourceVersion").and_then(|v| v.parse::<u32>().ok());
    let mut state = server.lock().expect("no panic");
    if state.fault(8) {
        let code = [429, 500, 503][state.rng.usize(0..3)];
        return respond(Answer::status(code, "ByChance"));
    }
    if state.fault(12) {
        return respond(Answer::refused());
    }
    if from.is_some_and(|from| from != 0 && from < state.forgotten) {
        return respond(Answer::status(410, "Expired"));
    }
    if parameter(&query, "watch").is_none() {
        return respond(Answer::list(state.version, "", &state.all()));
    }
    let mut first = Vec::new();
    let mut cursor = from.unwrap_or(state.version);
    if parameter(&query, "sendInitialEvents").is_some() {
        if !state.streams {
            return respond(Answer::status(422, "Invalid"));
        }
        cursor = state.version;
        for object in state.all() {
            first.push(json!({"type": "ADDED", "object": object}));
        }
        first.push(mark(cursor, true));
    }
    drop(state);
    let first = stream::iter(first.into_iter().map(|event| Ok(frame(&event))));
    let rest = stream::unfold(
        (server, cursor, false),
        |(server, cursor, ended)| async move {
            if ended {
                return None;
            }
            sleep(TICK).await;
            let mut state = server.lock().expect("no panic");
            if state.fault(15) {
                return None;
            }
            if state.fault(20) {
                let reset = std::io::Error::from(std::io::ErrorKind::ConnectionReset);
                drop(state);
                return Some((Err(BoxError::from(reset)), (server, cursor, true)));
            }
            if cursor < state.forgotten {
                let gone = json!({"type": "ERROR", "object": status(410, "Expired")});
                drop(state);
                return Some((Ok(frame(&gone)), (server, cursor, true)));
            }
            let news = state
                .history
                .iter()
                .filter(|(version, ..)| *version > cursor);
            let mut text = news.fold(String::new(), |text, (_, kind, object)| {
                text + &format!("{}\n", json!({"type": kind, "object": object}))
            });
            let cursor = state.version;
            text += &format!("{}\n", mark(cursor, false));
            drop(state);
            Some((Ok(Frame::data(Bytes::from(text))), (server, cursor, false)))
        },
    );
    let body = StreamBody::new(futures_util::StreamExt::chain(first, rest));
    Ok(Response::new(body.boxed_unsync()))
}

fn mark(version: u32, end: bool) -> Value {
    let annotations = if end {
        json!({"k8s.io/initial-events-end": "true"})
    } else {
        json!({})
    };
    json!({"type": "BOOKMARK", "object": {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"resourceVersion": version.to_string(), "annotations": annotations},
    }})
}

fn frame(event: &Value) -> Frame<Bytes> {
    Frame::data(Bytes::from(format!("{event}\n")))
}

/// Keeps what a handler is told, and insists that it makes sense.
fn mirror(informer: &Informer<ConfigMap>) -> Arc<Mutex<BTreeMap<String, String>>> {
    let told = Arc::new(Mutex::new(BTreeMap::new()));
    let sink = Arc::clone(&told);
    informer.subscribe(move |change| {
        let name = change.object().name_any();
        let version = |object: &ConfigMap| object.resource_version().expect("a version");
        let mut told = sink.lock().expect("no panic");
        match change {
            Change::Added { object, .. } => {
                assert_eq!(told.insert(name, version(object)), None);
            }
            Change::Updated { old, new } => {
                assert_eq!(told.insert(name, version(new)), Some(version(old)));
            }
            Change::Deleted { .. } => assert!(told.remove(&name).is_some()),
        }
    });
    told
}

async fn converges(seed: u64) {
    let mut rng = fastrand::Rng::with_seed(seed);
    let server: Shared = Arc::new(Mutex::new(Server {
        streams: rng.bool(),
        rng: rng.fork(),
        version: 1,
        objects: BTreeMap::new(),
        history: Vec::new(),
        forgotten: 0,
        faulty: true,
    }));
    let state = Arc::clone(&server);
    let service = service_fn(move |request| serve(Arc::clone(&state), request));
    let api = Api::<ConfigMap>::all(Client::new(service, "default"));
    let informer = Informer::new("ConfigMap");
    let told = mirror(&informer);
    let mut chance = rng.fork();
    let watch = Watch::new(api, "ConfigMap", Box::new(move || chance.f64()));
    let driven = informer.clone();
    let driving = tokio::spawn(async move {
        driven.drive(watch, Box::new(|| 0.5), |_| {}).await;
    });
    for _ in 0..CHANGES {
        server.lock().expect("no panic").change();
        sleep(Duration::from_millis(rng.u64(1..2_000))).await;
    }
    server.lock().expect("no panic").faulty = false;
    // Longer than the longest wait after trouble.
    sleep(Duration::from_secs(70)).await;
    assert!(!driving.is_finished());
    driving.abort();

    let truth: BTreeMap<String, String> = {
        let state = server.lock().expect("no panic");
        let objects = state.objects.iter();
        objects
            .map(|(name, v)| (name.clone(), v.to_string()))
            .collect()
    };
    let cached: BTreeMap<String, String> = informer
        .all()
        .iter()
        .map(|object| {
            (
                object.name_any(),
                object.resource_version().expect("a version"),
            )
        })
        .collect();
    assert_eq!(cached, truth, "seed {seed}");
    assert_eq!(*told.lock().expect("no panic"), truth, "seed {seed}");
}

#[tokio::test(start_paused = true)]
async fn the_cache_ends_equal_to_the_server_whatever_happens_on_the_way() {
    for seed in 0..12 {
        converges(seed).await;
    }
}
