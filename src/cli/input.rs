//! The scenarios, charts and helm programs that several verbs are given.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::Args;

use super::Context;
use super::exit::{Exit, Failure};
use super::output;
use super::plane::BinaryArgs;
use super::validate::with_known;
use crate::helm::{Helm, HelmSettings, MoveOptions};
use crate::host::launch::Launcher;
use crate::plane::PlaneError;
use crate::plane::binaries;
use crate::plane::tool::Tool;
use crate::scenario::{
    self, ChartOverride, Known, Length, Overrides, Plan, Scenario, Source, ValuesOverride,
};

/// What of a scenario is replaced.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Scenario")]
pub(crate) struct OverrideArgs {
    /// Another chart under a name of the scenario: a folder, an archive, or
    /// `oci://HOST/REPOSITORY[:VERSION][@sha256:DIGEST]`; may be repeated.
    #[arg(long, value_name = "NAME=PATH|OCI", env = "AIBOM_QUAL_CHART")]
    chart: Vec<ChartOverride>,
    /// Other values for a chart of the scenario: a file, `chart-default` or `aicr`; may be repeated.
    #[arg(long, value_name = "NAME=FILE", env = "AIBOM_QUAL_VALUES")]
    values: Vec<ValuesOverride>,
    /// Another length of every quiet window, for example 60s.
    #[arg(long, value_name = "LENGTH", env = "AIBOM_QUAL_WINDOW")]
    window: Option<Length>,
    /// Another number of workloads for the step `load`.
    #[arg(long, value_name = "N", env = "AIBOM_QUAL_WORKLOADS")]
    workloads: Option<u32>,
}

impl OverrideArgs {
    /// Reads a scenario, which is a file or the name of a shipped one, and replaces what was asked for.
    /// What is odd about it, but no error, is told.
    pub(crate) fn read(&self, argument: &str) -> Result<Plan, Failure> {
        let source = Source::open(argument).map_err(|error| {
            let hint = error.hint();
            Failure::new(Exit::Input, &error, hint)
        })?;
        let read = with_known(|known| source.read(known));
        let Scenario { plan, warnings } = read.map_err(|findings| Failure {
            exit: Exit::Input,
            message: format!("{argument} cannot be used\n{findings}"),
            hint: None,
        })?;
        if !warnings.list.is_empty() {
            output::note(&warnings.to_string());
        }
        let overrides = Overrides {
            charts: self.chart.clone(),
            values: self.values.clone(),
            window: self.window,
            workloads: self.workloads,
        };
        let plan = plan.with(&overrides).map_err(|error| {
            let hint = error.hint();
            Failure::new(Exit::Input, &error, hint)
        })?;
        if overrides != Overrides::default() {
            with_known(|known| relint(&plan, known))?;
        }
        Ok(plan)
    }
}

/// Whether the plan is sound after the command line has changed it.
fn relint(plan: &Plan, known: &Known<'_>) -> Result<(), Failure> {
    let complaints = scenario::lint(plan, known);
    let lines: Vec<String> = complaints.iter().map(ToString::to_string).collect();
    if scenario::refused(&complaints) {
        return Err(Failure {
            exit: Exit::Input,
            message: format!(
                "{} cannot be used with these flags\n{}",
                plan.name,
                lines.join("\n")
            ),
            hint: complaints.into_iter().find_map(|complaint| complaint.hint),
        });
    }
    lines.iter().for_each(|line| output::note(line));
    Ok(())
}

/// Which helm program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum HelmChoice {
    /// One that is obtained like the programs of a plane.
    Obtained(Tool),
    /// This one.
    Program(PathBuf),
}

impl FromStr for HelmChoice {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(match text {
            "3" => Self::Obtained(Tool::Helm3),
            "4" => Self::Obtained(Tool::Helm4),
            path => Self::Program(path.into()),
        })
    }
}

/// Which helm program, and where programs come from.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Helm")]
pub(crate) struct HelmArgs {
    /// The helm program: a path, or a major version to be found or obtained.
    #[arg(
        long,
        value_name = "PATH|3|4",
        default_value = "4",
        env = "AIBOM_QUAL_HELM"
    )]
    helm: HelmChoice,
}

impl HelmArgs {
    /// The path of the program.
    pub(crate) async fn program(
        &self,
        sources: &BinaryArgs,
        context: &Context,
    ) -> Result<PathBuf, Failure> {
        let tool = match &self.helm {
            HelmChoice::Program(path) => {
                return super::absolute(Some(path.clone())).map(Option::unwrap_or_default);
            }
            HelmChoice::Obtained(tool) => *tool,
        };
        let request = sources.request(vec![tool])?;
        let progress = context.progress();
        let launcher = Launcher::current();
        let found = binaries::ensure(&context.dirs, &launcher, &request, &*progress).await;
        let found = found.map_err(PlaneError::from)?;
        let binary = found.get(tool).ok_or_else(|| Failure {
            exit: Exit::CouldNotRun,
            message: format!("{tool} was not obtained"),
            hint: None,
        })?;
        Ok(binary.path.clone())
    }
}

/// Opens a helm program whose own files lie below `home`.
pub(crate) async fn open_helm(
    program: &Path,
    home: &Path,
    transcripts: PathBuf,
    kubeconfig: PathBuf,
    context: Option<String>,
) -> Result<Helm, Failure> {
    let settings = HelmSettings {
        launcher: Launcher::current(),
        kubeconfig,
        context,
        home: home.to_owned(),
        transcripts,
        moves: MoveOptions::default(),
    };
    Helm::open(program, settings).await.map_err(|error| {
        // A program that the user named is part of the input.
        let hint = error.hint();
        Failure::new(Exit::Input, &error, hint)
    })
}

/// A folder of this process alone, which is gone at its end.
pub(crate) fn private_folder() -> Result<tempfile::TempDir, Failure> {
    let made = tempfile::Builder::new().prefix("aibom-qual-").tempdir();
    made.map_err(|error| Failure {
        exit: Exit::CouldNotRun,
        message: format!("cannot create a temporary folder: {error}"),
        hint: Some("set TMPDIR to a folder with some space".to_owned()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn helm_is_a_major_or_a_path() {
        let read = |text: &str| text.parse::<HelmChoice>().expect("any text is one");
        assert_eq!(read("3"), HelmChoice::Obtained(Tool::Helm3));
        assert_eq!(read("./helm"), HelmChoice::Program("./helm".into()));
    }
}
