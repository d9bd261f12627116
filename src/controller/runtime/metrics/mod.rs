//! The metrics of the controller process, under the names its consumers know.
//!
//! Names, labels and help are those of `controller.md` G.4: client-go's and controller-runtime's
//! families and those of the process here, the subject's in [`aibom`]. The text is exposition format
//! 0.0.4, as a client without content negotiation gets it from the real process.
//!
//! The `prometheus` crate prints that format as it is. `prometheus-client` only prints OpenMetrics and
//! appends `_total` to the names of counters, and the strict parser at the other end would read every
//! counter as untyped. The crate's optional parts stay off: protobuf is not exposed, and its process
//! collector counts whole CPU seconds, where a measurement needs hundredths.
//!
//! One difference is left: the crate writes small bucket bounds as decimals (`0.00000001`), Go writes
//! `1e-08`. Both are the same number to a parser.

pub mod aibom;
mod process;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use prometheus::{
    Gauge, GaugeVec, Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge,
    IntGaugeVec, Opts, Registry, TextEncoder,
};

/// The content type of what [`Metrics::render`] returns.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Buckets of `controller_runtime_reconcile_time_seconds`, in seconds.
const RECONCILE_BUCKETS: [f64; 40] = [
    0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9,
    1.0, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 15.0, 20.0,
    25.0, 30.0, 40.0, 50.0, 60.0,
];

/// The registry refuses a family, or cannot print one.
#[derive(Debug, thiserror::Error)]
#[error("the metrics registry is unusable")]
pub struct MetricsError(#[from] prometheus::Error);

impl MetricsError {
    /// The one thing to do about it, if there is one.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        None
    }
}

/// Something that brings gauges up to date just before they are read.
type Refresh = Box<dyn Fn() + Send + Sync>;

/// Every metric of one controller process.
pub struct Metrics {
    registry: Registry,
    requests: IntCounterVec,
    reconciles: IntCounterVec,
    reconcile_errors: IntCounterVec,
    terminal_errors: IntCounterVec,
    panics: IntCounterVec,
    timeouts: IntCounterVec,
    reconcile_time: HistogramVec,
    max_concurrent: IntGaugeVec,
    active: IntGaugeVec,
    depth: IntGaugeVec,
    adds: IntCounterVec,
    retries: IntCounterVec,
    queue_time: HistogramVec,
    work_time: HistogramVec,
    unfinished: GaugeVec,
    longest: GaugeVec,
    leader: IntGaugeVec,
    refresh: Mutex<Vec<Refresh>>,
}

impl Metrics {
    /// Registers every library and process family.
    ///
    /// # Errors
    ///
    /// [`MetricsError`] if a family is registered twice, which is a mistake in the code.
    pub fn new() -> Result<Arc<Self>, MetricsError> {
        let family = Families::default();
        let workqueue_labels = &["name", "controller"];
        let metrics = Arc::new(Self {
            requests: family.counters(
                "rest_client_requests_total",
                "Number of HTTP requests, partitioned by status code, method, and host.",
                &["code", "method", "host"],
            )?,
            reconciles: family.counters(
                "controller_runtime_reconcile_total",
                "Total number of reconciliations per controller",
                &["controller", "result"],
            )?,
            reconcile_errors: family.counters(
                "controller_runtime_reconcile_errors_total",
                "Total number of reconciliation errors per controller",
                &["controller"],
            )?,
            terminal_errors: family.counters(
                "controller_runtime_terminal_reconcile_errors_total",
                "Total number of terminal reconciliation errors per controller",
                &["controller"],
            )?,
            panics: family.counters(
                "controller_runtime_reconcile_panics_total",
                "Total number of reconciliation panics per controller",
                &["controller"],
            )?,
            timeouts: family.counters(
                "controller_runtime_reconcile_timeouts_total",
                "Total number of reconciliation timeouts per controller",
                &["controller"],
            )?,
            reconcile_time: family.histograms(
                "controller_runtime_reconcile_time_seconds",
                "Length of time per reconciliation per controller",
                &["controller"],
                RECONCILE_BUCKETS.to_vec(),
            )?,
            max_concurrent: family.int_gauges(
                "controller_runtime_max_concurrent_reconciles",
                "Maximum number of concurrent reconciles per controller",
                &["controller"],
            )?,
            active: family.int_gauges(
                "controller_runtime_active_workers",
                "Number of currently used workers per controller",
                &["controller"],
            )?,
            depth: family.int_gauges(
                "workqueue_depth",
                "Current depth of workqueue by workqueue and priority",
                &["name", "controller", "priority"],
            )?,
            adds: family.counters(
                "workqueue_adds_total",
                "Total number of adds handled by workqueue",
                workqueue_labels,
            )?,
            retries: family.counters(
                "workqueue_retries_total",
                "Total number of retries handled by workqueue",
                workqueue_labels,
            )?,
            queue_time: family.histograms(
                "workqueue_queue_duration_seconds",
                "How long in seconds an item stays in workqueue before being requested",
                workqueue_labels,
                prometheus::exponential_buckets(1e-8, 10.0, 12)?,
            )?,
            work_time: family.histograms(
                "workqueue_work_duration_seconds",
                "How long in seconds processing an item from workqueue takes.",
                workqueue_labels,
                prometheus::exponential_buckets(1e-8, 10.0, 12)?,
            )?,
            unfinished: family.gauges(
                "workqueue_unfinished_work_seconds",
                "How many seconds of work has been done that is in progress and hasn't been \
                 observed by work_duration. Large values indicate stuck threads. One can deduce the \
                 number of stuck threads by observing the rate at which this increases.",
                workqueue_labels,
            )?,
            longest: family.gauges(
                "workqueue_longest_running_processor_seconds",
                "How many seconds has the longest running processor for workqueue been running.",
                workqueue_labels,
            )?,
            leader: family.int_gauges(
                "leader_election_master_status",
                "Gauge of if the reporting system is master of the relevant lease, 0 indicates \
                 backup, 1 indicates master. 'name' is the string used to identify the lease. Please \
                 make sure to group by name.",
                &["name"],
            )?,
            // Without a certificate to watch these two stay at zero; the real process shows them too.
            registry: {
                family.counter(
                    "certwatcher_read_certificate_total",
                    "Total number of certificate reads",
                )?;
                family.counter(
                    "certwatcher_read_certificate_errors_total",
                    "Total number of certificate read errors",
                )?;
                family.registry
            },
            refresh: Mutex::default(),
        });
        let process = process::Process::register(&metrics.registry)?;
        metrics.before_render(move || process.refresh());
        Ok(metrics)
    }

    /// Where a family that is not the library's is registered.
    #[must_use]
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Calls this before every [`render`](Self::render), to set gauges that follow time.
    pub fn before_render(&self, refresh: impl Fn() + Send + Sync + 'static) {
        let mut all = self.refresh.lock().unwrap_or_else(PoisonError::into_inner);
        all.push(Box::new(refresh));
    }

    /// Every series, as text.
    ///
    /// # Errors
    ///
    /// [`MetricsError`] if a series cannot be printed.
    pub fn render(&self) -> Result<String, MetricsError> {
        let all = self.refresh.lock().unwrap_or_else(PoisonError::into_inner);
        for refresh in all.iter() {
            refresh();
        }
        Ok(TextEncoder::new().encode_to_string(&self.registry.gather())?)
    }

    /// Counts one request that was put on the wire; `code` is `<error>` when no answer came.
    pub fn request(&self, code: &str, method: &str, host: &str) {
        self.requests.with_label_values(&[code, method, host]).inc();
    }

    /// The series of one controller with one worker, created at zero where the library does so.
    #[must_use]
    pub fn controller(&self, name: &str) -> ControllerMetrics {
        self.max_concurrent.with_label_values(&[name]).set(1);
        let result = |result| self.reconciles.with_label_values(&[name, result]);
        ControllerMetrics {
            success: result("success"),
            error: result("error"),
            requeue: result("requeue"),
            requeue_after: result("requeue_after"),
            errors: self.reconcile_errors.with_label_values(&[name]),
            terminal_errors: self.terminal_errors.with_label_values(&[name]),
            panics: self.panics.with_label_values(&[name]),
            timeouts: self.timeouts.with_label_values(&[name]),
            active: self.active.with_label_values(&[name]),
            time: self.reconcile_time.clone(),
            name: name.to_owned(),
        }
    }

    /// Whether this process holds a lease: 1, or 0 as long as it does not.
    #[must_use]
    pub fn leader(&self, lease: &str) -> IntGauge {
        self.leader.with_label_values(&[lease])
    }

    /// The series of the queue of one controller.
    #[must_use]
    pub fn queue(&self, name: &str) -> QueueMetrics {
        let labels = &[name, name];
        QueueMetrics {
            adds: self.adds.with_label_values(labels),
            retries: self.retries.with_label_values(labels),
            queue_time: self.queue_time.with_label_values(labels),
            work_time: self.work_time.with_label_values(labels),
            unfinished: self.unfinished.with_label_values(labels),
            longest: self.longest.with_label_values(labels),
            depth: self.depth.clone(),
            name: name.to_owned(),
        }
    }
}

/// The series of one controller.
pub struct ControllerMetrics {
    /// Reconciles that were content.
    pub success: IntCounter,
    /// Reconciles that failed, as a result.
    pub error: IntCounter,
    /// Reconciles that asked for another one under backoff.
    pub requeue: IntCounter,
    /// Reconciles that asked for another one after a time.
    pub requeue_after: IntCounter,
    /// Reconciles that failed.
    pub errors: IntCounter,
    /// Reconciles that failed for good.
    pub terminal_errors: IntCounter,
    /// Reconciles that panicked; they also count as failed.
    pub panics: IntCounter,
    /// Reconciles that were ended by their deadline; they also count as failed.
    pub timeouts: IntCounter,
    /// Reconciles running now.
    pub active: IntGauge,
    // The library creates this series with the first observation, not before.
    time: HistogramVec,
    name: String,
}

impl ControllerMetrics {
    /// Records how long a reconcile took.
    pub fn took(&self, duration: Duration) {
        self.time
            .with_label_values(&[&self.name])
            .observe(duration.as_secs_f64());
    }
}

/// The series of one workqueue.
pub struct QueueMetrics {
    /// Keys that became ready to be worked on.
    pub adds: IntCounter,
    /// Keys that were added with a delay.
    pub retries: IntCounter,
    /// Seconds from ready to taken.
    pub queue_time: Histogram,
    /// Seconds from taken to done.
    pub work_time: Histogram,
    /// Seconds that the keys in work have been so, added up.
    pub unfinished: Gauge,
    /// Seconds that the longest of them has been so.
    pub longest: Gauge,
    depth: IntGaugeVec,
    name: String,
}

impl QueueMetrics {
    /// Ready keys of one priority. The library creates the series when it is first used.
    #[must_use]
    pub fn depth(&self, priority: i32) -> IntGauge {
        self.depth
            .with_label_values(&[&self.name, &self.name, &priority.to_string()])
    }
}

/// Makes families and registers them.
#[derive(Default)]
struct Families {
    registry: Registry,
}

impl Families {
    fn counter(&self, name: &str, help: &str) -> Result<IntCounter, prometheus::Error> {
        let counter = IntCounter::new(name, help)?;
        self.registry.register(Box::new(counter.clone()))?;
        Ok(counter)
    }

    fn counters(
        &self,
        name: &str,
        help: &str,
        labels: &[&str],
    ) -> Result<IntCounterVec, prometheus::Error> {
        let family = IntCounterVec::new(Opts::new(name, help), labels)?;
        self.registry.register(Box::new(family.clone()))?;
        Ok(family)
    }

    fn gauges(
        &self,
        name: &str,
        help: &str,
        labels: &[&str],
    ) -> Result<GaugeVec, prometheus::Error> {
        let family = GaugeVec::new(Opts::new(name, help), labels)?;
        self.registry.register(Box::new(family.clone()))?;
        Ok(family)
    }

    fn int_gauges(
        &self,
        name: &str,
        help: &str,
        labels: &[&str],
    ) -> Result<IntGaugeVec, prometheus::Error> {
        let family = IntGaugeVec::new(Opts::new(name, help), labels)?;
        self.registry.register(Box::new(family.clone()))?;
        Ok(family)
    }

    fn histograms(
        &self,
        name: &str,
        help: &str,
        labels: &[&str],
        buckets: Vec<f64>,
    ) -> Result<HistogramVec, prometheus::Error> {
        let options = HistogramOpts::new(name, help).buckets(buckets);
        let family = HistogramVec::new(options, labels)?;
        self.registry.register(Box::new(family.clone()))?;
        Ok(family)
    }
}

#[cfg(test)]
mod tests;
