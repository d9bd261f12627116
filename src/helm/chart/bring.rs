//! Brings a chart and its values from where they are to a folder of the run.

use std::fs::{self, DirBuilder};
use std::io::{self, Read as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::definitions;
use super::error::ChartError;
use super::files_error;
use super::tree::{MOST_FILE, MOST_TOTAL, Tree, TreeError, failed};
use crate::helm::embedded;
use crate::host::files;
use crate::record::sha256_hex;
use crate::scenario::{ChartSource, ValuesChoice};

/// The values of the profile `aicr` (`qualification.md` Q2).
const AICR_VALUES: &str = "readiness:\n  strictConfig: true\n";

/// Most charts that are opened below one folder.
const MOST_ROOMS: u32 = 10_000;

/// A chart in its folder.
pub(super) struct Brought {
    /// What Helm is given.
    pub(super) path: PathBuf,
    /// Its files.
    pub(super) tree: Tree,
    /// The digest of the archive, or of the files when it is none.
    pub(super) sha256: String,
}

/// Where a chart comes from, as people write it.
pub(super) fn source_name(source: &ChartSource) -> String {
    match source {
        ChartSource::Path { path } => path.display().to_string(),
        ChartSource::Embedded { version } => format!("embedded {version}"),
        ChartSource::Oci {
            repository,
            version,
            digest,
        } => {
            let version = version.as_ref().map(|version| format!(":{version}"));
            let digest = digest.as_ref().map(|digest| format!("@{digest}"));
            let (version, digest) = (version.unwrap_or_default(), digest.unwrap_or_default());
            format!("oci://{repository}{version}{digest}")
        }
    }
}

/// A new folder for one chart: the first `chart-N` that is not there, so that charts that are opened at
/// the same time, or in a run that goes on, never share one.
pub(super) fn new_room(workdir: &Path) -> Result<PathBuf, TreeError> {
    let private = || {
        let mut builder = DirBuilder::new();
        builder.mode(0o700);
        builder
    };
    private()
        .recursive(true)
        .create(workdir)
        .map_err(failed("create the folder", workdir))?;
    for number in 1..=MOST_ROOMS {
        let room = workdir.join(format!("chart-{number}"));
        match private().create(&room) {
            Ok(()) => return Ok(room),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(failed("create the folder", &room)(error)),
        }
    }
    Err(failed("find a new folder in", workdir)(io::Error::other(
        format!("{MOST_ROOMS} charts are there"),
    )))
}

/// Where the archive of a chart lies.
pub(super) fn archive_in(room: &Path) -> PathBuf {
    room.join("chart.tgz")
}

/// Brings a chart. One from a registry has been pulled to [`archive_in`] before.
pub(super) fn chart(
    source: &ChartSource,
    source_name: &str,
    room: &Path,
) -> Result<Brought, ChartError> {
    let folder = room.join("chart");
    match source {
        ChartSource::Embedded { version } => {
            let chart = embedded::chart(version).ok_or_else(|| ChartError::NotEmbedded {
                version: version.clone(),
            })?;
            Tree::write(chart, &folder).map(of_folder)
        }
        ChartSource::Oci { .. } => of_archive(room),
        ChartSource::Path { path } => match fs::metadata(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(ChartError::Missing { path: path.clone() });
            }
            Err(error) => Err(failed("look at", path)(error)),
            Ok(about) if about.is_dir() => Tree::copy(path, &folder).map(of_folder),
            Ok(about) if about.is_file() && is_archive(path) => {
                copy_archive(path, about.len(), room).and_then(|()| of_archive(room))
            }
            Ok(_) => return Err(ChartError::NotAChart { path: path.clone() }),
        },
    }
    .map_err(files_error(source_name))
}

fn of_folder(tree: Tree) -> Brought {
    Brought {
        path: tree.root().to_owned(),
        sha256: tree.sha256(),
        tree,
    }
}

/// The archive is installed as it is; what is unpacked is only looked at.
fn of_archive(room: &Path) -> Result<Brought, TreeError> {
    let path = archive_in(room);
    let bytes = fs::read(&path).map_err(failed("read", &path))?;
    Ok(Brought {
        sha256: sha256_hex(&bytes),
        tree: Tree::unpack(&path, &room.join("unpacked"))?,
        path,
    })
}

fn copy_archive(from: &Path, size: u64, room: &Path) -> Result<(), TreeError> {
    if size > MOST_TOTAL {
        return Err(TreeError::TooLarge(format!("more than {MOST_TOTAL} bytes")));
    }
    let to = archive_in(room);
    fs::copy(from, &to).map_err(failed("copy", from))?;
    Ok(())
}

fn is_archive(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    name.is_some_and(|name| name.ends_with(".tgz") || name.ends_with(".tar.gz"))
}

/// The definitions that Helm installs with a chart.
pub(super) fn definitions(tree: &Tree, source_name: &str) -> Result<Vec<Value>, ChartError> {
    let packed = |name: &&str| name.starts_with("charts/") && is_archive(Path::new(name));
    if let Some(archive) = tree.names().find(packed) {
        return Err(ChartError::PackedSubchart {
            source_name: source_name.to_owned(),
            archive: archive.to_owned(),
        });
    }
    let files = tree
        .names()
        .filter(|name| definitions::is_definition_file(name));
    let texts: Result<Vec<(String, String)>, TreeError> = files
        .map(|name| Ok((name.to_owned(), tree.text(name)?)))
        .collect();
    let texts = texts.map_err(files_error(source_name))?;
    definitions::read(texts).map_err(|source| ChartError::Definitions {
        source_name: source_name.to_owned(),
        source,
    })
}

/// The name of the values and the file that they are in. A file of the user's is copied unread: it is
/// Helm that reads it.
pub(super) fn values(
    choice: &ValuesChoice,
    room: &Path,
) -> Result<(String, Option<PathBuf>), ChartError> {
    let file = room.join("values.yaml");
    let (name, from, bytes) = match choice {
        ValuesChoice::ChartDefault => return Ok(("chart-default".to_owned(), None)),
        ValuesChoice::Aicr => (
            "aicr".to_owned(),
            &file,
            Ok(AICR_VALUES.as_bytes().to_vec()),
        ),
        ValuesChoice::File { path } => (path.display().to_string(), path, read_values(path)),
    };
    let written = bytes.and_then(|bytes| {
        files::write_atomic(&file, &bytes, files::SECRET)
            .map_err(|error| failed("write", &file)(io::Error::other(error)))
    });
    written.map_err(|source| ChartError::Values {
        path: from.clone(),
        source,
    })?;
    Ok((name, Some(file)))
}

fn read_values(path: &Path) -> Result<Vec<u8>, TreeError> {
    let mut bytes = Vec::new();
    let file = fs::File::open(path).map_err(failed("open", path))?;
    file.take(MOST_FILE + 1)
        .read_to_end(&mut bytes)
        .map_err(failed("read", path))?;
    if bytes.len() as u64 > MOST_FILE {
        return Err(TreeError::TooLarge(format!(
            "the values have more than {MOST_FILE} bytes"
        )));
    }
    Ok(bytes)
}
