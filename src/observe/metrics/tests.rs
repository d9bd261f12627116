//! Golden texts, hostile ones, and what is printed and read again.

use std::borrow::Cow;
use std::fmt::Write as _;

use proptest::collection::{btree_map, vec};
use proptest::prelude::*;

use super::text::{Labels, Sample, parse};
use super::*;
use crate::record::RequestCount;

const RESTART: &str = include_str!("../../../fixtures/metrics/restart.prom");
const OPENMETRICS: &str = include_str!("../../../fixtures/metrics/openmetrics.prom");
const HOSTILE: &str = include_str!("../../../fixtures/metrics/hostile.prom");

fn unsound(text: &str) -> Vec<String> {
    read(text.as_bytes()).unsound
}

#[test]
fn a_real_text_is_sound_and_its_counters_are_summed() {
    let reading = read(RESTART.as_bytes());
    assert_eq!(reading.unsound, Vec::<String>::new());
    assert_eq!(reading.bad_lines, Vec::<String>::new());
    assert_eq!(reading.process_start, 1_767_225_600.42);
    let counters = reading.counters;
    let series = |method: &str, code: &str, count| RequestCount {
        method: method.to_owned(),
        code: code.to_owned(),
        count,
    };
    assert_eq!(
        counters.requests,
        [
            // Over both hosts.
            series("GET", "200", 11),
            series("GET", "<error>", 1),
            series("POST", "201", 1),
            series("PUT", "200", 1_010),
            series("PUT", "409", 2),
        ]
    );
    assert_eq!(counters.writes(), 1_013);
    assert_eq!(counters.reconciles["deployment"], 1_009);
    assert_eq!(counters.all_reconciles(), 1_010);
    assert_eq!((counters.reconcile_errors, counters.queue_retries), (0, 7));
    assert_eq!(counters.queue_depth, 4);
    assert_eq!(counters.cpu_seconds, 2.21);
    assert_eq!(counters.resident_bytes, 109_051_904);
}

#[test]
fn a_text_without_a_needed_family_is_not_complete() {
    for family in NEEDED {
        let without: Vec<&str> = RESTART
            .lines()
            .filter(|line| !line.starts_with(family))
            .collect();
        let text = without.join("\n") + "\n";
        assert_eq!(unsound(&text), [format!("there is no {family}")]);
    }
    assert_eq!(unsound("").len(), NEEDED.len());
}

#[test]
fn a_count_that_cannot_be_one_is_named_with_its_line() {
    let series = "workqueue_retries_total{controller=\"deployment\",name=\"deployment\"} ";
    for value in ["NaN", "+Inf", "-1", "1.5", "1e16"] {
        let text = RESTART.replace(&format!("{series}7\n"), &format!("{series}{value}\n"));
        let unsound = unsound(&text);
        assert_eq!(unsound.len(), 1, "{unsound:?}");
        let line = text.lines().position(|line| line.starts_with(series));
        let line = line.expect("a line") + 1;
        assert!(
            unsound[0].starts_with(&format!("line {line}: workqueue_retries_total is ")),
            "{unsound:?}"
        );
    }
    let text = RESTART.replace(
        "process_cpu_seconds_total 2.21",
        "process_cpu_seconds_total NaN",
    );
    assert!(unsound(&text)[0].contains("process_cpu_seconds_total is NaN"));
    assert_eq!(read(text.as_bytes()).counters.cpu_seconds, 0.0);
}

#[test]
fn a_needed_series_without_its_labels_or_twice_is_not_sound() {
    let text = RESTART.replace(",method=\"PUT\"} 2\n", "} 2\n");
    let unsound = unsound(&text);
    assert!(
        unsound[0].ends_with("without the label method"),
        "{unsound:?}"
    );
    let text = RESTART.to_owned() + "process_start_time_seconds{of=\"another\"} 1\n";
    let unsound = self::unsound(&text);
    assert!(
        unsound[0].ends_with("is there more than once"),
        "{unsound:?}"
    );
    let text = RESTART.to_owned() + "process_cpu_seconds_total 2.21\n";
    let unsound = self::unsound(&text);
    assert!(
        unsound[0].contains("this series was there already"),
        "{unsound:?}"
    );
}

#[test]
fn a_bad_line_counts_when_it_is_or_may_be_of_a_needed_family() {
    let other = RESTART.to_owned() + "go_goroutines{ 1\n";
    let reading = read(other.as_bytes());
    assert_eq!(reading.unsound, Vec::<String>::new());
    assert_eq!(reading.bad_lines.len(), 1);
    for line in [
        "workqueue_depth{name=\"x\"} ten\n",
        "\u{fffd}\n",
        "work-queue_depth 1\n",
    ] {
        let unsound = unsound(&(RESTART.to_owned() + line));
        assert_eq!(unsound.len(), 1, "{line:?}: {unsound:?}");
    }
    // Nobody knows what a line that was cut off would have been.
    let cut = &RESTART[..RESTART.len() - 3];
    let reading = read(cut.as_bytes());
    assert!(
        reading.unsound[0].contains("the text ends in the middle of this line"),
        "{:?}",
        reading.unsound
    );
}

#[test]
fn where_the_second_reader_sees_something_else_the_reading_is_not_sound() {
    let of_depth = |labels: &str| {
        let line = format!("workqueue_depth{{{labels}}} 0\n");
        let unsound = unsound(&(RESTART.to_owned() + &line));
        assert!(!unsound.is_empty(), "{labels}");
        unsound.join("; ")
    };
    assert!(of_depth("name=\"a}b\"").contains("the second reader does not see workqueue_depth{"));
    let with_comma = of_depth("name=\"1,2\"");
    assert!(with_comma.contains("does not see"), "{with_comma}");
    assert!(
        with_comma.contains("only the second reader sees"),
        "{with_comma}"
    );
    of_depth("name=\"a=b\"");
    of_depth("name=\"a\\\\b\"");
    of_depth("name=\"a\", priority=\"1\"");
    // In a family that no verdict uses, nobody minds.
    let other = RESTART.to_owned() + "go_info{version=\"a}b\"} 1\n";
    assert_eq!(unsound(&other), Vec::<String>::new());
}

#[test]
fn bytes_that_are_no_text_are_not_sound() {
    let mut bytes = RESTART.as_bytes().to_vec();
    bytes.extend(b"go_info{version=\"\xff\"} 1\n");
    let reading = read(&bytes);
    let offset = RESTART.len() + "go_info{version=\"".len();
    assert_eq!(
        reading.unsound,
        [format!("the byte at offset {offset} is not UTF-8")]
    );
}

#[test]
fn openmetrics_is_read_to_its_end() {
    let exposition = parse(OPENMETRICS);
    assert_eq!(exposition.bad, []);
    let values: Vec<f64> = exposition
        .samples
        .iter()
        .map(|sample| sample.value)
        .collect();
    assert_eq!(values, [11.0, 1_010.0, 1.0, 1_767_225_600.0]);
    let more = OPENMETRICS.to_owned() + "\nlate 1\n";
    let bad = parse(&more).bad.remove(0);
    assert_eq!((bad.line, bad.family), (11, None));
    // The second reader agrees about what is needed.
    let unsound = unsound(OPENMETRICS);
    assert!(
        unsound
            .iter()
            .all(|reason| reason.starts_with("there is no ")),
        "{unsound:?}"
    );
}

#[test]
fn hostile_lines_are_told_one_by_one_and_the_rest_is_read() {
    let exposition = parse(HOSTILE);
    let read: Vec<(usize, f64)> = exposition
        .samples
        .iter()
        .filter(|sample| sample.name == "allowed" && !sample.value.is_nan())
        .map(|sample| (sample.line, sample.value))
        .collect();
    assert_eq!(
        read,
        [
            (2, 1.0),
            (4, 1000.0),
            (5, 2.0),
            (7, 3.0),
            (11, f64::NEG_INFINITY)
        ]
    );
    let escaped = &exposition.samples[3].labels["a"];
    assert_eq!(escaped, "q\"uo\\te\n{x=\"1\",}");
    let bad: Vec<String> = exposition.bad.iter().map(ToString::to_string).collect();
    assert_eq!(
        bad,
        [
            "line 13:13: a label's value without quotes (bad_label)",
            "line 15:17: not a value (bad_value)",
            "line 17:18: not a value (bad_value)",
            "line 19:18: not a value (bad_value)",
            "line 21:18: not a value (bad_value)",
            "line 23:15: no such escape in a label's value (bad_escape)",
            "line 25:14: a label's value without an end (bad_quote)",
            "line 27:17: this label was there already (bad_twice)",
            "line 30:1: this series was there already (bad_series)",
            "line 32:14: there is more than a value and a timestamp (bad_more)",
            "line 34:4: not a metric's name",
            "line 36:1: not a metric's name",
            "line 38:17: not a type of a family (bad_type)",
            "line 40:8: this family has a type already (bad_type)",
            "line 42:1: the text ends in the middle of this line",
        ]
    );
}

/// Name, labels and value.
type Series = (String, Vec<(String, String)>, f64);

/// A text of these series.
fn print(samples: &[Series]) -> String {
    samples.iter().fold(String::new(), |mut text, sample| {
        let (name, labels, value) = sample;
        text.push_str(name);
        if !labels.is_empty() {
            let labels: Vec<String> = labels
                .iter()
                .map(|(key, value)| {
                    let value = value.replace('\\', "\\\\").replace('"', "\\\"");
                    format!("{key}=\"{}\"", value.replace('\n', "\\n"))
                })
                .collect();
            let _ = write!(text, "{{{}}}", labels.join(","));
        }
        let _ = writeln!(text, " {value:e}");
        text
    })
}

proptest! {
    #[test]
    fn what_is_printed_is_read(
        samples in vec(
            ("[a-zA-Z_:][a-zA-Z0-9_:]{0,8}",
             btree_map("[a-zA-Z_][a-zA-Z0-9_]{0,4}", any::<String>(), 0..4),
             any::<f64>().prop_filter("NaN is not itself", |value| value.is_finite())),
            0..12,
        )
    ) {
        // Numbered, so that no series is there twice.
        let samples: Vec<_> = samples
            .into_iter()
            .enumerate()
            .map(|(index, (name, labels, value))| {
                (format!("{name}{index}"), labels.into_iter().collect(), value)
            })
            .collect();
        let text = print(&samples);
        let exposition = parse(&text);
        prop_assert_eq!(&exposition.bad, &vec![]);
        let expected: Vec<Sample<'_>> = samples
            .iter()
            .enumerate()
            .map(|(index, (name, labels, value))| Sample {
                name,
                labels: labels
                    .iter()
                    .map(|(key, value)| (key.as_str(), Cow::Borrowed(value.as_str())))
                    .collect::<Labels<'_>>(),
                value: *value,
                line: index + 1,
            })
            .collect();
        prop_assert_eq!(exposition.samples, expected);
    }

    #[test]
    fn no_text_is_dropped_without_a_word(text in any::<String>()) {
        let text = text + "\n";
        let exposition = parse(&text);
        let told = exposition.samples.len() + exposition.bad.len();
        let comments = text.split('\n').filter(|line| {
            let line = line.trim_matches(['\r', ' ', '\t']);
            line.is_empty() || line.starts_with('#')
        });
        prop_assert!(told + comments.count() >= text.split('\n').count());
        let _ = read(text.as_bytes());
    }

    #[test]
    fn one_changed_byte_is_read_or_told(index in 0..RESTART.len(), byte in any::<u8>()) {
        let mut bytes = RESTART.as_bytes().to_vec();
        bytes[index] = byte;
        let reading = read(&bytes);
        // It may be a sound reading of something else, but never one with a hole.
        if reading.unsound.is_empty() {
            let text = String::from_utf8(bytes).expect("text");
            let exposition = parse(&text);
            for family in NEEDED {
                prop_assert!(exposition.samples.iter().any(|sample| sample.name == family));
            }
        }
    }
}
