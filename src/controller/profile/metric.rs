//! The controller's own metric families, per release. Those of its libraries are the same in all.

/// What a family measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricType {
    /// Only grows within one process.
    Counter,
    /// Moves both ways.
    Gauge,
}

/// One family of series. Without an observation it has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Family {
    /// Full name.
    pub name: &'static str,
    /// What it measures.
    pub metric_type: MetricType,
    /// Label names, in the order they are registered.
    pub labels: &'static [&'static str],
    /// The help line.
    pub help: &'static str,
}

const fn counter(
    name: &'static str,
    labels: &'static [&'static str],
    help: &'static str,
) -> Family {
    Family {
        name,
        metric_type: MetricType::Counter,
        labels,
        help,
    }
}

const fn gauge(name: &'static str, labels: &'static [&'static str], help: &'static str) -> Family {
    Family {
        name,
        metric_type: MetricType::Gauge,
        labels,
        help,
    }
}

/// Families of every release from 1.1.
pub const BASE: &[Family] = &[
    counter(
        "aibom_external_sink_emit_failures_total",
        &["sink", "namespace", "kind"],
        "Documents that an external sink did not take.",
    ),
    counter(
        "aibom_scraper_extraction_errors_total",
        &["scraper", "evidence_source"],
        "Errors recorded while components were extracted.",
    ),
    gauge(
        "aibom_workloads_total",
        &["category", "runtime"],
        "Tracked workloads.",
    ),
    counter(
        "aibom_controller_config_reloads_total",
        &["result"],
        "Changes of the configuration's state.",
    ),
    counter(
        "aibom_status_persist_failures_total",
        &["namespace", "kind"],
        "Status writes that failed other than by a conflict.",
    ),
];

/// Families added in 1.6.
pub const OUTCOMES: &[Family] = &[
    counter(
        "aibom_workload_reconcile_outcomes_total",
        &["kind", "outcome"],
        "Reconciles of workloads by how they ended.",
    ),
    gauge(
        "aibom_watch_healthy",
        &["kind"],
        "Whether the watch of a third-party kind works: 1 or 0.",
    ),
    counter(
        "aibom_watch_errors_total",
        &["kind"],
        "Failed watches of a third-party kind.",
    ),
];
