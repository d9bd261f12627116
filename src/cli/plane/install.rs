//! `aibom-qual plane install`.

use clap::Args;
use serde::Serialize;

use super::options::BinaryArgs;
use crate::cli::Context;
use crate::cli::exit::{Exit, Failure};
use crate::cli::output::{self, Format};
use crate::cli::signals::Signals;
use crate::host::launch::Launcher;
use crate::plane::PlaneError;
use crate::plane::binaries::{self, Binary};
use crate::plane::tool::Tool;

/// Arguments of `plane install`.
#[derive(Debug, Args)]
pub(crate) struct InstallArgs {
    /// These programs instead of the usual ones, which are all but kubectl.
    #[arg(long, value_enum, value_delimiter = ',', env = "AIBOM_QUAL_ONLY")]
    only: Vec<Tool>,
    #[command(flatten)]
    binaries: BinaryArgs,
}

#[derive(Serialize)]
struct Row<'a> {
    tool: Tool,
    version: String,
    origin: String,
    sha256: String,
    path: &'a std::path::Path,
}

impl<'a> From<&'a Binary> for Row<'a> {
    fn from(binary: &'a Binary) -> Self {
        Self {
            tool: binary.tool,
            version: binary.version.to_string(),
            origin: binary.origin.to_string(),
            sha256: binary.sha256.to_string(),
            path: &binary.path,
        }
    }
}

pub(crate) async fn run(args: InstallArgs, context: &Context) -> Result<Exit, Failure> {
    let tools = if args.only.is_empty() {
        Tool::USUAL.to_vec()
    } else {
        args.only
    };
    let request = args.binaries.request(tools)?;
    let mut signals = Signals::install()?;
    let progress = context.progress();
    let launcher = Launcher::current();
    let found = tokio::select! {
        found = binaries::ensure(&context.dirs, &launcher, &request, &*progress) => found.map_err(PlaneError::from)?,
        () = signals.received() => return Err(PlaneError::Interrupted.into()),
    };
    let rows: Vec<Row<'_>> = found.iter().map(Row::from).collect();
    match context.format {
        Format::Json => output::json(&rows)?,
        Format::Human => {
            let cells = rows
                .iter()
                .map(|row| {
                    let short = row.sha256.get(..12).unwrap_or(&row.sha256).to_owned();
                    vec![
                        row.tool.to_string(),
                        row.version.clone(),
                        row.origin.clone(),
                        short,
                        row.path.display().to_string(),
                    ]
                })
                .collect();
            output::data(&output::table(
                &["TOOL", "VERSION", "ORIGIN", "SHA256", "PATH"],
                cells,
            ))?;
        }
    }
    Ok(Exit::Pass)
}
