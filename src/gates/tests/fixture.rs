//! Sound evidence of the scenario `v1.3-to-v1.5` (`qualification.md` C01), with 20 workloads.

mod facts;
mod objects;

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use chrono::{DateTime, TimeDelta, Utc};

use self::facts::record;
use self::objects::{chart, snapshot};
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
                    cpus: 2,
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
