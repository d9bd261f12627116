//! `aibom-qual cleanup`.

use std::path::{Path, PathBuf};

use clap::Args;

use super::Context;
use super::exit::{Exit, Failure};
use super::input::{HelmArgs, open_helm, private_folder};
use super::output::{self, Format};
use super::plane::BinaryArgs;
use super::signals::Signals;
use crate::plane::PlaneError;
use crate::record::{CleanupFacts, RunFolder};
use crate::run::Leavings;

/// Arguments of `cleanup`.
#[derive(Debug, Args)]
pub(crate) struct CleanupArgs {
    /// The run: its folder, or its name below --out.
    #[arg(long, value_name = "RUN", env = "AIBOM_QUAL_RUN")]
    run: PathBuf,
    /// The folder for the folders of runs.
    #[arg(
        long,
        value_name = "DIR",
        default_value = "results",
        env = "AIBOM_QUAL_OUT"
    )]
    out: PathBuf,
    #[command(flatten)]
    helm: HelmArgs,
    #[command(flatten)]
    binaries: BinaryArgs,
}

pub(crate) async fn run(args: CleanupArgs, context: Context) -> Result<Exit, Failure> {
    let mut signals = Signals::install()?;
    // What was deleted until then is deleted; the ledger stays, so that the next attempt goes on.
    tokio::select! {
        done = remove(&args, &context) => done,
        () = signals.received() => Err(PlaneError::Interrupted.into()),
    }
}

async fn remove(args: &CleanupArgs, context: &Context) -> Result<Exit, Failure> {
    let folder = RunFolder::open(&found(&args.run, &args.out))?;
    let Some(leavings) = Leavings::of(&folder)? else {
        output::note("nothing is left of this run");
        return Ok(Exit::Pass);
    };
    let work = private_folder()?;
    let program = args.helm.program(&args.binaries, context).await?;
    let home = work.path().join("helm");
    let kubeconfig = leavings.kubeconfig().to_owned();
    let of = leavings.context().map(str::to_owned);
    let helm = open_helm(&program, &home, folder.logs_dir(), kubeconfig, of).await?;
    let facts = leavings.remove(&folder, &helm).await?;
    match context.format {
        Format::Json => output::json(&facts)?,
        Format::Human => output::data(&told(&facts))?,
    }
    if facts.left.is_empty() {
        Ok(Exit::Pass)
    } else {
        Ok(Exit::CouldNotRun)
    }
}

/// A run is named by its folder, or by that folder's name.
fn found(run: &Path, out: &Path) -> PathBuf {
    let named = out.join(run);
    if run.components().count() == 1 && !run.is_dir() && named.is_dir() {
        named
    } else {
        run.to_owned()
    }
}

fn told(facts: &CleanupFacts) -> String {
    let mut lines: Vec<String> = Vec::new();
    let deleted = facts.deleted.iter();
    lines.extend(deleted.map(|(kind, count)| format!("deleted      {count} {kind}")));
    lines.extend(facts.left.iter().map(|left| format!("still there  {left}")));
    let differences = facts.differences.iter();
    lines.extend(differences.map(|difference| format!("differs      {difference}")));
    if lines.is_empty() {
        lines.push("nothing was left".to_owned());
    }
    lines.join("\n") + "\n"
}
