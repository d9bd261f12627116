//! The controller of the configuration: one object, one status write per look at it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use chrono::{DateTime, Utc};
use k8s_openapi::api::core::v1::ObjectReference;
use kube::api::PostParams;
use kube::core::ApiResource;
use kube::{Api, Client};

use super::degraded::{Cause, degraded};
use super::load::{Invalid, Loader};
use super::schema::{Look, ServedSchema, Skew};
use super::state::{About, Found, InForce, State, Transition};
use crate::controller::api::config::NAME;
use crate::controller::api::meta::{Condition, ConditionStatus, Timestamp};
use crate::controller::api::object::ConfigObject;
use crate::controller::events::{Happening, Recorder};
use crate::controller::runtime::metrics::aibom::AibomMetrics;
use crate::controller::runtime::queue::{Add, Queue};
use crate::controller::runtime::store::{Informer, ObjectKey};
use crate::controller::runtime::worker::{Outcome, Reconciler};
use crate::controller::settings::Current;
use crate::controller::third_party::health::WatchHealth;

/// Who says what happened to the configuration.
const COMPONENT: &str = "k8s-aibom-config";

/// The key of the one object that is read.
#[must_use]
pub fn key() -> ObjectKey {
    ObjectKey::new("", NAME)
}

/// Leads changes of the object into the queue, and one look at the start, so that a missing object is
/// noticed.
pub fn subscribe(configs: &Informer<ConfigObject>, queue: &Queue<ObjectKey>) {
    let target = queue.clone();
    configs.subscribe(move |change| {
        let changed = ObjectKey::of(change.object());
        if changed == key() && change.changes_generation() {
            let how = Add {
                priority: change.priority(),
                ..Add::default()
            };
            target.add_with(changed, how);
        }
    });
    queue.add(key());
}

/// The status of the configuration could not be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot update the status of AIBOMControllerConfig {NAME}")]
pub struct ConfigError(#[source] Box<kube::Error>);

impl ConfigError {
    /// The one thing to do about it, if there is one.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match &*self.0 {
            kube::Error::Api(status) if status.is_forbidden() => {
                Some("check the rules of the controller's ClusterRole".to_owned())
            }
            _ => None,
        }
    }
}

/// Reconciles the configuration.
pub struct ConfigReconciler {
    /// The cache of configurations.
    pub configs: Informer<ConfigObject>,
    /// Client and API version of status writes.
    pub client: Client,
    /// How the server is asked for configurations.
    pub resource: ApiResource,
    /// Reads specs, and knows what holds without one.
    pub loader: Loader,
    /// What every reconcile works with.
    pub settings: Current,
    /// Whether the configuration is invalid, for strict readiness.
    pub invalid: Arc<AtomicBool>,
    /// Takes events.
    pub recorder: Recorder,
    /// The controller's own pod, if it is known.
    pub pod: Option<ObjectReference>,
    /// The controller's own metrics.
    pub metrics: Arc<AibomMetrics>,
    /// Which third-party kinds cannot be watched.
    pub watches: WatchHealth,
    /// What is known of the object.
    pub state: Mutex<State>,
    /// The schema that the server publishes, under releases that look at it.
    pub schema: Option<ServedSchema>,
}

impl ConfigReconciler {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self, transition: &Transition, object: Option<&ConfigObject>) {
        if let Some(result) = transition.result {
            let counter = &self.metrics.config_reloads;
            counter.with_label_values(&[result]).inc();
        }
        for notice in &transition.notices {
            let regarding = match notice.about {
                About::Pod => self.pod.clone(),
                About::Config => object.map(reference),
            };
            // Without a pod there is nothing that the event could be about.
            if let Some(regarding) = regarding {
                self.recorder.record(Happening {
                    component: COMPONENT,
                    regarding,
                    severity: notice.severity,
                    reason: notice.reason,
                    message: notice.message.to_owned(),
                });
            }
        }
    }
}

impl Reconciler<ObjectKey> for ConfigReconciler {
    type Error = ConfigError;

    async fn reconcile(&self, key: &ObjectKey) -> Result<Outcome, ConfigError> {
        let object = self.configs.get(key);
        let found = match object.as_deref() {
            None => {
                self.settings.set(self.loader.defaults.clone());
                Found::Missing
            }
            Some(object) => match self.loader.load(&object.spec).await {
                Ok(settings) => {
                    self.settings.set(settings);
                    Found::Valid(object.metadata.generation.unwrap_or_default())
                }
                // What is in force stays in force: the last good configuration, or defaults.
                Err(invalid) => {
                    self.settings.keep();
                    Found::Invalid(invalid)
                }
            },
        };
        let look = match &self.schema {
            Some(schema) => schema.look().await,
            None => Look::Unknown,
        };
        let before = *self.state();
        let (after, in_force, transition) = before.after(&found);
        *self.state() = before.untold(after);
        if let Some(object) = object.as_deref() {
            let mut object = object.clone();
            let skew = look.skew().map(Skew::cause);
            let watches = self.watches.cause();
            describe(&mut object, &found, in_force, skew, watches, Utc::now());
            let api = Api::<ConfigObject>::all_with(self.client.clone(), &self.resource);
            let parameters = PostParams::default();
            match api.replace_status(NAME, &parameters, &object).await {
                Ok(_) => {}
                // What is known does not advance, so that events are told after the next try.
                Err(kube::Error::Api(status)) if status.is_conflict() => {
                    return Ok(Outcome::Requeue);
                }
                Err(kube::Error::Api(status)) if status.is_not_found() => {}
                Err(error) => return Err(ConfigError(Box::new(error))),
            }
        }
        *self.state() = after;
        self.invalid.store(after.is_invalid(), Ordering::Release);
        if let Some(transition) = &transition {
            self.tell(transition, object.as_deref());
        }
        if let (Some(schema), Some(object)) = (&self.schema, object.as_deref())
            && let Some(news) = schema.news(&look, COMPONENT, reference(object))
        {
            self.recorder.record(news);
        }
        Ok(Outcome::Done)
    }
}

/// How an event names the configuration.
#[must_use]
pub fn reference(object: &ConfigObject) -> ObjectReference {
    ObjectReference {
        api_version: Some(object.api_version.clone()),
        kind: Some(object.kind.clone()),
        name: object.metadata.name.clone(),
        uid: object.metadata.uid.clone(),
        resource_version: object.metadata.resource_version.clone(),
        ..ObjectReference::default()
    }
}

/// Puts into the object's status what was found, what is in force and what else is wrong.
fn describe(
    object: &mut ConfigObject,
    found: &Found,
    in_force: InForce,
    skew: Option<Cause>,
    watches: Option<Cause>,
    now: DateTime<Utc>,
) {
    let generation = object.metadata.generation.unwrap_or_default();
    let now = Timestamp::new(now);
    let (ready, invalid) = match found {
        Found::Missing => return,
        Found::Valid(_) => {
            object.status.last_loaded_at = Some(now);
            let message = "Configuration loaded successfully; runtime snapshot is in effect.";
            let ready = (ConditionStatus::True, "ConfigLoaded", message.to_owned());
            (ready, None)
        }
        Found::Invalid(invalid) => (not_ready(invalid), Some(not_in_force(in_force))),
    };
    let degraded = degraded(invalid, skew, watches);
    for (type_, (status, reason, message)) in [("Ready", ready), ("Degraded", degraded)] {
        let condition = Condition {
            last_transition_time: now,
            message,
            observed_generation: generation,
            reason: reason.to_owned(),
            status,
            type_: type_.to_owned(),
        };
        set(&mut object.status.conditions, condition);
    }
    object.status.observed_generation = generation;
}

fn not_ready(invalid: &Invalid) -> (ConditionStatus, &'static str, String) {
    (ConditionStatus::False, "ConfigInvalid", invalid.to_string())
}

fn not_in_force(in_force: InForce) -> Cause {
    match in_force {
        InForce::LastGood(generation) => Cause {
            reason: "RunningOnLastKnownGood",
            message: format!(
                "Spec is invalid; retaining last-known-good snapshot from generation {generation}. \
                 Edit spec to clear Ready=False."
            ),
        },
        InForce::Defaults | InForce::Spec => Cause {
            reason: "RunningOnDefaults",
            message: "Spec is invalid; running on compiled-in defaults. Edit spec to clear \
                      Ready=False."
                .to_owned(),
        },
    }
}

/// Replaces the condition of the same type; its time only moves with its status.
fn set(conditions: &mut Vec<Condition>, mut condition: Condition) {
    match conditions
        .iter_mut()
        .find(|known| known.type_ == condition.type_)
    {
        Some(known) => {
            if known.status == condition.status {
                condition.last_transition_time = known.last_transition_time;
            }
            *known = condition;
        }
        None => conditions.push(condition),
    }
}
