//! Argument types without behaviour, one file per verb, and the exit codes.
//!
//! Every flag has an `AIBOM_QUAL_*` variable. Data goes to standard output, everything else to
//! standard error. Errors are printed here and nowhere else.

mod cleanup;
mod cluster;
mod completions;
mod confirm;
mod controller;
mod doctor;
mod exit;
mod input;
mod man;
mod output;
mod plan;
mod plane;
mod progress;
mod report;
mod run;
mod runs;
mod scenarios;
mod schema;
mod signals;
mod validate;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::{ArgAction, Args, Parser, Subcommand};
use tokio::runtime::Builder;

use crate::plane::dirs::Dirs;

pub use exit::{Exit, Failure};
use output::{Color, Format};
use progress::{Level, Progress};

/// Qualifies an upgrade of the k8s-aibom controller against a real Kubernetes API server.
#[derive(Debug, Parser)]
#[command(
    name = "aibom-qual",
    version,
    propagate_version = true,
    max_term_width = 100
)]
#[command(
    after_help = "Exit codes: 0 done or all gates pass, 1 a gate failed, 2 the input is at fault, \
                        3 the measurement is not sound, 4 could not run, 5 a comparison proved nothing, \
                        130 interrupted."
)]
struct Cli {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    verb: Verb,
}

/// Flags of every verb.
#[derive(Debug, Args)]
#[command(next_help_heading = "Global options")]
struct Global {
    /// The form of the data on standard output.
    #[arg(
        long,
        global = true,
        value_name = "FORMAT",
        value_parser = report::Form::everywhere(),
        default_value = "human",
        env = "AIBOM_QUAL_FORMAT"
    )]
    format: report::Form,
    /// When to use colour (`NO_COLOR` is honoured).
    #[arg(
        long,
        global = true,
        value_enum,
        default_value_t,
        env = "AIBOM_QUAL_COLOR"
    )]
    color: Color,
    /// Plain lines instead of progress bars.
    #[arg(long, global = true, env = "AIBOM_QUAL_NO_PROGRESS")]
    no_progress: bool,
    /// Print only results and what must not be missed.
    #[arg(
        short,
        long,
        global = true,
        env = "AIBOM_QUAL_QUIET",
        conflicts_with = "verbose"
    )]
    quiet: bool,
    /// Print also what was tried and how long it took.
    #[arg(short, long, global = true, action = ArgAction::SetTrue, env = "AIBOM_QUAL_VERBOSE")]
    verbose: bool,
    /// Where binaries are kept [default: aibom-qual below XDG_CACHE_HOME or ~/.cache].
    #[arg(long, global = true, value_name = "DIR", env = "AIBOM_QUAL_CACHE_DIR")]
    cache_dir: Option<PathBuf>,
    /// Where planes are kept [default: aibom-qual below XDG_STATE_HOME or ~/.local/state].
    #[arg(long, global = true, value_name = "DIR", env = "AIBOM_QUAL_STATE_DIR")]
    state_dir: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Qualify: execute scenarios, and judge what was seen.
    Run(run::RunArgs),
    /// Tell what a scenario would do and what is expected of it; nothing is touched.
    Plan(plan::PlanArgs),
    /// Find all that is wrong with scenarios, in one pass.
    Validate(validate::ValidateArgs),
    /// Print the JSON Schema of scenarios.
    Schema,
    /// The shipped scenarios.
    #[command(subcommand)]
    Scenarios(scenarios::Verb),
    /// Tell what a run came to.
    Report(report::ReportArgs),
    /// The runs of a folder.
    #[command(subcommand)]
    Runs(runs::Verb),
    /// Remove what a run that was killed left in its cluster.
    Cleanup(cleanup::CleanupArgs),
    /// The private local control plane.
    #[command(subcommand)]
    Plane(plane::Verb),
    /// Run the embedded controller in the foreground.
    Controller(controller::ControllerArgs),
    /// Check this machine: what is there, what is missing, and the command that mends it.
    Doctor(doctor::DoctorArgs),
    /// Print a completion script for a shell.
    Completions(completions::CompletionsArgs),
    /// Print the manual page.
    Man,
}

/// What every verb may use.
#[derive(Debug)]
struct Context {
    format: Format,
    color: Color,
    level: Level,
    bars: bool,
    dirs: Dirs,
}

impl Context {
    fn progress(&self) -> Arc<Progress> {
        Arc::new(Progress::new(self.level, self.bars))
    }
}

impl Global {
    fn context(self) -> Result<Context, Failure> {
        let level = match (self.quiet, self.verbose) {
            (true, _) => Level::Quiet,
            (false, true) => Level::Verbose,
            (false, false) => Level::Normal,
        };
        let dirs = Dirs::resolve(absolute(self.cache_dir)?, absolute(self.state_dir)?)
            .map_err(crate::plane::PlaneError::from)?;
        Ok(Context {
            format: self.format.into(),
            color: self.color,
            level,
            bars: !self.no_progress,
            dirs,
        })
    }
}

/// Components run in their own folder, so that every path that reaches them must be absolute.
fn absolute(path: Option<PathBuf>) -> Result<Option<PathBuf>, Failure> {
    path.map(|path| {
        std::path::absolute(&path).map_err(|error| {
            Failure::input(
                format!("{}: {error}", path.display()),
                "give an absolute path",
            )
        })
    })
    .transpose()
}

/// Runs the command line of this process.
#[must_use]
pub fn main() -> ExitCode {
    // Parsing prints usage errors itself and exits with 2, as the contract says.
    let cli = Cli::parse();
    let color = cli.global.color;
    match dispatch(cli) {
        Ok(exit) => exit.into(),
        Err(failure) => {
            print_failure(&failure, color);
            failure.exit.into()
        }
    }
}

fn dispatch(cli: Cli) -> Result<Exit, Failure> {
    // Two TLS libraries could be meant (kube and reqwest bring their own default); ours is named once.
    // An error means that it was installed before, which is the same outcome.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let context = || cli.global.context();
    match cli.verb {
        Verb::Run(args) => block_on(run::run(args, context()?)),
        Verb::Plan(args) => block_on(plan::run(args, context()?)),
        Verb::Validate(args) => validate::run(&args, &context()?),
        Verb::Schema => schema::run(),
        Verb::Scenarios(verb) => scenarios::run(verb, &context()?),
        Verb::Report(args) => report::run(&args, &context()?),
        Verb::Runs(verb) => runs::run(verb, &context()?),
        Verb::Cleanup(args) => block_on(cleanup::run(args, context()?)),
        Verb::Plane(verb) => block_on(plane::run(verb, context()?)),
        // What it does waits for the server. More threads would only wake one another, at a tenth of the
        // CPU that it is measured by.
        Verb::Controller(args) => {
            block_on_with(Builder::new_current_thread(), controller::run(args))
        }
        Verb::Doctor(args) => block_on(doctor::run(args, context()?)),
        Verb::Completions(args) => completions::run(&args),
        Verb::Man => man::run(),
    }
}

fn block_on(work: impl Future<Output = Result<Exit, Failure>>) -> Result<Exit, Failure> {
    block_on_with(Builder::new_multi_thread(), work)
}

fn block_on_with(
    mut builder: Builder,
    work: impl Future<Output = Result<Exit, Failure>>,
) -> Result<Exit, Failure> {
    let runtime = builder.enable_all().build().map_err(|error| Failure {
        exit: Exit::CouldNotRun,
        message: format!("cannot start the runtime: {error}"),
        hint: None,
    })?;
    runtime.block_on(work)
}

fn print_failure(failure: &Failure, color: Color) {
    let (red, cyan, plain) = if color.on_stderr() {
        ("\u{1b}[1;31m", "\u{1b}[36m", "\u{1b}[0m")
    } else {
        ("", "", "")
    };
    output::note(&format!("{red}error:{plain} {}", failure.message));
    if let Some(hint) = &failure.hint {
        output::note(&format!("\n{cyan}hint:{plain} {hint}"));
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_flag_has_a_variable() {
        fn check(command: &clap::Command, path: &str) {
            for arg in command.get_arguments() {
                let id = arg.get_id().as_str();
                let exempt =
                    matches!(id, "help" | "version") || arg.is_positional() || arg.is_hide_set();
                let env = arg.get_env().and_then(|env| env.to_str());
                assert!(
                    exempt || env.is_some_and(|env| env.starts_with("AIBOM_QUAL_")),
                    "{path} --{id} has no AIBOM_QUAL_ variable"
                );
            }
            for sub in command.get_subcommands() {
                check(sub, &format!("{path} {}", sub.get_name()));
            }
        }
        check(&Cli::command(), "aibom-qual");
    }
}
