//! `load`: the workloads, and their AIBOMs.

use std::num::NonZeroUsize;

use tokio::time::Instant;

use crate::cluster::wait::Deadline;
use crate::observe::{self, WorkloadName};
use crate::record::LoadFacts;
use crate::run::draft::Draft;
use crate::run::engine::Engine;
use crate::run::error::RunError;
use crate::run::{limits, namespaces};
use crate::workloads::{Applied, Load, Mix, Plan};

/// Requests that are on their way at the same time. More do not make a server of two cores faster.
const CONCURRENCY: NonZeroUsize = NonZeroUsize::MIN.saturating_add(15);

impl Engine<'_> {
    /// Makes the workloads, and waits for the AIBOMs of all that should have one.
    pub(in crate::run) async fn load(&mut self, draft: &mut Draft) -> Result<(), RunError> {
        let wanted = &self.plan.workloads;
        let (first, count) = (wanted.preexisting, wanted.count);
        let plan = self.load_plan(first, count)?;
        self.expected.extend(names(&plan));
        if draft.record.chart.is_none() {
            // Nobody looks at them yet.
            let phase = draft.start("load", &self.journal);
            let applied = self.unless_stopped(self.apply(&plan)).await??;
            draft.record.load = Some(facts(&applied, count, None));
            draft.done(phase);
            return Ok(());
        }
        let limit = limits::load(count, wanted.rate) + limits::settle(self.workloads());
        let shown = self.counted(draft.number(), "AIBOMs");
        // From before the first request on, so that the moment of the last AIBOM is seen, not guessed.
        let phase = draft.start("load", &self.journal);
        let deadline = Deadline::within(limit);
        let converging = observe::converged(&self.target, &self.expected, deadline, &shown);
        let applying = async {
            let applied = self.apply(&plan).await;
            (applied, Instant::now())
        };
        // What is not known to have been made when this is dropped lies in namespaces of the run.
        let both = async { tokio::join!(converging, applying) };
        let (converged, (applied, answered)) = self.unless_stopped(both).await?;
        let (applied, converged) = (applied?, converged?);
        draft.done(phase);
        let after = converged.reached;
        let after = after.map(|at| at.saturating_duration_since(answered).as_secs_f64());
        draft.record.load = Some(facts(&applied, count, after));
        if !applied.failed.is_empty() {
            draft.fail(format!(
                "{} workloads were not created",
                applied.failed.len()
            ));
        }
        if after.is_none() {
            let (ready, expected) = (converged.ready, converged.expected);
            let seconds = limit.as_secs();
            draft.fail(format!(
                "{ready} of {expected} AIBOMs were Ready after {seconds} s"
            ));
        }
        self.settled(draft, None).await?;
        Ok(())
    }

    /// Makes the workloads that are there before the controller.
    pub(super) async fn preexisting(&mut self, draft: &mut Draft) -> Result<(), RunError> {
        let many = self.plan.workloads.preexisting;
        let plan = self.load_plan(0, many)?;
        self.expected.extend(names(&plan));
        let applied = self.apply(&plan).await?;
        if !applied.failed.is_empty() {
            draft.fail(format!(
                "{} workloads were not created",
                applied.failed.len()
            ));
        }
        draft.record.load = Some(facts(&applied, many, None));
        Ok(())
    }

    fn load_plan(&self, first: u32, count: u32) -> Result<Plan, RunError> {
        let wanted = &self.plan.workloads;
        let mix = Mix::named(&wanted.mix);
        Ok(Plan {
            mix: mix.ok_or_else(|| RunError::UnknownMix(wanted.mix.clone()))?,
            first,
            count,
            seed: wanted.seed,
            namespaces: namespaces::of_load(self.plan),
            namespace_labels: namespaces::labels_of_load(self.target.subject),
        })
    }

    async fn apply(&self, plan: &Plan) -> Result<Applied, RunError> {
        let rate = self.plan.workloads.rate;
        let load = Load {
            concurrency: CONCURRENCY,
            rate,
            within: limits::load(plan.count, rate),
        };
        Ok(load.apply(&self.site.client, plan).await?)
    }
}

fn names(plan: &Plan) -> impl Iterator<Item = WorkloadName> {
    plan.workloads().map(|object| {
        let metadata = object.metadata;
        WorkloadName::new(
            metadata.namespace.unwrap_or_default(),
            "Deployment",
            metadata.name.unwrap_or_default(),
        )
    })
}

fn facts(applied: &Applied, asked: u32, converged_after: Option<f64>) -> LoadFacts {
    let milliseconds = |of: fn(&crate::workloads::Latency) -> std::time::Duration| {
        let latency = applied.latency.as_ref()?;
        Some(of(latency).as_secs_f64() * 1_000.0)
    };
    let failed = applied.failed.iter();
    LoadFacts {
        asked,
        created: applied.created,
        existing: u32::try_from(applied.existing.len()).unwrap_or(u32::MAX),
        failed: failed
            .map(|(name, why)| (name.clone(), why.to_string()))
            .collect(),
        seconds: applied.took.as_secs_f64(),
        rate: applied.rate(),
        p50_ms: milliseconds(|latency| latency.p50),
        p99_ms: milliseconds(|latency| latency.p99),
        converged_after,
    }
}
