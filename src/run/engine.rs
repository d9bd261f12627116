//! The loop over the steps of a plan, and the state that they share.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::book::Book;
use super::charts::{self, Charts};
use super::course;
use super::draft::Draft;
use super::error::RunError;
use super::journal::Journal;
use super::limits;
use super::removal;
use super::site::Site;
use super::start::{Run, RunOptions};
use super::stop::{Stop, StopReason};
use crate::cluster::events::{EventWatch, Seen as Reported};
use crate::cluster::facts;
use crate::cluster::fault::{Fault, diagnose};
use crate::cluster::found::AsFound;
use crate::cluster::release_secrets;
use crate::cluster::wait::{Deadline, Progress};
use crate::error_chain::chain;
use crate::helm::{Helm, ReleaseRef, records};
use crate::observe::{self, Expected, ScrapeFiles, Target};
use crate::record::{
    Environment, Event, Ledger, PlaneKind, ReleaseState, RunFolder, Scrape, Snapshot, StepEnd,
    StepKind, StepRecord,
};
use crate::scenario::{Outlook, Plan, Step};
use crate::subject::K8S_AIBOM;

/// What was seen of a plan.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// Why steps were left out, if some were.
    pub(super) skipped: Option<String>,
    pub(super) error: Option<RunError>,
}

/// Everything that the steps of a run share.
pub(super) struct Engine<'a> {
    pub(super) plan: &'a Plan,
    pub(super) charts: &'a Charts,
    pub(super) outlook: Vec<Outlook>,
    pub(super) run: String,
    pub(super) site: Site,
    pub(super) helm: Helm,
    pub(super) release: ReleaseRef,
    pub(super) target: Target,
    pub(super) scrapes: ScrapeFiles,
    pub(super) journal: Arc<Journal>,
    pub(super) stop: &'a Stop,
    pub(super) book: Book,
    pub(super) found: Option<AsFound>,
    /// The workloads that should have an AIBOM.
    pub(super) expected: Expected,
    /// The last reading of the process that runs now, as far as is known.
    pub(super) scrape: Option<Scrape>,
    /// Whether a rollout is under way that did not come to its end in its step.
    pub(super) stalled: bool,
    /// The snapshot of the last step.
    pub(super) last: Option<Snapshot>,
    seen: Seen,
}

/// Executes the plan of a run.
pub(super) async fn execute(
    run: &mut Run,
    site: Site,
    helm: Helm,
    stop: &Stop,
    options: RunOptions,
) -> Seen {
    let prepared = prepare(run, site, helm, stop).await;
    let (mut engine, reports) = match prepared {
        Ok(prepared) => prepared,
        Err(error) => {
            return Seen {
                error: Some(error),
                ..Seen::default()
            };
        }
    };
    engine.steps(options).await;
    engine.leave(options).await;
    let seen = engine.seen;
    reports.end().await;
    seen
}

/// Learns what the run runs on, and begins to watch its events.
async fn prepare<'a>(
    run: &'a mut Run,
    site: Site,
    helm: Helm,
    stop: &'a Stop,
) -> Result<(Engine<'a>, Reports), RunError> {
    let journal = Arc::clone(&run.journal);
    let server = facts::server(&site.client).await;
    let server = server.map_err(|fault| cluster("ask the API server for its version", fault))?;
    let cpus = std::thread::available_parallelism();
    run.file.environment = Some(Environment {
        plane: site.plane.clone(),
        subject: site.subject.clone(),
        server: server.git_version,
        platform: server.platform,
        nodes: server.nodes,
        helm: helm.record(),
        tool: env!("CARGO_PKG_VERSION").to_owned(),
        cpus: cpus.map_or(1, |cpus| u32::try_from(cpus.get()).unwrap_or(u32::MAX)),
        clock_skew_ms: server.clock_skew_ms,
    });
    journal.write_run(&run.file)?;
    let ledger = Ledger {
        cluster: Some(server.kube_system_uid),
        kubeconfig: site.kept.clone(),
        context: match &site.plane {
            PlaneKind::Cluster { context } => Some(context.clone()),
            PlaneKind::Local => None,
        },
        created: Vec::new(),
        cleaned: false,
    };
    let book = Book::open(ledger, &journal)?;
    let reports = Reports::begin(&site, Arc::clone(&journal)).await?;
    let plan = &run.plan;
    let target = Target {
        client: site.client.clone(),
        subject: &K8S_AIBOM,
        release: plan.release.clone(),
        namespace: plan.namespace.clone(),
    };
    let engine = Engine {
        outlook: plan.outlook(),
        charts: &run.charts,
        run: run.file.run.clone(),
        release: charts::release(plan),
        plan,
        site,
        helm,
        target,
        scrapes: ScrapeFiles::new(
            journal.folder(RunFolder::scrapes_dir),
            Instant::from_std(journal.begun()),
        ),
        journal,
        stop,
        book,
        found: None,
        expected: Expected::default(),
        scrape: None,
        stalled: false,
        last: None,
        seen: Seen::default(),
    };
    Ok((engine, reports))
}

/// Forwards what the cluster reports to the log, from before the first step to after the last.
struct Reports {
    watch: EventWatch,
    forward: JoinHandle<()>,
}

impl Reports {
    async fn begin(site: &Site, journal: Arc<Journal>) -> Result<Self, RunError> {
        let watch = EventWatch::start(&site.client).await;
        let (watch, mut reported) = watch.map_err(|fault| cluster("watch the events", fault))?;
        let forward = tokio::spawn(async move {
            while let Some(seen) = reported.recv().await {
                journal.tell(match seen {
                    Reported::Reported(reported) => Event::Cluster { reported },
                    Reported::Missed(reason) => Event::EventsMissed { reason },
                });
            }
        });
        Ok(Self { watch, forward })
    }

    async fn end(self) {
        drop(self.watch);
        // It ends as soon as it has forwarded what was seen; a panic in it is no reason for another.
        let _ = self.forward.await;
    }
}

impl Engine<'_> {
    async fn steps(&mut self, options: RunOptions) {
        let plan = self.plan;
        for (step, number) in plan.steps.iter().zip(1_u32..) {
            if self.seen.skipped.is_some() {
                let cleans = step.kind() == StepKind::Cleanup && !options.keep;
                if !cleans {
                    continue;
                }
            }
            let (record, error) = self.step(number, step).await;
            let failed = matches!(record.end, StepEnd::Failed { .. });
            if failed && self.seen.skipped.is_none() && !course::goes_on(plan, &record) {
                self.seen.skipped = Some(format!(
                    "step {number} ({}) failed, so that the steps after it were left out",
                    record.kind
                ));
            }
            if error.is_some() {
                self.seen.error = error;
                return;
            }
        }
    }

    async fn step(&mut self, number: u32, step: &Step) -> (StepRecord, Option<RunError>) {
        let action = course::action(step, self.plan, |name| self.charts.version(name));
        let mut draft = Draft::begin(number, step, action, &self.journal);
        let outlook = usize::try_from(number).ok().and_then(|n| n.checked_sub(1));
        let outlook = outlook.and_then(|index| self.outlook.get(index));
        draft.record.chart = outlook
            .and_then(|outlook| outlook.chart.as_ref())
            .map(|chart| chart.0.clone());
        let done = self.act(&mut draft, step).await;
        let done = done.and_then(|()| Ok(self.journal.check()?));
        let end = done.as_ref().err().map(|error| StepEnd::Aborted {
            reason: chain(error),
            hint: error.hint(),
        });
        let record = draft.finish(end);
        self.journal.tell(Event::StepFinished {
            record: Box::new(record.clone()),
        });
        (record, done.err())
    }

    async fn act(&mut self, draft: &mut Draft, step: &Step) -> Result<(), RunError> {
        self.must_go_on()?;
        if step.kind() != StepKind::Cleanup {
            self.refuse_pending().await?;
        }
        match step {
            Step::Baseline => self.baseline(draft).await?,
            Step::Install { chart } => self.install(draft, chart).await?,
            Step::Load => self.load(draft).await?,
            Step::Upgrade { chart } => self.upgrade(draft, chart).await?,
            Step::Rollback { revision } => self.rollback(draft, *revision).await?,
            Step::Crds { chart } => self.crds(draft, chart).await?,
            Step::Steady { window_seconds } => {
                self.steady(draft, Duration::from_secs(*window_seconds))
                    .await?;
            }
            Step::Restart => self.restart(draft).await?,
            Step::Config { spec } => self.config(draft, spec).await?,
            Step::Hold { seconds } => self.hold(draft, Duration::from_secs(*seconds)).await?,
            Step::Uninstall => self.uninstall(draft).await?,
            Step::Cleanup => self.cleanup(draft).await?,
        }
        self.snapshot(draft).await
    }

    /// After the last step: what is left is removed, unless it is to be kept.
    async fn leave(&mut self, options: RunOptions) {
        if self.book.ledger().cleaned {
            return;
        }
        if !self.site.outlives_the_run() {
            // All of it is gone with its control plane.
            self.close_book();
            return;
        }
        let Some(error) = &self.seen.error else {
            // A plan without a clean-up leaves what it made on purpose; `cleanup` removes it.
            return;
        };
        if options.keep || error.leaves_all() {
            return;
        }
        self.journal.tell(Event::Preparing {
            what: "removing what the run made".to_owned(),
        });
        self.helm_has_ended().await;
        let removed = removal::remove(&self.removal(), self.book.ledger()).await;
        match removed {
            Ok(facts) if facts.left.is_empty() => self.close_book(),
            Ok(facts) => self.journal.tell(Event::Preparing {
                what: format!("still there: {}", facts.left.join(", ")),
            }),
            Err(error) => self.journal.tell(Event::Preparing {
                what: format!("cannot remove what the run made: {}", chain(&error)),
            }),
        }
    }

    /// A helm that was asked to end is given the time to write down that it did, so that the next one
    /// is not refused. Whatever is not written down by then, an uninstall works from any state.
    async fn helm_has_ended(&self) {
        let end = Instant::now() + limits::HELM_ENDS;
        while Instant::now() < end {
            match self.release_state().await {
                Ok(Some(release)) if pending(&release).is_some() => {
                    tokio::time::sleep(limits::HELM_PAUSE).await;
                }
                _ => return,
            }
        }
    }

    fn close_book(&mut self) {
        if let Err(failure) = self.book.cleaned(&self.journal) {
            self.seen.error.get_or_insert(failure.into());
        }
    }

    /// Looks at everything after a step.
    async fn snapshot(&mut self, draft: &mut Draft) -> Result<(), RunError> {
        let phase = draft.start("snapshot", &self.journal);
        let limit = limits::snapshot(self.workloads());
        let deadline = Deadline::within(limit);
        let scrape = self.scrape.clone();
        let looked = observe::snapshot(
            &self.target,
            draft.number(),
            &self.expected,
            scrape,
            deadline,
        );
        let snapshot = self.unless_stopped(looked).await??;
        draft.record.snapshot = Some(self.journal.write_snapshot(&snapshot)?);
        self.last = Some(snapshot);
        draft.done(phase);
        Ok(())
    }

    /// The workloads that the controller looks at, as far as is known.
    pub(super) fn workloads(&self) -> u64 {
        self.expected.len() as u64
    }

    /// The end was asked for.
    pub(super) fn must_go_on(&self) -> Result<(), RunError> {
        self.journal.check()?;
        self.stop
            .reason()
            .map_or(Ok(()), |reason| Err(reason.into()))
    }

    /// Waits for something, unless the end is asked for or the folder cannot be written any more.
    /// Nothing that writes may be waited for so: what is dropped here is not known to have ended.
    pub(super) async fn unless_stopped<T>(
        &self,
        wait: impl Future<Output = T>,
    ) -> Result<T, RunError> {
        tokio::select! {
            biased;
            done = wait => Ok(done),
            reason = self.stop.requested() => Err(reason.into()),
            () = self.journal.broken() => {
                self.journal.check()?;
                Err(RunError::Interrupted)
            }
        }
    }

    /// Tells what a wait of this step sees.
    pub(super) fn observer(&self, step: u32) -> impl Fn(Progress<'_>) + Send + Sync + use<> {
        let journal = Arc::clone(&self.journal);
        move |progress| {
            journal.waiting(step, progress.what, progress.state.to_owned(), None);
        }
    }

    /// Tells how far something of this step is: every change of what can be counted, and of the rest
    /// only what is not a number that moves all the time.
    pub(super) fn counted(
        &self,
        step: u32,
        what: &'static str,
    ) -> impl Fn(observe::Progress<'_>) + Send + Sync + use<> {
        let journal = Arc::clone(&self.journal);
        let whole = OnceLock::new();
        let told = Mutex::new(None);
        move |progress| {
            let left = progress.left.map(|left| left.as_secs());
            let whole = left.map(|left| *whole.get_or_init(|| left));
            let passed = whole
                .zip(left)
                .map(|(whole, left)| (whole.saturating_sub(left), whole));
            let done = progress.done.or(passed);
            let words: String = progress.state.split(|c: char| c.is_ascii_digit()).collect();
            let now = Some((words, done));
            let mut told = told.lock().unwrap_or_else(PoisonError::into_inner);
            if *told != now {
                *told = now;
                journal.waiting(step, what, progress.state.to_owned(), done);
            }
        }
    }

    /// The release, as Helm stores it.
    pub(super) async fn release_state(&self) -> Result<Option<ReleaseState>, RunError> {
        let ReleaseRef { name, namespace } = &self.release;
        let secrets = release_secrets(&self.site.client, name, namespace).await;
        let secrets = secrets.map_err(|fault| cluster("read the records of the release", fault))?;
        let release = records::release(name, namespace, &secrets);
        release.map_err(|source| RunError::Record {
            release: format!("{namespace}/{name}"),
            source: Box::new(source),
        })
    }

    /// The newest revision, if there is a release.
    pub(super) async fn revision(&self) -> Result<Option<u32>, RunError> {
        let release = self.release_state().await?;
        Ok(release.and_then(|release| release.newest().map(|newest| newest.revision)))
    }

    /// Ends the run when another operation on the release is, or was, under way.
    async fn refuse_pending(&self) -> Result<(), RunError> {
        let Some(release) = self.release_state().await? else {
            return Ok(());
        };
        pending(&release).map_or(Ok(()), Err)
    }

    pub(super) fn removal(&self) -> removal::Removal<'_> {
        removal::Removal {
            client: &self.site.client,
            helm: &self.helm,
            found: self.found.as_ref(),
            run: &self.run,
        }
    }

    /// The names of the definitions of a chart that nobody had installed before the run.
    pub(super) fn new_definitions(&self, chart: &super::charts::OpenChart) -> BTreeSet<String> {
        let names = chart.record.crds.keys().cloned();
        let Some(found) = &self.found else {
            return BTreeSet::new();
        };
        names
            .filter(|name| !found.crds.contains_key(name))
            .collect()
    }
}

impl From<StopReason> for RunError {
    fn from(reason: StopReason) -> Self {
        match reason {
            StopReason::Interrupted => Self::Interrupted,
            StopReason::Plane { message, hint } => Self::Plane {
                message,
                hint,
                input: false,
            },
        }
    }
}

/// The answer to one request, within a limit.
pub(super) async fn answered<T>(
    doing: &str,
    request: impl Future<Output = Result<T, kube::Error>>,
) -> Result<T, RunError> {
    match tokio::time::timeout(limits::ANSWER, request).await {
        Ok(answer) => answer.map_err(|error| cluster(doing, diagnose(&error))),
        Err(_) => Err(cluster(doing, Fault::Timeout)),
    }
}

/// A refusal of the cluster, with what was tried.
pub(super) fn cluster(doing: &str, fault: Fault) -> RunError {
    RunError::Cluster {
        doing: doing.to_owned(),
        source: Box::new(fault),
    }
}

/// What is wrong with a release whose newest revision is pending.
fn pending(release: &ReleaseState) -> Option<RunError> {
    use crate::record::RevisionStatus::{Deployed, Superseded};
    let newest = release
        .newest()
        .filter(|newest| newest.status.is_pending())?;
    let mut older = release.history.iter().rev();
    let good = older.find(|revision| matches!(revision.status, Deployed | Superseded));
    Some(RunError::Pending {
        name: release.name.clone(),
        namespace: release.namespace.clone(),
        revision: newest.revision,
        status: newest.status,
        good: good.map(|revision| revision.revision),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{HelmRevision, RevisionStatus};

    fn release(history: &[RevisionStatus]) -> ReleaseState {
        let revision = |(revision, status): (u32, &RevisionStatus)| HelmRevision {
            revision,
            status: *status,
            description: String::new(),
            chart: String::new(),
            chart_version: String::new(),
            app_version: String::new(),
            apply_method: None,
            values_sha256: String::new(),
            last_deployed: None,
        };
        ReleaseState {
            name: "r".to_owned(),
            namespace: "n".to_owned(),
            history: (1..).zip(history).map(revision).collect(),
        }
    }

    #[test]
    fn only_the_newest_revision_blocks_and_the_way_back_is_to_a_good_one() {
        use RevisionStatus::{
            Deployed, Failed, PendingInstall, PendingRollback, PendingUpgrade, Superseded,
        };
        let back_to = |history: &[RevisionStatus]| match pending(&release(history)) {
            Some(RunError::Pending { revision, good, .. }) => Some((revision, good)),
            _ => None,
        };
        assert_eq!(back_to(&[Superseded, PendingUpgrade, Deployed]), None);
        assert_eq!(back_to(&[Deployed, PendingUpgrade]), Some((2, Some(1))));
        // What never came to run is no place to go back to.
        let history = [Superseded, Deployed, Failed, PendingRollback];
        assert_eq!(back_to(&history), Some((4, Some(2))));
        assert_eq!(back_to(&[PendingInstall]), Some((1, None)));
    }
}
