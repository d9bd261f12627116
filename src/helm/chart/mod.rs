//! A chart, as a copy of its own: the very files that are installed every time.
//!
//! Wherever it comes from, it is brought once into a folder of the run, and everything that is told of it
//! (digest, definitions, values) is told of that copy.

mod bring;
pub(super) mod definitions;
mod error;
mod facts;
mod tree;

use std::io;
use std::path::{Path, PathBuf};

use serde_json::Value;

use self::bring::Brought;
pub use self::definitions::DefinitionError;
pub use self::error::ChartError;
use self::facts::Facts;
pub use self::tree::TreeError;
use super::objects;
use super::oci::{self, Pulled};
use super::program::Rendered;
use crate::record::{ChartRecord, crd_versions, schema_sha256};
use crate::scenario::{ChartPlan, ChartSource};

/// The template that is added to a copy of the chart, to see the computed values as Helm has them. Helm
/// reads YAML 1.1, merges, coalesces and casts; nobody else does it the same way.
pub(super) const VALUES_TEMPLATE: &str = "templates/aibom-qual-values.yaml";
const VALUES_TEMPLATE_TEXT: &str = "aibomQualValues: {{ .Values | toJson | toJson }}\n";
const VALUES_MARK: &str = "aibomQualValues: ";

/// A chart that can be installed, with its values.
#[derive(Clone, Debug)]
pub struct Chart {
    /// What Helm is given: a folder or an archive.
    path: PathBuf,
    probe: PathBuf,
    values_file: Option<PathBuf>,
    facts: Facts,
    crds: Vec<Value>,
    source: String,
    sha256: String,
    oci_digest: Option<String>,
    values: String,
}

impl Chart {
    /// Brings a chart and its values into a new folder below `workdir`, which is made if it is not there.
    /// The values may hold secrets, so `workdir` is not for what is published of a run.
    ///
    /// # Errors
    ///
    /// When the chart or its values cannot be fetched, copied or read.
    pub async fn open(plan: &ChartPlan, workdir: &Path) -> Result<Self, ChartError> {
        let source = bring::source_name(&plan.source);
        let room = bring::new_room(workdir).map_err(files_error(&source))?;
        let pulled = match &plan.source {
            ChartSource::Oci {
                repository,
                version,
                digest,
            } => {
                let wanted = oci::Wanted::new(repository, version.as_deref(), digest.as_deref())?;
                Some(oci::pull(&wanted, &bring::archive_in(&room)).await?)
            }
            ChartSource::Path { .. } | ChartSource::Embedded { .. } => None,
        };
        let plan = plan.clone();
        let lost = files_error(&source);
        let opened = tokio::task::spawn_blocking(move || Self::read(&plan, source, &room, pulled));
        opened.await.unwrap_or_else(|error| {
            let error = tree::failed("read", workdir)(io::Error::other(error));
            Err(lost(error))
        })
    }

    fn read(
        plan: &ChartPlan,
        source: String,
        room: &Path,
        pulled: Option<Pulled>,
    ) -> Result<Self, ChartError> {
        let Brought { path, tree, sha256 } = bring::chart(&plan.source, &source, room)?;
        let facts = Facts::read(&tree, &source)?;
        if let ChartSource::Oci { version, .. } = &plan.source
            && version
                .as_ref()
                .is_some_and(|wanted| *wanted != facts.version)
        {
            return Err(ChartError::OtherVersion {
                source_name: source,
                found: facts.version,
            });
        }
        let crds = bring::definitions(&tree, &source)?;
        let (values, values_file) = bring::values(&plan.values, room)?;
        let probe = room.join("probe");
        let mut copy = tree.copy_to(&probe).map_err(files_error(&source))?;
        copy.add(VALUES_TEMPLATE.to_owned(), VALUES_TEMPLATE_TEXT.as_bytes())
            .map_err(files_error(&source))?;
        Ok(Self {
            path,
            probe,
            values_file,
            facts,
            crds,
            source,
            sha256,
            oci_digest: pulled.map(|pulled| pulled.digest),
            values,
        })
    }

    /// The folder or archive that is installed.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The file of values that it is installed with, if there is one.
    #[must_use]
    pub fn values_file(&self) -> Option<&Path> {
        self.values_file.as_deref()
    }

    /// Its version.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.facts.version
    }

    /// Where it came from, as written.
    #[must_use]
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Every definition in its `crds/`, in the order of files and documents.
    #[must_use]
    pub fn crds(&self) -> &[Value] {
        &self.crds
    }

    /// A copy with [`VALUES_TEMPLATE`].
    pub(super) fn probe(&self) -> &Path {
        &self.probe
    }

    /// The computed values, in what Helm rendered of [`VALUES_TEMPLATE`].
    pub(super) fn values_in(rendered: &str) -> Result<Value, String> {
        let mut lines = rendered.lines();
        let text = lines.find_map(|line| line.strip_prefix(VALUES_MARK));
        let text = text.ok_or("helm did not render them")?;
        let broken = |error: serde_json::Error| {
            format!(
                "not JSON (line {}, column {})",
                error.line(),
                error.column()
            )
        };
        let json: String = serde_json::from_str(text).map_err(broken)?;
        serde_json::from_str(&json).map_err(broken)
    }

    /// The facts of the chart, with those of what Helm renders of it.
    ///
    /// # Errors
    ///
    /// When it does not render exactly one Deployment, of which the image is told.
    pub fn record(&self, rendered: &Rendered) -> Result<ChartRecord, ChartError> {
        let crds = self.crds.iter().filter_map(|definition| {
            let name = definition["metadata"]["name"].as_str()?;
            Some((name.to_owned(), crd_versions(definition)))
        });
        Ok(ChartRecord {
            name: self.facts.name.clone(),
            version: self.facts.version.clone(),
            app_version: self.facts.app_version.clone(),
            source: self.source.clone(),
            sha256: self.sha256.clone(),
            oci_digest: self.oci_digest.clone(),
            image: self.image(&rendered.objects)?,
            values: self.values.clone(),
            values_sha256: schema_sha256(&rendered.values),
            objects: rendered.objects.iter().map(objects::identity).collect(),
            crds: crds.collect(),
        })
    }

    fn image(&self, objects: &[Value]) -> Result<String, ChartError> {
        let deployments: Vec<&Value> = objects
            .iter()
            .filter(|object| object["kind"] == "Deployment")
            .collect();
        let [deployment] = deployments.as_slice() else {
            return Err(ChartError::Deployments {
                source_name: self.source.clone(),
                count: deployments.len(),
            });
        };
        let image = &deployment["spec"]["template"]["spec"]["containers"][0]["image"];
        Ok(image.as_str().unwrap_or_default().to_owned())
    }
}

fn files_error(source_name: &str) -> impl Fn(TreeError) -> ChartError + use<> {
    let source_name = source_name.to_owned();
    move |source| ChartError::Files {
        source_name: source_name.clone(),
        source,
    }
}

#[cfg(test)]
mod tests;
