//! `aibom-qual plane up`.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use clap::Args;

use super::node::{Held, NodeArgs, RuntimeArgs};
use super::options::{BinaryArgs, parse_component_arg, parse_duration};
use super::supervise;
use crate::cli::Context;
use crate::cli::exit::{Exit, Failure};
use crate::cli::output::{self, Format};
use crate::cli::progress::Level;
use crate::cli::signals::Signals;
use crate::plane::PlaneError;
use crate::plane::options::{PlaneOptions, START_TIMEOUT};
use crate::plane::registry::Registry;
use crate::plane::state::{Phase, PlaneState};
use crate::plane::tool::Tool;

/// Arguments of `plane up`.
#[derive(Debug, Args)]
pub(crate) struct UpArgs {
    /// Keep the plane under this name: it survives this command, and its data survives `plane down`.
    #[arg(long, value_name = "NAME", env = "AIBOM_QUAL_PERSISTENT")]
    pub(crate) persistent: Option<String>,
    /// The API server's port on 127.0.0.1 [default: a free one].
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..), env = "AIBOM_QUAL_PORT")]
    port: Option<u16>,
    /// One more argument for a component, after its own ones; may be repeated.
    #[arg(long, value_name = "COMPONENT=ARGUMENT", value_parser = parse_component_arg,
          env = "AIBOM_QUAL_COMPONENT_ARG", value_delimiter = None)]
    component_arg: Vec<(Tool, String)>,
    /// How long the start may take, binaries excluded.
    #[arg(long, value_parser = parse_duration, env = "AIBOM_QUAL_TIMEOUT", default_value = "120s")]
    timeout: Duration,
    /// This process is the background supervisor of a persistent plane.
    #[arg(long, hide = true)]
    supervise: bool,
    #[command(flatten)]
    node: NodeArgs,
    #[command(flatten)]
    binaries: BinaryArgs,
}

impl UpArgs {
    fn plane_options(&self, context: &Context) -> Result<PlaneOptions, Failure> {
        let base = match &self.persistent {
            Some(name) => PlaneOptions::persistent(context.dirs.clone(), name.clone()),
            None => PlaneOptions::throw_away(context.dirs.clone()),
        };
        let mut component_args: BTreeMap<Tool, Vec<String>> = BTreeMap::new();
        for (tool, argument) in &self.component_arg {
            component_args
                .entry(*tool)
                .or_default()
                .push(argument.clone());
        }
        Ok(PlaneOptions {
            kubernetes: self.binaries.kubernetes.clone(),
            binaries: self.binaries.explicit()?,
            sources: self.binaries.sources(),
            port: self.port,
            component_args,
            node: self.node.settings(),
            timeout: self.timeout,
            ..base
        })
    }
}

pub(crate) async fn run(args: UpArgs, context: Context) -> Result<Exit, Failure> {
    let options = args.plane_options(&context)?;
    if args.supervise {
        return supervise::run(options, args.node.runtimes()).await;
    }
    match &args.persistent {
        Some(name) => in_background(name, &options, &context).await,
        None => in_foreground(&options, args.node.runtimes(), &context).await,
    }
}

/// Starts the plane, tells where it is, and holds it until a signal or a component's death.
async fn in_foreground(
    options: &PlaneOptions,
    runtimes: &RuntimeArgs,
    context: &Context,
) -> Result<Exit, Failure> {
    let mut signals = Signals::install()?;
    let begun = Instant::now();
    let held = tokio::select! {
        held = Held::start(options, runtimes, context.progress()) => held?,
        () = signals.received() => return Err(PlaneError::Interrupted.into()),
    };
    print_ready(&held.plane.state(), begun.elapsed(), context)?;
    if context.level > Level::Quiet {
        output::note("press Ctrl-C to stop it");
    }
    let failure = tokio::select! {
        () = signals.received() => None,
        failure = held.failed() => Some(failure),
    };
    signals.end_on_next();
    let stopping = Instant::now();
    // A signal is how this verb is meant to end, so it is no interruption.
    held.stop(failure).await?;
    if context.level > Level::Quiet {
        output::note(&format!(
            "stopped in {:.1} s",
            stopping.elapsed().as_secs_f64()
        ));
    }
    Ok(Exit::Pass)
}

/// Has a supervisor start the plane and relays what it says until the plane is ready.
async fn in_background(
    name: &str,
    options: &PlaneOptions,
    context: &Context,
) -> Result<Exit, Failure> {
    let registry = Registry::new(context.dirs.planes());
    registry.layout(name)?;
    if let Ok((_, state)) = registry.load(name)
        && state.effective_phase() == Phase::Ready
    {
        return already_running(&state, options, context);
    }
    let mut signals = Signals::install()?;
    let begun = Instant::now();
    let args = std::env::args_os().skip(1).collect();
    let state = supervise::start(name, args, &*context.progress(), &mut signals).await?;
    print_ready(&state, begun.elapsed(), context)?;
    Ok(Exit::Pass)
}

/// Asking twice for the same plane is no error; asking for another one under its name is.
fn already_running(
    state: &PlaneState,
    options: &PlaneOptions,
    context: &Context,
) -> Result<Exit, Failure> {
    let differs = if state.kubernetes != options.kubernetes {
        Some(format!("with Kubernetes {}", state.kubernetes))
    } else if options.port.is_some() && options.port != state.port {
        let port = state
            .port
            .map_or_else(|| "another one".to_owned(), |port| port.to_string());
        Some(format!("on port {port}"))
    } else if state.component_args != options.component_args {
        Some("with other arguments of its components".to_owned())
    } else {
        other_node(state, options)
    };
    let name = &state.name;
    if let Some(how) = differs {
        return Err(Failure::input(
            format!("plane `{name}` is already running, {how}"),
            format!("stop it first (`aibom-qual plane down {name}`), or choose another name"),
        ));
    }
    if context.level > Level::Quiet {
        output::note(&format!("plane `{name}` is already running"));
    }
    print_where(state, context)?;
    Ok(Exit::Pass)
}

/// How the node that runs differs from the one that was asked for.
fn other_node(state: &PlaneState, options: &PlaneOptions) -> Option<String> {
    let running = state.node.as_ref().map(|node| &node.settings);
    match (running, &options.node) {
        (running, wanted) if running == wanted.as_ref() => None,
        (None, _) => Some("without a node".to_owned()),
        (Some(_), None) => Some("with a node".to_owned()),
        (Some(_), Some(_)) => Some("with other runtimes of its node".to_owned()),
    }
}

fn print_ready(state: &PlaneState, took: Duration, context: &Context) -> Result<(), Failure> {
    if context.level > Level::Quiet {
        output::note(&format!(
            "plane `{}` is ready after {:.1} s",
            state.name,
            took.as_secs_f64()
        ));
    }
    print_where(state, context)
}

fn print_where(state: &PlaneState, context: &Context) -> Result<(), Failure> {
    match context.format {
        Format::Json => output::json(state),
        Format::Human => {
            let kubeconfig = Registry::new(context.dirs.planes())
                .layout(&state.name)?
                .kubeconfig();
            output::data(&format!(
                "plane        {}\nkubernetes   {}\nserver       {}\nkubeconfig   {}\n",
                state.name,
                state.kubernetes,
                state.server().unwrap_or_default(),
                kubeconfig.display()
            ))
        }
    }
}

const _: () = assert!(
    START_TIMEOUT.as_secs() == 120,
    "the help text of --timeout names the default"
);
