//! `aibom-qual report`.

use std::path::{Path, PathBuf};

use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};

use super::Context;
use super::exit::{Exit, Failure};
use super::output::{self, Format};
use super::progress::Level;
use crate::host::files;
use crate::record::{LoadedRun, RunFolder};
use crate::report::{self, RunView};

/// The forms that `--format` knows. Only `report` takes all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// For people, on a terminal.
    Terminal,
    /// For people, on a page.
    Markdown,
    /// For programs.
    Json,
    /// For continuous integration.
    Junit,
}

impl Form {
    /// What every verb takes.
    pub(crate) fn everywhere() -> impl TypedValueParser<Value = Self> {
        PossibleValuesParser::new([
            PossibleValue::new("human").help("For people"),
            PossibleValue::new("json").help("For programs: one JSON document"),
        ])
        .map(|name| Self::named(&name))
    }

    /// What `report` takes.
    fn of_a_report() -> impl TypedValueParser<Value = Self> {
        PossibleValuesParser::new([
            PossibleValue::new("terminal")
                .alias("human")
                .help("For people, as wide as the terminal"),
            PossibleValue::new("markdown").help("For people: a page with the same content"),
            PossibleValue::new("json")
                .help("For programs: the same rows, with units in their names"),
            PossibleValue::new("junit").help("For continuous integration: the verdicts"),
        ])
        .map(|name| Self::named(&name))
    }

    /// Called with what the parsers above let through.
    fn named(name: &str) -> Self {
        match name {
            "markdown" => Self::Markdown,
            "json" => Self::Json,
            "junit" => Self::Junit,
            _ => Self::Terminal,
        }
    }
}

impl From<Form> for Format {
    fn from(form: Form) -> Self {
        match form {
            Form::Json => Self::Json,
            Form::Terminal | Form::Markdown | Form::Junit => Self::Human,
        }
    }
}

/// Which run, of all those below a folder.
#[derive(Debug, Args)]
pub(crate) struct RunArg {
    /// The run: its folder, its name below --out, or the short id at the end of that name.
    run: PathBuf,
    #[command(flatten)]
    out: OutArg,
}

/// Where runs are.
#[derive(Debug, Args)]
pub(crate) struct OutArg {
    /// The folder for the folders of runs.
    #[arg(
        long,
        value_name = "DIR",
        default_value = "results",
        env = "AIBOM_QUAL_OUT"
    )]
    pub(crate) out: PathBuf,
}

impl RunArg {
    /// Opens it. What cannot be read of it is told by the report, and is no error.
    ///
    /// # Errors
    ///
    /// When there is no such run, or a later version wrote it.
    pub(crate) fn load(&self) -> Result<(RunFolder, LoadedRun), Failure> {
        let folder = RunFolder::open(&found(&self.run, &self.out.out)?)?;
        let loaded = folder.load()?;
        Ok((folder, loaded))
    }
}

/// The folder of the run that is meant.
fn found(run: &Path, out: &Path) -> Result<PathBuf, Failure> {
    if run.is_dir() || run.components().count() != 1 {
        return Ok(run.to_owned());
    }
    let named = out.join(run);
    if named.is_dir() {
        return Ok(named);
    }
    let end = format!("-{}", run.display());
    let mut matching = RunFolder::list(out)?;
    matching.retain(|folder| folder.name().ends_with(&end));
    match matching.as_slice() {
        [one] => Ok(one.path().to_owned()),
        [] => Err(Failure::input(
            format!("there is no run {} in {}", run.display(), out.display()),
            "aibom-qual runs list",
        )),
        several => {
            let names: Vec<String> = several.iter().map(RunFolder::name).collect();
            Err(Failure::input(
                format!("{} may be any of {}", run.display(), names.join(", ")),
                "give more of the name",
            ))
        }
    }
}

/// Arguments of `report`.
#[derive(Debug, Args)]
pub(crate) struct ReportArgs {
    #[command(flatten)]
    run: RunArg,
    /// The form of the report.
    // It takes the place of the flag of every verb, and so has its id.
    #[arg(
        id = "format",
        long,
        value_name = "FORMAT",
        value_parser = Form::of_a_report(),
        default_value = "terminal",
        env = "AIBOM_QUAL_FORMAT"
    )]
    form: Form,
    /// Write to this file instead of standard output.
    #[arg(short, long, value_name = "FILE", env = "AIBOM_QUAL_OUTPUT")]
    output: Option<PathBuf>,
    /// The width of a report for a terminal [default: that of the terminal, or 80].
    #[arg(
        long,
        value_name = "COLUMNS",
        value_parser = clap::value_parser!(u16).range(40..),
        env = "AIBOM_QUAL_WIDTH"
    )]
    width: Option<u16>,
}

pub(crate) fn run(args: &ReportArgs, context: &Context) -> Result<Exit, Failure> {
    let (_, loaded) = args.run.load()?;
    let timeline = report::timeline(&RunView::of(&loaded));
    if context.level > Level::Quiet && args.form != Form::Terminal && args.form != Form::Markdown {
        for problem in &timeline.problems {
            output::note(&format!("warning: {problem}"));
        }
    }
    let text = match args.form {
        Form::Terminal => {
            let width = args.width.map_or_else(output::width, usize::from);
            let color = args.output.is_none() && context.color.on_stdout();
            report::terminal(&timeline, width, color)
        }
        Form::Markdown => report::markdown(&timeline),
        Form::Junit => report::junit(&timeline),
        Form::Json => report::summary(&timeline).map_err(|error| Failure {
            exit: Exit::CouldNotRun,
            message: format!("cannot write JSON: {error}"),
            hint: None,
        })?,
    };
    match &args.output {
        None => output::data(&text)?,
        Some(path) => {
            files::write_atomic(path, text.as_bytes(), files::PUBLIC).map_err(|error| {
                let hint = error.hint();
                Failure::new(Exit::CouldNotRun, &error, hint)
            })?;
            if context.level > Level::Quiet {
                output::note(&format!("wrote {}", path.display()));
            }
        }
    }
    Ok(Exit::Pass)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_run_is_found_by_folder_name_and_short_id() {
        let out = tempfile::tempdir().expect("a temporary folder");
        let names = ["20260929T171805Z-a-k7f2qd", "20260929T171805Z-b-k7f2qe"];
        for name in names {
            fs::create_dir(out.path().join(name)).expect("a folder");
            fs::write(out.path().join(name).join("run.json"), "{}").expect("a file");
        }
        let find = |run: &str| found(Path::new(run), out.path());
        let first = out.path().join(names[0]);
        assert_eq!(find(names[0]).expect("its name"), first);
        assert_eq!(find("k7f2qd").expect("its id"), first);
        assert_eq!(find(&first.to_string_lossy()).expect("its folder"), first);
        let error = find("nothing").expect_err("no such run");
        assert_eq!(error.exit, Exit::Input);
        assert_eq!(error.hint.as_deref(), Some("aibom-qual runs list"));
        fs::create_dir(out.path().join("20260930T000000Z-c-k7f2qd")).expect("a folder");
        fs::write(out.path().join("20260930T000000Z-c-k7f2qd/run.json"), "{}").expect("a file");
        let error = find("k7f2qd").expect_err("two of them");
        assert!(error.message.contains("may be any of"), "{}", error.message);
    }

    #[test]
    fn only_a_report_takes_all_forms() {
        use clap::{Arg, Command};
        let read = |parser: Arg, word: &str| {
            let command = Command::new("x").no_binary_name(true).arg(parser);
            let matches = command.try_get_matches_from([word]).ok()?;
            matches.get_one::<Form>("form").copied()
        };
        let report = |word| read(Arg::new("form").value_parser(Form::of_a_report()), word);
        let other = |word| read(Arg::new("form").value_parser(Form::everywhere()), word);
        assert_eq!(report("terminal"), Some(Form::Terminal));
        assert_eq!(report("human"), Some(Form::Terminal));
        assert_eq!(report("junit"), Some(Form::Junit));
        assert_eq!(other("json"), Some(Form::Json));
        assert_eq!(other("human"), Some(Form::Terminal));
        assert_eq!(other("junit"), None);
        assert_eq!(Format::from(Form::Json), Format::Json);
    }
}
