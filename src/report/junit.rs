//! The verdicts as JUnit XML: one suite per group of checks.

use super::timeline::Timeline;
use super::verdicts::{GroupRow, Standing, group};
use crate::record::{CheckResult, Verdict};

/// Writes the verdicts. A run that gave none, or could not go on, is an error in a suite of its own, so
/// that nobody takes it for a run without failures.
#[must_use]
pub fn junit(timeline: &Timeline) -> String {
    let verdicts = &timeline.verdicts;
    let stopped = stopped(timeline);
    let total = verdicts.total();
    let extra = u64::from(stopped.is_some());
    let mut text = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    text.push_str(&format!(
        "<testsuites name=\"{}\" tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\" \
         time=\"{:.3}\">\n",
        escaped(&timeline.scenario),
        verdicts.checks.len() as u64 + extra,
        total.fail,
        total.invalid + extra,
        total.not_applicable,
        timeline.seconds
    ));
    if let Some(reason) = stopped {
        text.push_str(&format!(
            "  <testsuite name=\"run\" tests=\"1\" failures=\"0\" errors=\"1\" skipped=\"0\">\n    \
             <testcase classname=\"{}\" name=\"the run ends as planned\">\n      \
             <error message=\"{}\"/>\n    </testcase>\n  </testsuite>\n",
            escaped(&timeline.scenario),
            escaped(&reason)
        ));
    }
    for row in &verdicts.groups {
        suite(&mut text, timeline, row);
    }
    text.push_str("</testsuites>\n");
    text
}

/// Why there may be verdicts missing.
fn stopped(timeline: &Timeline) -> Option<String> {
    let verdicts = &timeline.verdicts;
    let standing = verdicts.standing;
    match (&verdicts.aborted, standing) {
        (Some(reason), _) => Some(reason.clone()),
        (None, Standing::Unfinished | Standing::CouldNotRun | Standing::Interrupted) => {
            Some(format!("the run: {standing}"))
        }
        (None, _) if verdicts.checks.is_empty() => Some("nothing was checked".to_owned()),
        (None, _) => None,
    }
}

fn suite(text: &mut String, timeline: &Timeline, row: &GroupRow) {
    let checks = timeline.verdicts.checks.iter();
    let checks: Vec<&CheckResult> = checks
        .filter(|check| group(&check.id) == row.group)
        .collect();
    text.push_str(&format!(
        "  <testsuite name=\"{}\" tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\" \
         timestamp=\"{}\">\n",
        escaped(&row.group),
        checks.len(),
        row.fail,
        row.invalid,
        row.not_applicable,
        timeline.started_at.format("%Y-%m-%dT%H:%M:%S")
    ));
    for check in checks {
        case(text, timeline, check);
    }
    text.push_str("  </testsuite>\n");
}

fn case(text: &mut String, timeline: &Timeline, check: &CheckResult) {
    let step = check.step.and_then(|step| {
        let row = timeline.steps.iter().find(|row| row.step == step)?;
        Some(format!(" after step {step} ({})", row.action))
    });
    text.push_str(&format!(
        "    <testcase classname=\"{}.{}\" name=\"{}{}\"",
        escaped(&timeline.scenario),
        escaped(group(&check.id)),
        escaped(&check.id),
        escaped(&step.unwrap_or_default())
    ));
    let summary = escaped(&check.summary);
    let details = escaped(&check.details.join("\n"));
    let inner = match check.verdict {
        Verdict::Pass if check.finding => {
            format!("<system-out>finding: {summary}\n{details}</system-out>")
        }
        Verdict::Pass => {
            text.push_str("/>\n");
            return;
        }
        Verdict::Fail => format!("<failure message=\"{summary}\">{details}</failure>"),
        Verdict::Invalid => format!("<error message=\"{summary}\">{details}</error>"),
        Verdict::Expected => {
            format!("<system-out>failed as declared: {summary}\n{details}</system-out>")
        }
        Verdict::NotApplicable => format!("<skipped message=\"{summary}\"/>"),
    };
    text.push_str(&format!(">\n      {inner}\n    </testcase>\n"));
}

/// XML has no place for most control characters, not even as references.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\n' => escaped.push_str("&#10;"),
            '\t' => escaped.push(' '),
            letter if letter.is_control() || matches!(letter, '\u{fffe}' | '\u{ffff}') => {
                escaped.push('\u{fffd}');
            }
            letter => escaped.push(letter),
        }
    }
    escaped
}
