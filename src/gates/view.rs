//! What a check may look at: one step with what is planned for it and what was recorded of it, or the
//! whole run.

use std::collections::{BTreeMap, BTreeSet};

use super::seen::Blind;
use crate::compare::{self, Diff};
use crate::record::{
    AibomList, ChartRecord, Entry, Environment, Event, HelmFacts, KubernetesEvent, RestartFacts,
    RolloutFacts, RunFile, Scrape, Snapshot, StepKind, StepRecord, WindowFacts,
};
use crate::scenario::{Outlook, Step};
use crate::subject::cost::{self, Costs, Release};

/// Everything that verdicts are made of: what a run left behind.
#[derive(Clone, Copy, Debug)]
pub struct Evidence<'a> {
    /// The plan, the environment and the charts.
    pub run: &'a RunFile,
    /// The steps that were begun, in order.
    pub steps: &'a [StepRecord],
    /// The snapshots, by the numbers of their steps.
    pub snapshots: &'a BTreeMap<u32, Snapshot>,
    /// The log, in order.
    pub events: &'a [Entry],
}

/// What is known of a step before the run. Whether a check applies is decided by this alone.
#[derive(Clone, Copy)]
pub(super) struct Planned<'a> {
    /// Its number, from 1.
    pub(super) number: u32,
    pub(super) step: &'a Step,
    /// What the plan leads to before it; [`None`] for the first step.
    pub(super) before: Option<&'a Outlook>,
    /// What the plan leads to after it.
    pub(super) outlook: &'a Outlook,
    pub(super) run: &'a RunFile,
}

impl<'a> Planned<'a> {
    pub(super) fn kind(&self) -> StepKind {
        self.step.kind()
    }

    /// AIBOMs that the plan leads to before the step.
    pub(super) fn aiboms_before(&self) -> u64 {
        self.before.map_or(0, |outlook| outlook.aiboms)
    }

    /// The name of the chart that runs after the step.
    pub(super) fn chart_name(&self) -> Option<&'a str> {
        self.outlook.chart.as_ref().map(|chart| chart.0.as_str())
    }
}

/// What the log has of a step.
#[derive(Default)]
pub(super) struct StepLog<'a> {
    /// Whether the log has its start and its end.
    pub(super) whole: bool,
    /// What the cluster reported.
    pub(super) reported: Vec<&'a KubernetesEvent>,
    /// Why reports may be missing.
    pub(super) missed: Vec<&'a str>,
}

/// Sorts what the log has by steps. What comes between two steps belongs to the first of them.
pub(super) fn by_step(events: &[Entry]) -> BTreeMap<u32, StepLog<'_>> {
    let mut logs = BTreeMap::<u32, StepLog<'_>>::new();
    let mut current = None;
    for entry in events {
        match &entry.event {
            Event::StepStarted { step, .. } => {
                current = Some(*step);
                logs.entry(*step).or_default();
            }
            Event::StepFinished { record } => {
                if let Some(log) = logs.get_mut(&record.step) {
                    log.whole = true;
                }
            }
            Event::Cluster { reported } => {
                if let Some(log) = current.and_then(|step| logs.get_mut(&step)) {
                    log.reported.push(reported);
                }
            }
            Event::EventsMissed { reason } => {
                if let Some(log) = current.and_then(|step| logs.get_mut(&step)) {
                    log.missed.push(reason);
                }
            }
            Event::RunStarted { .. }
            | Event::Preparing { .. }
            | Event::PhaseStarted { .. }
            | Event::Waiting { .. }
            | Event::RunFinished { .. } => {}
        }
    }
    logs
}

/// One step of a run.
pub(super) struct StepView<'a> {
    pub(super) planned: Planned<'a>,
    pub(super) record: Option<&'a StepRecord>,
    pub(super) before: Option<&'a Snapshot>,
    pub(super) after: Option<&'a Snapshot>,
    /// The first snapshot: the cluster as it was found.
    pub(super) found: Option<&'a Snapshot>,
    pub(super) log: Option<&'a StepLog<'a>>,
    /// Namespaces in which workloads were expected at any time.
    pub(super) opted_in: &'a BTreeSet<&'a str>,
    diff: Option<Diff>,
}

impl<'a> StepView<'a> {
    pub(super) fn new(
        planned: Planned<'a>,
        evidence: &Evidence<'a>,
        log: Option<&'a StepLog<'a>>,
        opted_in: &'a BTreeSet<&'a str>,
    ) -> Self {
        let snapshot = |number: u32| evidence.snapshots.get(&number);
        let before = planned.number.checked_sub(1).and_then(snapshot);
        let after = snapshot(planned.number);
        let mut records = evidence.steps.iter();
        Self {
            planned,
            record: records.find(|record| record.step == planned.number),
            before,
            after,
            found: snapshot(1),
            log,
            opted_in,
            diff: before
                .zip(after)
                .map(|(before, after)| compare::diff(before, after)),
        }
    }

    pub(super) fn kind(&self) -> StepKind {
        self.planned.kind()
    }

    pub(super) fn record(&self) -> Result<&'a StepRecord, Blind> {
        self.record
            .ok_or_else(|| Blind::new("the step was not reached"))
    }

    pub(super) fn before(&self) -> Result<&'a Snapshot, Blind> {
        self.before
            .ok_or_else(|| Blind::new("there is no snapshot from before the step"))
    }

    pub(super) fn after(&self) -> Result<&'a Snapshot, Blind> {
        self.after
            .ok_or_else(|| Blind::new("there is no snapshot from after the step"))
    }

    /// What differs between the AIBOMs before and after.
    pub(super) fn diff(&self) -> Result<&Diff, Blind> {
        self.before()?;
        self.after()?;
        self.diff
            .as_ref()
            .ok_or_else(|| Blind::new("the snapshots were not compared"))
    }

    pub(super) fn aiboms(&self) -> Result<&'a AibomList, Blind> {
        self.after()?
            .aiboms
            .as_ref()
            .ok_or_else(|| Blind::new("the AIBOMs could not be listed: their kind is not served"))
    }

    pub(super) fn helm(&self) -> Result<&'a HelmFacts, Blind> {
        let helm = self.record()?.helm.as_ref();
        helm.ok_or_else(|| Blind::new("helm did not run"))
    }

    pub(super) fn rollout(&self) -> Result<&'a RolloutFacts, Blind> {
        let rollout = self.record()?.rollout.as_ref();
        let rollout = rollout.ok_or_else(|| Blind::new("the rollout was not watched"))?;
        if rollout.observed == 0 {
            return Err(Blind::new("the watch of the rollout saw nothing"));
        }
        Ok(rollout)
    }

    pub(super) fn restart(&self) -> Result<&'a RestartFacts, Blind> {
        let restart = self.record()?.restart.as_ref();
        restart.ok_or_else(|| Blind::new("the new process was not measured"))
    }

    pub(super) fn window(&self) -> Result<&'a WindowFacts, Blind> {
        let window = self.record()?.window.as_ref();
        window.ok_or_else(|| Blind::new("no window was measured"))
    }

    /// The chart that runs after the step.
    pub(super) fn chart(&self) -> Result<(&'a str, &'a ChartRecord), Blind> {
        let name = self.planned.chart_name();
        let name = name.ok_or_else(|| Blind::new("the plan runs no chart after the step"))?;
        let record = self.planned.run.charts.get(name);
        let record = record.ok_or_else(|| Blind::new(format!("the chart {name} was not read")))?;
        Ok((name, record))
    }

    pub(super) fn environment(&self) -> Result<&'a Environment, Blind> {
        let environment = self.planned.run.environment.as_ref();
        environment.ok_or_else(|| Blind::new("the environment was not recorded"))
    }

    /// What the running chart's controller is known to cost.
    pub(super) fn costs(&self) -> Result<(&'static Costs, &'static Release), Blind> {
        let (_, chart) = self.chart()?;
        let costs = costs_of(chart)?;
        let release = costs.release(&chart.app_version);
        let release = release.ok_or_else(|| {
            Blind::new(format!("nothing is known of version {}", chart.app_version))
        })?;
        Ok((costs, release))
    }

    /// Any readings of the controller's metrics that the step has, oldest first.
    pub(super) fn scrapes(&self) -> Vec<&'a Scrape> {
        let restart = self.record.and_then(|record| record.restart.as_ref());
        let window = self.record.and_then(|record| record.window.as_ref());
        let before = restart.and_then(|restart| restart.before.as_ref());
        let after = restart.map(|restart| &restart.after);
        before
            .into_iter()
            .chain(after)
            .chain(window.into_iter().flat_map(in_window))
            .chain(self.after.and_then(|snapshot| snapshot.scrape.as_ref()))
            .collect()
    }
}

/// All readings of a window, oldest first.
pub(super) fn in_window(window: &WindowFacts) -> impl Iterator<Item = &Scrape> {
    [&window.opened]
        .into_iter()
        .chain(&window.between)
        .chain([&window.closed])
}

/// What is known of the subject that a chart installs.
pub(super) fn costs_of(chart: &ChartRecord) -> Result<&'static Costs, Blind> {
    cost::of_chart(&chart.name)
        .ok_or_else(|| Blind::new(format!("nothing is known of the chart {}", chart.name)))
}

/// A whole run.
pub(super) struct RunView<'a> {
    pub(super) evidence: &'a Evidence<'a>,
    pub(super) outlook: &'a [Outlook],
}
