//! The volumes of a pod as folders and files of this machine.
//!
//! An `emptyDir` is an empty folder; ConfigMaps, Secrets, the downward API and what is projected of
//! them are files, written once, when the pod starts. A `hostPath` is that very path. Every other kind
//! is an empty folder, so that a pod that mounts it can run at all. Volumes that no container mounts
//! are not looked at, as with a kubelet. Of a file's mode, only the owner's part counts.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Component, Path, PathBuf};

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{
    DownwardAPIVolumeFile, KeyToPath, Pod, ProjectedVolumeSource, ServiceAccountTokenProjection,
    Volume,
};

use super::env;
use super::field;
use super::objects::{ObjectError, Objects};
use crate::host::files::private_dir;

/// Mode of a file that nobody gives one (the API's default).
const DEFAULT_MODE: i32 = 0o644;

/// What a volume holds before the first container starts. Not to be shown: some of it is secret.
#[derive(Default)]
pub(super) struct Content {
    /// The folder, if it is not the pod's own.
    pub(super) host_path: Option<PathBuf>,
    files: Vec<NewFile>,
    /// Tokens, whose files come from elsewhere.
    pub(super) tokens: Vec<ServiceAccountTokenProjection>,
}

struct NewFile {
    /// Below the volume's folder.
    path: String,
    bytes: Vec<u8>,
    mode: i32,
}

/// The volumes that a container of the pod mounts, in the order of the spec.
pub(super) fn mounted(pod: &Pod) -> impl Iterator<Item = &Volume> {
    let spec = pod.spec.as_ref();
    let containers = spec.map(|spec| {
        spec.init_containers
            .iter()
            .flatten()
            .chain(&spec.containers)
    });
    let mounts = containers.into_iter().flatten();
    let mounts = mounts.flat_map(|container| container.volume_mounts.iter().flatten());
    let names: BTreeSet<&str> = mounts.map(|mount| mount.name.as_str()).collect();
    let volumes = spec.and_then(|spec| spec.volumes.as_ref());
    let volumes = volumes.into_iter().flatten();
    volumes.filter(move |volume| names.contains(volume.name.as_str()))
}

/// Reads what a volume holds.
///
/// # Errors
///
/// The kubelet's words.
pub(super) async fn content(
    pod: &Pod,
    volume: &Volume,
    objects: &Objects,
) -> Result<Content, String> {
    let mut content = Content::default();
    if let Some(source) = &volume.host_path {
        content.host_path = Some(PathBuf::from(&source.path));
    } else if let Some(source) = &volume.config_map {
        let reference = Reference {
            kind: Kind::ConfigMap,
            name: &source.name,
            items: source.items.as_deref(),
            optional: source.optional,
        };
        content.files = reference.files(source.default_mode, objects).await?;
    } else if let Some(source) = &volume.secret {
        let reference = Reference {
            kind: Kind::Secret,
            name: source.secret_name.as_deref().unwrap_or_default(),
            items: source.items.as_deref(),
            optional: source.optional,
        };
        content.files = reference.files(source.default_mode, objects).await?;
    } else if let Some(source) = &volume.downward_api {
        let items = source.items.iter().flatten();
        content.files = downward(pod, items, source.default_mode, objects).await?;
    } else if let Some(source) = &volume.projected {
        project(pod, source, objects, &mut content).await?;
    }
    Ok(content)
}

impl Content {
    /// Puts the files into the volume's folder. Blocks.
    ///
    /// # Errors
    ///
    /// In words.
    pub(super) fn write(&self, folder: &Path) -> Result<(), String> {
        private_dir(folder).map_err(|error| crate::error_chain::chain(&error))?;
        for file in &self.files {
            let path = below(folder, &file.path)?;
            let written = write(&path, &file.bytes, file.mode);
            written.map_err(|error| format!("cannot write {}: {error}", path.display()))?;
        }
        Ok(())
    }
}

/// A file or folder directly in a folder.
///
/// # Errors
///
/// In words, when the name is none.
pub(super) fn member(folder: &Path, name: &str) -> Result<PathBuf, String> {
    let mut parts = Path::new(name).components();
    match (parts.next(), parts.next()) {
        (Some(Component::Normal(part)), None) if part == name => Ok(folder.join(name)),
        _ => Err(format!("{name:?} is not the name of a folder")),
    }
}

/// A path inside a folder.
///
/// # Errors
///
/// In words, when it leads out of it.
pub(super) fn below(folder: &Path, path: &str) -> Result<PathBuf, String> {
    let relative = Path::new(path);
    let inside = relative
        .components()
        .all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
    match inside {
        true => Ok(folder.join(relative)),
        false => Err(format!("the path {path:?} leads out of its folder")),
    }
}

fn write(path: &Path, bytes: &[u8], mode: i32) -> io::Result<()> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    // An earlier attempt may have left a file that nobody may write to.
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new()
        .create_new(true)
        .write(true)
        .mode(0o600)
        .open(path)?;
    file.write_all(bytes)?;
    let mode = u32::try_from(mode).unwrap_or(0) & 0o700;
    file.set_permissions(Permissions::from_mode(mode))
}

/// The data of an object, by key.
type Data = BTreeMap<String, Vec<u8>>;

#[derive(Clone, Copy, Debug)]
enum Kind {
    ConfigMap,
    Secret,
}

impl Kind {
    async fn data(self, name: &str, objects: &Objects) -> Result<Data, ObjectError> {
        let bytes = |(key, ByteString(value))| (key, value);
        Ok(match self {
            Self::ConfigMap => {
                let object = objects.config_map(name).await?;
                let text = object.data.into_iter().flatten();
                let text = text.map(|(key, value)| (key, value.into_bytes()));
                let binary = object.binary_data.into_iter().flatten();
                text.chain(binary.map(bytes)).collect()
            }
            Self::Secret => {
                let object = objects.secret(name).await?;
                object.data.into_iter().flatten().map(bytes).collect()
            }
        })
    }

    fn missing(self, key: &str) -> String {
        match self {
            Self::ConfigMap => format!("configmap references non-existent config key: {key}"),
            Self::Secret => format!("references non-existent secret key: {key}"),
        }
    }
}

/// A reference to a ConfigMap or Secret.
#[derive(Clone, Copy, Debug)]
struct Reference<'a> {
    kind: Kind,
    name: &'a str,
    items: Option<&'a [KeyToPath]>,
    optional: Option<bool>,
}

impl Reference<'_> {
    /// The files that come of it: of all keys, or of those that are listed.
    async fn files(
        self,
        default_mode: Option<i32>,
        objects: &Objects,
    ) -> Result<Vec<NewFile>, String> {
        let optional = self.optional == Some(true);
        let mode = default_mode.unwrap_or(DEFAULT_MODE);
        let data = match self.kind.data(self.name, objects).await {
            Err(error) if error.is_not_found() && optional => Data::new(),
            data => data.map_err(|error| error.to_string())?,
        };
        let items = self.items.unwrap_or_default();
        if items.is_empty() {
            let all = data.into_iter();
            return Ok(all
                .map(|(path, bytes)| NewFile { path, bytes, mode })
                .collect());
        }
        let mut files = Vec::with_capacity(items.len());
        for item in items {
            match data.get(&item.key) {
                Some(bytes) => files.push(NewFile {
                    path: item.path.clone(),
                    bytes: bytes.clone(),
                    mode: item.mode.unwrap_or(mode),
                }),
                None if optional => {}
                None => return Err(self.kind.missing(&item.key)),
            }
        }
        Ok(files)
    }
}

async fn downward(
    pod: &Pod,
    items: impl Iterator<Item = &DownwardAPIVolumeFile>,
    default_mode: Option<i32>,
    objects: &Objects,
) -> Result<Vec<NewFile>, String> {
    let mut files = Vec::new();
    for item in items {
        let text = if let Some(reference) = &item.field_ref {
            field::of_pod(pod, &reference.field_path)?
        } else if let Some(selector) = &item.resource_field_ref {
            let name = selector.container_name.as_deref().unwrap_or_default();
            let container = env::find_container(pod, name)?;
            env::resource(selector, container, objects).await?
        } else {
            return Err(format!("the file {:?} has no source", item.path));
        };
        files.push(NewFile {
            path: item.path.clone(),
            bytes: text.into_bytes(),
            mode: item.mode.or(default_mode).unwrap_or(DEFAULT_MODE),
        });
    }
    Ok(files)
}

async fn project(
    pod: &Pod,
    source: &ProjectedVolumeSource,
    objects: &Objects,
    content: &mut Content,
) -> Result<(), String> {
    let mode = source.default_mode;
    for source in source.sources.iter().flatten() {
        if let Some(source) = &source.config_map {
            let reference = Reference {
                kind: Kind::ConfigMap,
                name: &source.name,
                items: source.items.as_deref(),
                optional: source.optional,
            };
            content.files.extend(reference.files(mode, objects).await?);
        } else if let Some(source) = &source.secret {
            let reference = Reference {
                kind: Kind::Secret,
                name: &source.name,
                items: source.items.as_deref(),
                optional: source.optional,
            };
            content.files.extend(reference.files(mode, objects).await?);
        } else if let Some(source) = &source.downward_api {
            let items = source.items.iter().flatten();
            let files = downward(pod, items, mode, objects).await?;
            content.files.extend(files);
        } else if let Some(token) = &source.service_account_token {
            content.tokens.push(token.clone());
        } else {
            return Err("a projected source is of a kind that this node does not know".to_owned());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_leads_out_of_a_folder() {
        let folder = Path::new("/v");
        assert_eq!(below(folder, "a/./b"), Ok(PathBuf::from("/v/a/b")));
        for path in ["../a", "a/../../b", "/etc/passwd", "a/.."] {
            assert!(below(folder, path).is_err(), "{path}");
        }
        assert_eq!(member(folder, "a"), Ok(PathBuf::from("/v/a")));
        for name in ["", ".", "..", "a/b", "/a", "a/", "./a"] {
            assert!(member(folder, name).is_err(), "{name}");
        }
    }
}
