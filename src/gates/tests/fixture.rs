//! Sound evidence of the scenario `v1.3-to-v1.5` (`qualification.md` C01), with 20 workloads.

use std::collections::{BTreeMap, BTreeSet};
use std::num::{NonZeroU32, NonZeroUsize};

use chrono::{DateTime, TimeDelta, Utc};

use crate::gates::{Evidence, evaluate};
use crate::record::*;
use crate::scenario::*;

pub(super) const AIBOMS: &str = "aiboms.aibom.k8saibom.dev";
pub(super) const CONFIGS: &str = "aibomcontrollerconfigs.aibom.k8saibom.dev";
const NAMESPACE: &str = "k8s-aibom-system";
const WORKLOADS: usize = 20;
/// The step that measures the window, and its length in seconds.
const STEADY: u32 = 5;
const WINDOW: i64 = 935;

/// What a run left behind, to be broken.
pub(super) struct Case {
    pub(super) run: RunFile,
    pub(super) steps: Vec<StepRecord>,
    pub(super) snapshots: BTreeMap<u32, Snapshot>,
    pub(super) events: Vec<Entry>,
}

/// When a step begins.
pub(super) fn at(step: u32) -> DateTime<Utc> {
    let start = DateTime::<Utc>::UNIX_EPOCH + TimeDelta::days(20_000);
    let window = if step > STEADY { WINDOW + 65 } else { 0 };
    start + TimeDelta::seconds(i64::from(step) * 100 + window)
}

fn seconds_after(step: u32, seconds: i64) -> DateTime<Utc> {
    at(step) + TimeDelta::seconds(seconds)
}

/// The step whose move began the process that runs after this step.
fn process(step: u32) -> Option<u32> {
    let moves = [9, 8, 6, 4, 2];
    let begun = moves.into_iter().find(|begun| *begun <= step);
    begun.filter(|_| step < 10)
}

fn chart_at(step: u32) -> Option<&'static str> {
    Some(match process(step)? {
        4 | 8 => "to",
        _ => "from",
    })
}

fn versions(schema: &str) -> BTreeMap<String, CrdVersion> {
    let version = |storage, schema: String| CrdVersion {
        served: true,
        storage,
        schema_sha256: schema,
    };
    BTreeMap::from([
        ("v1alpha1".to_owned(), version(false, format!("{schema}-1"))),
        ("v1beta1".to_owned(), version(true, format!("{schema}-2"))),
    ])
}

fn chart(version: &str) -> ChartRecord {
    ChartRecord {
        name: "k8s-aibom".to_owned(),
        version: version.to_owned(),
        app_version: format!("v{version}"),
        source: format!("../charts/{version}"),
        sha256: format!("chart-{version}"),
        oci_digest: None,
        image: format!("ghcr.io/googlecloudplatform/k8s-aibom:v{version}"),
        values: "chart-default".to_owned(),
        values_sha256: format!("values-{version}"),
        objects: vec!["Deployment k8s-aibom-system/k8s-aibom".to_owned()],
        crds: BTreeMap::from([
            (AIBOMS.to_owned(), versions("aibom")),
            (CONFIGS.to_owned(), versions(version)),
        ]),
    }
}

fn plan() -> Plan {
    let name = |name: &str| ChartName(name.to_owned());
    let chart = |version: &str| ChartPlan {
        source: ChartSource::Embedded {
            version: version.to_owned(),
        },
        values: ValuesChoice::ChartDefault,
    };
    let charts = [(name("from"), chart("1.3.0")), (name("to"), chart("1.5.1"))];
    Plan {
        name: "v1.3-to-v1.5".to_owned(),
        release: "k8s-aibom".to_owned(),
        namespace: NAMESPACE.to_owned(),
        charts: charts.into(),
        workloads: WorkloadPlan {
            preexisting: 1,
            count: 19,
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
                revision: Some(NonZeroU32::MIN),
            },
            Step::Crds { chart: name("to") },
            Step::Upgrade { chart: name("to") },
            Step::Rollback { revision: None },
            Step::Cleanup,
        ],
        expectations: Vec::new(),
    }
}

fn workload(number: usize) -> Workload {
    Workload {
        namespace: "load".to_owned(),
        kind: "Deployment".to_owned(),
        name: format!("vllm-{number:04}"),
        uid: format!("workload-{number}"),
        generation: 1,
    }
}

/// An AIBOM as it is after a step: walked by every new process, and never changed.
fn aibom(number: usize, step: u32) -> AibomState {
    let Workload {
        namespace,
        kind,
        name,
        uid,
        generation,
    } = workload(number);
    let digest = format!("document-{number}");
    let walked = process(step)
        .unwrap_or_default()
        .max(if number == 0 { 2 } else { 3 });
    AibomState {
        namespace,
        name: format!("apps-deployment-{name}"),
        uid: format!("aibom-{number}"),
        resource_version: format!("{}", 1000 * walked),
        owner: Some(OwnerState { kind, name, uid }),
        input_hash: Some(format!("input-{number}")),
        bom_hash: Some(digest.clone()),
        document: DocumentState::Inline {
            sha256: digest.clone(),
            canonical_sha256: format!("canonical-{number}"),
            bytes: 2_838,
            stated_sha256: Some(digest),
            stated_bytes: Some(2_838),
        },
        ready: Some(ConditionStatus::True),
        conditions_sha256: format!("conditions-{number}"),
        observed_generation: Some(generation),
        last_reconciled: Some(seconds_after(walked, 20)),
        bytes: 7_700,
    }
}

fn condition(type_: &str, status: ConditionStatus) -> Condition {
    Condition {
        type_: type_.to_owned(),
        status,
        reason: "ConfigLoaded".to_owned(),
        message: "as it should be".to_owned(),
        observed_generation: Some(1),
        last_transition_time: Some(at(2)),
    }
}

fn pod(step: u32) -> Option<PodState> {
    let begun = process(step)?;
    Some(PodState {
        name: format!("k8s-aibom-{begun}"),
        uid: format!("pod-{begun}"),
        template_hash: Some(format!("template-{begun}")),
        phase: "Running".to_owned(),
        ready: true,
        terminating: false,
        image: chart(version_at(step)?).image,
        image_id: None,
        container_id: Some(format!("container-{begun}")),
        restarts: 0,
        trouble: None,
        created_at: Some(at(begun)),
    })
}

fn version_at(step: u32) -> Option<&'static str> {
    Some(match chart_at(step)? {
        "to" => "1.5.1",
        _ => "1.3.0",
    })
}

fn counters(gets: u64, puts: u64, posts: u64) -> Counters {
    let count = |method: &str, code: &str, count| RequestCount {
        method: method.to_owned(),
        code: code.to_owned(),
        count,
    };
    Counters {
        requests: vec![
            count("GET", "200", gets),
            count("PUT", "200", puts),
            count("POST", "201", posts),
        ],
        reconciles: BTreeMap::from([
            ("deployment".to_owned(), puts + 4),
            ("aibomcontrollerconfig".to_owned(), 1),
        ]),
        reconcile_errors: 0,
        queue_depth: 0,
        queue_retries: 0,
        cpu_seconds: 2.2,
        resident_bytes: 97 << 20,
    }
}

fn scrape(step: u32, time: DateTime<Utc>, counters: Counters) -> Scrape {
    let begun = process(step).expect("a process runs");
    Scrape {
        file: format!("scrapes/{step:02}.prom"),
        at: time,
        at_ms: (time - at(1)).num_milliseconds().unsigned_abs(),
        pod: format!("k8s-aibom-{begun}"),
        pod_uid: format!("pod-{begun}"),
        container_id: Some(format!("container-{begun}")),
        restarts: 0,
        process_start: seconds_after(begun, 10).timestamp() as f64,
        counters,
        unsound: Vec::new(),
    }
}

/// What a process counts once it has walked.
fn walked(step: u32) -> Counters {
    let tracked = WORKLOADS as u64;
    match process(step) {
        Some(2) => {
            let mut counters = counters(11, 3, 3);
            counters.requests.push(RequestCount {
                method: "GET".to_owned(),
                code: "429".to_owned(),
                count: 1,
            });
            counters
        }
        _ => counters(11, tracked + 1, 2),
    }
}

fn release(step: u32) -> Option<ReleaseState> {
    let moves = [
        (2, "Install complete"),
        (4, "Upgrade complete"),
        (6, "Rollback to 1"),
        (8, "Upgrade complete"),
        (9, "Rollback to 3"),
    ];
    let newest = process(step)?;
    let history = (1..).zip(moves.into_iter().filter(|(begun, _)| *begun <= newest));
    let history = history.map(|(revision, (begun, description))| HelmRevision {
        revision,
        status: if begun == newest {
            RevisionStatus::Deployed
        } else {
            RevisionStatus::Superseded
        },
        description: description.to_owned(),
        chart: "k8s-aibom".to_owned(),
        chart_version: version_at(begun).expect("a chart").to_owned(),
        app_version: format!("v{}", version_at(begun).expect("a chart")),
        apply_method: Some(ApplyMethod::Ssa),
        values_sha256: "none".to_owned(),
        last_deployed: Some(at(begun)),
    });
    Some(ReleaseState {
        name: "k8s-aibom".to_owned(),
        namespace: NAMESPACE.to_owned(),
        history: history.collect(),
    })
}

fn crd(name: &str, schema: &str, generation: i64) -> CrdState {
    CrdState {
        name: name.to_owned(),
        uid: format!("{name}-uid"),
        generation,
        resource_version: format!("{}", 100 + generation),
        versions: versions(schema),
        stored_versions: vec!["v1beta1".to_owned()],
        established: true,
        terminating: false,
        managers: BTreeSet::from(["helm".to_owned()]),
    }
}

fn snapshot(step: u32) -> Snapshot {
    let running = process(step).is_some();
    let many = match step {
        1 | 2 => 1,
        10 => 0,
        _ => WORKLOADS,
    };
    let (schema, generation) = if step < 7 { ("1.3.0", 1) } else { ("1.5.1", 2) };
    let crds = vec![crd(CONFIGS, schema, generation), crd(AIBOMS, "aibom", 1)];
    let deployment = |version: &str| DeploymentState {
        name: "k8s-aibom".to_owned(),
        uid: "deployment".to_owned(),
        generation: i64::from(step),
        observed_generation: i64::from(step),
        wanted: 1,
        replicas: 1,
        updated: 1,
        ready: 1,
        available: 1,
        image: chart(version).image,
        conditions: Vec::new(),
    };
    let config = ConfigState {
        uid: "config".to_owned(),
        generation: 1,
        observed_generation: Some(1),
        spec_sha256: "spec".to_owned(),
        conditions: vec![
            condition("Ready", ConditionStatus::True),
            condition("Degraded", ConditionStatus::False),
        ],
        last_loaded_at: Some(at(step)),
    };
    Snapshot {
        step,
        at: seconds_after(step, 60),
        took_ms: 40,
        release: release(step),
        deployment: version_at(step).map(deployment),
        pods: pod(step).into_iter().collect(),
        config: running.then_some(config),
        crds: if running { crds } else { Vec::new() },
        expected: (0..many).map(workload).collect(),
        aiboms: running.then(|| AibomList {
            resource_version: "4711".to_owned(),
            pages: 1,
            restarts: 0,
            items: (0..many).map(|number| aibom(number, step)).collect(),
        }),
        scrape: running.then(|| scrape(step, seconds_after(step, 60), walked(step))),
    }
}

fn helm() -> HelmFacts {
    HelmFacts {
        args: vec!["upgrade".to_owned()],
        exit: Some(0),
        seconds: 10.4,
        failure: None,
        said: None,
        revision_before: None,
        revision_after: None,
        transcript: "logs/helm.txt".to_owned(),
    }
}

fn rollout(step: u32) -> RolloutFacts {
    let install = step == 2;
    RolloutFacts {
        complete_after: Some(10.2),
        longest_without_ready: if install { 10.0 } else { 0.0 },
        overlap: if install { 0.0 } else { 10.0 },
        template_changed: true,
        old_pods_left: Vec::new(),
        restarts: 0,
        trouble: None,
        last_seen: "1 of 1 available".to_owned(),
        observed: 12,
    }
}

fn restart(step: u32) -> RestartFacts {
    let before = (step > 2).then(|| scrape(step - 1, at(step), walked(step - 1)));
    RestartFacts {
        before,
        after: scrape(step, seconds_after(step, 30), walked(step)),
        settled_after: Some(7.2),
        not_walked: Vec::new(),
        tracked: if step == 2 { 1 } else { WORKLOADS as u64 },
    }
}

/// Begun 130 s after the start of its process, with 17 reconnects.
fn window() -> WindowFacts {
    let opened = seconds_after(STEADY, 40);
    let closed = opened + TimeDelta::seconds(WINDOW);
    let mut later = walked(STEADY);
    later.requests[0].count += 17;
    later.cpu_seconds += 1.1;
    let watched = ["AIBOM", "Deployment", "Namespace", "Pod"];
    WindowFacts {
        asked: WINDOW as f64,
        elapsed: WINDOW as f64,
        phase: 130.0,
        quiet_before: 118.0,
        opened: scrape(STEADY, opened, walked(STEADY)),
        closed: scrape(STEADY, closed, later),
        between: vec![scrape(STEADY, seconds_after(STEADY, 200), walked(STEADY))],
        churn: watched.map(|kind| (kind.to_owned(), 0)).into(),
        api_servers: vec!["1728000000.5".to_owned()],
    }
}

fn record(step: u32, kind: StepKind) -> StepRecord {
    let rolls = kind.is_move();
    let applied = |name: &str, changed| CrdApplied {
        name: name.to_owned(),
        changed,
        refused: None,
    };
    StepRecord {
        step,
        kind,
        action: kind.to_string(),
        started_at: at(step),
        seconds: 60.0,
        end: StepEnd::Done,
        chart: chart_at(step).map(str::to_owned),
        phases: Vec::new(),
        snapshot: Some(format!("snapshots/{step:02}-{kind}.json.zst")),
        helm: rolls.then(helm),
        rollout: rolls.then(|| rollout(step)),
        restart: rolls.then(|| restart(step)),
        load: (kind == StepKind::Load).then(|| LoadFacts {
            asked: 19,
            created: 19,
            existing: 0,
            failed: BTreeMap::new(),
            seconds: 0.5,
            rate: 38.0,
            p50_ms: Some(4.0),
            p99_ms: Some(9.0),
            converged_after: Some(1.2),
        }),
        crds: (kind == StepKind::Crds).then(|| CrdFacts {
            chart: "to".to_owned(),
            manager: "aibom-qual".to_owned(),
            applied: vec![applied(CONFIGS, true), applied(AIBOMS, false)],
        }),
        window: (kind == StepKind::Steady).then(window),
        cleanup: (kind == StepKind::Cleanup).then(|| CleanupFacts {
            deleted: BTreeMap::from([("Namespace".to_owned(), 2)]),
            left: Vec::new(),
            differences: Vec::new(),
        }),
    }
}

/// An event of the controller's own pod.
pub(super) fn event(type_: &str, reason: &str) -> KubernetesEvent {
    KubernetesEvent {
        uid: format!("event-{reason}"),
        type_: type_.to_owned(),
        reason: reason.to_owned(),
        message: "something happened".to_owned(),
        component: "k8s-aibom".to_owned(),
        kind: "Pod".to_owned(),
        namespace: NAMESPACE.to_owned(),
        name: "k8s-aibom-4".to_owned(),
        count: 1,
    }
}

impl Case {
    pub(super) fn sound() -> Self {
        let plan = plan();
        let kinds: Vec<_> = (1..).zip(plan.steps.iter().map(Step::kind)).collect();
        let steps: Vec<_> = kinds
            .iter()
            .map(|(step, kind)| record(*step, *kind))
            .collect();
        let mut events = Vec::new();
        let mut tell = |time, event| {
            events.push(Entry {
                at: time,
                at_ms: 0,
                event,
            })
        };
        for record in &steps {
            let (step, kind) = (record.step, record.kind);
            let action = record.action.clone();
            tell(at(step), Event::StepStarted { step, kind, action });
            if kind.is_move() {
                for reason in ["ControllerStarting", "ConfigLoaded"] {
                    let reported = event("Normal", reason);
                    tell(at(step), Event::Cluster { reported });
                }
            }
            let record = Box::new(record.clone());
            tell(at(step), Event::StepFinished { record });
        }
        Self {
            snapshots: kinds
                .iter()
                .map(|(step, _)| (*step, snapshot(*step)))
                .collect(),
            run: RunFile {
                schema_version: SCHEMA_VERSION,
                run: "a-run".to_owned(),
                started_at: at(1),
                plan,
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
                    cpus: std::thread::available_parallelism().map_or(1, NonZeroUsize::get) as u32,
                    clock_skew_ms: 3,
                }),
                charts: BTreeMap::from([
                    ("from".to_owned(), chart("1.3.0")),
                    ("to".to_owned(), chart("1.5.1")),
                ]),
                outcome: None,
            },
            steps,
            events,
        }
    }

    pub(super) fn results(&self) -> Vec<CheckResult> {
        evaluate(&Evidence {
            run: &self.run,
            steps: &self.steps,
            snapshots: &self.snapshots,
            events: &self.events,
        })
    }

    /// Reports something in a step.
    pub(super) fn report(&mut self, step: u32, event: Event) {
        let start = self.events.iter().position(
            |entry| matches!(entry.event, Event::StepStarted { step: begun, .. } if begun == step),
        );
        let entry = Entry {
            at: at(step),
            at_ms: 0,
            event,
        };
        self.events
            .insert(start.expect("the step begins") + 1, entry);
    }

    pub(super) fn expect(&mut self, check: &str, step: Option<u32>, expect: Expect) {
        self.run.plan.expectations.push(Expectation {
            check: check.to_owned(),
            step,
            expect,
            because: "the test wants it".to_owned(),
        });
    }

    /// Forgets what was observed after a step.
    pub(super) fn forget(&mut self, step: u32) {
        self.snapshots.remove(&step).expect("a snapshot");
    }

    pub(super) fn record(&mut self, step: u32) -> &mut StepRecord {
        self.steps
            .iter_mut()
            .find(|record| record.step == step)
            .expect("a step")
    }

    pub(super) fn helm(&mut self, step: u32) -> &mut HelmFacts {
        self.record(step).helm.as_mut().expect("helm")
    }

    pub(super) fn rollout(&mut self, step: u32) -> &mut RolloutFacts {
        self.record(step).rollout.as_mut().expect("a rollout")
    }

    pub(super) fn restart(&mut self, step: u32) -> &mut RestartFacts {
        self.record(step).restart.as_mut().expect("a restart")
    }

    pub(super) fn window(&mut self) -> &mut WindowFacts {
        self.record(STEADY).window.as_mut().expect("a window")
    }

    pub(super) fn snapshot(&mut self, step: u32) -> &mut Snapshot {
        self.snapshots.get_mut(&step).expect("a snapshot")
    }

    pub(super) fn list(&mut self, step: u32) -> &mut AibomList {
        self.snapshot(step).aiboms.as_mut().expect("AIBOMs")
    }

    /// One AIBOM after a step.
    pub(super) fn aibom(&mut self, step: u32) -> &mut AibomState {
        &mut self.list(step).items[7]
    }

    pub(super) fn config(&mut self, step: u32) -> &mut ConfigState {
        self.snapshot(step)
            .config
            .as_mut()
            .expect("a configuration")
    }

    pub(super) fn degraded(&mut self, step: u32) -> &mut Condition {
        &mut self.config(step).conditions[1]
    }

    pub(super) fn deployment(&mut self, step: u32) -> &mut DeploymentState {
        self.snapshot(step)
            .deployment
            .as_mut()
            .expect("a Deployment")
    }

    pub(super) fn newest(&mut self, step: u32) -> &mut HelmRevision {
        let release = self.snapshot(step).release.as_mut().expect("a release");
        release.history.last_mut().expect("a revision")
    }

    pub(super) fn crd(&mut self, step: u32, name: &str) -> &mut CrdState {
        let mut crds = self.snapshot(step).crds.iter_mut();
        crds.find(|crd| crd.name == name).expect("a definition")
    }

    pub(super) fn cleanup(&mut self) -> &mut CleanupFacts {
        self.record(10).cleanup.as_mut().expect("a clean-up")
    }
}
