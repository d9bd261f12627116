//! `aibom-qual validate`.

use std::fmt::Write as _;

use clap::Args;
use serde::Serialize;

use super::Context;
use super::exit::{Exit, Failure};
use super::output::{self, Format};
use super::progress::Level;
use crate::error_chain::chain;
use crate::scenario::{Finding, Findings, Known, Rule, Scenario, Severity, Source, SourceError};
use crate::workloads::Mix;

/// Arguments of `validate`.
#[derive(Debug, Args)]
pub(crate) struct ValidateArgs {
    /// Scenarios: files, or names of shipped ones.
    #[arg(value_name = "FILE", required_unless_present = "explain")]
    files: Vec<String>,
    /// Say what a rule is about instead, for example S003.
    #[arg(
        long,
        value_name = "RULE",
        conflicts_with = "files",
        env = "AIBOM_QUAL_EXPLAIN"
    )]
    explain: Option<Rule>,
}

/// Calls `work` with the words that scenarios use and other rooms define.
pub(crate) fn with_known<T>(work: impl FnOnce(&Known<'_>) -> T) -> T {
    let checks: Vec<&str> = crate::gates::catalogue()
        .iter()
        .map(|check| check.id)
        .collect();
    let mixes = Mix::ALL.map(|mix| mix.to_string());
    let mixes: Vec<&str> = mixes.iter().map(String::as_str).collect();
    work(&Known {
        checks: &checks,
        mixes: &mixes,
    })
}

pub(crate) fn run(args: &ValidateArgs, context: &Context) -> Result<Exit, Failure> {
    if let Some(rule) = args.explain {
        explain(rule, context.format)?;
        return Ok(Exit::Pass);
    }
    let outcomes: Vec<Outcome> =
        with_known(|known| args.files.iter().map(|file| judge(file, known)).collect());
    match context.format {
        Format::Human => output::data(&render(&outcomes))?,
        Format::Json => {
            let files: Vec<FileReport<'_>> = outcomes.iter().map(Outcome::report).collect();
            output::json(&Report { files })?;
        }
    }
    let errors: usize = outcomes.iter().map(Outcome::errors).sum();
    let broken = |outcome: &Outcome| matches!(outcome.read, Ok(Err(_)));
    if outcomes.iter().any(broken) && context.level != Level::Quiet {
        output::note("`aibom-qual validate --explain RULE` says what a rule is about");
    }
    Ok(if errors == 0 { Exit::Pass } else { Exit::Input })
}

/// What became of one file.
struct Outcome {
    file: String,
    read: Result<Result<Scenario, Findings>, SourceError>,
}

fn judge(file: &str, known: &Known<'_>) -> Outcome {
    Outcome {
        file: file.to_owned(),
        read: Source::open(file).map(|source| source.read(known)),
    }
}

impl Outcome {
    fn findings(&self) -> Option<&Findings> {
        match &self.read {
            Ok(Ok(scenario)) => Some(&scenario.warnings),
            Ok(Err(findings)) => Some(findings),
            Err(_) => None,
        }
    }

    fn errors(&self) -> usize {
        let findings = self.findings();
        findings.map_or(1, |findings| findings.count(Severity::Error))
    }

    fn report(&self) -> FileReport<'_> {
        let list = self.findings().map(|findings| findings.list.as_slice());
        FileReport {
            file: &self.file,
            valid: self.errors() == 0,
            unreadable: self.read.as_ref().err().map(|error| chain(error)),
            findings: list.unwrap_or_default().iter().map(Item::from).collect(),
        }
    }
}

fn render(outcomes: &[Outcome]) -> String {
    let mut text = String::new();
    // Writing to a text cannot fail.
    for outcome in outcomes {
        let file = &outcome.file;
        if let Some(findings) = outcome.findings().filter(|found| !found.list.is_empty()) {
            let _ = writeln!(text, "{findings}");
        }
        match &outcome.read {
            Ok(Ok(scenario)) => {
                let steps = scenario.plan.steps.len();
                let name = &scenario.plan.name;
                let _ = writeln!(text, "{file}: scenario `{name}` is valid, {steps} steps");
            }
            Ok(Err(_)) => {}
            Err(error) => {
                let _ = writeln!(text, "{file}: error: {}", chain(error));
                if let Some(hint) = error.hint() {
                    let _ = writeln!(text, "  help: {hint}");
                }
            }
        }
    }
    text
}

fn explain(rule: Rule, format: Format) -> Result<(), Failure> {
    match format {
        Format::Human => output::data(&format!(
            "{rule} ({severity})\n\n{help}\n",
            severity = rule.severity(),
            help = rule.help()
        )),
        Format::Json => output::json(&Explanation {
            rule,
            severity: rule.severity(),
            help: rule.help(),
        }),
    }
}

#[derive(Serialize)]
struct Explanation {
    rule: Rule,
    severity: Severity,
    help: &'static str,
}

#[derive(Serialize)]
struct Report<'a> {
    files: Vec<FileReport<'a>>,
}

#[derive(Serialize)]
struct FileReport<'a> {
    file: &'a str,
    /// Whether it can be run.
    valid: bool,
    /// Why there was nothing to read.
    #[serde(skip_serializing_if = "Option::is_none")]
    unreadable: Option<String>,
    findings: Vec<Item<'a>>,
}

#[derive(Serialize)]
struct Item<'a> {
    rule: Rule,
    severity: Severity,
    line: usize,
    column: usize,
    message: &'a str,
    hint: Option<&'a str>,
}

impl<'a> From<&'a Finding> for Item<'a> {
    fn from(finding: &'a Finding) -> Self {
        Self {
            rule: finding.rule,
            severity: finding.rule.severity(),
            line: finding.at.line,
            column: finding.at.column,
            message: &finding.message,
            hint: finding.hint.as_deref(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(outcome: &Outcome) -> serde_json::Value {
        serde_json::to_value(outcome.report()).expect("JSON")
    }

    #[test]
    fn every_file_has_its_say() {
        let outcomes: Vec<Outcome> = with_known(|known| {
            ["v1.3-to-v1.5", "v1.3-to-v1.6"]
                .iter()
                .map(|file| judge(file, known))
                .collect()
        });
        assert_eq!(
            render(&outcomes),
            "v1.3-to-v1.5: scenario `v1.3-to-v1.5` is valid, 10 steps\n\
             v1.3-to-v1.6: error: `v1.3-to-v1.6` is neither a file nor the name of a shipped scenario\n  \
             help: did you mean `v1.3-to-v1.5`?\n"
        );
        assert_eq!(json(&outcomes[0])["valid"], true);
        assert_eq!(json(&outcomes[1])["valid"], false);
    }
}
