//! A run of the scenario `v1.3-to-v1.5` as it should go: ten steps, 1,002 AIBOMs. Its numbers are those
//! of real processes where these are known (`design.md` 8).

mod outcomes;
mod snapshots;

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use chrono::{DateTime, TimeDelta, TimeZone as _, Utc};

use self::outcomes::checks;
pub(super) use self::outcomes::{check, failed};
use self::snapshots::{revision, snapshot};
use crate::record::*;
use crate::scenario::{ChartName, ChartPlan, ChartSource, Plan, Step, ValuesChoice, WorkloadPlan};
use crate::subject::images::CONTROLLERS;

pub(super) const NAME: &str = "20260929T171805Z-v1.3-to-v1.5-k7f2qd";
pub(super) const AIBOMS: &str = "aiboms.aibom.k8saibom.dev";
pub(super) const CONFIGS: &str = "aibomcontrollerconfigs.aibom.k8saibom.dev";

/// Seconds from the start of the run to that of each step, and its length.
const TIMES: [(i64, f64); 10] = [
    (4, 1.2),
    (6, 14.1),
    (21, 9.4),
    (31, 21.9),
    (53, 966.8),
    (1_021, 19.6),
    (1_041, 3.3),
    (1_045, 20.2),
    (1_066, 18.9),
    (1_086, 34.5),
];

pub(super) fn start() -> DateTime<Utc> {
    Utc.with_ymd_and_hms(2026, 9, 29, 17, 18, 5)
        .single()
        .expect("a time")
}

fn at(step: u32) -> DateTime<Utc> {
    start() + TimeDelta::seconds(TIMES[step as usize - 1].0)
}

/// The whole run.
pub(super) fn run() -> LoadedRun {
    let steps = steps();
    let snapshots: BTreeMap<u32, Snapshot> = (1..=10).map(|step| (step, snapshot(step))).collect();
    let mut events = vec![entry(
        start(),
        Event::RunStarted {
            run: NAME.to_owned(),
            steps: 10,
        },
    )];
    for record in &steps {
        events.push(entry(
            record.started_at,
            Event::StepStarted {
                step: record.step,
                kind: record.kind,
                action: record.action.clone(),
            },
        ));
        events.push(entry(
            record.started_at + TimeDelta::milliseconds((record.seconds * 1000.0) as i64),
            Event::StepFinished {
                record: Box::new(record.clone()),
            },
        ));
    }
    let outcome = Outcome {
        at: start() + TimeDelta::seconds(1_121),
        exit: 0,
        aborted: None,
        checks: checks(),
    };
    events.push(entry(
        outcome.at,
        Event::RunFinished {
            outcome: Box::new(outcome.clone()),
        },
    ));
    LoadedRun {
        run: run_file(outcome),
        steps,
        snapshots,
        events,
        problems: Vec::new(),
    }
}

fn entry(at: DateTime<Utc>, event: Event) -> Entry {
    Entry {
        at,
        at_ms: u64::try_from((at - start()).num_milliseconds()).expect("later"),
        event,
    }
}

fn run_file(outcome: Outcome) -> RunFile {
    let name = |name: &str| ChartName(name.to_owned());
    let plan = |version: &str| ChartPlan {
        source: ChartSource::Embedded {
            version: version.to_owned(),
        },
        values: ValuesChoice::ChartDefault,
    };
    RunFile {
        schema_version: SCHEMA_VERSION,
        run: NAME.to_owned(),
        started_at: start(),
        plan: Plan {
            name: "v1.3-to-v1.5".to_owned(),
            release: "k8s-aibom".to_owned(),
            namespace: "k8s-aibom-system".to_owned(),
            charts: BTreeMap::from([(name("from"), plan("1.3.0")), (name("to"), plan("1.5.1"))]),
            workloads: WorkloadPlan {
                preexisting: 1,
                count: 1001,
                mix: "vllm-replicas-0".to_owned(),
                namespaces: NonZeroU32::MIN,
                seed: 7,
                rate: None,
            },
            steps: vec![
                Step::Baseline,
                Step::Install {
                    chart: name("from"),
                },
                Step::Load,
                Step::Upgrade { chart: name("to") },
                Step::Steady {
                    window_seconds: 935,
                },
                Step::Rollback {
                    revision: NonZeroU32::new(1),
                },
                Step::Crds { chart: name("to") },
                Step::Upgrade { chart: name("to") },
                Step::Rollback { revision: None },
                Step::Cleanup,
            ],
            expectations: Vec::new(),
        },
        environment: Some(Environment {
            plane: PlaneKind::Local,
            subject: SubjectKind::Embedded,
            server: "v1.36.3".to_owned(),
            platform: "linux/amd64".to_owned(),
            nodes: 1,
            helm: HelmRecord {
                major: 4,
                version: "v4.3.1".to_owned(),
            },
            tool: "0.1.0".to_owned(),
            cpus: 2,
            clock_skew_ms: 3,
        }),
        charts: BTreeMap::from([
            ("from".to_owned(), chart("1.3.0", "1.3.0")),
            ("to".to_owned(), chart("1.5.1", "1.5.1")),
        ]),
        outcome: Some(outcome),
    }
}

fn chart(version: &str, config_schema: &str) -> ChartRecord {
    let image = CONTROLLERS.iter().find(|image| image.release == version);
    ChartRecord {
        name: "k8s-aibom".to_owned(),
        version: version.to_owned(),
        app_version: format!("v{version}"),
        source: format!("../charts/{version}"),
        sha256: sha256_hex(version.as_bytes()),
        oci_digest: None,
        image: image.expect("a known release").reference(),
        values: "chart-default".to_owned(),
        values_sha256: sha256_hex(format!("values of {version}").as_bytes()),
        objects: Vec::new(),
        crds: BTreeMap::from([
            (AIBOMS.to_owned(), versions("1.3.0")),
            (CONFIGS.to_owned(), versions(config_schema)),
        ]),
    }
}

fn versions(schema: &str) -> BTreeMap<String, CrdVersion> {
    let version = |storage| CrdVersion {
        served: true,
        storage,
        schema_sha256: sha256_hex(schema.as_bytes()),
    };
    BTreeMap::from([
        ("v1alpha1".to_owned(), version(false)),
        ("v1beta1".to_owned(), version(true)),
    ])
}

/// The chart that the release runs after a step.
fn running(step: u32) -> Option<&'static str> {
    match step {
        1 | 10 => None,
        4 | 5 | 8 => Some("to"),
        _ => Some("from"),
    }
}

fn version(step: u32) -> &'static str {
    match running(step) {
        Some("to") => "1.5.1",
        _ => "1.3.0",
    }
}

fn steps() -> Vec<StepRecord> {
    use StepKind::*;
    let actions = [
        (Baseline, "record the cluster as found, create 1 workload"),
        (Install, "helm install 1.3.0"),
        (Load, "create 1001 workloads (vllm-replicas-0)"),
        (Upgrade, "helm upgrade to 1.5.1"),
        (Steady, "measure 935 s without a change"),
        (Rollback, "helm rollback to revision 1"),
        (Crds, "apply the CRDs of 1.5.1"),
        (Upgrade, "helm upgrade to 1.5.1"),
        (Rollback, "helm rollback"),
        (Cleanup, "remove release, load, CRDs and namespaces"),
    ];
    let mut steps = Vec::new();
    for (number, (kind, action)) in (1_u32..).zip(actions) {
        steps.push(StepRecord {
            seconds: TIMES[number as usize - 1].1,
            chart: running(number).map(str::to_owned),
            phases: phases(kind),
            snapshot: Some(format!("snapshots/{number:02}-step.json.zst")),
            ..StepRecord::begun(number, kind, action.to_owned(), at(number))
        });
    }
    for (step, revision, complete) in [
        (2, 1, 11.8),
        (4, 2, 12.3),
        (6, 3, 11.9),
        (8, 4, 12.1),
        (9, 5, 11.6),
    ] {
        let record = &mut steps[step - 1];
        record.helm = Some(helm(record.kind, revision, complete));
        record.rollout = Some(rollout(complete));
        record.restart = Some(restart(record.step, revision));
    }
    steps[2].load = Some(LoadFacts {
        asked: 1001,
        created: 1001,
        existing: 0,
        failed: BTreeMap::new(),
        seconds: 2.4,
        rate: 417.1,
        p50_ms: Some(38.0),
        p99_ms: Some(91.0),
        converged_after: Some(2.1),
    });
    steps[4].window = Some(window());
    steps[6].crds = Some(CrdFacts {
        chart: "to".to_owned(),
        manager: "aibom-qual".to_owned(),
        applied: [AIBOMS, CONFIGS]
            .map(|name| CrdApplied {
                name: name.to_owned(),
                changed: name == CONFIGS,
                refused: None,
            })
            .into(),
    });
    steps[9].cleanup = Some(CleanupFacts {
        deleted: BTreeMap::from([
            ("CustomResourceDefinition".to_owned(), 2),
            ("Namespace".to_owned(), 2),
            ("Release".to_owned(), 1),
        ]),
        left: Vec::new(),
        differences: Vec::new(),
    });
    steps
}

fn phases(kind: StepKind) -> Vec<PhaseTime> {
    let parts: &[(&str, f64)] = match kind {
        StepKind::Load => &[
            ("load", 2.4),
            ("converge", 2.1),
            ("settle", 4.3),
            ("snapshot", 0.6),
        ],
        StepKind::Steady => &[("settle", 30.4), ("window", 935.2), ("snapshot", 0.6)],
        StepKind::Crds => &[("apply", 0.3), ("settle", 2.3), ("snapshot", 0.6)],
        StepKind::Cleanup => &[("uninstall", 2.9), ("delete", 31.2), ("snapshot", 0.1)],
        kind if kind.is_move() => &[
            ("helm", 11.4),
            ("rollout", 0.7),
            ("settle", 8.9),
            ("snapshot", 0.6),
        ],
        _ => &[("snapshot", 0.2)],
    };
    let parts = parts.iter().map(|(name, seconds)| PhaseTime {
        name: (*name).to_owned(),
        seconds: *seconds,
    });
    parts.collect()
}

fn helm(kind: StepKind, revision: u32, seconds: f64) -> HelmFacts {
    HelmFacts {
        args: vec![
            kind.to_string(),
            "k8s-aibom".to_owned(),
            "--wait".to_owned(),
        ],
        exit: Some(0),
        seconds: seconds - 0.2,
        failure: None,
        said: None,
        revision_before: revision.checked_sub(1).filter(|number| *number > 0),
        revision_after: Some(revision),
        transcript: format!("logs/{revision:02}-helm-{kind}.txt"),
    }
}

fn rollout(complete: f64) -> RolloutFacts {
    RolloutFacts {
        complete_after: Some(complete),
        longest_without_ready: 0.0,
        overlap: 1.4,
        template_changed: true,
        old_pods_left: Vec::new(),
        restarts: 0,
        trouble: None,
        last_seen: "1 of 1 updated and available".to_owned(),
        observed: 9,
    }
}

pub(super) fn scrape(step: u32, counters: Counters) -> Scrape {
    Scrape {
        file: format!("scrapes/{step:02}-a.prom"),
        at: at(step),
        at_ms: 0,
        pod: format!("k8s-aibom-{step}"),
        pod_uid: format!("pod-{}", revision(step)),
        container_id: Some(format!("process://{step}")),
        restarts: 0,
        process_start: 1_790_702_285.25,
        counters,
        unsound: Vec::new(),
    }
}

fn counters(get: u64, post: u64, put: u64, reconciles: u64, cpu: f64, bytes: u64) -> Counters {
    let requests = [
        ("GET", "200", get),
        ("POST", "201", post),
        ("PUT", "200", put),
    ];
    Counters {
        requests: requests
            .map(|(method, code, count)| RequestCount {
                method: method.to_owned(),
                code: code.to_owned(),
                count,
            })
            .into(),
        reconciles: BTreeMap::from([
            ("deployment".to_owned(), reconciles),
            ("aibomcontrollerconfig".to_owned(), 1),
        ]),
        cpu_seconds: cpu,
        resident_bytes: bytes,
        ..Counters::default()
    }
}

fn restart(step: u32, revision: u32) -> RestartFacts {
    let tracked = if step == 2 { 1 } else { 1002 };
    let gets = if running(step) == Some("to") { 11 } else { 10 };
    let puts = if step == 2 { 3 } else { tracked + 1 };
    let posts = if step == 2 { 2 } else { 1 };
    let cpu = if step == 2 {
        0.06
    } else {
        0.41 + f64::from(revision) / 50.0
    };
    let bytes = if step == 2 { 14_200_000 } else { 24_100_000 };
    RestartFacts {
        before: None,
        after: scrape(step, counters(gets, posts, puts, tracked, cpu, bytes)),
        settled_after: Some(if step == 2 {
            1.1
        } else {
            3.6 + f64::from(revision) / 10.0
        }),
        not_walked: Vec::new(),
        tracked,
    }
}

fn window() -> WindowFacts {
    WindowFacts {
        asked: 935.0,
        elapsed: 935.2,
        phase: 52.7,
        quiet_before: 30.1,
        opened: scrape(5, counters(11, 1, 1003, 1002, 0.45, 24_100_000)),
        closed: scrape(5, counters(27, 1, 1003, 1002, 0.71, 24_300_000)),
        between: Vec::new(),
        churn: BTreeMap::from([("AIBOM".to_owned(), 0), ("Pod".to_owned(), 0)]),
        api_servers: vec!["1790702281.5".to_owned()],
    }
}
