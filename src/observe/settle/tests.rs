//! A process by its readings.

use std::collections::BTreeMap;

use super::*;
use crate::observe::expected::WorkloadName;
use crate::observe::scrape::Unready;
use crate::record::{Counters, RequestCount};

const START: f64 = 1_767_225_600.5;

/// A reading so many seconds after the start of the process.
fn reading(after: u32, writes: u64, reconciles: u64) -> Scrape {
    let at_ms = u64::from(after) * 1_000 + 500;
    Scrape {
        file: "scrapes/01-settle-0001.prom".to_owned(),
        at: DateTime::from_timestamp_millis(1_767_225_600_000).expect("a time")
            + Duration::from_millis(at_ms),
        at_ms,
        pod: "p".to_owned(),
        pod_uid: "u".to_owned(),
        container_id: Some("c".to_owned()),
        restarts: 0,
        process_start: START,
        counters: Counters {
            requests: vec![
                RequestCount {
                    method: "PUT".to_owned(),
                    code: "200".to_owned(),
                    count: writes,
                },
                RequestCount {
                    method: "GET".to_owned(),
                    code: "200".to_owned(),
                    // Readers do not disturb the quiet.
                    count: u64::from(after),
                },
            ],
            reconciles: BTreeMap::from([("deployment".to_owned(), reconciles)]),
            ..Counters::default()
        },
        unsound: Vec::new(),
    }
}

fn tracked() -> Expected {
    ["a", "b"]
        .map(|name| WorkloadName::new("n", "Deployment", name))
        .into_iter()
        .collect()
}

fn watch<'a>(tracked: &'a Expected, previous: Option<&'a Scrape>) -> Watch<'a> {
    Watch::new(Settling {
        step: 1,
        tracked,
        previous,
        quiet: Duration::from_secs(5),
    })
}

fn deadline() -> Deadline<'static> {
    Deadline::within(Duration::from_secs(60))
}

#[test]
fn five_quiet_seconds_and_a_walk_over_all_are_settled() {
    let tracked = tracked();
    let mut watch = watch(&tracked, None);
    for (after, writes) in [(1, 300), (2, 900), (3, 1_010), (4, 1_010), (7, 1_010)] {
        watch.see(reading(after, writes, writes));
        assert_eq!(watch.may_have_settled(), None, "after {after} s");
    }
    watch.see(reading(8, 1_010, 1_010));
    let since = watch.may_have_settled().expect("quiet for long enough");
    assert_eq!(since.timestamp(), 1_767_225_600);
    assert_eq!(watch.state, "1010 writes and 1010 reconciles, none for 5 s");
    watch.walked(Vec::new());
    assert!(watch.has_settled());
    let settled = watch.finish(deadline(), true).expect("settled");
    assert_eq!(settled.settled_after, Some(3.0));
    assert_eq!(settled.scrape.at_ms, 8_500);
    assert_eq!((settled.tracked, settled.not_walked.len()), (2, 0));
}

#[test]
fn a_quiet_process_that_has_not_walked_over_all_is_looked_at_once_per_period() {
    let tracked = tracked();
    let mut watch = watch(&tracked, None);
    watch.see(reading(1, 9, 9));
    watch.see(reading(6, 9, 9));
    assert!(watch.may_have_settled().is_some());
    watch.walked(vec!["Deployment n/b".to_owned()]);
    assert!(!watch.has_settled());
    assert_eq!(watch.done(), Some((1, 2)));
    assert!(watch.state.starts_with("1 of 2 AIBOMs were not reconciled"));
    watch.see(reading(7, 9, 9));
    assert_eq!(watch.may_have_settled(), None);
    watch.see(reading(11, 9, 9));
    assert!(watch.may_have_settled().is_some());
    // The late one.
    watch.see(reading(12, 10, 10));
    assert_eq!(watch.may_have_settled(), None);
    let unsettled = watch.finish(deadline(), false).expect("a reading");
    assert_eq!(unsettled.settled_after, None);
}

#[test]
fn reconciles_alone_are_no_quiet() {
    let tracked = tracked();
    let mut watch = watch(&tracked, None);
    for after in 1..9 {
        watch.see(reading(after, 5, u64::from(after)));
    }
    assert_eq!(watch.may_have_settled(), None);
}

#[test]
fn neither_the_process_before_nor_an_unsound_reading_counts() {
    let tracked = tracked();
    let before = reading(1, 7, 7);
    let mut watch = watch(&tracked, Some(&before));
    watch.see(reading(2, 7, 7));
    watch.see(reading(9, 7, 7));
    assert_eq!(watch.state, "the process before still answers, in p");
    let mut unsound = reading(10, 7, 7);
    unsound.restarts = 1;
    unsound.unsound = vec!["there is no workqueue_depth".to_owned()];
    watch.see(unsound);
    assert_eq!(watch.may_have_settled(), None);
    let error = watch.finish(deadline(), false).expect_err("nothing seen");
    assert!(
        error
            .to_string()
            .ends_with("is not sound: there is no workqueue_depth"),
        "{error}"
    );
}

#[test]
fn another_process_begins_anew() {
    let mut activity = Activity::default();
    assert!(activity.see(&reading(1, 5, 5)));
    assert!(!activity.see(&reading(9, 5, 5)));
    assert_eq!(activity.quiet(), Duration::from_secs(8));
    let mut other = reading(10, 5, 5);
    other.restarts = 1;
    assert!(activity.see(&other));
    assert_eq!(activity.quiet(), Duration::ZERO);
}

#[test]
fn failures_that_pass_are_states_and_others_are_not() {
    let tracked = tracked();
    let mut watch = watch(&tracked, None);
    let unread = |source| ScrapeError::Unread { tries: 3, source };
    watch
        .miss(unread(Unready::NoDeployment.into()))
        .expect("it may come");
    assert_eq!(
        watch.state,
        "there is no Deployment with the labels of the release"
    );
    let refused = ObserveError::api("the pods", Fault::Unauthorized);
    let refused = unread(crate::observe::scrape::Miss::Api(Box::new(refused)));
    watch.miss(refused).expect_err("nobody lets us");
    let passing = ObserveError::api("the inventory", Fault::Timeout);
    watch.unlisted(passing).expect("it passes");
    let forbidden = Fault::Forbidden {
        message: "no".to_owned(),
    };
    let error = ObserveError::api("the inventory", forbidden);
    watch.unlisted(error).expect_err("it does not");
}
