//! Which watches fail, and what is told about it.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;

use k8s_openapi::api::core::v1::ObjectReference;
use tokio::sync::watch as latest;

use crate::controller::config::degraded::Cause;
use crate::controller::events::{Happening, Recorder, Severity};
use crate::controller::profile::kind::Kind;
use crate::controller::runtime::metrics::aibom::AibomMetrics;

/// Characters of an error that are told.
const TOLD: usize = 1024;

/// The kinds that are served and cannot be watched, as `Group/Kind`, each with the server's words;
/// clones are handles to the same record.
#[derive(Clone, Debug, Default)]
pub struct WatchHealth(latest::Sender<BTreeMap<String, String>>);

impl WatchHealth {
    fn fails(&self, kind: &Kind, error: &str) {
        self.0.send_if_modified(|failures| {
            let before = failures.insert(kind.group_kind(), error.to_owned());
            before.as_deref() != Some(error)
        });
    }

    fn is_content(&self, kind: &Kind) {
        self.0
            .send_if_modified(|failures| failures.remove(&kind.group_kind()).is_some());
    }

    /// Why the controller is degraded, if a watch fails. Kinds stand in the order of their groups.
    #[must_use]
    pub fn cause(&self) -> Option<Cause> {
        let failures = self.0.borrow();
        if failures.is_empty() {
            return None;
        }
        let told: Vec<_> = failures
            .iter()
            .map(|(kind, error)| format!("{kind} ({error})"))
            .collect();
        Some(Cause {
            reason: "ThirdPartyWatchUnhealthy",
            message: format!(
                "Third-party kinds are served but cannot be watched: {}. Their AIBOMs are not \
                 updated until they can; all other kinds are unaffected.",
                told.join(", ")
            ),
        })
    }

    /// Calls this after every change. Works until dropped.
    pub async fn follow(self, changed: impl Fn() + Send) -> Infallible {
        let mut receiver = self.0.subscribe();
        while receiver.changed().await.is_ok() {
            changed();
        }
        // Impossible as long as this handle lives.
        std::future::pending().await
    }
}

/// What the events about watches are about, at this moment.
pub type Regarding = Arc<dyn Fn() -> Option<ObjectReference> + Send + Sync>;

/// Tells of watches.
#[derive(Clone)]
pub struct Reporter {
    /// What is known of all.
    pub health: WatchHealth,
    /// Takes events.
    pub recorder: Recorder,
    /// What they are about.
    pub regarding: Regarding,
    /// The controller's own metrics.
    pub metrics: Arc<AibomMetrics>,
}

/// Tells of one watch.
pub struct Report {
    kind: &'static Kind,
    to: Reporter,
    is_failing: bool,
}

impl Report {
    /// Nothing is known of the watch.
    #[must_use]
    pub fn new(kind: &'static Kind, to: Reporter) -> Self {
        Self {
            kind,
            to,
            is_failing: false,
        }
    }

    /// The watch works.
    pub fn works(&mut self) {
        self.healthy().set(1);
        self.to.health.is_content(self.kind);
        if std::mem::take(&mut self.is_failing) {
            let message = format!("{} can be watched again.", self.kind.group_kind());
            self.tell(Severity::Normal, "WatchRecovered", message);
        }
    }

    /// The watch fails, for this reason. It is told once per outage, and counted every time.
    pub fn fails(&mut self, error: &str) {
        let error: String = error.chars().take(TOLD).collect();
        let kind = self.kind.group_kind();
        tracing::error!(logger = "third-party", kind, error, "cannot watch a kind");
        self.healthy().set(0);
        let errors = &self.to.metrics.watch_errors;
        errors.with_label_values(&[self.kind.kind]).inc();
        self.to.health.fails(self.kind, &error);
        if !std::mem::replace(&mut self.is_failing, true) {
            let message = format!(
                "{kind} is served but cannot be watched: {error}. It is tried again; other kinds are \
                 unaffected."
            );
            self.tell(Severity::Warning, "WatchUnhealthy", message);
        }
    }

    /// There is nothing to watch.
    pub fn is_absent(&mut self) {
        // Fails when there was no series.
        let _ = self
            .to
            .metrics
            .watch_healthy
            .remove_label_values(&[self.kind.kind]);
        self.to.health.is_content(self.kind);
        self.is_failing = false;
    }

    /// The configuration does not allow the kind.
    pub fn is_disabled(&mut self) {
        self.is_absent();
        let message = format!(
            "{} is not in spec.discovery.workloadKinds and is not watched any more.",
            self.kind.group_kind()
        );
        self.tell(Severity::Normal, "WatchDisabled", message);
    }

    fn healthy(&self) -> prometheus::IntGauge {
        let family = &self.to.metrics.watch_healthy;
        family.with_label_values(&[self.kind.kind])
    }

    fn tell(&self, severity: Severity, reason: &'static str, message: String) {
        // Without a configuration and a pod there is nothing that the event could be about.
        if let Some(regarding) = (self.to.regarding)() {
            self.to.recorder.record(Happening {
                component: "k8s-aibom",
                regarding,
                severity,
                reason,
                message,
            });
        }
    }
}
