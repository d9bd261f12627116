//! `aibom-qual runs`.

use clap::{Args, Subcommand};
use serde::Serialize;

use super::Context;
use super::exit::{Exit, Failure};
use super::output::{self, Format};
use super::report::{OutArg, RunArg};
use crate::error_chain::chain;
use crate::record::{FolderError, RunFile, RunFolder};
use crate::report::{self, RunView};

/// The verbs of `runs`.
#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// List the runs of a folder.
    List(ListArgs),
    /// Tell what a run was about and what it came to.
    Show(ShowArgs),
}

/// Arguments of `runs list`.
#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    out: OutArg,
}

/// Arguments of `runs show`.
#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    #[command(flatten)]
    run: RunArg,
}

/// What `runs list --format json` prints for one run.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Listed {
    run: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    scenario: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    started_at: Option<chrono::DateTime<chrono::Utc>>,
    /// The exit code, if it ended by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    exit: Option<u8>,
    /// Why it cannot be read, if so.
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
}

impl Listed {
    fn new(run: String, file: Result<RunFile, FolderError>) -> Self {
        match file {
            Ok(file) => Self {
                run,
                scenario: Some(file.plan.name),
                started_at: Some(file.started_at),
                exit: file.outcome.map(|outcome| outcome.exit),
                problem: None,
            },
            Err(error) => Self {
                run,
                scenario: None,
                started_at: None,
                exit: None,
                problem: Some(chain(&error)),
            },
        }
    }

    fn row(self) -> Vec<String> {
        let dash = || "-".to_owned();
        let came_to = match (&self.problem, self.exit) {
            (Some(problem), _) => problem.clone(),
            (None, exit) => report::Standing::of(exit).to_string(),
        };
        let started = self
            .started_at
            .map(|at| at.format("%Y-%m-%d %H:%M:%S").to_string());
        vec![
            self.run,
            self.scenario.unwrap_or_else(dash),
            started.unwrap_or_else(dash),
            came_to,
        ]
    }
}

pub(crate) fn run(verb: Verb, context: &Context) -> Result<Exit, Failure> {
    match verb {
        Verb::List(args) => list(&args, context),
        Verb::Show(args) => show(&args, context),
    }
}

fn list(args: &ListArgs, context: &Context) -> Result<Exit, Failure> {
    let runs = RunFolder::list(&args.out.out)?;
    let runs: Vec<Listed> = runs
        .iter()
        .map(|folder| Listed::new(folder.name(), folder.read_run()))
        .collect();
    if context.format == Format::Json {
        output::json(&runs)?;
    } else if runs.is_empty() {
        output::note(&format!("no runs in {}", args.out.out.display()));
    } else {
        let rows = runs.into_iter().map(Listed::row).collect();
        output::data(&output::table(
            &["RUN", "SCENARIO", "STARTED (UTC)", "CAME TO"],
            rows,
        ))?;
    }
    Ok(Exit::Pass)
}

fn show(args: &ShowArgs, context: &Context) -> Result<Exit, Failure> {
    let (folder, loaded) = args.run.load()?;
    if context.format == Format::Json {
        output::json(&loaded.run)?;
        return Ok(Exit::Pass);
    }
    let timeline = report::timeline(&RunView::of(&loaded));
    let (width, color) = (output::width(), context.color.on_stdout());
    output::data(&report::headline(&timeline, width, color))?;
    output::data(&format!("\nfolder  {}\n", folder.path().display()))?;
    Ok(Exit::Pass)
}
