//! What stands behind an image on a machine that has no images.

use std::collections::BTreeMap;

/// What runs when a container of an image starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Runtime {
    /// No process: ready at once, ends when asked to.
    Pause,
    /// A program of this machine.
    Command(CommandTemplate),
}

/// A command line in which `{port:8080}` stands for the port of this machine that is the
/// container's port 8080.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandTemplate {
    /// Program and arguments, not yet replaced; never empty.
    words: Vec<String>,
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
    entries: BTreeMap<String, Image>,
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
    /// Adds an image under a reference: `repository:tag`, `repository@digest`, or `repository` alone
    /// for all its tags and digests.
    pub fn insert(&mut self, reference: impl Into<String>, image: Image) {
        self.entries.insert(reference.into(), image);
    }

    /// Finds what stands behind a reference.
    ///
    /// # Errors
    ///
    /// [`ImageError`].
    pub fn pull(&self, reference: &str) -> Result<Pulled, ImageError> {
        Err(ImageError::NotFound(reference.to_owned()))
    }
}
