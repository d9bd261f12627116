//! From the text of `/metrics` to the [counters](Counters) that verdicts are made of.
//!
//! Two readers see every text: the strict one of [`text`], and `prometheus-parse`, which never
//! reports an error and drops what it does not understand. For each family in [`NEEDED`] both must
//! see the same samples with the same labels and values; whatever is else, the reading says so itself
//! and must not decide a verdict (`design.md` 7).

mod counters;
mod second;
#[cfg(test)]
mod tests;
pub mod text;

use crate::record::Counters;

/// The families that verdicts use. A text without one of them is not complete (MET-04).
pub const NEEDED: [&str; 8] = [
    REQUESTS,
    RECONCILES,
    RECONCILE_ERRORS,
    QUEUE_DEPTH,
    QUEUE_RETRIES,
    CPU_SECONDS,
    RESIDENT_BYTES,
    PROCESS_START,
];

const REQUESTS: &str = "rest_client_requests_total";
const RECONCILES: &str = "controller_runtime_reconcile_total";
const RECONCILE_ERRORS: &str = "controller_runtime_reconcile_errors_total";
const QUEUE_DEPTH: &str = "workqueue_depth";
const QUEUE_RETRIES: &str = "workqueue_retries_total";
const CPU_SECONDS: &str = "process_cpu_seconds_total";
const RESIDENT_BYTES: &str = "process_resident_memory_bytes";
const PROCESS_START: &str = "process_start_time_seconds";

/// What one text says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reading {
    /// `process_start_time_seconds`, in seconds of Unix time; 0 when it is not sound.
    pub process_start: f64,
    /// The counters; what is not sound counts as 0.
    pub counters: Counters,
    /// Why this must not decide a verdict; empty when it may.
    pub unsound: Vec<String>,
    /// Every line that is no exposition format, in words. One that belongs to a needed family, or may
    /// belong to one, is told in `unsound` as well.
    pub bad_lines: Vec<String>,
}

/// Reads the body of an answer.
#[must_use]
pub fn read(body: &[u8]) -> Reading {
    let mut unsound = Vec::new();
    if let Err(error) = std::str::from_utf8(body) {
        let at = error.valid_up_to();
        unsound.push(format!("the byte at offset {at} is not UTF-8"));
    }
    let text = String::from_utf8_lossy(body);
    let exposition = text::parse(&text);
    for bad in &exposition.bad {
        if bad.family.is_none_or(|family| NEEDED.contains(&family)) {
            unsound.push(bad.to_string());
        }
    }
    unsound.extend(second::differences(&text, &exposition));
    let mut reader = counters::Reader::new(&exposition);
    let (process_start, counters) = reader.read();
    unsound.extend(reader.unsound);
    Reading {
        process_start,
        counters,
        unsound,
        bad_lines: exposition.bad.iter().map(ToString::to_string).collect(),
    }
}
