use std::sync::Arc;

use k8s_openapi::api::core::v1::ObjectReference;
use serde_json::{Value, json};
use tokio::sync::mpsc::Receiver;
use tokio::task::JoinHandle;

use super::*;
use crate::controller::events::{Recorded, Recorder};
use crate::controller::profile::V1_6_0;
use crate::controller::profile::kind::LEADER_WORKER_SET;
use crate::controller::runtime::discovery::Served;
use crate::controller::runtime::metrics::Metrics;
use crate::controller::runtime::metrics::aibom::{AibomMetrics, Since};
use crate::controller::runtime::scripted::{Answer, Part, Script, bookmark, event, object};
use crate::controller::settings::Settings;
use crate::controller::third_party::gate::Gate;
use crate::controller::third_party::health::{Reporter, WatchHealth};

const RHYTHM: Rhythm = Rhythm {
    probe: Duration::from_secs(120),
    retry_base: Duration::from_secs(5),
    retry_max: Duration::from_secs(300),
};
const KIND: &Kind = &LEADER_WORKER_SET;

/// A supervisor at work.
struct World {
    script: Script,
    informer: Informer<ThirdParty>,
    settings: Current,
    health: WatchHealth,
    metrics: Arc<AibomMetrics>,
    gate: Gate,
    events: Receiver<Recorded>,
    tasks: [JoinHandle<Infallible>; 2],
}

impl World {
    /// The first two answers are those of the discovery at the start.
    async fn new(answers: impl IntoIterator<Item = Answer>) -> Self {
        let script = Script::new(answers);
        let client = script.client();
        let served = Served::discover(&client).await.expect("an answer");
        let presence = Presence::new(client.clone(), served);
        let settings = Current::new(Settings::defaults(&V1_6_0).expect("settings"));
        settings.keep();
        let since = Since {
            persist_failures: true,
            outcomes_and_watches: true,
        };
        let registry = Metrics::new().expect("metrics");
        let metrics = Arc::new(AibomMetrics::register(&registry, since).expect("metrics"));
        let (recorder, events) = Recorder::heard();
        let health = WatchHealth::default();
        let reporter = Reporter {
            health: health.clone(),
            recorder,
            regarding: Arc::new(|| Some(ObjectReference::default())),
            metrics: Arc::clone(&metrics),
        };
        let (gate, informer) = (Gate::default(), Informer::new(KIND.kind));
        let ticket = gate.ticket();
        let supervisor = Supervisor::new(KIND, RHYTHM, client, presence.clone(), settings.clone());
        let filled = informer.clone();
        let watching = tokio::spawn(async move {
            let mut report = Report::new(KIND, reporter);
            supervisor.watch(&filled, &mut report, Some(ticket)).await
        });
        let asking = tokio::spawn(presence.run(RHYTHM.retry_max));
        Self {
            script,
            informer,
            settings,
            health,
            metrics,
            gate,
            events,
            tasks: [watching, asking],
        }
    }

    fn told(&mut self) -> Vec<&'static str> {
        let mut told = Vec::new();
        while let Ok(recorded) = self.events.try_recv() {
            told.push(recorded.happening.reason);
        }
        told
    }

    fn is_healthy(&self) -> i64 {
        let gauge = &self.metrics.watch_healthy;
        gauge.with_label_values(&[KIND.kind]).get()
    }

    fn errors(&self) -> u64 {
        let counter = &self.metrics.watch_errors;
        counter.with_label_values(&[KIND.kind]).get()
    }

    fn allow(&self, entries: &[&str]) {
        let mut settings = (*self.settings.get()).clone();
        let entries: Vec<_> = entries.iter().map(|entry| (*entry).to_owned()).collect();
        settings.kinds = settings.kinds.named(&entries).expect("a list");
        self.settings.set(settings);
    }
}

impl Drop for World {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

async fn seconds(seconds: u64) {
    sleep(Duration::from_secs(seconds)).await;
}

fn groups(kinds: &[&str]) -> Answer {
    let resources: Vec<_> = kinds
        .iter()
        .map(|kind| json!({"resource": kind.to_lowercase(), "responseKind": {"kind": kind}}))
        .collect();
    let group = json!({
        "metadata": {"name": KIND.group},
        "versions": [{"version": KIND.version, "resources": resources}],
    });
    let list = json!({"kind": "APIGroupDiscoveryList", "items": [group]});
    Answer::json(200, &list)
}

fn served() -> [Answer; 2] {
    [groups(&[]), groups(&[KIND.kind])]
}

fn watched(objects: &[Value]) -> [Answer; 2] {
    let listed = objects.iter().map(|object| event("ADDED", object.clone()));
    let end = [bookmark(9, true), Part::Hang];
    let watch = Answer::watch(listed.chain(end));
    [Answer::list(1, "", &[]), watch]
}

fn broken() -> Answer {
    let status = json!({
        "apiVersion": "v1", "kind": "Status", "status": "Failure", "reason": "InternalError",
        "message": "conversion webhook failed", "code": 500,
    });
    Answer::json(500, &status)
}

#[tokio::test(start_paused = true)]
async fn a_definition_that_comes_later_is_noticed_with_one_request() {
    let answers = [groups(&[]), groups(&[])];
    let later = [groups(&[]), groups(&[KIND.kind])];
    let answers = answers.into_iter().chain(later).chain(watched(&[]));
    let mut world = World::new(answers).await;
    seconds(1).await;
    world.gate.opened().await;
    assert_eq!(world.script.seen().len(), 2, "an absent kind costs nothing");
    seconds(599).await;
    seconds(1).await;
    let seen: Vec<_> = world.script.seen().into_iter().skip(2).collect();
    assert_eq!(seen[0].uri, "/apis");
    assert_eq!(seen[1].uri, "/apis");
    assert_eq!((seen[1].at - seen[0].at).as_secs(), 300);
    assert_eq!(seen[2].parameter("limit"), Some("1"));
    assert_eq!(seen[3].parameter("sendInitialEvents"), Some("true"));
    assert_eq!(seen.len(), 4);
    assert_eq!(world.is_healthy(), 1);
    assert!(world.told().is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_outage_is_told_once_retried_with_patience_and_forgotten() {
    let begin = served().into_iter().chain(watched(&[object("a", 1)]));
    // The regular check fails, and three more.
    let outage = std::iter::repeat_with(broken).take(4);
    let answers = begin.chain(outage).chain(watched(&[]));
    let mut world = World::new(answers).await;
    seconds(1).await;
    assert_eq!((world.is_healthy(), world.informer.len()), (1, 1));
    assert!(world.health.cause().is_none());

    seconds(120).await;
    assert_eq!((world.is_healthy(), world.errors()), (0, 1));
    let cause = world.health.cause().expect("a cause");
    assert_eq!(cause.reason, "ThirdPartyWatchUnhealthy");
    let wanted = "leaderworkerset.x-k8s.io/LeaderWorkerSet (conversion webhook failed)";
    assert!(cause.message.contains(wanted), "{}", cause.message);
    assert_eq!(world.told(), ["WatchUnhealthy"]);

    seconds(5 + 10).await;
    assert_eq!(world.errors(), 3);
    assert_eq!(world.informer.len(), 1, "what was known stays");
    assert!(world.told().is_empty());
    seconds(20).await;
    assert_eq!(world.errors(), 4);
    seconds(41).await;
    assert_eq!((world.is_healthy(), world.informer.len()), (1, 0));
    assert!(world.health.cause().is_none());
    assert_eq!(world.told(), ["WatchRecovered"]);
}

#[tokio::test(start_paused = true)]
async fn what_is_not_allowed_is_not_watched() {
    let answers = served().into_iter().chain(watched(&[object("a", 1)]));
    let mut world = World::new(answers.chain(watched(&[object("a", 1)]))).await;
    seconds(1).await;
    assert_eq!(world.informer.len(), 1);
    world.allow(&["apps/Deployment"]);
    seconds(1).await;
    assert_eq!(world.informer.len(), 0);
    assert_eq!(world.told(), ["WatchDisabled"]);
    seconds(600).await;
    assert_eq!(world.script.seen().len(), 4, "it costs nothing either");
    world.allow(&[]);
    seconds(1).await;
    assert_eq!((world.is_healthy(), world.informer.len()), (1, 1));
    assert!(world.told().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_definition_that_is_taken_away_leaves_nothing_and_is_no_outage() {
    let begin = served().into_iter().chain(watched(&[object("a", 1)]));
    let gone = [Answer::status(404, "NotFound"), groups(&[])];
    let mut world = World::new(begin.chain(gone)).await;
    seconds(1).await;
    assert_eq!(world.informer.len(), 1);
    seconds(121).await;
    assert_eq!(world.informer.len(), 0);
    assert_eq!(world.errors(), 0);
    assert!(world.told().is_empty() && world.health.cause().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_is_broken_at_the_start_holds_nobody_up() {
    let answers = served().into_iter().chain([broken()]);
    let mut world = World::new(answers).await;
    world.gate.opened().await;
    seconds(0).await;
    assert_eq!(world.told(), ["WatchUnhealthy"]);
    assert!(!world.informer.sync_flag().is_synced());
}
