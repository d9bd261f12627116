//! The numbers of a window.

use super::*;
use crate::record::{Counters, RequestCount};

fn reading(at_ms: u64, gets: u64, writes: u64) -> Scrape {
    let series = |method: &str, count| RequestCount {
        method: method.to_owned(),
        code: "200".to_owned(),
        count,
    };
    Scrape {
        file: String::new(),
        at: DateTime::from_timestamp_millis(1_767_225_600_000).expect("a time")
            + Duration::from_millis(at_ms),
        at_ms,
        pod: "p".to_owned(),
        pod_uid: "u".to_owned(),
        container_id: None,
        restarts: 0,
        process_start: 1_767_225_590.25,
        counters: Counters {
            requests: vec![series("GET", gets), series("PUT", writes)],
            ..Counters::default()
        },
        unsound: Vec::new(),
    }
}

fn plan(length: u64) -> WindowPlan<'static> {
    WindowPlan {
        step: 1,
        length: Duration::from_secs(length),
        quiet: Duration::from_secs(30),
        patience: Duration::from_secs(120),
        earlier: None,
    }
}

#[test]
fn readings_in_between_are_a_tenth_apart_and_half_a_minute_at_most() {
    let apart = |length| plan(length).interval().as_secs();
    assert_eq!(
        [apart(5), apart(60), apart(120), apart(935)],
        [2, 6, 12, 30]
    );
}

#[test]
fn the_phase_is_the_age_of_the_process() {
    assert_eq!(phase(&reading(500, 0, 0)), 10.25);
}

#[test]
fn what_was_quiet_before_lasts_until_the_window_opens() {
    let mut activity = Activity::default();
    activity.see(&reading(1_000, 3, 5));
    activity.see(&reading(30_000, 9, 5));
    let still = quiet_until(activity.clone(), &reading(31_500, 9, 5));
    assert_eq!(still, 30.5);
    let disturbed = quiet_until(activity, &reading(31_500, 9, 6));
    assert_eq!(disturbed, 0.0);
}

#[test]
fn only_what_came_in_the_window_is_churn() {
    let before = BTreeMap::from([("Pod".to_owned(), 4)]);
    let after = BTreeMap::from([("Pod".to_owned(), 4), ("AIBOM".to_owned(), 2)]);
    assert_eq!(
        grown(&before, after),
        BTreeMap::from([("AIBOM".to_owned(), 2), ("Pod".to_owned(), 0)])
    );
}

#[test]
fn changes_that_nobody_saw_make_a_window_unsound() {
    let closed = with_holes(reading(0, 0, 0), vec!["Pod: gone".to_owned()]);
    assert_eq!(
        closed.unsound,
        ["changes of other objects may be missing: Pod: gone"]
    );
    assert!(with_holes(reading(0, 0, 0), Vec::new()).unsound.is_empty());
}

#[test]
fn progress_tells_what_was_counted() {
    let (opened, last) = (reading(0, 11, 1_011), reading(60_000, 15, 1_011));
    assert_eq!(describe(&opened, &last), "4 GET, 0 writes, 0 reconciles");
}
