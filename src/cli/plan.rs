//! `aibom-qual plan`.

use std::fmt::Write as _;

use clap::Args;

use super::Context;
use super::exit::{Exit, Failure};
use super::input::{HelmArgs, OverrideArgs, open_helm, private_folder};
use super::output::{self, Format};
use super::plane::BinaryArgs;
use super::signals::Signals;
use crate::plane::PlaneError;
use crate::run::{ChartChanges, Charts, Preview};

/// Arguments of `plan`.
#[derive(Debug, Args)]
pub(crate) struct PlanArgs {
    /// The scenario: a file, or the name of a shipped one.
    scenario: String,
    #[command(flatten)]
    overrides: OverrideArgs,
    #[command(flatten)]
    helm: HelmArgs,
    #[command(flatten)]
    binaries: BinaryArgs,
}

pub(crate) async fn run(args: PlanArgs, context: Context) -> Result<Exit, Failure> {
    let mut signals = Signals::install()?;
    tokio::select! {
        done = preview(&args, &context) => done,
        () = signals.received() => Err(PlaneError::Interrupted.into()),
    }
}

async fn preview(args: &PlanArgs, context: &Context) -> Result<Exit, Failure> {
    let plan = args.overrides.read(&args.scenario)?;
    let program = args.helm.program(&args.binaries, context).await?;
    let work = private_folder()?;
    let path = work.path();
    let nowhere = path.join("no-cluster");
    let helm = open_helm(
        &program,
        &path.join("helm"),
        path.join("logs"),
        nowhere,
        None,
    )
    .await?;
    let charts = Charts::open(&plan, &helm, &path.join("charts")).await?;
    let preview = Preview::of(&plan, &charts);
    match context.format {
        Format::Json => output::json(&preview)?,
        Format::Human => output::data(&told(&preview))?,
    }
    Ok(Exit::Pass)
}

fn told(preview: &Preview) -> String {
    let mut text = format!(
        "scenario  {}\nrelease   {}\n\n",
        preview.name, preview.release
    );
    let charts = preview.charts.iter().map(|(name, chart)| {
        let image = chart.image.rsplit('/').next().unwrap_or(&chart.image);
        vec![
            name.clone(),
            chart.version.clone(),
            shortened(image),
            chart.values.clone(),
            shortened(&chart.sha256),
        ]
    });
    text += &output::table(
        &["CHART", "VERSION", "IMAGE", "VALUES", "SHA256"],
        charts.collect(),
    );
    text.push('\n');
    let steps = preview.steps.iter().map(|step| {
        let served = match (step.served.is_empty(), step.stranded) {
            (true, _) => "-".to_owned(),
            (false, false) => step.served.join(" = "),
            (false, true) => format!("{} (stranded)", step.served.join(" = ")),
        };
        vec![
            step.step.to_string(),
            step.action.clone(),
            step.revision
                .map_or_else(|| "-".to_owned(), |revision| revision.to_string()),
            step.chart.clone().unwrap_or_else(|| "-".to_owned()),
            step.aiboms.to_string(),
            served,
        ]
    });
    text += &output::table(
        &[
            "STEP",
            "ACTION",
            "REVISION",
            "CHART",
            "AIBOMS",
            "SERVED CRDS",
        ],
        steps.collect(),
    );
    for step in &preview.steps {
        for failure in &step.expected_failures {
            // Writing to a `String` cannot fail.
            let _ = writeln!(text, "step {} is expected to fail {failure}", step.step);
        }
    }
    for changes in &preview.changes {
        text.push('\n');
        text += &told_changes(changes);
    }
    if !preview.way_back.is_empty() {
        text += "\nthe way back\n";
        for line in &preview.way_back {
            let _ = writeln!(text, "  {line}");
        }
    }
    text
}

fn told_changes(changes: &ChartChanges) -> String {
    let mut text = format!("from `{}` to `{}`\n", changes.from, changes.to);
    let changed = changes.changed.iter();
    let changed: Vec<String> = changed
        .map(|(object, paths)| format!("{object}: {}", paths.join(", ")))
        .collect();
    let parts: [(&str, &[String]); 8] = [
        ("new object", &changes.added),
        ("object gone", &changes.removed),
        ("changed", &changed),
        ("granted", &changes.granted),
        ("withdrawn", &changes.withdrawn),
        ("CRD field new", &changes.crds_added),
        ("CRD field gone", &changes.crds_removed),
        ("CRD field changed", &changes.crds_changed),
    ];
    let mut any = false;
    for (what, lines) in parts {
        for line in lines {
            any = true;
            // Writing to a `String` cannot fail.
            let _ = writeln!(text, "  {what:<17}  {line}");
        }
    }
    if !any {
        text.push_str("  nothing changes but the labels of the version\n");
    }
    text
}

/// Enough of a digest to tell it from others.
fn shortened(text: &str) -> String {
    match text.split_once("@sha256:") {
        Some((name, digest)) => format!("{name}@{}", digest.get(..12).unwrap_or(digest)),
        None if text.len() == 64 => text[..12].to_owned(),
        None => text.to_owned(),
    }
}
