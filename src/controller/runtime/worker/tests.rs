use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use k8s_openapi::api::core::v1::ConfigMap;

use super::super::store::Informer;
use super::super::watch::Event;
use super::*;

#[derive(Debug, thiserror::Error)]
#[error("no")]
struct No;

enum Act {
    Return(Result<Outcome, No>),
    Panic,
    Hang,
}

/// Does what it is told, and notes when.
#[derive(Clone, Default)]
struct Scripted {
    acts: Arc<Mutex<VecDeque<Act>>>,
    calls: Arc<Mutex<Vec<(String, Duration)>>>,
    start: Option<Instant>,
}

impl Reconciler<String> for Scripted {
    type Error = No;

    async fn reconcile(&self, key: &String) -> Result<Outcome, No> {
        let at = self.start.map(|start| start.elapsed()).unwrap_or_default();
        let call = (key.clone(), at);
        self.calls.lock().expect("no panic").push(call);
        let act = self.acts.lock().expect("no panic").pop_front();
        match act {
            None => Ok(Outcome::Done),
            Some(Act::Return(result)) => result,
            Some(Act::Panic) => panic!("by script"),
            Some(Act::Hang) => std::future::pending().await,
        }
    }
}

fn scripted(acts: impl IntoIterator<Item = Act>) -> Scripted {
    Scripted {
        acts: Arc::new(Mutex::new(acts.into_iter().collect())),
        start: Some(Instant::now()),
        ..Scripted::default()
    }
}

fn series(metrics: &Metrics, name: &str) -> u64 {
    let text = metrics.render().expect("text");
    let line = text.lines().find(|line| line.starts_with(name));
    let line = line.unwrap_or_else(|| panic!("no {name} in\n{text}"));
    let (_, number) = line.rsplit_once(' ').expect("two words");
    number.parse().expect("a number")
}

#[tokio::test(start_paused = true)]
async fn every_result_is_counted_and_decides_what_becomes_of_the_key() {
    let metrics = Metrics::new().expect("metrics");
    let queue: Queue<String> = Queue::new("job", &metrics);
    let reconciler = scripted([
        Act::Return(Err(No)),
        Act::Panic,
        Act::Return(Ok(Outcome::Requeue)),
        Act::Return(Ok(Outcome::RequeueAfter(Duration::from_secs(60)))),
        Act::Hang,
        Act::Return(Ok(Outcome::Done)),
    ]);
    let worker = Worker::new("job", queue.clone(), reconciler.clone(), &metrics)
        .deadline(Duration::from_secs(30));
    queue.add("a".to_owned());
    let stop = CancellationToken::new();
    let running = tokio::spawn(worker.run(stop.clone()));
    tokio::time::sleep(Duration::from_secs(300)).await;
    stop.cancel();
    running.await.expect("no panic").expect("no error");

    let times: Vec<u128> = {
        let calls = reconciler.calls.lock().expect("no panic");
        calls.iter().map(|(_, at)| at.as_millis()).collect()
    };
    // 5, 10 and 20 ms of backoff, 60 s as asked for and the backoff begins anew, 30 s of deadline.
    assert_eq!(times, [0, 5, 15, 35, 60_035, 90_040]);
    for (name, value) in [
        (
            "controller_runtime_reconcile_total{controller=\"job\",result=\"success\"}",
            1,
        ),
        (
            "controller_runtime_reconcile_total{controller=\"job\",result=\"error\"}",
            3,
        ),
        (
            "controller_runtime_reconcile_total{controller=\"job\",result=\"requeue\"}",
            1,
        ),
        (
            "controller_runtime_reconcile_total{controller=\"job\",result=\"requeue_after\"}",
            1,
        ),
        ("controller_runtime_reconcile_errors_total", 3),
        ("controller_runtime_reconcile_panics_total", 1),
        ("controller_runtime_reconcile_timeouts_total", 1),
        ("controller_runtime_terminal_reconcile_errors_total", 0),
        ("controller_runtime_reconcile_time_seconds_count", 6),
        ("controller_runtime_active_workers", 0),
    ] {
        assert_eq!(series(&metrics, name), value, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn work_begins_only_when_every_source_has_synced() {
    let metrics = Metrics::new().expect("metrics");
    let queue: Queue<String> = Queue::new("job", &metrics);
    let informers = [Informer::<ConfigMap>::new("A"), Informer::new("B")];
    let reconciler = scripted([]);
    let worker = Worker::new("job", queue.clone(), reconciler.clone(), &metrics)
        .source(informers[0].sync_flag())
        .source(informers[1].sync_flag());
    queue.add("a".to_owned());
    let stop = CancellationToken::new();
    let running = tokio::spawn(worker.run(stop.clone()));
    for (informer, calls) in informers.iter().zip([0, 1]) {
        informer.apply(Event::ListBegin);
        informer.apply(Event::ListEnd);
        tokio::time::sleep(Duration::from_secs(50)).await;
        assert_eq!(reconciler.calls.lock().expect("no panic").len(), calls);
    }
    stop.cancel();
    running.await.expect("no panic").expect("no error");
}

#[tokio::test(start_paused = true)]
async fn a_source_that_never_syncs_ends_the_controller_after_two_minutes() {
    let metrics = Metrics::new().expect("metrics");
    let queue: Queue<String> = Queue::new("job", &metrics);
    let informer = Informer::<ConfigMap>::new("A");
    let worker = Worker::new("job", queue, scripted([]), &metrics).source(informer.sync_flag());
    let start = Instant::now();
    let error = worker
        .run(CancellationToken::new())
        .await
        .expect_err("a timeout");
    assert_eq!(start.elapsed().as_secs(), 120);
    assert_eq!(
        error.to_string(),
        "failed to wait for job caches to sync kind source: A: timed out waiting for cache to be \
         synced for Kind A"
    );
    assert!(
        error
            .hint()
            .is_some_and(|hint| hint.contains("A is served"))
    );
}

#[tokio::test(start_paused = true)]
async fn a_stop_before_the_sync_is_no_error() {
    let metrics = Metrics::new().expect("metrics");
    let queue: Queue<String> = Queue::new("job", &metrics);
    let informer = Informer::<ConfigMap>::new("A");
    let worker = Worker::new("job", queue, scripted([]), &metrics).source(informer.sync_flag());
    let stop = CancellationToken::new();
    stop.cancel();
    worker.run(stop).await.expect("no error");
}

#[tokio::test(start_paused = true)]
async fn a_stop_does_not_wait_for_a_reconcile() {
    let metrics = Metrics::new().expect("metrics");
    let queue: Queue<String> = Queue::new("job", &metrics);
    let worker = Worker::new("job", queue.clone(), scripted([Act::Hang]), &metrics);
    queue.add("a".to_owned());
    let stop = CancellationToken::new();
    let running = tokio::spawn(worker.run(stop.clone()));
    tokio::time::sleep(Duration::from_secs(1)).await;
    let start = Instant::now();
    stop.cancel();
    running.await.expect("no panic").expect("no error");
    assert_eq!(start.elapsed().as_millis(), 0);
}
