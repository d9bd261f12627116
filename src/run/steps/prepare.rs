//! `baseline` and `cleanup`: the cluster before and after.

use super::FOUND_FILE;
use crate::cluster::found::AsFound;
use crate::cluster::refuse_dying;
use crate::observe::{self, Expected, WorkloadName};
use crate::record::Created;
use crate::run::draft::Draft;
use crate::run::engine::{Engine, cluster};
use crate::run::error::RunError;
use crate::run::{namespaces, removal};
use crate::scenario::Step;

impl Engine<'_> {
    /// Records the cluster as it is, then makes the namespaces of the load and the workloads that are
    /// there before the controller.
    pub(in crate::run) async fn baseline(&mut self, draft: &mut Draft) -> Result<(), RunError> {
        let phase = draft.start("found", &self.journal);
        let installs = |step: &Step| matches!(step, Step::Install { .. });
        if let (true, Some(release)) = (
            self.plan.steps.iter().any(installs),
            self.release_state().await?,
        ) {
            return Err(RunError::ReleaseExists {
                name: release.name.clone(),
                namespace: release.namespace.clone(),
                revision: release.newest().map_or(0, |newest| newest.revision),
            });
        }
        self.refuse_what_is_dying().await?;
        let found = AsFound::take(&self.site.client).await;
        let found = found.map_err(|fault| cluster("record the cluster as found", fault))?;
        let text = serde_json::to_string_pretty(&found).unwrap_or_default();
        self.journal.write_text(FOUND_FILE, &text)?;
        // Those that are opted in already, with what they hold, are looked at like the load.
        let opted_in = observe::opted_in(&self.target).await?;
        if self.site.outlives_the_run() {
            self.refuse_what_is_in_use(&found, opted_in.len())?;
        }
        self.found = Some(found);
        self.expected = opted_in
            .iter()
            .map(WorkloadName::from)
            .collect::<Expected>();
        draft.done(phase);

        let phase = draft.start("load", &self.journal);
        self.make_namespaces().await?;
        if self.plan.workloads.preexisting > 0 {
            self.preexisting(draft).await?;
        }
        draft.done(phase);
        Ok(())
    }

    /// An install over a dying definition would lose its objects a moment later (INS-01).
    async fn refuse_what_is_dying(&self) -> Result<(), RunError> {
        let charts = self.charts.iter();
        let definitions: Vec<String> = charts
            .flat_map(|(_, open)| open.record.crds.keys().cloned())
            .collect();
        let mut all = vec![self.release.namespace.clone()];
        all.extend(
            namespaces::of_load(self.plan)
                .iter()
                .map(ToString::to_string),
        );
        let checked = refuse_dying(&self.site.client, &definitions, &all).await;
        checked.map_err(|fault| cluster("begin", fault))
    }

    /// A run applies the definitions of its charts and deletes them at its end, with every AIBOM. So
    /// it takes no cluster where either is somebody else's.
    fn refuse_what_is_in_use(&self, found: &AsFound, opted_in: usize) -> Result<(), RunError> {
        let charts = self.charts.iter();
        let mut definitions = charts.flat_map(|(_, open)| open.record.crds.keys());
        if let Some(name) = definitions.find(|name| found.crds.contains_key(*name)) {
            return Err(RunError::InUse(format!("the definition {name}")));
        }
        if opted_in > 0 {
            return Err(RunError::InUse(format!(
                "workloads in namespaces that opted in ({opted_in})"
            )));
        }
        Ok(())
    }

    async fn make_namespaces(&mut self) -> Result<(), RunError> {
        for name in namespaces::of_load(self.plan) {
            let labels = namespaces::labels_of_load(self.target.subject);
            self.make_namespace(name.as_str(), labels).await?;
        }
        Ok(())
    }

    /// Makes a namespace that must not be there yet.
    pub(super) async fn make_namespace(
        &mut self,
        name: &str,
        labels: std::collections::BTreeMap<String, String>,
    ) -> Result<(), RunError> {
        let entry = Created::Namespace {
            name: name.to_owned(),
            uid: None,
        };
        self.book.note(entry.clone(), &self.journal)?;
        match namespaces::create(&self.site.client, name, labels, &self.run).await {
            Ok(uid) => Ok(self.book.confirm(&entry, uid, &self.journal)?),
            Err(error @ RunError::NamespaceExists(_)) => {
                self.book.strike(&entry, &self.journal)?;
                Err(error)
            }
            Err(error) => Err(error),
        }
    }

    /// Removes what the run made, and compares with what was found.
    pub(in crate::run) async fn cleanup(&mut self, draft: &mut Draft) -> Result<(), RunError> {
        let phase = draft.start("remove", &self.journal);
        self.scrape = None;
        let facts = removal::remove(&self.removal(), self.book.ledger()).await?;
        if facts.left.is_empty() {
            self.book.cleaned(&self.journal)?;
        } else {
            draft.fail(format!("still there: {}", facts.left.join(", ")));
        }
        let mine = namespaces::of_load(self.plan);
        self.expected = self
            .expected
            .iter()
            .filter(|workload| mine.iter().all(|name| name.as_str() != workload.namespace))
            .cloned()
            .collect();
        draft.record.cleanup = Some(facts);
        draft.done(phase);
        Ok(())
    }
}
