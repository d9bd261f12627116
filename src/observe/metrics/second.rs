//! The second reader.

use std::collections::BTreeMap;
use std::io;

use prometheus_parse::{Scrape, Value};

use super::NEEDED;
use super::text::Exposition;

type Labels = BTreeMap<String, String>;

/// Where the second reader sees something else in the needed families, one line each.
pub(super) fn differences(text: &str, first: &Exposition<'_>) -> Vec<String> {
    let lines = text.lines().map(|line| io::Result::Ok(line.to_owned()));
    let second = match Scrape::parse(lines) {
        Ok(second) => second,
        Err(error) => return vec![format!("the second reader fails: {error}")],
    };
    let mut differences = Vec::new();
    for family in NEEDED {
        let mut others: BTreeMap<Labels, Vec<f64>> = BTreeMap::new();
        for sample in second.samples.iter().filter(|other| other.metric == family) {
            let labels = sample.labels.iter();
            let labels = labels.map(|(key, value)| (key.clone(), value.clone()));
            let values = others.entry(labels.collect()).or_default();
            match sample.value {
                Value::Counter(value) | Value::Gauge(value) | Value::Untyped(value) => {
                    values.push(value);
                }
                Value::Histogram(_) | Value::Summary(_) => {
                    differences.push(format!("{family} is a distribution for the second reader"))
                }
            }
        }
        for sample in first.samples.iter().filter(|own| own.name == family) {
            let labels: Labels = sample
                .labels
                .iter()
                .map(|(key, value)| ((*key).to_owned(), value.clone().into_owned()))
                .collect();
            let line = sample.line;
            let own = sample.value;
            match others.remove(&labels).as_deref() {
                Some([other]) if same(own, *other) => {}
                Some([other]) => differences.push(format!(
                    "line {line}: {} is {own}, and {other} for the second reader",
                    series(family, &labels)
                )),
                Some(several) => differences.push(format!(
                    "line {line}: the second reader sees {} {} times",
                    series(family, &labels),
                    several.len()
                )),
                None => differences.push(format!(
                    "line {line}: the second reader does not see {}",
                    series(family, &labels)
                )),
            }
        }
        let only = others.keys();
        differences.extend(
            only.map(|labels| format!("only the second reader sees {}", series(family, labels))),
        );
    }
    differences
}

fn same(one: f64, other: f64) -> bool {
    one.to_bits() == other.to_bits() || one.is_nan() && other.is_nan()
}

fn series(family: &str, labels: &Labels) -> String {
    let labels: Vec<String> = labels
        .iter()
        .map(|(key, value)| format!("{key}={value:?}"))
        .collect();
    format!("{family}{{{}}}", labels.join(","))
}
