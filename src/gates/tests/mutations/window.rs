//! MET, STS and RST.

use super::super::fixture::Case;
use super::{Mutation, at, over};
use crate::record::RequestCount;

fn no_window(case: &mut Case) {
    case.record(5).window = None;
}

fn no_restart(case: &mut Case) {
    case.record(4).restart = None;
}

fn no_readings(case: &mut Case) {
    no_restart(case);
    case.snapshot(4).scrape = None;
}

/// Further requests of the window.
fn more(case: &mut Case, method: &str, code: &str, count: u64) {
    let requests = &mut case.window().closed.counters.requests;
    let known = requests
        .iter_mut()
        .find(|series| series.method == method && series.code == code);
    match known {
        Some(series) => series.count += count,
        None => requests.push(request(method, code, count)),
    }
}

fn request(method: &str, code: &str, count: u64) -> RequestCount {
    RequestCount {
        method: method.to_owned(),
        code: code.to_owned(),
        count,
    }
}

pub(super) static MUTATIONS: [Mutation; 26] = [
    at(
        5,
        "MET-01",
        |case| case.window().closed.process_start += 60.0,
        no_window,
    ),
    at(
        5,
        "MET-02",
        |case| drop(case.window().closed.counters.requests.pop()),
        no_window,
    ),
    at(
        5,
        "MET-03",
        |case| case.window().api_servers.push("1728000009.0".to_owned()),
        |case| case.window().api_servers.clear(),
    ),
    at(
        4,
        "MET-04",
        |case| {
            case.restart(4)
                .after
                .unsound
                .push("line 7: no value".to_owned())
        },
        no_readings,
    ),
    at(
        4,
        "MET-05",
        |case| case.restart(4).after.pod_uid = "another".to_owned(),
        no_readings,
    ),
    at(
        5,
        "MET-06",
        |case| case.window().churn.extend([("Pod".to_owned(), 1)]),
        |case| case.window().churn.clear(),
    ),
    at(5, "MET-07", |case| case.window().elapsed = 600.0, no_window),
    over(
        "MET-08",
        |case| {
            case.run
                .charts
                .get_mut("to")
                .expect("a chart")
                .values_sha256
                .clear()
        },
        |case| case.run.environment = None,
    ),
    at(
        4,
        "MET-11",
        |case| {
            let again = case.aibom(4).clone();
            case.list(4).items.push(again);
        },
        |case| case.snapshot(4).aiboms = None,
    ),
    over("MET-13", no_window, |case| {
        case.run.plan.steps.clear();
        case.steps.clear();
    }),
    at(
        4,
        "MET-14",
        |case| case.rollout(4).template_changed = false,
        |case| case.record(4).rollout = None,
    ),
    at(
        5,
        "STS-01",
        |case| case.window().quiet_before = 12.0,
        no_window,
    ),
    at(5, "STS-02", |case| more(case, "GET", "200", 40), no_window),
    at(5, "STS-03", |case| more(case, "PUT", "200", 1), no_window),
    at(5, "STS-04", |case| more(case, "GET", "500", 1), no_window),
    at(
        5,
        "STS-05",
        |case| {
            let reconciles = &mut case.window().closed.counters.reconciles;
            reconciles.extend([("deployment".to_owned(), 99)]);
        },
        |case| case.window().churn.clear(),
    ),
    at(5, "STS-06", |case| more(case, "GET", "200", 15), no_window),
    at(
        5,
        "STS-08",
        |case| case.window().closed.counters.cpu_seconds = 20.0,
        no_window,
    ),
    at(
        5,
        "STS-09",
        |case| case.window().between[0].counters.resident_bytes = 300 << 20,
        no_window,
    ),
    at(
        5,
        "STS-10",
        |case| case.window().closed.counters.queue_depth = 2,
        no_window,
    ),
    at(
        4,
        "RST-01",
        |case| case.restart(4).settled_after = None,
        no_restart,
    ),
    at(
        4,
        "RST-02",
        |case| case.restart(4).after.counters.requests[1].count += 1,
        no_restart,
    ),
    at(
        4,
        "RST-03",
        |case| case.restart(4).after.counters.requests[0].count = 31,
        no_restart,
    ),
    at(
        4,
        "RST-04",
        |case| case.restart(4).after.counters.requests[2].count = 22,
        no_restart,
    ),
    at(
        4,
        "RST-05",
        |case| {
            case.restart(4)
                .after
                .counters
                .requests
                .push(request("PUT", "409", 2))
        },
        no_restart,
    ),
    at(
        4,
        "RST-07",
        |case| case.restart(4).settled_after = Some(63.0),
        no_restart,
    ),
];

#[test]
fn an_aibom_that_was_touched_late_is_not_at_rest() {
    let mut case = Case::sound();
    let opened = case.window().opened.at;
    case.aibom(5).last_reconciled = Some(opened - chrono::TimeDelta::seconds(10));
    let result = super::result(&case, "STS-01", Some(5));
    assert_eq!(result.verdict, crate::record::Verdict::Fail);
    assert_eq!(result.details.len(), 1);
}
