//! The node beside a plane: flags, and what stands behind the images that it has.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use clap::Args;

use crate::cli::exit::{Exit, Failure};
use crate::cli::output;
use crate::error_chain::chain;
use crate::host::launch::Launcher;
use crate::node::Node;
use crate::node::image::{CommandTemplate, Image, ImageCommand, ImageTable, ImageUser, Runtime};
use crate::node::options::{NodeOptions, ServingFiles};
use crate::plane::event::{Doing, Event, Sink};
use crate::plane::options::PlaneOptions;
use crate::plane::state::NodeSettings;
use crate::plane::{NodeIdentity, Plane, PlaneError};
use crate::subject::images::{CONTROLLERS, USER};

/// The only node of a plane.
const NAME: &str = "aibom-qual-node";

/// Whether there is a node, and what its images are.
#[derive(Debug, Args)]
#[command(next_help_heading = "Node")]
pub(crate) struct NodeArgs {
    /// Start no node: nothing will run that is scheduled.
    #[arg(long, env = "AIBOM_QUAL_NO_NODE", conflicts_with = "runtime")]
    no_node: bool,
    #[command(flatten)]
    runtimes: RuntimeArgs,
}

/// What the images of a node are.
#[derive(Debug, Args)]
#[command(next_help_heading = "Node")]
pub(crate) struct RuntimeArgs {
    /// Run this command where a container has this image; may be repeated. `{port:8080}` in it stands
    /// for the port of this machine that is the container's port 8080. The images of the controller
    /// are built in; containers of all other images are ready at once and do nothing.
    #[arg(long, value_name = "IMAGE=COMMAND", value_parser = runtime,
          env = "AIBOM_QUAL_RUNTIME", value_delimiter = None)]
    runtime: Vec<RuntimeArg>,
}

/// One `--runtime`, as it was written and as it was read.
#[derive(Clone, Debug)]
struct RuntimeArg {
    text: String,
    parsed: ImageCommand,
}

fn runtime(text: &str) -> Result<RuntimeArg, String> {
    let parsed = text.parse::<ImageCommand>().map_err(|error| {
        let problem = chain(&error);
        match error.hint() {
            Some(hint) => format!("{problem}; {hint}"),
            None => problem,
        }
    })?;
    let text = text.to_owned();
    Ok(RuntimeArg { text, parsed })
}

impl NodeArgs {
    /// What goes on record; [`None`] without a node.
    pub(super) fn settings(&self) -> Option<NodeSettings> {
        (!self.no_node).then(|| self.runtimes.settings())
    }

    pub(super) fn runtimes(&self) -> &RuntimeArgs {
        &self.runtimes
    }
}

impl RuntimeArgs {
    /// The commands in place of images, as they were given.
    pub(crate) fn commands(&self) -> Vec<String> {
        self.runtime.iter().map(|arg| arg.text.clone()).collect()
    }

    /// A node with these images, for the record.
    pub(crate) fn settings(&self) -> NodeSettings {
        NodeSettings {
            name: NAME.to_owned(),
            runtimes: self.commands(),
        }
    }

    /// The images of the controller, of which each is this very executable, and what the user gave.
    fn images(&self, executable: &Path) -> Result<ImageTable, Failure> {
        let program = executable.to_str().ok_or_else(|| {
            Failure::input(
                format!("the path {} is not text", executable.display()),
                "install this program where its path is plain text",
            )
        })?;
        let mut table = ImageTable::default();
        for image in &CONTROLLERS {
            let args = image.args();
            let words = std::iter::once(program).chain(args.iter().map(String::as_str));
            let command = CommandTemplate::from_words(words).map_err(|error| {
                let hint = error.hint();
                Failure::new(Exit::CouldNotRun, &error, hint)
            })?;
            let image_of = Image {
                runtime: Runtime::Command(command),
                user: ImageUser::Uid(USER),
            };
            table.insert(image.reference(), image_of);
        }
        for RuntimeArg { parsed, .. } in &self.runtime {
            let image = Image {
                runtime: Runtime::Command(parsed.command.clone()),
                // Of a program of this machine nobody knows; a pod that must not run as root says so.
                user: ImageUser::Uid(USER),
            };
            table.insert(parsed.image.to_string(), image);
        }
        Ok(table)
    }
}

/// This executable by a path that a child can start it by.
fn executable() -> Result<PathBuf, Failure> {
    let failure = |message| Failure {
        exit: Exit::CouldNotRun,
        message,
        hint: Some(
            "run the command again from where the program is installed now, or give --no-node"
                .to_owned(),
        ),
    };
    let path = std::env::current_exe()
        .map_err(|error| failure(format!("cannot tell where this program lies: {error}")))?;
    if path.is_file() {
        return Ok(path);
    }
    // The kernel marks the path of a file that is gone.
    let path = path.to_string_lossy();
    let path = path.strip_suffix(" (deleted)").unwrap_or(&path);
    Err(failure(format!(
        "this program was deleted or replaced while it runs ({path}), so that no container can be \
         started from it"
    )))
}

/// A plane with its node, in the hands of this process.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) plane: Plane,
    node: Option<Node>,
}

impl Held {
    /// Starts a plane and, unless there is to be none, its node.
    pub(crate) async fn start(
        options: &PlaneOptions,
        args: &RuntimeArgs,
        sink: Arc<dyn Sink>,
    ) -> Result<Self, Failure> {
        // What is wrong with these is told before anything is started.
        let images = match &options.node {
            Some(_) => Some(args.images(&executable()?)?),
            None => None,
        };
        let plane = Plane::start(options, sink).await?;
        let node = match (&options.node, images) {
            (Some(settings), Some(images)) => {
                match start_node(&plane, settings, images, options).await {
                    Ok(node) => Some(node),
                    Err(failure) => {
                        plane.tell(Event::Idle);
                        // The failure is what matters; the plane is stopped as well as can be.
                        let _ = plane.stop().await;
                        return Err(failure);
                    }
                }
            }
            _ => None,
        };
        Ok(Self { plane, node })
    }

    /// Waits until the plane or the node fails; never returns while all is well.
    pub(crate) async fn failed(&self) -> Failure {
        let node = async {
            match &self.node {
                Some(node) => node.failed().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            failure = self.plane.failed() => PlaneError::Component(failure).into(),
            error = node => error.into(),
        }
    }

    /// Stops the pods, the node and the plane. When something has failed before, that is what
    /// counts, also when stopping the rest fails.
    pub(crate) async fn stop(self, failure: Option<Failure>) -> Result<(), Failure> {
        if let Some(node) = self.node {
            self.plane.tell(Event::Phase {
                doing: Doing::StoppingNode,
            });
            node.stop().await;
        }
        let stopped = self.plane.stop().await.map_err(Failure::from);
        match (failure, stopped) {
            (None, stopped) => stopped.map(|_| ()),
            (Some(failure), Ok(_)) => Err(failure),
            (Some(failure), Err(error)) => {
                output::note(&format!("warning: {}", error.message));
                Err(failure)
            }
        }
    }
}

async fn start_node(
    plane: &Plane,
    settings: &NodeSettings,
    images: ImageTable,
    options: &PlaneOptions,
) -> Result<Node, Failure> {
    plane.tell(Event::Phase {
        doing: Doing::StartingNode,
    });
    let begun = Instant::now();
    let identity = plane.node_identity(&settings.name)?;
    let log = identity.log.clone();
    let launcher = options.launcher.clone();
    let node_options = node_options(identity, images, launcher, options);
    let started = plane.guard(Node::start(node_options, &log)).await;
    let node = started??;
    plane.note_node(Some(node.port()))?;
    let (name, took) = (settings.name.clone(), begun.elapsed());
    plane.tell(Event::NodeReady { name, took });
    plane.tell(Event::Idle);
    Ok(node)
}

fn node_options(
    identity: NodeIdentity,
    images: ImageTable,
    launcher: Launcher,
    options: &PlaneOptions,
) -> NodeOptions {
    NodeOptions {
        name: identity.name,
        server: identity.server,
        server_ca_pem: identity.server_ca_pem,
        kubeconfig: identity.kubeconfig,
        serving: ServingFiles {
            cert: identity.serving_cert,
            key: identity.serving_key,
        },
        client_ca_pem: identity.client_ca_pem,
        dir: identity.dir,
        launcher,
        images,
        ports: Arc::clone(&options.ports),
        kubelet_version: identity.kubelet_version,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(runtime: &[&str]) -> RuntimeArgs {
        RuntimeArgs {
            runtime: runtime
                .iter()
                .map(|text| super::runtime(text).expect("it"))
                .collect(),
        }
    }

    #[test]
    fn the_images_of_the_controller_are_this_program() {
        let table = args(&[]).images(Path::new("/bin/sh")).expect("a table");
        for image in &CONTROLLERS {
            let pulled = table.pull(&image.reference()).expect("it is there");
            assert_eq!(pulled.image.user, ImageUser::Uid(USER));
            let Runtime::Command(command) = pulled.image.runtime else {
                panic!("{:?}", pulled.image.runtime);
            };
            assert_eq!(command.program(), Path::new("/bin/sh"));
            let args = command.args(Ok::<u16, ()>).expect("ports");
            assert_eq!(args[..3], ["controller", "--profile", image.release]);
            assert_eq!(args[4], "127.0.0.1:8080");
        }
        table
            .pull("ghcr.io/googlecloudplatform/k8s-aibom:v9.9.9")
            .expect_err("there is no such release");
    }

    #[test]
    fn a_runtime_of_the_user_wins() {
        let image = CONTROLLERS[1].reference();
        let table = args(&[&format!("{image}=/bin/sh -c true")]);
        let table = table.images(Path::new("/bin/cat")).expect("a table");
        let pulled = table.pull(&image).expect("it is there");
        let Runtime::Command(command) = pulled.image.runtime else {
            panic!("{:?}", pulled.image.runtime);
        };
        assert_eq!(command.program(), Path::new("/bin/sh"));
    }

    #[test]
    fn what_cannot_be_run_is_told_with_what_to_do() {
        let error = runtime("example.com/app:v1").expect_err("no command");
        assert!(error.contains("is not IMAGE=COMMAND; write"), "{error}");
        let error = runtime("example.com/app:v1=/no/such/program").expect_err("no program");
        assert!(error.contains("/no/such/program"), "{error}");
    }

    #[test]
    fn this_program_is_where_it_says() {
        assert!(executable().expect("a path").is_file());
    }
}
