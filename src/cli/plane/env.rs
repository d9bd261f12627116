//! `aibom-qual plane env`.

use std::path::Path;

use clap::Args;
use serde::Serialize;

use super::named_or_only;
use crate::cli::Context;
use crate::cli::exit::{Exit, Failure};
use crate::cli::output::{self, Format};
use crate::plane::PlaneError;
use crate::plane::registry::Registry;
use crate::plane::state::Phase;

/// Arguments of `plane env`.
#[derive(Debug, Args)]
pub(crate) struct EnvArgs {
    /// The plane; may be left out when only one runs.
    name: Option<String>,
}

#[derive(Serialize)]
struct Variables<'a> {
    #[serde(rename = "KUBECONFIG")]
    kubeconfig: &'a Path,
}

pub(crate) fn run(args: &EnvArgs, context: &Context) -> Result<Exit, Failure> {
    let name = named_or_only(args.name.clone(), context)?;
    let (layout, state) = Registry::new(context.dirs.planes()).load(&name)?;
    match state.effective_phase() {
        Phase::Ready => {}
        other => {
            let reason = match &other {
                Phase::Failed { reason, .. } => Some(reason.clone()),
                _ => None,
            };
            return Err(PlaneError::NotRunning {
                name,
                phase: other.word(),
                reason,
            }
            .into());
        }
    }
    let kubeconfig = layout.kubeconfig();
    match context.format {
        Format::Json => output::json(&Variables {
            kubeconfig: &kubeconfig,
        })?,
        Format::Human => output::data(&format!(
            "export KUBECONFIG={}\n",
            shell_quoted(&kubeconfig.to_string_lossy())
        ))?,
    }
    Ok(Exit::Pass)
}

/// In single quotes, which a POSIX shell takes literally.
fn shell_quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quote_in_a_path_does_not_end_the_quoting() {
        assert_eq!(shell_quoted("/a b/c'd"), r"'/a b/c'\''d'");
    }
}
