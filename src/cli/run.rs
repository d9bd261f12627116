//! `aibom-qual run`.

use std::convert::Infallible;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use chrono::Utc;
use clap::Args;
use tokio::sync::mpsc;

use super::Context;
use super::cluster::{Chosen, ClusterArgs};
use super::confirm::confirm;
use super::exit::{Exit, Failure};
use super::input::{HelmArgs, OverrideArgs, open_helm, private_folder};
use super::output::{self, Format};
use super::plane::{BinaryArgs, Held, RuntimeArgs, supervise};
use super::progress::Level;
use super::signals::Signals;
use crate::cluster::client::connect;
use crate::plane::options::PlaneOptions;
use crate::plane::registry::Registry;
use crate::record::{PlaneKind, RunFolder, SubjectKind};
use crate::report;
use crate::run::{Charts, Finished, Run, RunError, RunOptions, Site, Stop, StopReason};
use crate::scenario::Plan;

/// Arguments of `run`.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// The scenarios: files, or names of shipped ones.
    #[arg(required = true, value_name = "SCENARIO")]
    scenarios: Vec<String>,
    /// The folder for the folders of runs.
    #[arg(
        long,
        value_name = "DIR",
        default_value = "results",
        env = "AIBOM_QUAL_OUT"
    )]
    out: PathBuf,
    /// Keep the private control plane, and leave everything as it is when the run ends early.
    #[arg(long, env = "AIBOM_QUAL_KEEP")]
    keep: bool,
    /// Change the cluster without asking.
    #[arg(long, env = "AIBOM_QUAL_YES")]
    yes: bool,
    #[command(flatten)]
    overrides: OverrideArgs,
    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(flatten)]
    runtimes: RuntimeArgs,
    #[command(flatten)]
    helm: HelmArgs,
    #[command(flatten)]
    binaries: BinaryArgs,
}

pub(crate) async fn run(args: RunArgs, context: Context) -> Result<Exit, Failure> {
    // What is wrong with any scenario is told before the first one begins.
    let plans = args.scenarios.iter().map(|name| args.overrides.read(name));
    let plans = plans.collect::<Result<Vec<_>, _>>()?;
    if args.cluster.is_given() && !args.runtimes.commands().is_empty() {
        return Err(Failure::input(
            "--runtime is for the private control plane, and a cluster is given",
            "leave out --runtime, or --kubeconfig and --context",
        ));
    }
    // What an interrupted command left is cleared by whatever command comes next.
    Registry::new(context.dirs.planes()).reap(&*context.progress())?;
    let stop = Stop::default();
    listen(stop.clone())?;
    let command = Command {
        out: super::absolute(Some(args.out.clone()))?.unwrap_or_default(),
        program: or_stop(&stop, args.helm.program(&args.binaries, &context)).await?,
        args,
        context,
        stop,
    };
    let mut exits = Vec::new();
    let several = plans.len() > 1;
    for plan in plans {
        match command.one(plan).await {
            Ok(exit) => exits.push(exit),
            Err(failure) if several => {
                super::print_failure(&failure, command.context.color);
                exits.push(failure.exit);
            }
            Err(failure) => return Err(failure),
        }
        if command.stop.reason().is_some() {
            break;
        }
    }
    Ok(Exit::heaviest(&exits))
}

/// The first signal asks for an orderly end, the second one ends at once.
fn listen(stop: Stop) -> Result<(), Failure> {
    let mut signals = Signals::install()?;
    tokio::spawn(async move {
        signals.received().await;
        stop.request(StopReason::Interrupted);
        signals.end_on_next();
    });
    Ok(())
}

/// Does something that leaves nothing behind when it is dropped, unless the end is asked for.
async fn or_stop<T>(
    stop: &Stop,
    work: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    tokio::select! {
        done = work => done,
        reason = stop.requested() => Err(RunError::from(reason).into()),
    }
}

/// The command with everything that all of its runs share.
struct Command {
    args: RunArgs,
    context: Context,
    /// The folder for the folders of runs.
    out: PathBuf,
    /// The helm program.
    program: PathBuf,
    stop: Stop,
}

impl Command {
    async fn one(&self, plan: Plan) -> Result<Exit, Failure> {
        let work = private_folder()?;
        let charts = or_stop(&self.stop, self.charts(&plan, work.path())).await?;
        let chosen = or_stop(&self.stop, self.args.cluster.choose()).await?;
        if let Some(chosen) = &chosen {
            let Chosen {
                context,
                kubeconfig,
                server,
                ..
            } = chosen;
            let (version, nodes) = (&server.git_version, server.nodes);
            let what = format!(
                "scenario {} changes the cluster of context {context} in {} (Kubernetes {version}, {nodes} \
                 nodes)",
                plan.name,
                kubeconfig.display()
            );
            confirm(self.args.yes, &what)?;
        }
        let folder = RunFolder::create(&self.out, &plan.name, Utc::now())?;
        let (listener, entries) = mpsc::unbounded_channel();
        let run = Run::begin(plan, charts, folder, listener)?;
        self.note(&format!("run {}", run.folder().display()));
        let showing = tokio::spawn(
            report::progress::Progress::new(self.context.level > Level::Quiet, self.context.bars)
                .show(entries),
        );
        let finished = match chosen {
            Some(chosen) => self.on_cluster(run, &chosen, work.path()).await,
            None if self.args.keep => self.on_kept_plane(run, work.path()).await,
            None => self.on_plane(run, work.path()).await,
        };
        // It ends with the last entry; a panic in it is no reason for another.
        let _ = showing.await;
        let told = self.tell(&finished);
        // What went wrong first is what is told.
        match finished.error {
            Some(error) => Err(error.into()),
            None => told.map(|()| Exit::of(finished.exit)),
        }
    }

    /// Opens the charts with a helm that reaches no cluster.
    async fn charts(&self, plan: &Plan, work: &Path) -> Result<Charts, Failure> {
        let (home, nowhere) = (work.join("helm"), work.join("no-cluster"));
        let helm = open_helm(&self.program, &home, work.join("logs"), nowhere, None).await?;
        Ok(Charts::open(plan, &helm, &work.join("charts")).await?)
    }

    async fn on_cluster(&self, run: Run, chosen: &Chosen, work: &Path) -> Finished {
        let kubeconfig = match chosen.pin(work) {
            Ok(kubeconfig) => kubeconfig,
            Err(failure) => return run.abandon(plane_error(failure)),
        };
        let site = Site {
            client: chosen.client.clone(),
            kubeconfig,
            plane: PlaneKind::Cluster {
                context: chosen.context.clone(),
            },
            subject: SubjectKind::Image,
            kept: Some(chosen.kubeconfig.clone()),
        };
        self.execute(run, site, work).await
    }

    /// On a private plane that is gone with the run.
    async fn on_plane(&self, run: Run, work: &Path) -> Finished {
        run.preparing("the private control plane");
        let held = match self.plane_options() {
            Ok(options) => {
                let started = Held::start(&options, &self.args.runtimes, self.context.progress());
                or_stop(&self.stop, started).await
            }
            Err(failure) => Err(failure),
        };
        let held = match held {
            Ok(held) => held,
            Err(failure) => return run.abandon(plane_error(failure)),
        };
        let kubeconfig = held.plane.kubeconfig();
        let watching = async {
            let failure = held.failed().await;
            self.stop.request(StopReason::Plane {
                message: failure.message,
                hint: failure.hint,
            });
            std::future::pending::<Infallible>().await
        };
        let finished = tokio::select! {
            finished = self.on_local(run, &kubeconfig, None, work) => finished,
            never = watching => match never {},
        };
        if let Err(failure) = held.stop(None).await {
            output::note(&format!("warning: {}", failure.message));
        }
        finished
    }

    /// On a private plane in the background, which stays.
    async fn on_kept_plane(&self, run: Run, work: &Path) -> Finished {
        run.preparing("the private control plane");
        let name = kept_name(run.name());
        let started = self.background(&name).await;
        let kubeconfig = match started {
            Ok(kubeconfig) => kubeconfig,
            Err(failure) => return run.abandon(plane_error(failure)),
        };
        let kept = Some(kubeconfig.clone());
        let finished = self.on_local(run, &kubeconfig, kept, work).await;
        self.note(&format!(
            "the plane is kept: `eval \"$(aibom-qual plane env {name})\"` leads to it, `aibom-qual plane \
             down --delete {name}` ends it"
        ));
        finished
    }

    async fn on_local(
        &self,
        run: Run,
        kubeconfig: &Path,
        kept: Option<PathBuf>,
        work: &Path,
    ) -> Finished {
        let client = match connect(kubeconfig).await {
            Ok(client) => client,
            Err(error) => return run.abandon(error.into()),
        };
        let commands = self.args.runtimes.commands();
        let site = Site {
            client,
            kubeconfig: kubeconfig.to_owned(),
            plane: PlaneKind::Local,
            subject: if commands.is_empty() {
                SubjectKind::Embedded
            } else {
                SubjectKind::Runtime { commands }
            },
            kept,
        };
        self.execute(run, site, work).await
    }

    async fn execute(&self, run: Run, site: Site, work: &Path) -> Finished {
        let (home, kubeconfig) = (work.join("helm"), site.kubeconfig.clone());
        let helm = open_helm(&self.program, &home, run.logs_dir(), kubeconfig, None);
        let helm = match helm.await {
            Ok(helm) => helm,
            Err(failure) => return run.abandon(plane_error(failure)),
        };
        let options = RunOptions {
            keep: self.args.keep,
        };
        run.execute(site, helm, &self.stop, options).await
    }

    fn plane_options(&self) -> Result<PlaneOptions, Failure> {
        let binaries = &self.args.binaries;
        Ok(PlaneOptions {
            kubernetes: binaries.kubernetes.clone(),
            binaries: binaries.explicit()?,
            sources: binaries.sources(),
            node: Some(self.args.runtimes.settings()),
            ..PlaneOptions::throw_away(self.context.dirs.clone())
        })
    }

    /// Starts a persistent plane as `plane up --persistent` does, and returns its kubeconfig.
    async fn background(&self, name: &str) -> Result<PathBuf, Failure> {
        let dirs = &self.context.dirs;
        let mut words: Vec<OsString> = vec!["--cache-dir".into(), dirs.cache().into()];
        if let Some(state) = dirs.planes().parent() {
            words.extend(["--state-dir".into(), state.into()]);
        }
        words.extend(["plane", "up", "--persistent", name].map(OsString::from));
        words.extend(self.args.binaries.words()?);
        for command in self.args.runtimes.commands() {
            words.extend(["--runtime".into(), command.into()]);
        }
        let mut signals = Signals::install()?;
        supervise(name, words, &*self.context.progress(), &mut signals).await?;
        let layout = Registry::new(dirs.planes()).layout(name)?;
        Ok(layout.kubeconfig())
    }

    /// Prints the timeline and writes it into the folder.
    fn tell(&self, finished: &Finished) -> Result<(), Failure> {
        let Some(left) = &finished.left else {
            return Ok(());
        };
        let view = report::RunView::of(left);
        let timeline = report::timeline(&view);
        let summary = report::summary(&timeline).map_err(|error| Failure {
            exit: Exit::CouldNotRun,
            message: format!("cannot write JSON: {error}"),
            hint: None,
        })?;
        let folder = RunFolder::open(&finished.folder)?;
        folder.write_text("timeline.md", &report::markdown(&timeline))?;
        folder.write_text("summary.json", &summary)?;
        folder.write_text("junit.xml", &report::junit(&timeline))?;
        match self.context.format {
            Format::Json => output::data(&summary),
            Format::Human => {
                let (width, color) = (output::width(), self.context.color.on_stdout());
                output::data(&report::terminal(&timeline, width, color))
            }
        }
    }

    fn note(&self, text: &str) {
        if self.context.level > Level::Quiet {
            output::note(text);
        }
    }
}

/// A plane of this run, by the short id at the end of the run's name.
fn kept_name(run: &str) -> String {
    let id = run.rsplit('-').next().unwrap_or(run);
    format!("run-{id}")
}

/// What kept a run from having a cluster, for its record.
fn plane_error(failure: Failure) -> RunError {
    match failure.exit {
        Exit::Interrupted => RunError::Interrupted,
        exit => RunError::Plane {
            message: failure.message,
            hint: failure.hint,
            input: exit == Exit::Input,
        },
    }
}
