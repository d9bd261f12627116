//! The subject's own families, with the names of `controller.md` G.4. Their help texts are ours.

use prometheus::{IntCounterVec, IntGaugeVec, Opts};

use super::{Metrics, MetricsError};

/// Which of the families a release has, beyond those of all releases.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Since {
    /// `aibom_status_persist_failures_total` (1.1 and later).
    pub persist_failures: bool,
    /// `aibom_workload_reconcile_outcomes_total`, `aibom_watch_healthy`, `aibom_watch_errors_total`
    /// (1.6 and later).
    pub outcomes_and_watches: bool,
}

/// The subject's own metrics. A family without an observation shows no series, so that the ones which
/// a release lacks may be counted on without being seen.
pub struct AibomMetrics {
    /// Failed deliveries; labels sink, namespace, kind.
    pub sink_emit_failures: IntCounterVec,
    /// Extraction errors; labels scraper, evidence source.
    pub extraction_errors: IntCounterVec,
    /// Registered and never set, as in the real process; labels category, runtime.
    pub workloads: IntGaugeVec,
    /// Reloads of the configuration; label result.
    pub config_reloads: IntCounterVec,
    /// Status writes that failed other than by conflict; labels namespace, kind.
    pub persist_failures: IntCounterVec,
    /// Reconciles by what came of them; labels kind, outcome.
    pub outcomes: IntCounterVec,
    /// Whether a supervised watch works (1) or not (0); label kind.
    pub watch_healthy: IntGaugeVec,
    /// Errors of supervised watches; label kind.
    pub watch_errors: IntCounterVec,
}

impl AibomMetrics {
    /// Makes the families and registers those which the release has.
    ///
    /// # Errors
    ///
    /// [`MetricsError`] if they are registered already.
    pub fn register(metrics: &Metrics, since: Since) -> Result<Self, MetricsError> {
        let counters = |registered: bool, name: &str, help: &str, labels: &[&str]| {
            let family = IntCounterVec::new(Opts::new(name, help), labels)?;
            if registered {
                metrics.registry().register(Box::new(family.clone()))?;
            }
            Ok::<_, prometheus::Error>(family)
        };
        let gauges = |registered: bool, name: &str, help: &str, labels: &[&str]| {
            let family = IntGaugeVec::new(Opts::new(name, help), labels)?;
            if registered {
                metrics.registry().register(Box::new(family.clone()))?;
            }
            Ok::<_, prometheus::Error>(family)
        };
        Ok(Self {
            sink_emit_failures: counters(
                true,
                "aibom_external_sink_emit_failures_total",
                "Number of failed deliveries of a document to an external sink.",
                &["sink", "namespace", "kind"],
            )?,
            extraction_errors: counters(
                true,
                "aibom_scraper_extraction_errors_total",
                "Number of errors while extracting evidence from a workload.",
                &["scraper", "evidence_source"],
            )?,
            workloads: gauges(
                true,
                "aibom_workloads_total",
                "Number of workloads with an AIBOM.",
                &["category", "runtime"],
            )?,
            config_reloads: counters(
                true,
                "aibom_controller_config_reloads_total",
                "Number of changes of the configuration's state.",
                &["result"],
            )?,
            persist_failures: counters(
                since.persist_failures,
                "aibom_status_persist_failures_total",
                "Number of AIBOM status writes that failed, conflicts aside.",
                &["namespace", "kind"],
            )?,
            outcomes: counters(
                since.outcomes_and_watches,
                "aibom_workload_reconcile_outcomes_total",
                "Number of workload reconciles by outcome.",
                &["kind", "outcome"],
            )?,
            watch_healthy: gauges(
                since.outcomes_and_watches,
                "aibom_watch_healthy",
                "Whether the watch of a third-party kind works.",
                &["kind"],
            )?,
            watch_errors: counters(
                since.outcomes_and_watches,
                "aibom_watch_errors_total",
                "Number of errors of the watch of a third-party kind.",
                &["kind"],
            )?,
        })
    }
}
