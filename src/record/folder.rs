//! The folder of a run (`design.md` 5).

use std::path::PathBuf;

/// A run's folder cannot be written or read.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// It cannot be written.
    #[error("cannot write {}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
}

/// The folder of one run.
#[derive(Debug)]
pub struct RunFolder {
    root: PathBuf,
}

impl RunFolder {
    /// Its path.
    #[must_use]
    pub fn path(&self) -> &std::path::Path {
        &self.root
    }
}
