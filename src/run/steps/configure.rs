//! `crds` and `config`: what the controller is told, without a change of its version.

use kube::Api;
use kube::api::{Patch, PatchParams};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use serde_json::{Value, json};

use crate::cluster::crds;
use crate::cluster::rollout::RolloutWatch;
use crate::cluster::wait::{Deadline, Look, wait_for_object};
use crate::record::{ConditionStatus, CrdFacts, Created};
use crate::run::draft::Draft;
use crate::run::engine::{Engine, answered, cluster};
use crate::run::error::RunError;
use crate::run::limits;
use crate::scenario::ChartName;

/// The condition that tells of a schema that is older than the controller (CFG-04).
const DEGRADED: &str = "Degraded";

impl Engine<'_> {
    /// Applies the definitions of a chart, and waits for what comes of it: a rollout that stalled for
    /// want of them goes on by itself, and a controller that was degraded for that looks again.
    pub(in crate::run) async fn crds(
        &mut self,
        draft: &mut Draft,
        name: &ChartName,
    ) -> Result<(), RunError> {
        let chart = self.chart(name)?;
        let stalled = match self.stalled {
            true => Some(self.watch_rollout().await?),
            false => None,
        };
        let phase = draft.start("crds", &self.journal);
        let definitions = self.note_definitions(chart)?;
        let observer = self.observer(draft.number());
        let deadline = Deadline::within(limits::DEFINITIONS).observed_by(&observer);
        let client = &self.site.client;
        let applied = crds::apply(client, chart.chart.crds(), crds::MANAGER, deadline).await;
        let applied = applied.map_err(|fault| cluster("apply the definitions", fault))?;
        let refused = applied.iter().filter_map(|definition| {
            let why = definition.refused.as_ref()?;
            Some(format!("the server refuses {}: {why}", definition.name))
        });
        for refused in refused {
            draft.fail(refused);
        }
        draft.record.crds = Some(CrdFacts {
            chart: name.0.clone(),
            manager: crds::MANAGER.to_owned(),
            applied,
        });
        self.confirm_definitions(&definitions).await?;
        draft.done(phase);
        match stalled {
            Some(watch) => self.recover(draft, watch).await,
            None => self.clear(draft).await,
        }
    }

    /// A rollout that had stalled is waited for once more.
    async fn recover(&mut self, draft: &mut Draft, watch: RolloutWatch) -> Result<(), RunError> {
        let runs = draft.record.chart.clone().map(ChartName);
        let image = match &runs {
            Some(name) => self.chart(name)?.record.image.clone(),
            None => return Ok(()),
        };
        self.follow(draft, watch, &image, limits::RECOVERY).await?;
        let before = self.scrape.take();
        self.costs(draft, before).await
    }

    /// Waits until a controller that said it was degraded does not say so any more, or until it has
    /// had the time for another look.
    async fn clear(&mut self, draft: &mut Draft) -> Result<(), RunError> {
        let config = self
            .last
            .as_ref()
            .and_then(|snapshot| snapshot.config.as_ref());
        let degraded = config.and_then(|config| config.condition(DEGRADED));
        if degraded.is_some_and(|degraded| degraded.status == ConditionStatus::True) {
            let phase = draft.start("degraded", &self.journal);
            self.configured(draft, |object| {
                let conditions = object.data["status"]["conditions"].as_array();
                let mut all = conditions.into_iter().flatten();
                let degraded = all.find(|condition| condition["type"] == DEGRADED);
                match degraded {
                    Some(degraded) if degraded["status"] == "True" => {
                        let reason = degraded["reason"].as_str().unwrap_or_default();
                        Look::NotYet(format!("Degraded is True ({reason})"))
                    }
                    _ => Look::Done(()),
                }
            })
            .await?;
            draft.done(phase);
        }
        self.refresh(draft).await
    }

    /// Merges a patch into the configuration, and waits until the controller has read it.
    pub(in crate::run) async fn config(
        &mut self,
        draft: &mut Draft,
        spec: &Value,
    ) -> Result<(), RunError> {
        let phase = draft.start("config", &self.journal);
        let objects = self.configurations().await?;
        let name = self.target.subject.config_name;
        let patch = Patch::Merge(json!({"spec": spec}));
        let params = PatchParams {
            field_manager: Some("aibom-qual".to_owned()),
            ..PatchParams::default()
        };
        let patched = objects.patch(name, &params, &patch);
        let patched = answered("change the configuration", patched).await?;
        let generation = patched.metadata.generation;
        self.configured(draft, |object| {
            let seen = object.data["status"]["observedGeneration"].as_i64();
            if seen >= generation {
                Look::Done(())
            } else {
                Look::NotYet(format!("generation {seen:?} was read, not {generation:?}"))
            }
        })
        .await?;
        draft.done(phase);
        self.settled(draft, None).await?;
        Ok(())
    }

    /// Waits until the configuration looks so; that it does not in time fails the step.
    async fn configured(
        &self,
        draft: &mut Draft,
        look: impl Fn(&DynamicObject) -> Look<()>,
    ) -> Result<(), RunError> {
        let objects = self.configurations().await?;
        let subject = self.target.subject;
        let observer = self.observer(draft.number());
        let deadline = Deadline::within(limits::CONFIGURATION).observed_by(&observer);
        let what = format!("the controller to read {}", subject.config_kind);
        let seen =
            wait_for_object(
                what,
                deadline,
                &objects,
                subject.config_name,
                |object| match object {
                    Some(object) => look(object),
                    None => Look::NotYet("it does not exist".to_owned()),
                },
            );
        if let Err(error) = self.unless_stopped(seen).await? {
            draft.fail(error.to_string());
        }
        Ok(())
    }

    /// The configuration objects, in the newest version that is served.
    async fn configurations(&self) -> Result<Api<DynamicObject>, RunError> {
        let subject = self.target.subject;
        let states = crds::states(&self.site.client, &[subject.config_crd()]).await;
        let states = states.map_err(|fault| cluster("read the definitions", fault))?;
        let served = |version: &&&str| {
            let mut versions = states
                .iter()
                .filter_map(|state| state.versions.get(**version));
            versions.any(|version| version.served)
        };
        let version = subject.versions.iter().find(served);
        let version = version.ok_or_else(|| {
            RunError::Missing(format!("the kind {} is not served", subject.config_kind))
        })?;
        let kind = GroupVersionKind::gvk(subject.group, version, subject.config_kind);
        let resource = ApiResource::from_gvk_with_plural(&kind, subject.config);
        Ok(Api::all_with(self.site.client.clone(), &resource))
    }

    /// Writes down which definitions of a chart will be the run's own, since nobody else had them.
    pub(super) fn note_definitions(
        &mut self,
        chart: &crate::run::charts::OpenChart,
    ) -> Result<Vec<Created>, RunError> {
        let mut entries = Vec::new();
        for name in self.new_definitions(chart) {
            let entry = Created::Crd { name, uid: None };
            self.book.note(entry.clone(), &self.journal)?;
            entries.push(entry);
        }
        Ok(entries)
    }

    /// Writes down their UIDs.
    pub(super) async fn confirm_definitions(&mut self, made: &[Created]) -> Result<(), RunError> {
        let names = made.iter().filter_map(|created| match created {
            Created::Crd { name, .. } => Some(name.clone()),
            _ => None,
        });
        let names: Vec<String> = names.collect();
        let states = crds::states(&self.site.client, &names).await;
        let states = states.map_err(|fault| cluster("read the definitions", fault))?;
        for created in made {
            let Created::Crd { name, .. } = created else {
                continue;
            };
            let state = states.iter().find(|state| &state.name == name);
            let uid = state.map(|state| state.uid.clone());
            self.book.confirm(created, uid, &self.journal)?;
        }
        Ok(())
    }
}
