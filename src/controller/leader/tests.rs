//! An election against a server of one lease, in paused time.

use std::sync::{Arc, Mutex};

use http::{Method, Request, Response};
use http_body_util::BodyExt as _;
use kube::client::Body;
use serde_json::{Value, json};
use tokio::time::Instant;
use tower::BoxError;

use super::*;

/// A server of one lease.
#[derive(Clone, Default)]
struct Server(Arc<Mutex<Leases>>);

#[derive(Default)]
struct Leases {
    lease: Option<Value>,
    version: u64,
    is_closed: bool,
    asked: Vec<Method>,
}

impl Leases {
    fn answer(&mut self, method: &Method, mut body: Value) -> (u16, Value) {
        self.asked.push(method.clone());
        if self.is_closed {
            return status(403, "Forbidden");
        }
        match (method.as_str(), &self.lease) {
            ("GET", Some(lease)) => (200, lease.clone()),
            ("GET", None) => status(404, "NotFound"),
            ("PUT", Some(lease))
                if lease["metadata"]["resourceVersion"] != body["metadata"]["resourceVersion"] =>
            {
                status(409, "Conflict")
            }
            _ => {
                self.version += 1;
                body["metadata"]["resourceVersion"] = self.version.to_string().into();
                self.lease = Some(body.clone());
                (200, body)
            }
        }
    }
}

fn status(code: u16, reason: &str) -> (u16, Value) {
    let status = json!({"kind": "Status", "status": "Failure", "code": code, "message": "", "reason": reason});
    (code, status)
}

impl Server {
    fn client(&self) -> Client {
        let server = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let server = server.clone();
            async move {
                let (parts, body) = request.into_parts();
                let body = body.collect().await?.to_bytes();
                let body = serde_json::from_slice(&body).unwrap_or_default();
                let mut leases = server.0.lock().expect("a lock");
                let (code, answer) = leases.answer(&parts.method, body);
                let answer = Body::from(answer.to_string().into_bytes());
                Ok::<_, BoxError>(Response::builder().status(code).body(answer)?)
            }
        });
        Client::new(service, "default")
    }

    /// A candidate that waits as shortly as it may, and the metrics it is seen by.
    fn candidate(&self) -> (Candidate, Arc<Metrics>) {
        let metrics = Metrics::new().expect("metrics");
        let (recorder, _writer) = Recorder::new(self.client());
        let mut first = fastrand::f64();
        // Not two candidates with one name, and no jitter.
        let dice = Box::new(move || std::mem::take(&mut first));
        let candidate = Candidate::new(self.client(), "ns", recorder, &metrics, dice);
        (candidate, metrics)
    }

    fn spec(&self) -> Value {
        let leases = self.0.lock().expect("a lock");
        leases.lease.as_ref().expect("a lease")["spec"].clone()
    }

    fn asked(&self) -> Vec<Method> {
        std::mem::take(&mut self.0.lock().expect("a lock").asked)
    }

    fn close(&self, is_closed: bool) {
        self.0.lock().expect("a lock").is_closed = is_closed;
    }
}

fn gauge(metrics: &Metrics) -> Option<String> {
    let text = metrics.render().expect("text");
    let line = text
        .lines()
        .find(|line| line.starts_with("leader_election_master_status{"));
    line.map(str::to_owned)
}

#[tokio::test(start_paused = true)]
async fn the_first_candidate_leads_and_renews_every_two_seconds() {
    let server = Server::default();
    let (candidate, metrics) = server.candidate();
    let series = "leader_election_master_status{name=\"k8s-aibom.aibom.k8saibom.dev\"}";
    assert_eq!(gauge(&metrics), Some(format!("{series} 0")));
    let leader = candidate.acquire().await;
    assert_eq!(gauge(&metrics), Some(format!("{series} 1")));
    let spec = server.spec();
    assert_eq!(spec["holderIdentity"], leader.0.identity.as_str());
    assert_eq!(
        (&spec["leaseDurationSeconds"], &spec["leaseTransitions"]),
        (&json!(15), &json!(0))
    );
    assert_eq!(server.asked(), [Method::GET, Method::POST]);

    let held = timeout(Duration::from_secs(9), leader.hold()).await;
    held.expect_err("it still leads");
    assert_eq!(server.asked(), vec![Method::PUT; 5]);
    assert_eq!(server.spec()["acquireTime"], spec["acquireTime"]);
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_nobody_renews_is_taken_after_its_duration() {
    let server = Server::default();
    let first = server.candidate().0.acquire().await;
    let start = Instant::now();
    let second = server.candidate().0.acquire().await;
    // The first try after the 15 s.
    assert_eq!(start.elapsed(), Duration::from_secs(16));
    assert_eq!(server.spec()["leaseTransitions"], json!(1));
    assert_ne!(first.0.identity, second.0.identity);

    let start = Instant::now();
    let lost = first.hold().await;
    assert_eq!(lost.to_string(), "leader election lost");
    assert_eq!(start.elapsed(), RENEW_DEADLINE);
    assert_eq!(server.spec()["holderIdentity"], second.0.identity.as_str());
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_is_renewed_is_left_alone() {
    let server = Server::default();
    let leader = server.candidate().0.acquire().await;
    let (candidate, metrics) = server.candidate();
    let ended = timeout(Duration::from_secs(60), async {
        tokio::select! {
            _ = leader.hold() => "lost",
            _ = candidate.acquire() => "taken",
        }
    });
    ended.await.expect_err("nothing changes");
    assert!(gauge(&metrics).is_some_and(|line| line.ends_with(" 0")));
}

#[tokio::test(start_paused = true)]
async fn without_permission_a_candidate_asks_for_ever_and_a_leader_gives_up() {
    let server = Server::default();
    let leader = server.candidate().0.acquire().await;
    server.close(true);
    server.asked();
    let acquired = timeout(Duration::from_secs(9), server.candidate().0.acquire()).await;
    assert!(acquired.is_err());
    assert_eq!(server.asked(), vec![Method::GET; 5]);

    let start = Instant::now();
    leader.hold().await;
    assert_eq!(start.elapsed(), RENEW_DEADLINE);
}

#[test]
fn an_identity_ends_with_a_uuid() {
    let mut dice: Dice = Box::new(|| 0.999_999_999);
    let identity = identity(&mut dice);
    let (_, uuid) = identity.rsplit_once('_').expect("two parts");
    assert_eq!(uuid, "fffffffa-ffff-4fff-bfff-ffffffffffff");
}
