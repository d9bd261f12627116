//! The counters in a text, and what is wrong with them.

use std::collections::BTreeMap;

use super::text::{Exposition, Sample};
use super::{
    CPU_SECONDS, PROCESS_START, QUEUE_DEPTH, QUEUE_RETRIES, RECONCILE_ERRORS, RECONCILES, REQUESTS,
    RESIDENT_BYTES,
};
use crate::record::{Counters, RequestCount};

/// Up to here every whole number is a float of its own, so that no count was lost.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// Takes the counters out of a text.
pub(super) struct Reader<'a> {
    exposition: &'a Exposition<'a>,
    pub(super) unsound: Vec<String>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(exposition: &'a Exposition<'a>) -> Self {
        Self {
            exposition,
            unsound: Vec::new(),
        }
    }

    /// The start of the process, in seconds of Unix time, and the counters.
    pub(super) fn read(&mut self) -> (f64, Counters) {
        let process_start = self.single(PROCESS_START);
        let counters = Counters {
            requests: self.requests(),
            reconciles: self.reconciles(),
            reconcile_errors: self.sum(RECONCILE_ERRORS),
            queue_depth: self.sum(QUEUE_DEPTH),
            queue_retries: self.sum(QUEUE_RETRIES),
            cpu_seconds: self.single(CPU_SECONDS),
            resident_bytes: self.sum(RESIDENT_BYTES),
        };
        (process_start, counters)
    }

    fn requests(&mut self) -> Vec<RequestCount> {
        let mut sums: BTreeMap<(String, String), u64> = BTreeMap::new();
        for sample in self.samples(REQUESTS) {
            let method = self.label(sample, "method");
            let code = self.label(sample, "code");
            let count = self.count(sample);
            let sum = sums.entry((method, code)).or_default();
            *sum = sum.saturating_add(count);
        }
        sums.into_iter()
            .map(|((method, code), count)| RequestCount {
                method,
                code,
                count,
            })
            .collect()
    }

    fn reconciles(&mut self) -> BTreeMap<String, u64> {
        let mut sums: BTreeMap<String, u64> = BTreeMap::new();
        for sample in self.samples(RECONCILES) {
            let controller = self.label(sample, "controller");
            let count = self.count(sample);
            let sum = sums.entry(controller).or_default();
            *sum = sum.saturating_add(count);
        }
        sums
    }

    /// All samples of a family as one count.
    fn sum(&mut self, family: &'static str) -> u64 {
        let samples = self.samples(family);
        samples
            .into_iter()
            .fold(0, |sum: u64, sample| sum.saturating_add(self.count(sample)))
    }

    /// The only sample of a family.
    fn single(&mut self, family: &'static str) -> f64 {
        match self.samples(family)[..] {
            [] => 0.0,
            [sample] if sample.value.is_finite() && sample.value >= 0.0 => sample.value,
            [sample] => self.refuse(sample, 0.0),
            [_, second, ..] => {
                let line = second.line;
                self.unsound
                    .push(format!("line {line}: {family} is there more than once"));
                0.0
            }
        }
    }

    fn samples(&mut self, family: &'static str) -> Vec<&'a Sample<'a>> {
        let samples = self.exposition.samples.iter();
        let found: Vec<_> = samples.filter(|sample| sample.name == family).collect();
        if found.is_empty() {
            self.unsound.push(format!("there is no {family}"));
        }
        found
    }

    fn count(&mut self, sample: &Sample<'_>) -> u64 {
        let value = sample.value;
        // NaN is in no range.
        if !(0.0..=EXACT).contains(&value) || value.fract() != 0.0 {
            return self.refuse(sample, 0);
        }
        value as u64
    }

    fn label(&mut self, sample: &Sample<'_>, label: &'static str) -> String {
        if let Some(value) = sample.labels.get(label) {
            return value.clone().into_owned();
        }
        let Sample { line, name, .. } = sample;
        self.unsound
            .push(format!("line {line}: {name} without the label {label}"));
        String::new()
    }

    fn refuse<T>(&mut self, sample: &Sample<'_>, instead: T) -> T {
        let Sample {
            line, name, value, ..
        } = sample;
        self.unsound
            .push(format!("line {line}: {name} is {value}, which cannot be"));
        instead
    }
}
