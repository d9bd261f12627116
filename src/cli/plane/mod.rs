//! `aibom-qual plane …`: the private local control plane.

mod down;
mod env;
mod install;
mod node;
mod options;
mod status;
mod supervise;
mod up;

pub(crate) use node::{Held, RuntimeArgs};
pub(crate) use options::BinaryArgs;
pub(crate) use supervise::start as supervise;

use clap::Subcommand;

use super::Context;
use super::exit::{Exit, Failure};
use crate::plane::registry::Registry;
use crate::plane::state::Phase;

/// What to do with planes.
#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Find, download or build the programs of a plane.
    Install(install::InstallArgs),
    /// Start a plane and keep it until interrupted, or in the background with --persistent.
    Up(up::UpArgs),
    /// List planes, or show one with its components.
    Status(status::StatusArgs),
    /// Print variables for `eval`, so that kubectl and helm use a plane.
    Env(env::EnvArgs),
    /// Stop a plane.
    Down(down::DownArgs),
}

pub(crate) async fn run(verb: Verb, context: Context) -> Result<Exit, Failure> {
    // What an interrupted command left is cleared by whatever command comes next.
    Registry::new(context.dirs.planes()).reap(&*context.progress())?;
    match verb {
        Verb::Install(args) => install::run(args, &context).await,
        Verb::Up(args) => up::run(args, context).await,
        Verb::Status(args) => status::run(args, &context).await,
        Verb::Env(args) => env::run(args, &context).await,
        Verb::Down(args) => down::run(args, &context).await,
    }
}

/// The plane that a verb without a name means: the only one that runs.
fn named_or_only(name: Option<String>, context: &Context) -> Result<String, Failure> {
    if let Some(name) = name {
        return Ok(name);
    }
    let running: Vec<String> = Registry::new(context.dirs.planes())
        .list()?
        .into_iter()
        .filter(|(_, state)| matches!(state, Ok(state) if !matches!(state.effective_phase(), Phase::Stopped | Phase::Failed { .. })))
        .map(|(name, _)| name)
        .collect();
    match running.as_slice() {
        [only] => Ok(only.clone()),
        [] => Err(Failure {
            exit: Exit::CouldNotRun,
            message: "no plane is running".to_owned(),
            hint: Some("start one with `aibom-qual plane up --persistent NAME`".to_owned()),
        }),
        several => Err(Failure::input(
            format!(
                "{} planes are running: {}",
                several.len(),
                several.join(", ")
            ),
            "name the one that you mean",
        )),
    }
}
