//! CNV, DAT, CRD and CFG.

use super::super::fixture::{AIBOMS, CONFIGS, Case};
use super::{Mutation, at, over};
use crate::record::{ConditionStatus, DocumentState};

fn none_after(case: &mut Case) {
    case.list(4).items.clear();
}

fn no_snapshot(case: &mut Case) {
    case.forget(4);
}

fn no_hashes(case: &mut Case) {
    for step in [3, 4, 6, 8, 9] {
        for aibom in &mut case.list(step).items {
            aibom.input_hash = None;
        }
    }
}

fn rebuilt(case: &mut Case) {
    case.aibom(4).bom_hash = Some("rebuilt".to_owned());
}

fn no_documents(case: &mut Case) {
    for step in [3, 4] {
        for aibom in &mut case.list(step).items {
            aibom.document = DocumentState::Truncated;
        }
    }
}

/// Neither chart has such a schema.
fn odd_schema(case: &mut Case, step: u32, name: &str) {
    let versions = &mut case.crd(step, name).versions;
    let version = versions.get_mut("v1beta1").expect("a version");
    version.schema_sha256 = "odd".to_owned();
}

fn no_charts(case: &mut Case) {
    case.run
        .charts
        .values_mut()
        .for_each(|chart| chart.crds.clear());
}

pub(super) static MUTATIONS: [Mutation; 27] = [
    at(
        3,
        "CNV-01",
        |case| drop(case.list(3).items.remove(5)),
        |case| {
            case.snapshot(3).expected.clear();
        },
    ),
    at(
        4,
        "CNV-02",
        |case| case.aibom(4).ready = Some(ConditionStatus::False),
        none_after,
    ),
    at(
        3,
        "CNV-03",
        |case| {
            case.record(3)
                .load
                .as_mut()
                .expect("a load")
                .converged_after = None
        },
        |case| case.record(3).load = None,
    ),
    at(
        3,
        "CNV-04",
        |case| case.record(3).load.as_mut().expect("a load").created = 18,
        |case| case.record(3).load = None,
    ),
    at(
        4,
        "CNV-05",
        |case| case.aibom(4).observed_generation = Some(2),
        none_after,
    ),
    at(
        4,
        "CNV-06",
        |case| case.aibom(4).owner.as_mut().expect("an owner").uid.clear(),
        none_after,
    ),
    at(
        4,
        "CNV-07",
        |case| {
            let DocumentState::Inline { stated_bytes, .. } = &mut case.aibom(4).document else {
                panic!("it is inline");
            };
            *stated_bytes = None;
        },
        no_documents,
    ),
    at(
        4,
        "DAT-01",
        |case| drop(case.list(4).items.pop()),
        no_snapshot,
    ),
    at(
        4,
        "DAT-02",
        |case| case.aibom(4).uid = "another".to_owned(),
        none_after,
    ),
    at(
        4,
        "DAT-03",
        |case| case.aibom(4).input_hash = Some("other".to_owned()),
        no_hashes,
    ),
    at(4, "DAT-04", rebuilt, no_hashes),
    at(4, "DAT-05", rebuilt, no_hashes),
    over(
        "DAT-05",
        |case| case.aibom(9).bom_hash = Some("other".to_owned()),
        no_hashes,
    ),
    at(
        4,
        "DAT-06",
        |case| {
            let DocumentState::Inline {
                canonical_sha256, ..
            } = &mut case.aibom(4).document
            else {
                panic!("it is inline");
            };
            canonical_sha256.push('x');
        },
        no_documents,
    ),
    at(
        4,
        "DAT-07",
        |case| case.aibom(4).last_reconciled = case.aibom(3).last_reconciled,
        none_after,
    ),
    at(
        4,
        "DAT-08",
        |case| case.aibom(4).conditions_sha256.push('x'),
        none_after,
    ),
    over("DAT-12", |case| case.forget(7), |case| case.steps.clear()),
    at(
        4,
        "CRD-01",
        |case| case.crd(4, AIBOMS).generation += 1,
        |case| {
            case.snapshot(3).crds.clear();
            case.snapshot(4).crds.clear();
        },
    ),
    at(4, "CRD-02", |case| odd_schema(case, 4, AIBOMS), no_charts),
    at(
        9,
        "CRD-03",
        |case| {
            // Each is that of a chart, but not of the same one.
            let chart = case.run.charts.get_mut("to").expect("a chart");
            let versions = chart.crds.get_mut(AIBOMS).expect("a definition");
            versions
                .get_mut("v1beta1")
                .expect("a version")
                .schema_sha256 = "newer".to_owned();
        },
        no_charts,
    ),
    at(8, "CRD-04", |case| odd_schema(case, 8, CONFIGS), no_charts),
    at(
        7,
        "CRD-12",
        |case| odd_schema(case, 7, CONFIGS),
        |case| case.record(7).crds = None,
    ),
    at(
        7,
        "CRD-13",
        |case| {
            let scrape = case.snapshot(7).scrape.as_mut().expect("a reading");
            scrape.counters.requests[1].count += 20;
        },
        |case| case.snapshot(7).scrape = None,
    ),
    at(
        4,
        "CFG-01",
        |case| case.config(4).generation = 2,
        no_snapshot,
    ),
    at(
        4,
        "CFG-02",
        |case| case.config(4).conditions.clear(),
        no_snapshot,
    ),
    at(
        4,
        "CFG-03",
        |case| case.degraded(4).status = ConditionStatus::True,
        no_snapshot,
    ),
    at(
        4,
        "CFG-06",
        |case| {
            let degraded = case.degraded(4);
            degraded.status = ConditionStatus::True;
            degraded.reason = "RunningOnDefaults".to_owned();
        },
        no_snapshot,
    ),
];
