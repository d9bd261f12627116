//! Removing what a run made, and nothing else (CLN-01 to CLN-05).
//!
//! The order is that of the dependencies: the release first, so that no controller is left that would
//! work on what goes away (UNI-05); then the namespaces, with all that is in them; then the
//! definitions, whose objects would go with them, and only when no object of somebody else exists.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::ListParams;
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Api, Client};

use super::engine::{answered, cluster};
use super::error::RunError;
use super::limits;
use super::namespaces::{self, RUN_ANNOTATION};
use super::steps::FOUND_FILE;
use crate::cluster::Removal as Removed;
use crate::cluster::client;
use crate::cluster::crds;
use crate::cluster::delete_namespace;
use crate::cluster::facts;
use crate::cluster::fault::Fault;
use crate::cluster::found::AsFound;
use crate::cluster::release_secrets;
use crate::cluster::wait::{Deadline, WaitError};
use crate::helm::{Helm, ReleaseRef};
use crate::record::{CleanupFacts, Created, FolderError, Ledger, RunFolder};

/// What is needed to remove what a run made.
pub(super) struct Removal<'a> {
    pub(super) client: &'a Client,
    pub(super) helm: &'a Helm,
    /// The cluster as it was found, if that was recorded.
    pub(super) found: Option<&'a AsFound>,
    /// The name of the run.
    pub(super) run: &'a str,
}

/// Removes everything in the ledger that is still there. What cannot be removed is told in the result.
pub(super) async fn remove(
    removal: &Removal<'_>,
    ledger: &Ledger,
) -> Result<CleanupFacts, RunError> {
    let mut facts = CleanupFacts {
        deleted: BTreeMap::new(),
        left: Vec::new(),
        differences: Vec::new(),
    };
    for created in &ledger.created {
        if let Created::Release { name, namespace } = created {
            removal.uninstall(name, namespace, &mut facts).await?;
        }
    }
    if !facts.left.is_empty() {
        // Its records lie in the namespace: without them nobody could uninstall it later. And a
        // controller that still runs must not lose its definitions (UNI-05).
        return Ok(facts);
    }
    removal.namespaces(ledger, &mut facts).await?;
    removal.definitions(ledger, &mut facts).await?;
    if let Some(found) = removal.found {
        let differences = found
            .settled_differences(removal.client, limits::AS_FOUND)
            .await;
        facts.differences =
            differences.map_err(|fault| cluster("record the cluster as it is now", fault))?;
    }
    Ok(facts)
}

impl Removal<'_> {
    async fn uninstall(
        &self,
        name: &str,
        namespace: &str,
        facts: &mut CleanupFacts,
    ) -> Result<(), RunError> {
        let secrets = release_secrets(self.client, name, namespace).await;
        let secrets = secrets.map_err(|fault| cluster("read the records of the release", fault))?;
        if secrets.is_empty() {
            return Ok(());
        }
        let left = format!("Release {namespace}/{name}");
        let release = ReleaseRef {
            name: name.to_owned(),
            namespace: namespace.to_owned(),
        };
        let said = self.helm.uninstall(&release, limits::HELM).await?;
        if said.failure.is_some() {
            let why = said.said.unwrap_or_else(|| "helm failed".to_owned());
            facts.left.push(format!("{left} ({why})"));
        } else {
            count(facts, "Release");
        }
        Ok(())
    }

    /// All namespaces at once: each of them takes its time.
    async fn namespaces(&self, ledger: &Ledger, facts: &mut CleanupFacts) -> Result<(), RunError> {
        let made = ledger.created.iter().filter_map(|created| match created {
            Created::Namespace { name, uid } => Some((name.as_str(), uid.as_deref())),
            _ => None,
        });
        let deadline = Deadline::within(limits::NAMESPACES_GONE);
        let removed = futures_util::future::join_all(made.map(async |(name, uid)| {
            let uid = match uid {
                Some(uid) => Some(uid.to_owned()),
                None => self.uid_of_mine(name).await?,
            };
            let removed = match uid {
                Some(uid) => delete_namespace(self.client, name, &uid, deadline).await,
                None => Ok(Removed::Absent),
            };
            Ok::<_, RunError>((name, removed))
        }));
        for removed in removed.await {
            match removed? {
                (_, Ok(Removed::Deleted)) => count(facts, "Namespace"),
                (_, Ok(Removed::Absent)) => {}
                (name, Err(error)) => left(facts, &format!("Namespace {name}"), error)?,
            }
        }
        Ok(())
    }

    /// The UID of a namespace whose creation was under way when the run was killed: it is the run's
    /// own when it says so.
    async fn uid_of_mine(&self, name: &str) -> Result<Option<String>, RunError> {
        let found = namespaces::find(self.client, name).await?;
        let mine = found.filter(|namespace| {
            let annotations = namespace.metadata.annotations.as_ref();
            annotations
                .and_then(|all| all.get(RUN_ANNOTATION))
                .map(String::as_str)
                == Some(self.run)
        });
        Ok(mine.and_then(|namespace| namespace.metadata.uid))
    }

    /// Objects of a definition, as `KIND NAMESPACE/NAME`; no more than one page, since one is enough.
    async fn objects(&self, definition: &str) -> Result<Vec<String>, RunError> {
        let doing = "look for objects of others";
        let api = Api::<CustomResourceDefinition>::all(self.client.clone());
        let Some(found) = answered(doing, api.get_opt(definition)).await? else {
            return Ok(Vec::new());
        };
        let Some(version) = found.spec.versions.iter().find(|version| version.served) else {
            return Ok(Vec::new());
        };
        let names = &found.spec.names;
        let kind = GroupVersionKind::gvk(&found.spec.group, &version.name, &names.kind);
        let resource = ApiResource::from_gvk_with_plural(&kind, &names.plural);
        let objects = Api::<DynamicObject>::all_with(self.client.clone(), &resource);
        let page = ListParams::default().limit(100);
        let listed = match answered(doing, objects.list_metadata(&page)).await {
            Ok(listed) => listed.items,
            // It is being deleted, and all its objects with it.
            Err(RunError::Cluster { source, .. }) if *source == Fault::NoSuchResource => Vec::new(),
            Err(error) => return Err(error),
        };
        let called = listed.into_iter().map(|object| {
            let name = object.metadata.name.unwrap_or_default();
            match object.metadata.namespace {
                Some(namespace) => format!("{} {namespace}/{name}", names.kind),
                None => format!("{} {name}", names.kind),
            }
        });
        Ok(called.collect())
    }

    /// The definitions, unless an object of them is left: all that the run made are gone by now, so it
    /// is somebody else's (CLN-03).
    async fn definitions(&self, ledger: &Ledger, facts: &mut CleanupFacts) -> Result<(), RunError> {
        let api = Api::<CustomResourceDefinition>::all(self.client.clone());
        let deadline = Deadline::within(limits::DEFINITIONS);
        let mut made = Vec::new();
        for created in &ledger.created {
            let Created::Crd { name, uid } = created else {
                continue;
            };
            let found = answered("read the definitions", api.get_metadata_opt(name)).await?;
            let Some(found) = found else { continue };
            // It was not there when the run began, which noted it before helm made it.
            let uid = uid.clone().or(found.metadata.uid);
            made.extend(uid.map(|uid| (name.as_str(), uid)));
        }
        let mut objects = Vec::new();
        for (name, _) in &made {
            objects.extend(self.objects(name).await?);
        }
        if !objects.is_empty() {
            let names = made.iter().map(|(name, _)| *name).collect::<Vec<_>>();
            facts.left.push(format!(
                "CustomResourceDefinition {} ({} objects of others: {})",
                names.join(" and "),
                objects.len(),
                some(&objects)
            ));
            return Ok(());
        }
        for (name, uid) in made {
            match crds::delete(self.client, name, &uid, deadline).await {
                Ok(Removed::Deleted) => count(facts, "CustomResourceDefinition"),
                Ok(Removed::Absent) => {}
                Err(error) => left(facts, &format!("CustomResourceDefinition {name}"), error)?,
            }
        }
        Ok(())
    }
}

/// What could not be removed is told; a cluster that refuses altogether is an error.
fn left(facts: &mut CleanupFacts, what: &str, error: WaitError) -> Result<(), RunError> {
    match error {
        WaitError::Failed { .. } => Err(error.into()),
        late => {
            facts.left.push(format!("{what} ({late})"));
            Ok(())
        }
    }
}

fn count(facts: &mut CleanupFacts, kind: &str) {
    *facts.deleted.entry(kind.to_owned()).or_default() += 1;
}

/// The first of many names.
fn some(names: &[String]) -> String {
    let mut shown = names.iter().take(3).cloned().collect::<Vec<_>>();
    if names.len() > shown.len() {
        shown.push("…".to_owned());
    }
    shown.join(", ")
}

/// What an earlier run left in its cluster, by its ledger (CLN-05).
#[derive(Debug)]
pub struct Leavings {
    kubeconfig: PathBuf,
    ledger: Ledger,
}

impl Leavings {
    /// Reads the ledger of a run; [`None`] when nothing is left: the run made nothing, all of it was
    /// removed, or its cluster is gone with it.
    ///
    /// # Errors
    ///
    /// [`FolderError`] when the ledger is damaged.
    pub fn of(folder: &RunFolder) -> Result<Option<Self>, FolderError> {
        let ledger = folder.read_ledger()?.filter(|ledger| !ledger.cleaned);
        Ok(ledger.and_then(|ledger| {
            let kubeconfig = ledger.kubeconfig.clone()?;
            Some(Self { kubeconfig, ledger })
        }))
    }

    /// The kubeconfig that leads to the cluster.
    #[must_use]
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// The context in it; the current one when [`None`].
    #[must_use]
    pub fn context(&self) -> Option<&str> {
        self.ledger.context.as_deref()
    }

    /// Removes it. When all of it is gone, the ledger says so from then on.
    ///
    /// # Errors
    ///
    /// [`RunError`] when the cluster cannot be reached, or is another one than the run was in (MET-09).
    pub async fn remove(
        mut self,
        folder: &RunFolder,
        helm: &Helm,
    ) -> Result<CleanupFacts, RunError> {
        let client = client::connect_to(&self.kubeconfig, self.context()).await?;
        let server = facts::server(&client).await;
        let server = server.map_err(|fault| cluster("ask the API server who it is", fault))?;
        if self.ledger.cluster.as_ref() != Some(&server.kube_system_uid) {
            return Err(RunError::OtherCluster);
        }
        // Without it the cluster is cleaned just as well, but not compared.
        let found = std::fs::read(folder.path().join(FOUND_FILE)).ok();
        let found: Option<AsFound> = found.and_then(|text| serde_json::from_slice(&text).ok());
        let removal = Removal {
            client: &client,
            helm,
            found: found.as_ref(),
            run: &folder.name(),
        };
        let facts = remove(&removal, &self.ledger).await?;
        if facts.left.is_empty() {
            self.ledger.cleaned = true;
            folder.write_ledger(&self.ledger)?;
        }
        Ok(facts)
    }
}
