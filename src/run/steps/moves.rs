//! `install`, `upgrade`, `rollback`, `restart` and `uninstall`: one process of the controller follows
//! another.

use std::num::NonZeroU32;
use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams};
use serde_json::json;

use crate::cluster::rollout::RolloutWatch;
use crate::cluster::wait::{Deadline, Look, wait_until};
use crate::helm::HelmError;
use crate::observe::{self, ObserveError, Purpose, Settled, Settling};
use crate::record::{Created, HelmFacts, RestartFacts, Scrape};
use crate::run::charts::OpenChart;
use crate::run::draft::Draft;
use crate::run::engine::{Engine, answered, cluster};
use crate::run::error::RunError;
use crate::run::{limits, namespaces};
use crate::scenario::ChartName;

/// What `kubectl rollout restart` changes.
const RESTARTED_AT: &str = "kubectl.kubernetes.io/restartedAt";
/// The field manager of what the run changes by itself.
const MANAGER: &str = "aibom-qual";

impl Engine<'_> {
    pub(in crate::run) async fn install(
        &mut self,
        draft: &mut Draft,
        name: &ChartName,
    ) -> Result<(), RunError> {
        let chart = self.chart(name)?;
        let definitions = self.note_install(chart).await?;
        let watch = self.watch_rollout().await?;
        let helm = self.helm.install(&self.release, &chart.chart, limits::HELM);
        self.helm(draft, helm, &watch).await?;
        self.confirm_definitions(&definitions).await?;
        self.follow(draft, watch, &chart.record.image, limits::ROLLOUT)
            .await?;
        self.costs(draft, None).await
    }

    pub(in crate::run) async fn upgrade(
        &mut self,
        draft: &mut Draft,
        name: &ChartName,
    ) -> Result<(), RunError> {
        let chart = self.chart(name)?;
        let before = self.last_words(draft).await?;
        let watch = self.watch_rollout().await?;
        let helm = self.helm.upgrade(&self.release, &chart.chart, limits::HELM);
        self.helm(draft, helm, &watch).await?;
        self.follow(draft, watch, &chart.record.image, limits::ROLLOUT)
            .await?;
        self.costs(draft, before).await
    }

    pub(in crate::run) async fn rollback(
        &mut self,
        draft: &mut Draft,
        revision: Option<NonZeroU32>,
    ) -> Result<(), RunError> {
        let name = draft.record.chart.clone().map(ChartName);
        let name =
            name.ok_or_else(|| RunError::Missing("there is nothing to roll back to".to_owned()))?;
        let chart = self.chart(&name)?;
        let before = self.last_words(draft).await?;
        let watch = self.watch_rollout().await?;
        let helm = self.helm.rollback(&self.release, revision, limits::HELM);
        self.helm(draft, helm, &watch).await?;
        self.follow(draft, watch, &chart.record.image, limits::ROLLOUT)
            .await?;
        self.costs(draft, before).await
    }

    /// As `kubectl rollout restart` does it: the pod template gets a new annotation.
    pub(in crate::run) async fn restart(&mut self, draft: &mut Draft) -> Result<(), RunError> {
        let deployments =
            Api::<Deployment>::namespaced(self.site.client.clone(), &self.release.namespace);
        let known = self
            .last
            .as_ref()
            .and_then(|snapshot| snapshot.deployment.as_ref());
        let known = known.map(|deployment| (deployment.name.clone(), deployment.image.clone()));
        let (name, image) = known.ok_or_else(|| {
            RunError::Missing("there is no Deployment of the controller to restart".to_owned())
        })?;
        let before = self.last_words(draft).await?;
        let watch = self.watch_rollout().await?;
        let now = chrono::Utc::now().to_rfc3339_opts(chrono::SecondsFormat::Secs, true);
        let patch =
            json!({"spec": {"template": {"metadata": {"annotations": {RESTARTED_AT: now}}}}});
        let params = PatchParams {
            field_manager: Some(MANAGER.to_owned()),
            ..PatchParams::default()
        };
        watch.mark();
        let patch = Patch::Strategic(patch);
        answered(
            "restart the controller",
            deployments.patch(&name, &params, &patch),
        )
        .await?;
        self.follow(draft, watch, &image, limits::ROLLOUT).await?;
        self.costs(draft, before).await
    }

    pub(in crate::run) async fn uninstall(&mut self, draft: &mut Draft) -> Result<(), RunError> {
        self.scrape = None;
        self.stalled = false;
        let phase = draft.start("helm", &self.journal);
        let before = self.revision().await?;
        let done = self.helm.uninstall(&self.release, limits::HELM);
        let mut facts = self.unless_stopped(done).await??;
        facts.revision_before = before;
        facts.revision_after = self.revision().await?;
        if facts.failure.is_some() {
            draft.fail(complaint(&facts));
        }
        draft.record.helm = Some(facts);
        draft.done(phase);
        let phase = draft.start("rollout", &self.journal);
        self.pods_gone(draft).await?;
        draft.done(phase);
        Ok(())
    }

    async fn pods_gone(&self, draft: &mut Draft) -> Result<(), RunError> {
        let pods = Api::<Pod>::namespaced(self.site.client.clone(), &self.release.namespace);
        let mut of_release = ListParams::default();
        let labels = self.labels();
        let terms: Vec<String> = labels
            .iter()
            .map(|(key, value)| format!("{key}={value}"))
            .collect();
        of_release.label_selector = Some(terms.join(","));
        let observer = self.observer(draft.number());
        let deadline = Deadline::within(limits::PODS_GONE).observed_by(&observer);
        let gone = wait_until("the pods of the release to vanish", deadline, async || {
            let left = pods.list_metadata(&of_release).await?.items.len();
            Ok(match left {
                0 => Look::Done(()),
                left => Look::NotYet(format!("{left} left")),
            })
        });
        if let Err(error) = self.unless_stopped(gone).await? {
            draft.fail(error.to_string());
        }
        Ok(())
    }

    /// Writes down what helm is about to make, and makes the namespace where it is missing. Returns
    /// the definitions that will be the run's own.
    async fn note_install(&mut self, chart: &OpenChart) -> Result<Vec<Created>, RunError> {
        let namespace = self.release.namespace.clone();
        if namespaces::find(&self.site.client, &namespace)
            .await?
            .is_none()
        {
            let labels = namespaces::labels_of_release();
            self.make_namespace(&namespace, labels).await?;
        }
        let definitions = self.note_definitions(chart)?;
        let release = Created::Release {
            name: self.release.name.clone(),
            namespace,
        };
        self.book.note(release, &self.journal)?;
        Ok(definitions)
    }

    pub(super) async fn watch_rollout(&self) -> Result<RolloutWatch, RunError> {
        let namespace = &self.release.namespace;
        let watch = RolloutWatch::start(&self.site.client, namespace, &self.labels()).await;
        watch.map_err(|fault| cluster("watch the rollout", fault))
    }

    /// The labels of the objects of the release.
    fn labels(&self) -> [(String, String); 2] {
        let label =
            |name: &str, value: &str| (format!("app.kubernetes.io/{name}"), value.to_owned());
        [
            label("name", self.target.subject.chart),
            label("instance", &self.release.name),
        ]
    }

    /// Runs helm. One that ends with an error is a fact; the step goes on, to see what came of it. When
    /// the end is asked for, helm is asked to end too, and writes down that it was cancelled.
    async fn helm(
        &self,
        draft: &mut Draft,
        running: impl Future<Output = Result<HelmFacts, HelmError>>,
        watch: &RolloutWatch,
    ) -> Result<(), RunError> {
        let before = self.revision().await?;
        let phase = draft.start("helm", &self.journal);
        watch.mark();
        let ended = self.unless_stopped(running).await?;
        draft.done(phase);
        let mut facts = ended?;
        facts.revision_before = before;
        facts.revision_after = self.revision().await?;
        if facts.failure.is_some() {
            draft.fail(complaint(&facts));
        }
        draft.record.helm = Some(facts);
        Ok(())
    }

    /// Waits for the rollout. After a helm that failed there is only a look: it has waited already.
    pub(super) async fn follow(
        &mut self,
        draft: &mut Draft,
        watch: RolloutWatch,
        image: &str,
        limit: Duration,
    ) -> Result<(), RunError> {
        let phase = draft.start("rollout", &self.journal);
        let limit = if draft.has_failed() {
            limits::LOOK
        } else {
            limit
        };
        let observer = self.observer(draft.number());
        let deadline = Deadline::within(limit).observed_by(&observer);
        let complete = self.unless_stopped(watch.complete(image, deadline)).await;
        draft.record.rollout = Some(watch.finish());
        draft.done(phase);
        self.stalled = false;
        if let Err(stall) = complete? {
            self.stalled = true;
            draft.fail(stall.to_string());
        }
        Ok(())
    }

    /// The last reading of the process that is about to end (RST-10). It may have crashed or never been
    /// ready, which is no reason not to move on from it.
    async fn last_words(&mut self, draft: &Draft) -> Result<Option<Scrape>, RunError> {
        self.scrape = self.read(draft, "before").await?;
        Ok(self.scrape.clone())
    }

    /// A reading of the process that runs now; [`None`] when none can be read.
    pub(super) async fn read(&self, draft: &Draft, what: &str) -> Result<Option<Scrape>, RunError> {
        let purpose = Purpose {
            step: draft.number(),
            what,
        };
        let deadline = Deadline::within(limits::SCRAPE);
        let reading = observe::scrape(&self.target, &self.scrapes, purpose, deadline);
        match self.unless_stopped(reading).await? {
            Ok(scrape) => Ok(Some(scrape)),
            Err(observe::ScrapeError::Unread { .. }) => Ok(None),
            Err(error) => Err(ObserveError::Scrape(Box::new(error)).into()),
        }
    }

    /// What the start of the new process cost, once it has settled; nothing when it never came to run.
    pub(super) async fn costs(
        &mut self,
        draft: &mut Draft,
        before: Option<Scrape>,
    ) -> Result<(), RunError> {
        if self.stalled {
            self.scrape = self.read(draft, "stalled").await?;
            return Ok(());
        }
        self.scrape = None;
        if let Some(settled) = self.settled(draft, before.as_ref()).await? {
            draft.record.restart = Some(RestartFacts {
                before,
                after: settled.scrape,
                settled_after: settled.settled_after,
                not_walked: settled.not_walked,
                tracked: settled.tracked,
            });
        }
        Ok(())
    }

    /// Waits until the process that runs now has settled. That it does not, or cannot be read, fails
    /// the step.
    pub(super) async fn settled(
        &mut self,
        draft: &mut Draft,
        previous: Option<&Scrape>,
    ) -> Result<Option<Settled>, RunError> {
        let phase = draft.start("settle", &self.journal);
        let how = Settling {
            step: draft.number(),
            tracked: &self.expected,
            previous,
            quiet: limits::QUIET,
        };
        let limit = limits::settle(self.workloads());
        let deadline = Deadline::within(limit);
        let shown = self.counted(draft.number(), "the controller to settle");
        let settling = observe::settle(&self.target, &self.scrapes, how, deadline, &shown);
        let settled = self.unless_stopped(settling).await?;
        draft.done(phase);
        match settled {
            Ok(settled) => {
                if settled.settled_after.is_none() {
                    let seconds = limit.as_secs();
                    draft.fail(format!("the controller did not settle within {seconds} s"));
                }
                self.scrape = Some(settled.scrape.clone());
                Ok(Some(settled))
            }
            // There was no reading of it: it may have ended meanwhile.
            Err(error @ ObserveError::Late { .. }) => {
                draft.fail(error.to_string());
                Ok(None)
            }
            Err(error) => Err(error.into()),
        }
    }
}

impl<'a> Engine<'a> {
    /// A chart of the plan; the linter has seen to it that there is one.
    pub(super) fn chart(&self, name: &ChartName) -> Result<&'a OpenChart, RunError> {
        let chart = self.charts.get(name);
        chart.ok_or_else(|| RunError::Missing(format!("the plan has no chart `{name}`")))
    }
}

/// What helm said, in a line.
fn complaint(facts: &HelmFacts) -> String {
    match (&facts.said, facts.exit) {
        (Some(said), _) => said.clone(),
        (None, Some(exit)) => format!("helm ended with exit code {exit}"),
        (None, None) => "helm was ended by a signal".to_owned(),
    }
}
