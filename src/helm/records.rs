//! What Helm stored of a release: the Secrets `sh.helm.release.v1.NAME.vN`, one per revision.
//!
//! A record is JSON, compressed by gzip, in base64, as the data of a Secret. It holds the whole chart with
//! its `crds/`, the user's values and the manifest, so nothing of it but the facts of [`HelmRevision`] may
//! be written down.

use std::io::Read as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use chrono::{DateTime, Utc};
use flate2::read::GzDecoder;
use k8s_openapi::api::core::v1::Secret;
use serde::Deserialize;
use serde_json::Value;

use super::chart::definitions::{self, DefinitionError};
use super::yaml::{self, YamlError};
use crate::record::{ApplyMethod, HelmRevision, ReleaseState, RevisionStatus, schema_sha256};

/// The type of the Secrets.
const SECRET_TYPE: &str = "helm.sh/release.v1";
/// The key of their data.
const KEY: &str = "release";
/// Most bytes of a record in base64. A Secret holds at most 1 MiB.
const MOST_STORED: usize = 2 << 20;
/// Most bytes of a record. Helm refuses charts of more than 100 MiB, and the Secret bounds it far below.
const MOST_JSON: u64 = 64 << 20;

/// The record of a revision cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("cannot read helm's record of a revision in the Secret {secret}")]
pub struct RecordError {
    /// `NAMESPACE/NAME` of the Secret.
    pub secret: String,
    /// Why.
    #[source]
    pub trouble: RecordTrouble,
}

/// What is wrong with a record. Nothing here tells what is in it.
#[derive(Debug, thiserror::Error)]
pub enum RecordTrouble {
    /// The Secret holds none.
    #[error("it has no data under the key `release`")]
    Empty,
    /// It is larger than anything that Helm stores.
    #[error("it is larger than any that helm stores")]
    TooLarge,
    /// It is not base64.
    #[error("it is not base64")]
    Base64,
    /// It cannot be unpacked.
    #[error("it cannot be unpacked")]
    Gzip(#[source] std::io::Error),
    /// It is not the JSON of a release.
    #[error("it is not the JSON of a release (line {line}, column {column})")]
    Json {
        /// Where it goes wrong, from 1.
        line: usize,
        /// Where in the line, from 1.
        column: usize,
    },
    /// It is of another release or revision than its name says.
    #[error("it is that of {found}")]
    Another {
        /// `NAME` and revision in the record.
        found: String,
    },
    /// A status that no known Helm writes.
    #[error("its status `{0}` is not known")]
    UnknownStatus(String),
    /// An apply method that no known Helm writes.
    #[error("its apply method `{0}` is not known")]
    UnknownApplyMethod(String),
    /// A time that is none.
    #[error("its time `{0}` is not known")]
    Time(String),
    /// A definition in its chart cannot be read.
    #[error(transparent)]
    Definition(#[from] DefinitionError),
    /// Its manifest cannot be read.
    #[error("its manifest is not YAML")]
    Manifest(#[source] YamlError),
}

impl RecordError {
    /// The one thing to do about it, if there is one.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        let hint = match &self.trouble {
            RecordTrouble::UnknownStatus(_) | RecordTrouble::UnknownApplyMethod(_) => {
                "a newer Helm than 4 wrote it: use the Helm that this tool obtains"
            }
            RecordTrouble::Definition(_) => return None,
            _ => "look at it with `helm history`; a Secret of this name that is not Helm's must go",
        };
        Some(hint.to_owned())
    }
}

/// The history of a release, from the Secrets of its namespace; [`None`] when there is none. Secrets that
/// are not of this release are passed over.
///
/// # Errors
///
/// When a record of the release cannot be read.
pub fn release(
    name: &str,
    namespace: &str,
    secrets: &[Secret],
) -> Result<Option<ReleaseState>, RecordError> {
    let mut history = Vec::new();
    for secret in secrets {
        if revision_of(name, namespace, secret).is_some() {
            history.push(Record::decode(name, secret)?.revision()?);
        }
    }
    history.sort_by_key(|revision| revision.revision);
    Ok((!history.is_empty()).then(|| ReleaseState {
        name: name.to_owned(),
        namespace: namespace.to_owned(),
        history,
    }))
}

/// The newest record of a release with all that it holds; [`None`] when there is none.
///
/// # Errors
///
/// When it cannot be read.
pub fn newest(
    name: &str,
    namespace: &str,
    secrets: &[Secret],
) -> Result<Option<Record>, RecordError> {
    let numbered = secrets
        .iter()
        .filter_map(|secret| Some((revision_of(name, namespace, secret)?, secret)));
    let newest = numbered.max_by_key(|(number, _)| *number);
    newest
        .map(|(_, secret)| Record::decode(name, secret))
        .transpose()
}

/// The revision that a Secret holds the record of, if it is one of this release.
fn revision_of(name: &str, namespace: &str, secret: &Secret) -> Option<u32> {
    if secret.type_.as_deref() != Some(SECRET_TYPE)
        || secret.metadata.namespace.as_deref() != Some(namespace)
    {
        return None;
    }
    // A name may hold dots, so the prefix is not split at them.
    let rest = secret.metadata.name.as_deref()?;
    let rest = rest.strip_prefix("sh.helm.release.v1.")?;
    rest.strip_prefix(name)?.strip_prefix(".v")?.parse().ok()
}

/// The record of one revision.
#[derive(Debug)]
pub struct Record {
    secret: String,
    stored: Stored,
}

/// The part of the JSON that is looked at.
#[derive(Deserialize)]
struct Stored {
    name: String,
    version: u32,
    info: Info,
    chart: StoredChart,
    #[serde(default)]
    config: Value,
    #[serde(default)]
    manifest: String,
    #[serde(default)]
    apply_method: Option<String>,
}

/// Values and manifest may hold secrets.
impl std::fmt::Debug for Stored {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stored")
            .field("name", &self.name)
            .field("version", &self.version)
            .finish_non_exhaustive()
    }
}

#[derive(Deserialize)]
struct Info {
    status: String,
    #[serde(default)]
    description: String,
    #[serde(default)]
    last_deployed: String,
}

#[derive(Deserialize)]
struct StoredChart {
    metadata: Metadata,
    #[serde(default)]
    files: Option<Vec<StoredFile>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    name: String,
    version: String,
    #[serde(default)]
    app_version: String,
}

#[derive(Deserialize)]
struct StoredFile {
    name: String,
    #[serde(default)]
    data: Option<String>,
}

impl Record {
    /// Reads the record in a Secret of the release `name`.
    ///
    /// # Errors
    ///
    /// When it is not one, or not of this release and the revision that the Secret is named after.
    pub fn decode(name: &str, secret: &Secret) -> Result<Self, RecordError> {
        let namespace = secret.metadata.namespace.as_deref().unwrap_or_default();
        let own_name = secret.metadata.name.as_deref().unwrap_or_default();
        let shown = format!("{namespace}/{own_name}");
        let stored = decode(secret).and_then(|stored| {
            if revision_of(name, namespace, secret) == Some(stored.version) && stored.name == name {
                Ok(stored)
            } else {
                Err(RecordTrouble::Another {
                    found: format!("{} v{}", stored.name, stored.version),
                })
            }
        });
        match stored {
            Ok(stored) => Ok(Self {
                secret: shown,
                stored,
            }),
            Err(trouble) => Err(RecordError {
                secret: shown,
                trouble,
            }),
        }
    }

    /// Its facts.
    ///
    /// # Errors
    ///
    /// When it holds words that no known Helm writes.
    pub fn revision(&self) -> Result<HelmRevision, RecordError> {
        let Stored {
            version,
            info,
            chart,
            config,
            apply_method,
            ..
        } = &self.stored;
        Ok(HelmRevision {
            revision: *version,
            status: status(&info.status).map_err(self.at())?,
            description: info.description.clone(),
            chart: chart.metadata.name.clone(),
            chart_version: chart.metadata.version.clone(),
            app_version: chart.metadata.app_version.clone(),
            apply_method: method(apply_method.as_deref()).map_err(self.at())?,
            values_sha256: schema_sha256(&values_or_none(config)),
            last_deployed: time(&info.last_deployed).map_err(self.at())?,
        })
    }

    /// The user's values. They may hold secrets.
    #[must_use]
    pub fn values(&self) -> Value {
        values_or_none(&self.stored.config)
    }

    /// The definitions in the `crds/` of its chart.
    ///
    /// # Errors
    ///
    /// When one of them cannot be read.
    pub fn crds(&self) -> Result<Vec<Value>, RecordError> {
        let files = self.stored.chart.files.iter().flatten();
        let definitions = files.filter(|file| definitions::is_definition_file(&file.name));
        let texts = definitions.map(|file| {
            let data = STANDARD.decode(file.data.as_deref().unwrap_or_default());
            let text = data.ok().and_then(|data| String::from_utf8(data).ok());
            text.map(|text| (file.name.clone(), text))
                .ok_or(RecordTrouble::Base64)
        });
        let texts: Vec<_> = texts.collect::<Result<_, _>>().map_err(self.at())?;
        definitions::read(texts).map_err(|error| self.at()(error.into()))
    }

    /// The objects of its manifest. They may hold secrets.
    ///
    /// # Errors
    ///
    /// When the manifest cannot be read.
    pub fn manifest(&self) -> Result<Vec<Value>, RecordError> {
        yaml::documents(&self.stored.manifest)
            .map_err(|error| self.at()(RecordTrouble::Manifest(error)))
    }

    fn at(&self) -> impl Fn(RecordTrouble) -> RecordError {
        |trouble| RecordError {
            secret: self.secret.clone(),
            trouble,
        }
    }
}

fn decode(secret: &Secret) -> Result<Stored, RecordTrouble> {
    // The outer base64, that of every Secret's data, was undone by whoever read the Secret.
    let data = secret.data.as_ref().and_then(|data| data.get(KEY));
    let data = &data.ok_or(RecordTrouble::Empty)?.0;
    if data.len() > MOST_STORED {
        return Err(RecordTrouble::TooLarge);
    }
    let packed = STANDARD.decode(data).map_err(|_| RecordTrouble::Base64)?;
    let json = unpacked(packed)?;
    serde_json::from_slice(&json).map_err(|error| RecordTrouble::Json {
        line: error.line(),
        column: error.column(),
    })
}

/// Very old records are not compressed; Helm tells them apart by the first bytes, and so do we.
fn unpacked(packed: Vec<u8>) -> Result<Vec<u8>, RecordTrouble> {
    if !packed.starts_with(&[0x1f, 0x8b, 0x08]) {
        return Ok(packed);
    }
    let mut json = Vec::new();
    let mut bounded = GzDecoder::new(packed.as_slice()).take(MOST_JSON + 1);
    let count = bounded
        .read_to_end(&mut json)
        .map_err(RecordTrouble::Gzip)?;
    if u64::try_from(count).is_ok_and(|count| count <= MOST_JSON) {
        Ok(json)
    } else {
        Err(RecordTrouble::TooLarge)
    }
}

fn status(word: &str) -> Result<RevisionStatus, RecordTrouble> {
    RevisionStatus::deserialize(Value::from(word))
        .map_err(|_| RecordTrouble::UnknownStatus(word.to_owned()))
}

fn method(word: Option<&str>) -> Result<Option<ApplyMethod>, RecordTrouble> {
    let Some(word) = word.filter(|word| !word.is_empty()) else {
        return Ok(None);
    };
    ApplyMethod::deserialize(Value::from(word))
        .map(Some)
        .map_err(|_| RecordTrouble::UnknownApplyMethod(word.to_owned()))
}

/// Helm 3 writes a missing time as an empty text; Go's own zero is the year 1.
fn time(text: &str) -> Result<Option<DateTime<Utc>>, RecordTrouble> {
    if text.is_empty() || text.starts_with("0001-") {
        return Ok(None);
    }
    DateTime::parse_from_rfc3339(text)
        .map(|time| Some(time.with_timezone(&Utc)))
        .map_err(|_| RecordTrouble::Time(text.to_owned()))
}

/// No values are an empty map, whether Helm wrote `null`, `{}` or nothing.
fn values_or_none(config: &Value) -> Value {
    match config {
        Value::Null => Value::Object(serde_json::Map::new()),
        values => values.clone(),
    }
}

#[cfg(test)]
mod tests;
