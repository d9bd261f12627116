//! The cluster that a verb is told to use, and no other.

use std::path::{Path, PathBuf};

use clap::Args;
use kube::Client;
use kube::config::Kubeconfig;

use super::exit::{Exit, Failure};
use crate::cluster::client::connect_to;
use crate::cluster::facts::{self, ServerFacts};
use crate::host::files;

/// Which cluster.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Cluster")]
pub(crate) struct ClusterArgs {
    /// Use the cluster of this kubeconfig instead of a private local control plane.
    #[arg(long, value_name = "FILE", env = "AIBOM_QUAL_KUBECONFIG")]
    kubeconfig: Option<PathBuf>,
    /// Use the cluster of this context [default: the current one of --kubeconfig].
    #[arg(long, value_name = "NAME", env = "AIBOM_QUAL_CONTEXT")]
    context: Option<String>,
}

/// A cluster of the user's, reached and looked at.
pub(crate) struct Chosen {
    pub(crate) client: Client,
    /// The user's file.
    pub(crate) kubeconfig: PathBuf,
    /// The context in it.
    pub(crate) context: String,
    /// What the cluster says of itself.
    pub(crate) server: ServerFacts,
}

impl ClusterArgs {
    /// Whether a cluster was named at all.
    pub(crate) fn is_given(&self) -> bool {
        self.kubeconfig.is_some() || self.context.is_some()
    }

    /// The cluster that was named; [`None`] when none was. A context alone is looked for where kubectl
    /// would look for it; no context is taken from there that was not named.
    pub(crate) async fn choose(&self) -> Result<Option<Chosen>, Failure> {
        let path = match (&self.kubeconfig, &self.context) {
            (Some(path), _) => path.clone(),
            (None, Some(_)) => usual_kubeconfig()?,
            (None, None) => return Ok(None),
        };
        let path = super::absolute(Some(path))?.unwrap_or_default();
        let client = connect_to(&path, self.context.as_deref()).await?;
        let server = facts::server(&client).await.map_err(|fault| {
            let hint = fault.hint();
            Failure {
                message: format!("the cluster of {}: {fault}", path.display()),
                ..Failure::new(Exit::CouldNotRun, &fault, hint)
            }
        })?;
        let current = || Kubeconfig::read_from(&path).ok()?.current_context;
        Ok(Some(Chosen {
            context: self.context.clone().or_else(current).unwrap_or_default(),
            kubeconfig: path,
            client,
            server,
        }))
    }
}

impl Chosen {
    /// Writes the one context into a file of this process alone, so that nobody who changes the
    /// user's file turns a helm under way to another cluster (MET-09).
    pub(crate) fn pin(&self, folder: &Path) -> Result<PathBuf, Failure> {
        let unusable = |error: &dyn std::fmt::Display| Failure {
            exit: Exit::CouldNotRun,
            message: format!("cannot copy {}: {error}", self.kubeconfig.display()),
            hint: None,
        };
        let mut file = Kubeconfig::read_from(&self.kubeconfig).map_err(|error| unusable(&error))?;
        file.contexts.retain(|known| known.name == self.context);
        let context = file
            .contexts
            .first()
            .and_then(|known| known.context.clone());
        if let Some(context) = context {
            file.clusters.retain(|known| known.name == context.cluster);
            file.auth_infos
                .retain(|known| Some(&known.name) == context.user.as_ref());
        }
        file.current_context = Some(self.context.clone());
        let text = serde_yaml::to_string(&file).map_err(|error| unusable(&error))?;
        let path = folder.join("kubeconfig");
        files::write_atomic(&path, text.as_bytes(), files::SECRET)
            .map_err(|error| unusable(&error))?;
        Ok(path)
    }
}

/// The file that kubectl reads without being told to.
fn usual_kubeconfig() -> Result<PathBuf, Failure> {
    if let Some(paths) = std::env::var_os("KUBECONFIG").filter(|paths| !paths.is_empty()) {
        let paths: Vec<_> = std::env::split_paths(&paths).collect();
        return match paths.as_slice() {
            [only] => Ok(only.clone()),
            _ => Err(Failure::input(
                "KUBECONFIG names several files",
                "name the one that you mean with --kubeconfig",
            )),
        };
    }
    let home = std::env::var_os("HOME").map(PathBuf::from);
    home.map(|home| home.join(".kube/config")).ok_or_else(|| {
        Failure::input(
            "--context is given, but no kubeconfig, and HOME is not set",
            "name the file with --kubeconfig",
        )
    })
}
