//! A plane with its node, in the hands of a command, and Helm beside it.

use std::path::PathBuf;
use std::process::Output;
use std::sync::Arc;
use std::time::{Duration, Instant};

use aibom_qual::cluster::client::connect;
use aibom_qual::plane::registry::Registry;
use kube::Client;
use serde_json::Value;

use crate::NAMESPACE;
use crate::helm::{Helm, chart};
use crate::support::{Owner, World};

/// A throw-away plane whose command runs beside the test.
pub(crate) struct Cluster {
    owner: Owner,
    kubeconfig: PathBuf,
    pub(crate) client: Client,
}

impl Cluster {
    pub(crate) async fn up(world: &World, args: &[String]) -> Self {
        let mut all = vec!["plane", "up"];
        all.extend(args.iter().map(String::as_str));
        let mut owner = world.spawn(&all);
        owner.until("press Ctrl-C");
        let name = world.planes().pop().expect("a plane");
        let layout = Registry::new(world.dirs.planes()).layout(&name);
        let kubeconfig = layout.expect("its folder").kubeconfig();
        let client = connect(&kubeconfig).await.expect("a client");
        Self {
            owner,
            kubeconfig,
            client,
        }
    }

    pub(crate) fn helm(&self, helm: Helm) -> Release {
        Release(Arc::new(helm.with_cluster(self.kubeconfig.clone())))
    }

    /// Ends the command, and with it everything.
    pub(crate) fn down(mut self, world: &World) {
        self.owner.terminate();
        self.owner.finish().expect(0, &[]);
        world.assert_empty("at the end");
    }
}

/// The release of the controller in the hands of one Helm major.
#[derive(Clone)]
pub(crate) struct Release(Arc<Helm>);

impl Release {
    /// Runs a verb to its end, without holding up the test.
    pub(crate) async fn run(&self, args: &[&str]) -> Output {
        let mut all: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
        all.extend(["-n", NAMESPACE].map(str::to_owned));
        let helm = Arc::clone(&self.0);
        let ran = tokio::task::spawn_blocking(move || helm.run(all)).await;
        ran.expect("helm ran")
    }

    /// The same, which has to pass; tells how long it took.
    pub(crate) async fn pass(&self, args: &[&str]) -> String {
        let begun = Instant::now();
        let output = self.run(args).await;
        self.tell(args, begun.elapsed());
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{} {args:?}: {said}", self.0.tool);
        String::from_utf8(output.stdout).expect("text")
    }

    /// The same, which has to fail; what it says of it.
    pub(crate) async fn fail(&self, args: &[&str]) -> String {
        let begun = Instant::now();
        let output = self.run(args).await;
        self.tell(args, begun.elapsed());
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{said}");
        said
    }

    fn tell(&self, args: &[&str], took: Duration) {
        let seconds = took.as_secs_f64();
        eprintln!("{} {}: {seconds:.2} s", self.0.tool, args[0]);
    }

    /// `helm install CHART` and more.
    pub(crate) async fn install(&self, version: &str, rest: &[&str]) {
        let folder = chart(version).display().to_string();
        let args = ["install", "k8s-aibom", &folder, "--create-namespace"];
        self.pass(&[&args, rest].concat()).await;
    }

    /// The arguments of `helm upgrade CHART`.
    pub(crate) async fn upgrade(&self, version: &str, rest: &[&str]) {
        let folder = chart(version).display().to_string();
        self.pass(&[&["upgrade", "k8s-aibom", &folder], rest].concat())
            .await;
    }

    pub(crate) async fn rollback(&self, revision: &str) {
        self.pass(&["rollback", "k8s-aibom", revision, "--wait"])
            .await;
    }

    /// Each revision as `NUMBER STATUS, DESCRIPTION, CHART, APPLICATION`.
    pub(crate) async fn history(&self) -> Vec<String> {
        let text = self
            .pass(&["history", "k8s-aibom", "--output", "json"])
            .await;
        let revisions: Vec<Value> = serde_json::from_str(&text).expect("JSON");
        let line = |revision: &Value| {
            let word = |name: &str| revision[name].as_str().unwrap_or_default();
            format!(
                "{} {}, {}, {}, {}",
                revision["revision"],
                word("status"),
                word("description"),
                word("chart"),
                word("app_version")
            )
        };
        revisions.iter().map(line).collect()
    }
}
