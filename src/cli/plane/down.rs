//! `aibom-qual plane down`.

use clap::Args;

use super::named_or_only;
use crate::cli::Context;
use crate::cli::exit::{Exit, Failure};
use crate::cli::output;
use crate::cli::progress::Level;
use crate::plane::control::{self, Down, Ended};

/// Arguments of `plane down`.
#[derive(Debug, Args)]
pub(crate) struct DownArgs {
    /// The plane; may be left out when only one runs.
    name: Option<String>,
    /// Remove its data, certificates and logs too.
    #[arg(long, env = "AIBOM_QUAL_DELETE")]
    delete: bool,
    /// Kill it when it does not stop in time.
    #[arg(long, env = "AIBOM_QUAL_FORCE")]
    force: bool,
}

pub(crate) async fn run(args: DownArgs, context: &Context) -> Result<Exit, Failure> {
    let name = named_or_only(args.name, context)?;
    let how = Down {
        force: args.force,
        delete: args.delete,
    };
    let ended = control::down(&context.dirs, &name, how, &*context.progress()).await?;
    if context.level > Level::Quiet {
        let what = match ended {
            Ended::Stopped => "stopped",
            Ended::Killed => "killed",
            Ended::WasNotRunning => "was not running",
        };
        output::note(&format!(
            "plane `{name}` {what}{}",
            if args.delete {
                "; its folder is removed"
            } else {
                ""
            }
        ));
    }
    Ok(Exit::Pass)
}
