//! What stands behind an image on a machine that has no images.

mod command;
mod image_command;
mod reference;

use std::collections::BTreeMap;

pub use self::command::{CommandError, CommandTemplate};
pub use self::image_command::{ImageCommand, ImageCommandError};
use self::reference::DEFAULT_TAG;
pub use self::reference::{Reference, ReferenceError};
use super::digest::sha256_hex;

/// What runs when a container of an image starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Runtime {
    /// No process: ready at once, ends when asked to.
    Pause,
    /// A program of this machine.
    Command(CommandTemplate),
}

/// The user that an image's processes run as, if the pod does not say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ImageUser {
    /// A number; 0 is root.
    Uid(u32),
    /// A name, of which nobody can tell whether it is root.
    Name(String),
}

/// One image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// What runs.
    pub runtime: Runtime,
    /// As whom.
    pub user: ImageUser,
}

/// The images that this node "has".
///
/// A repository with at least one entry is closed: other tags and digests of it do not exist, and
/// pulling them fails as a registry would. Every other image exists and is a [`Runtime::Pause`] that
/// runs as root.
#[derive(Clone, Debug, Default)]
pub struct ImageTable {
    /// By repository.
    entries: BTreeMap<String, Vec<Entry>>,
}

/// What a repository has under a tag, a digest or both; under all of them when it has neither.
#[derive(Clone, Debug)]
struct Entry {
    tag: Option<String>,
    digest: Option<String>,
    image: Image,
}

/// An image that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pulled {
    /// The image.
    pub image: Image,
    /// What the container's status gives as `imageID`: repository and digest.
    pub id: String,
}

/// Why an image cannot be had.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ImageError {
    /// The reference cannot be read (the kubelet's `InvalidImageName`).
    #[error("couldn't parse image name {0:?}")]
    Invalid(String),
    /// The repository is known and has no such tag or digest (`ErrImagePull`).
    #[error("{0}: not found")]
    NotFound(String),
}

impl ImageTable {
    /// Adds an image under a reference: `repository:tag`, `repository@digest`, `repository:tag@digest`
    /// for a tag whose digest is known, or `repository` alone for all its tags and digests. It takes
    /// the place of an earlier one under the same reference.
    ///
    /// What is not a reference is never found; a caller that takes one from a user parses it as
    /// [`Reference`] first.
    pub fn insert(&mut self, reference: impl Into<String>, image: Image) {
        let Ok(reference) = reference.into().parse::<Reference>() else {
            return;
        };
        let entries = self.entries.entry(reference.repository().to_owned());
        let entries = entries.or_default();
        let (tag, digest) = (reference.tag(), reference.digest());
        entries.retain(|entry| (entry.tag.as_deref(), entry.digest.as_deref()) != (tag, digest));
        entries.push(Entry {
            tag: tag.map(str::to_owned),
            digest: digest.map(str::to_owned),
            image,
        });
    }

    /// Finds what stands behind a reference. As in a registry, a digest decides and the tag beside it
    /// does not count, unless the table does not know the digest of that tag.
    ///
    /// # Errors
    ///
    /// [`ImageError`].
    pub fn pull(&self, reference: &str) -> Result<Pulled, ImageError> {
        let parsed: Reference = reference
            .parse()
            .map_err(|_| ImageError::Invalid(reference.to_owned()))?;
        let repository = parsed.repository();
        let Some(entries) = self.entries.get(repository) else {
            return Ok(Pulled {
                image: Image {
                    runtime: Runtime::Pause,
                    user: ImageUser::Uid(0),
                },
                id: id(&parsed, None),
            });
        };
        let found = find(entries, &parsed).ok_or_else(|| ImageError::NotFound(full(&parsed)))?;
        Ok(Pulled {
            image: found.image.clone(),
            id: id(&parsed, found.digest.as_deref()),
        })
    }
}

/// The most specific entry for a reference.
fn find<'a>(entries: &'a [Entry], reference: &Reference) -> Option<&'a Entry> {
    let whole_repository = |entry: &&Entry| entry.tag.is_none() && entry.digest.is_none();
    let fits = |entry: &&Entry| match reference.digest() {
        Some(digest) => match &entry.digest {
            Some(known) => known == digest,
            None => entry.tag.is_some() && entry.tag.as_deref() == reference.tag(),
        },
        None => entry.tag.as_deref() == Some(reference.tag().unwrap_or(DEFAULT_TAG)),
    };
    let by_digest = |entry: &&Entry| entry.digest.is_some() && fits(entry);
    let mut found = entries.iter().find(by_digest);
    found = found.or_else(|| entries.iter().find(fits));
    found.or_else(|| entries.iter().find(whole_repository))
}

/// Repository and digest: the reference's own digest, the one that the table knows, or one made from
/// the name, which is the same at every pull and on every machine.
fn id(reference: &Reference, known: Option<&str>) -> String {
    let repository = reference.repository();
    match reference.digest().or(known) {
        Some(digest) => format!("{repository}@{digest}"),
        None => format!(
            "{repository}@sha256:{}",
            sha256_hex(full(reference).as_bytes())
        ),
    }
}

/// The reference with the default tag where it has neither tag nor digest.
fn full(reference: &Reference) -> String {
    match (reference.tag(), reference.digest()) {
        (None, None) => format!("{reference}:{DEFAULT_TAG}"),
        _ => reference.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIGEST: &str = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    const OTHER: &str = "sha256:ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff";

    /// An image that is told by its user.
    fn image(uid: u32) -> Image {
        Image {
            runtime: Runtime::Pause,
            user: ImageUser::Uid(uid),
        }
    }

    fn table(entries: &[(&str, u32)]) -> ImageTable {
        let mut table = ImageTable::default();
        for (reference, uid) in entries {
            table.insert(*reference, image(*uid));
        }
        table
    }

    fn uid(table: &ImageTable, reference: &str) -> Result<u32, ImageError> {
        table.pull(reference).map(|pulled| match pulled.image.user {
            ImageUser::Uid(uid) => uid,
            ImageUser::Name(name) => panic!("{name} was not put in"),
        })
    }

    #[test]
    fn a_known_repository_is_closed_and_all_others_exist() {
        let table = table(&[("example.com/app:v1", 1), ("busybox", 2)]);
        assert_eq!(uid(&table, "example.com/app:v1"), Ok(1));
        assert_eq!(uid(&table, "docker.io/library/busybox:1.36"), Ok(2));
        assert_eq!(uid(&table, &format!("busybox@{DIGEST}")), Ok(2));
        assert_eq!(uid(&table, "example.com/other:v1"), Ok(0));
        let not_found = |name: &str| Err(ImageError::NotFound(name.to_owned()));
        assert_eq!(
            uid(&table, "example.com/app:v2"),
            not_found("example.com/app:v2")
        );
        assert_eq!(
            uid(&table, "example.com/app"),
            not_found("example.com/app:latest")
        );
        let by_digest = format!("example.com/app@{DIGEST}");
        assert_eq!(uid(&table, &by_digest), not_found(&by_digest));
        assert_eq!(
            uid(&table, "App"),
            Err(ImageError::Invalid("App".to_owned()))
        );
    }

    #[test]
    fn a_digest_decides_where_it_is_known() {
        let table = table(&[
            (&format!("app:v1@{DIGEST}"), 1),
            ("app:v2", 2),
            (&format!("app@{OTHER}"), 3),
        ]);
        for (reference, expected) in [
            ("app:v1".to_owned(), 1),
            (format!("app@{DIGEST}"), 1),
            (format!("app:v9@{DIGEST}"), 1),
            (format!("app:v1@{OTHER}"), 3),
            (format!("app:v2@{OTHER}"), 3),
            ("app:v2".to_owned(), 2),
        ] {
            assert_eq!(uid(&table, &reference), Ok(expected), "{reference}");
        }
        let unknown = format!("sha256:{}", "0".repeat(64));
        assert_eq!(uid(&table, &format!("app:v2@{unknown}")), Ok(2));
        assert!(uid(&table, &format!("app:v1@{unknown}")).is_err());
    }

    #[test]
    fn a_later_entry_replaces_an_earlier_one_of_the_same_reference() {
        let table = table(&[("app:v1", 1), ("docker.io/library/app:v1", 2), ("app", 3)]);
        assert_eq!(uid(&table, "app:v1"), Ok(2));
        assert_eq!(uid(&table, "app:v3"), Ok(3));
    }

    #[test]
    fn an_id_is_repository_and_digest() {
        let table = table(&[(&format!("app:v1@{DIGEST}"), 1)]);
        let id = |reference: &str| table.pull(reference).expect(reference).id;
        assert_eq!(id("app:v1"), format!("docker.io/library/app@{DIGEST}"));
        assert_eq!(
            id(&format!("x/y:z@{OTHER}")),
            format!("docker.io/x/y@{OTHER}")
        );
        // SHA-256 of `docker.io/library/nginx:latest`.
        assert_eq!(id("nginx"), id("docker.io/library/nginx:latest"));
        assert_ne!(id("nginx"), id("nginx:1"));
        assert_eq!(
            id("nginx").len(),
            "docker.io/library/nginx@sha256:".len() + 64
        );
    }
}
