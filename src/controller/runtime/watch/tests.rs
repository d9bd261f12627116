use std::sync::{Arc, Mutex};

use k8s_openapi::api::core::v1::ConfigMap;
use tokio::task::JoinHandle;

use super::super::scripted::{Answer, Part, Script, bookmark, event, object, status};
use super::*;

/// A running watch, with everything it said as text.
struct Running {
    said: Arc<Mutex<Vec<String>>>,
    task: JoinHandle<Infallible>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Running {
    fn said(&self) -> Vec<String> {
        self.said.lock().expect("no panic").clone()
    }
}

fn start_with(
    script: &Script,
    change: impl FnOnce(Watch<ConfigMap>) -> Watch<ConfigMap>,
) -> Running {
    // Dice that are never the same twice, and known.
    let mut throw = 0.0_f64;
    let dice: Dice = Box::new(move || {
        throw = (throw + 0.37).fract();
        throw
    });
    let watch = change(Watch::new(Api::all(script.client()), "ConfigMap", dice));
    let said = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&said);
    let task = tokio::spawn(watch.run(move |event| {
        let named = |what: &str, object: &ConfigMap| {
            let version = object.resource_version().unwrap_or_default();
            format!("{what}{}@{version}", object.name_any())
        };
        let text = match &event {
            Event::ListBegin => "begin".to_owned(),
            Event::ListObject(object) => named("", object),
            Event::ListDeleted(object) => named("without ", object),
            Event::ListEnd => "end".to_owned(),
            Event::Applied(object) => named("+", object),
            Event::Deleted(object) => named("-", object),
            Event::Trouble(trouble) => {
                let next = if trouble.relist { "relist" } else { "retry" };
                format!("{}, {next}", trouble.error)
            }
        };
        sink.lock().expect("no panic").push(text);
    }));
    Running { said, task }
}

fn start(script: &Script) -> Running {
    start_with(script, |watch| watch)
}

fn seconds(n: u64) -> Duration {
    Duration::from_secs(n)
}

/// A streaming list of one object that then stays open.
fn streaming(tail: impl IntoIterator<Item = Part>) -> Answer {
    let head = [event("ADDED", object("x", 1)), bookmark(10, true)];
    Answer::watch(head.into_iter().chain(tail))
}

/// Runs paused time forward; enough for every script here.
async fn let_run(time: Duration) {
    sleep(time).await;
}

#[tokio::test(start_paused = true)]
async fn one_streaming_request_lists_and_goes_on_as_the_watch() {
    let script = Script::new([Answer::watch([
        event("ADDED", object("x", 1)),
        event("ADDED", object("y", 2)),
        event("MODIFIED", object("x", 5)),
        event("DELETED", object("y", 6)),
        bookmark(10, true),
        event("ADDED", object("z", 11)),
        event("DELETED", object("x", 12)),
        Part::Hang,
    ])]);
    let running = start(&script);
    let_run(seconds(1)).await;
    assert_eq!(
        running.said(),
        [
            "begin",
            "x@1",
            "y@2",
            "x@5",
            "without y@6",
            "end",
            "+z@11",
            "-x@12"
        ]
    );
    let seen = script.seen();
    assert_eq!(seen.len(), 1);
    let request = &seen[0];
    assert_eq!(request.parameter("watch"), Some("true"));
    assert_eq!(request.parameter("sendInitialEvents"), Some("true"));
    assert_eq!(
        request.parameter("resourceVersionMatch"),
        Some("NotOlderThan")
    );
    assert_eq!(request.parameter("allowWatchBookmarks"), Some("true"));
    assert_eq!(request.parameter("resourceVersion"), Some(""));
}

#[tokio::test(start_paused = true)]
async fn a_server_without_streaming_gets_a_list_and_a_watch() {
    let script = Script::new([
        Answer::status(422, "Invalid"),
        Answer::list(7, "", &[object("x", 1)]),
        Answer::watch([event("MODIFIED", object("x", 8)), Part::Hang]),
    ]);
    let running = start(&script);
    let_run(seconds(1)).await;
    assert_eq!(running.said(), ["begin", "x@1", "end", "+x@8"]);
    let seen = script.seen();
    assert_eq!(seen[1].parameter("resourceVersion"), Some("0"));
    assert_eq!(seen[1].parameter("watch"), None);
    assert_eq!(seen[2].parameter("resourceVersion"), Some("7"));
    assert_eq!(seen[2].parameter("sendInitialEvents"), None);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_ignores_streaming_is_noticed() {
    let script = Script::new([
        Answer::watch([event("ADDED", object("x", 1)), Part::Hang]),
        Answer::list(7, "", &[object("x", 1)]),
    ]);
    let running = start(&script);
    let_run(LISTING_SILENCE + seconds(1)).await;
    assert_eq!(running.said(), ["begin", "x@1", "begin", "x@1", "end"]);
}

#[tokio::test(start_paused = true)]
async fn every_watch_draws_its_own_timeout_and_resumes_where_the_last_one_stopped() {
    let quiet = |from: u32| Answer::watch([Part::Wait(seconds(250)), bookmark(from, false)]);
    let script = Script::new(
        [streaming([Part::Wait(seconds(250))])]
            .into_iter()
            .chain((20..30).map(quiet)),
    );
    let running = start(&script);
    let_run(seconds(11 * 250 + 100)).await;
    assert_eq!(
        running.said(),
        ["begin", "x@1", "end"],
        "no relist, no trouble"
    );
    let seen = script.seen();
    assert_eq!(seen.len(), 12);
    let timeouts: Vec<u64> = seen
        .iter()
        .map(|request| request.parameter("timeoutSeconds").expect("a timeout"))
        .map(|timeout| timeout.parse().expect("a number"))
        .collect();
    assert!(
        timeouts.iter().all(|timeout| (300..600).contains(timeout)),
        "{timeouts:?}"
    );
    let different: std::collections::BTreeSet<_> = timeouts.iter().collect();
    assert_eq!(different.len(), timeouts.len(), "{timeouts:?}");
    let versions: Vec<_> = seen[1..]
        .iter()
        .map(|request| request.parameter("resourceVersion").expect("a version"))
        .collect();
    assert_eq!(versions[..4], ["10", "20", "21", "22"]);
}

#[tokio::test(start_paused = true)]
async fn a_dropped_connection_resumes_from_the_bookmark_at_once() {
    let script = Script::new([
        streaming([
            Part::Wait(seconds(5)),
            event("ADDED", object("y", 11)),
            bookmark(15, false),
            Part::Break,
        ]),
        Answer::watch([event("ADDED", object("z", 16)), Part::Hang]),
    ]);
    let running = start(&script);
    let_run(seconds(10)).await;
    assert_eq!(running.said(), ["begin", "x@1", "end", "+y@11", "+z@16"]);
    let seen = script.seen();
    assert_eq!(seen[1].parameter("resourceVersion"), Some("15"));
    assert_eq!(seen[1].at - seen[0].at, seconds(5));
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_died_without_a_word_is_given_up_after_its_time() {
    let script = Script::new([streaming([Part::Hang]), Answer::watch([Part::Hang])]);
    let _running = start(&script);
    let_run(seconds(640)).await;
    let seen = script.seen();
    let timeout: u64 = seen[0]
        .parameter("timeoutSeconds")
        .and_then(|timeout| timeout.parse().ok())
        .expect("a timeout");
    assert_eq!(seen[1].at - seen[0].at, seconds(timeout) + OVERTIME);
    assert_eq!(seen[1].parameter("resourceVersion"), Some("10"));
}

#[tokio::test(start_paused = true)]
async fn an_expired_version_leads_to_a_new_list_and_not_to_a_gap() {
    let expired = event("ERROR", status(410, "Expired"));
    for (first, second) in [
        // Within the watch.
        (streaming([Part::Wait(seconds(5)), expired]), None),
        // As the answer to the next one.
        (
            streaming([Part::Wait(seconds(5))]),
            Some(Answer::status(410, "Expired")),
        ),
    ] {
        let script = Script::new([first].into_iter().chain(second).chain([
            Answer::status(410, "Expired"),
            Answer::watch([
                event("ADDED", object("x", 21)),
                bookmark(22, true),
                Part::Hang,
            ]),
        ]));
        let running = start(&script);
        let_run(seconds(20)).await;
        assert_eq!(
            running.said(),
            [
                "begin",
                "x@1",
                "end",
                "cannot watch ConfigMap from the last resource version, relist",
                "begin",
                "x@21",
                "end"
            ]
        );
        let seen = script.seen();
        let versions: Vec<_> = seen
            .iter()
            .rev()
            .map(|request| request.parameter("resourceVersion"))
            .take(2)
            .collect();
        // First not older than what was seen, and when that is refused, whatever there is.
        assert_eq!(versions, [Some(""), Some("10")]);
    }
}

#[tokio::test(start_paused = true)]
async fn an_expired_list_is_repeated_without_a_version() {
    let script = Script::new([
        Answer::list(7, "", &[object("x", 1)]),
        Answer::watch([
            Part::Wait(seconds(5)),
            event("ERROR", status(410, "Expired")),
        ]),
        Answer::status(410, "Expired"),
        Answer::list(30, "more", &[object("x", 21)]),
        Answer::list(30, "", &[object("y", 22)]),
        Answer::watch([Part::Hang]),
    ]);
    let running = start_with(&script, Watch::without_streaming);
    let_run(seconds(20)).await;
    let said = running.said();
    assert_eq!(
        said[4..],
        ["begin", "begin", "x@21", "y@22", "end"],
        "{said:?}"
    );
    let seen = script.seen();
    assert_eq!(seen[2].parameter("resourceVersion"), Some("7"));
    assert_eq!(seen[2].parameter("limit"), None);
    assert_eq!(seen[3].parameter("resourceVersion"), None);
    assert_eq!(seen[3].parameter("limit"), Some("500"));
    assert_eq!(seen[4].parameter("continue"), Some("more"));
    assert_eq!(seen[5].parameter("resourceVersion"), Some("30"));
}

#[tokio::test(start_paused = true)]
async fn a_list_that_expires_between_pages_begins_anew_in_one_piece() {
    let script = Script::new([
        Answer::status(410, "Expired"),
        Answer::list(30, "more", &[object("x", 21)]),
        Answer::status(410, "Expired"),
        Answer::list(40, "", &[object("x", 21), object("y", 22)]),
        Answer::watch([Part::Hang]),
    ]);
    let running = start_with(&script, Watch::without_streaming);
    let_run(seconds(5)).await;
    assert_eq!(
        running.said(),
        ["begin", "begin", "x@21", "begin", "x@21", "y@22", "end"]
    );
    assert_eq!(script.seen()[3].parameter("limit"), None);
}

#[tokio::test(start_paused = true)]
async fn an_absent_kind_is_reported_every_time() {
    let absent = || Answer::status(404, "NotFound");
    let script = Script::new((0..20).map(|_| absent()));
    let running = start(&script);
    let_run(seconds(60)).await;
    let said = running.said();
    let reports = said
        .iter()
        .filter(|text| *text == "the server does not serve ConfigMap, relist");
    assert!(reports.count() >= 4, "{said:?}");
    assert!(!said.contains(&"end".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn waits_between_attempts_grow_within_their_bounds() {
    let script = Script::new((0..40).map(|_| Answer::status(500, "InternalError")));
    let _running = start_with(&script, Watch::without_streaming);
    let_run(seconds(250)).await;
    let seen = script.seen();
    let mut base = 0.8_f64;
    for pair in seen.windows(2).take(8) {
        let wait = (pair[1].at - pair[0].at).as_secs_f64();
        assert!(
            (base..=base * 2.0 + 0.002).contains(&wait),
            "{wait} for {base}"
        );
        base = (base * 2.0).min(30.0);
    }
    assert!(seen.len() >= 9);
}

#[tokio::test(start_paused = true)]
async fn a_refused_connection_or_too_many_requests_repeat_the_watch_without_a_list() {
    let script = Script::new([
        streaming([Part::Wait(seconds(5))]),
        Answer::refused(),
        Answer::status(429, "TooManyRequests"),
        Answer::watch([event("ADDED", object("y", 11)), Part::Hang]),
    ]);
    let running = start(&script);
    let_run(seconds(30)).await;
    assert_eq!(
        running.said(),
        [
            "begin",
            "x@1",
            "end",
            "cannot watch ConfigMap, retry",
            "cannot watch ConfigMap, retry",
            "+y@11"
        ]
    );
    let seen = script.seen();
    assert!(seen[1..].iter().all(|request| {
        request.parameter("resourceVersion") == Some("10")
            && request.parameter("sendInitialEvents").is_none()
    }));
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_is_closed_at_once_does_not_spin() {
    let closed = || Answer::watch([]);
    let script = Script::new(
        [Answer::list(7, "", &[])]
            .into_iter()
            .chain((0..50).flat_map(|_| [closed(), Answer::list(7, "", &[])])),
    );
    let running = start_with(&script, Watch::without_streaming);
    let_run(seconds(10)).await;
    let said = running.said();
    assert_eq!(
        said[2],
        "the watch of ConfigMap was closed within a second and without an event, relist"
    );
    assert!(script.seen().len() <= 12, "{}", script.seen().len());
}

#[tokio::test(start_paused = true)]
async fn objects_can_be_cut_before_they_are_delivered() {
    let script = Script::new([streaming([Part::Hang])]);
    let running = start_with(&script, |watch| {
        watch.transform(|object| object.metadata.resource_version = None)
    });
    let_run(seconds(1)).await;
    assert_eq!(running.said(), ["begin", "x@", "end"]);
}
