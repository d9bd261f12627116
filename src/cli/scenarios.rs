//! `aibom-qual scenarios …`: the shipped scenarios, which need no checkout.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use serde::Serialize;

use super::Context;
use super::exit::{Exit, Failure};
use super::output::{self, Format};
use super::validate::with_known;
use crate::helm::embedded::{CHARTS, Embedded};
use crate::scenario::{self, ChartSource, Shipped, Source, shipped};

/// What to do with the shipped scenarios.
#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// List them.
    List,
    /// Write one, or all, into a new folder, with the charts that they name.
    Export(ExportArgs),
}

/// Arguments of `scenarios export`.
#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    /// The scenario [default: all of them].
    name: Option<String>,
    /// The folder, which is made: nothing is ever overwritten.
    #[arg(
        long = "to",
        value_name = "DIR",
        default_value = "aibom-qual-scenarios",
        env = "AIBOM_QUAL_TO"
    )]
    folder: PathBuf,
}

#[derive(Serialize)]
struct Row {
    name: &'static str,
    summary: &'static str,
}

#[derive(Serialize)]
struct Exported<'a> {
    folder: &'a Path,
    files: &'a [PathBuf],
}

pub(crate) fn run(verb: Verb, context: &Context) -> Result<Exit, Failure> {
    match verb {
        Verb::List => list(context.format)?,
        Verb::Export(args) => {
            let files = export(args.name.as_deref(), &args.folder)?;
            match context.format {
                Format::Json => output::json(&Exported {
                    folder: &args.folder,
                    files: &files,
                })?,
                Format::Human => {
                    let scenarios = files.iter().filter(|file| file.starts_with("scenarios"));
                    let lines = scenarios
                        .map(|file| format!("{}\n", args.folder.join(file).display()))
                        .collect::<String>();
                    output::data(&lines)?;
                }
            }
        }
    }
    Ok(Exit::Pass)
}

fn list(format: Format) -> Result<(), Failure> {
    match format {
        Format::Json => {
            let rows: Vec<Row> = shipped()
                .iter()
                .map(|shipped| Row {
                    name: shipped.name,
                    summary: shipped.summary,
                })
                .collect();
            output::json(&rows)
        }
        Format::Human => {
            let rows = shipped().iter();
            let rows = rows.map(|row| vec![row.name.to_owned(), row.summary.to_owned()]);
            output::data(&output::table(&["NAME", "SUMMARY"], rows.collect()))
        }
    }
}

/// Writes scenarios, their charts and their schema below a new folder, side by side as the paths in the
/// scenarios want it. Gives the files, relative to the folder.
fn export(name: Option<&str>, folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let chosen: Vec<&Shipped> = match name {
        None => shipped().iter().collect(),
        Some(name) => {
            let found = shipped().iter().find(|shipped| shipped.name == name);
            vec![found.ok_or_else(|| {
                let names: Vec<&str> = shipped().iter().map(|shipped| shipped.name).collect();
                Failure::input(
                    format!("there is no shipped scenario `{name}`"),
                    format!("shipped scenarios: {}", names.join(", ")),
                )
            })?]
        }
    };
    let mut files: Vec<(PathBuf, Cow<'static, str>)> = Vec::new();
    let mut versions = BTreeSet::new();
    for shipped in chosen {
        let path = Path::new("scenarios").join(format!("{}.yaml", shipped.name));
        files.push((path, shipped.text.into()));
        versions.extend(chart_versions(shipped)?);
    }
    for chart in CHARTS
        .iter()
        .filter(|chart| versions.contains(chart.version))
    {
        let Embedded { version, files: of } = chart;
        let below = Path::new("charts").join(version);
        files.extend(
            of.iter()
                .map(|(path, text)| (below.join(path), (*text).into())),
        );
    }
    // Editors find it by the first line of a scenario.
    let schema = format!("{:#}\n", scenario::schema());
    files.push(("docs/scenario.schema.json".into(), schema.into()));
    create_folder(folder)?;
    for (path, text) in &files {
        let path = folder.join(path);
        write_new(&path, text).map_err(|error| cannot_write(&path, &error))?;
    }
    Ok(files.into_iter().map(|(path, _)| path).collect())
}

/// The versions of the embedded charts that a shipped scenario names.
fn chart_versions(shipped: &Shipped) -> Result<BTreeSet<String>, Failure> {
    let read = with_known(|known| Source::from(shipped).read(known));
    let scenario = read.map_err(|findings| Failure::new(Exit::CouldNotRun, &findings, None))?;
    let charts = scenario.plan.charts.into_values();
    let versions = charts.filter_map(|chart| match chart.source {
        ChartSource::Embedded { version } => Some(version),
        ChartSource::Path { .. } | ChartSource::Oci { .. } => None,
    });
    Ok(versions.collect())
}

fn create_folder(folder: &Path) -> Result<(), Failure> {
    fs::create_dir(folder).map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => Failure::input(
            format!("{} is there already", folder.display()),
            "name a folder that is not, with --to",
        ),
        io::ErrorKind::NotFound => Failure::input(
            format!("{}: its parent folder does not exist", folder.display()),
            "make the parent folder first, or name another one with --to",
        ),
        _ => cannot_write(folder, &error),
    })
}

fn write_new(path: &Path, text: &str) -> io::Result<()> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    File::create_new(path)?.write_all(text.as_bytes())
}

fn cannot_write(path: &Path, error: &io::Error) -> Failure {
    Failure {
        exit: Exit::CouldNotRun,
        message: format!("cannot write {}: {error}", path.display()),
        hint: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_exported_reads_as_what_is_shipped() {
        let parent = tempfile::tempdir().expect("a folder");
        let folder = parent.path().join("new");
        let files = export(None, &folder).expect("an export");
        for shipped in shipped() {
            let path = folder.join(format!("scenarios/{}.yaml", shipped.name));
            let path = path.to_str().expect("UTF-8");
            let read = with_known(|known| Source::open(path).expect("a file").read(known));
            let plan = read.expect("a scenario").plan;
            for chart in plan.charts.values() {
                let ChartSource::Path { path } = &chart.source else {
                    panic!("{chart:?} is no path");
                };
                assert!(path.join("Chart.yaml").is_file(), "{}", path.display());
            }
        }
        assert!(!files.iter().any(|file| file.starts_with("charts/1.2.0")));
        let schema = fs::read_to_string(folder.join("docs/scenario.schema.json"));
        assert!(schema.is_ok_and(|text| text.contains("Scenario")));
    }

    #[test]
    fn nothing_is_overwritten() {
        let parent = tempfile::tempdir().expect("a folder");
        let failure = export(None, parent.path()).expect_err("it exists");
        assert_eq!(failure.exit, Exit::Input);
        let inner = parent.path().join("a/b");
        let failure = export(Some("v1.3-to-v1.5"), &inner).expect_err("no parent");
        assert_eq!(failure.exit, Exit::Input);
        let failure = export(Some("other"), &inner).expect_err("not shipped");
        assert!(
            failure
                .hint
                .is_some_and(|hint| hint.contains("v1.3-to-v1.5"))
        );
    }

    #[test]
    fn shipped_scenarios_are_called_as_in_their_files() {
        for shipped in shipped() {
            let read = with_known(|known| Source::from(shipped).read(known));
            let scenario = read.expect("a scenario");
            assert_eq!(scenario.plan.name, shipped.name);
            assert_eq!(scenario.warnings.list, []);
        }
    }
}
