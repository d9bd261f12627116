//! What the controller counts of itself.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

/// One series of `rest_client_requests_total`, summed over hosts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RequestCount {
    /// The HTTP method, for example `GET`.
    pub method: String,
    /// The status code, or `<error>` when there was no answer.
    pub code: String,
    /// Requests since the process began.
    pub count: u64,
}

/// The counters that verdicts are made of, absolute since the process began.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Counters {
    /// `rest_client_requests_total`.
    pub requests: Vec<RequestCount>,
    /// `controller_runtime_reconcile_total` over all results, by controller.
    pub reconciles: BTreeMap<String, u64>,
    /// `controller_runtime_reconcile_errors_total` over all controllers.
    pub reconcile_errors: u64,
    /// `workqueue_depth` over all queues and priorities.
    pub queue_depth: u64,
    /// `workqueue_retries_total` over all queues.
    pub queue_retries: u64,
    /// `process_cpu_seconds_total`, in seconds.
    pub cpu_seconds: f64,
    /// `process_resident_memory_bytes`.
    pub resident_bytes: u64,
}

impl Counters {
    /// Requests of this method with a code that passes.
    pub fn requests(&self, method: &str, code: impl Fn(&str) -> bool) -> u64 {
        let all = self.requests.iter();
        all.filter(|series| series.method == method && code(&series.code))
            .map(|series| series.count)
            .sum()
    }

    /// Requests of the writing methods POST, PUT, PATCH and DELETE, whatever became of them.
    #[must_use]
    pub fn writes(&self) -> u64 {
        ["POST", "PUT", "PATCH", "DELETE"]
            .iter()
            .map(|method| self.requests(method, |_| true))
            .sum()
    }

    /// Reconciles of all controllers.
    #[must_use]
    pub fn all_reconciles(&self) -> u64 {
        self.reconciles.values().sum()
    }
}

/// One reading of the metrics of one process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Scrape {
    /// The raw bytes, relative to the run's folder.
    pub file: String,
    /// When it was taken.
    pub at: DateTime<Utc>,
    /// Milliseconds since the run began, by a clock that never jumps.
    pub at_ms: u64,
    /// The pod that was asked.
    pub pod: String,
    /// Its UID.
    pub pod_uid: String,
    /// The container's ID.
    pub container_id: Option<String>,
    /// Restarts of the container.
    pub restarts: i32,
    /// `process_start_time_seconds`, in seconds of Unix time.
    pub process_start: f64,
    /// What it said.
    pub counters: Counters,
    /// Why it must not decide a verdict (MET-04, two parsers that disagree), if so.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unsound: Vec<String>,
}

impl Scrape {
    /// Whether both are readings of the same process (MET-01).
    #[must_use]
    pub fn same_process(&self, other: &Self) -> bool {
        self.pod_uid == other.pod_uid
            && self.container_id == other.container_id
            && self.restarts == other.restarts
            && self.process_start.to_bits() == other.process_start.to_bits()
    }
}
