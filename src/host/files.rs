//! Files of a plane: written whole or not at all, and private from their first byte.

use std::fs::{self, DirBuilder, File, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

/// Mode of a file that holds a secret.
pub const SECRET: u32 = 0o600;
/// Mode of a file that anybody may read.
pub const PUBLIC: u32 = 0o644;

/// A file or folder could not be read or written.
#[derive(Debug, thiserror::Error)]
#[error("cannot {action} {}", path.display())]
pub struct FileError {
    action: &'static str,
    path: PathBuf,
    source: io::Error,
}

impl FileError {
    fn new(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self + use<> {
        let path = path.to_owned();
        move |source| Self {
            action,
            path,
            source,
        }
    }

    /// The file or folder at fault.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What kind of failure the operating system reported.
    #[must_use]
    pub fn kind(&self) -> io::ErrorKind {
        self.source.kind()
    }

    /// The one thing to do about it, if there is one.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        io_hint(self.kind(), self.path.parent().unwrap_or(&self.path))
    }
}

/// What to do when the operating system refused something in `folder` of the planes' state.
pub(crate) fn io_hint(kind: io::ErrorKind, folder: &Path) -> Option<String> {
    let folder = folder.display();
    match kind {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            Some(format!("free some space on the disk that holds {folder}"))
        }
        io::ErrorKind::PermissionDenied => {
            Some(format!("check the owner and the mode of {folder}"))
        }
        io::ErrorKind::ReadOnlyFilesystem => Some(format!(
            "{folder} is mounted read-only: choose another --state-dir"
        )),
        _ => None,
    }
}

/// Replaces `path` by a file with these bytes and exactly this mode.
///
/// A reader sees the old file or the new one, also after a crash: the bytes go to a temporary file
/// in the same folder, which is flushed to disk before it takes the name. Until then it has mode
/// 0600, so that a secret is never readable by others, not even for a moment.
///
/// # Errors
///
/// [`FileError`] names the file, or the folder when that is at fault.
pub fn write_atomic(path: &Path, bytes: &[u8], mode: u32) -> Result<(), FileError> {
    let folder = parent(path);
    let mut file = tempfile::Builder::new()
        .prefix(".aibom-qual-")
        .tempfile_in(folder)
        .map_err(FileError::new("create a file in", folder))?;
    file.write_all(bytes)
        .map_err(FileError::new("write", path))?;
    file.as_file()
        .set_permissions(Permissions::from_mode(mode))
        .map_err(FileError::new("set the mode of", path))?;
    file.as_file()
        .sync_all()
        .map_err(FileError::new("flush", path))?;
    file.persist(path)
        .map_err(|error| FileError::new("replace", path)(error.error))?;
    // The name itself is on disk only when the folder is.
    File::open(folder)
        .and_then(|folder| folder.sync_all())
        .map_err(FileError::new("flush the folder", folder))
}

/// Makes sure that the folder exists and that only its owner can enter it (mode 0700).
///
/// # Errors
///
/// [`FileError`] names the folder.
pub fn private_dir(path: &Path) -> Result<(), FileError> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(FileError::new("create the folder", path))?;
    // It may have existed before, with another mode.
    fs::set_permissions(path, Permissions::from_mode(0o700))
        .map_err(FileError::new("set the mode of", path))
}

/// Reads a whole file as text.
///
/// # Errors
///
/// [`FileError`] names the file; text that is not UTF-8 is [`io::ErrorKind::InvalidData`].
pub fn read_text(path: &Path) -> Result<String, FileError> {
    fs::read_to_string(path).map_err(FileError::new("read", path))
}

/// The folder of a file; a bare file name lies in the working folder.
fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).expect("it exists").permissions().mode() & 0o7777
    }

    #[test]
    fn replaces_content_and_mode_and_leaves_nothing_else_behind() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let path = dir.path().join("state.json");
        write_atomic(&path, b"one", PUBLIC).expect("the first write");
        write_atomic(&path, b"two", SECRET).expect("the second write");
        assert_eq!(read_text(&path).expect("it is text"), "two");
        assert_eq!(mode(&path), 0o600);
        assert_eq!(fs::read_dir(dir.path()).expect("a folder").count(), 1);
    }

    #[test]
    fn a_failed_write_keeps_the_old_file_and_names_the_folder() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let path = dir.path().join("missing/state.json");
        let error = write_atomic(&path, b"x", SECRET).expect_err("the folder is missing");
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        assert_eq!(error.path(), dir.path().join("missing"));
    }

    #[test]
    fn a_folder_that_was_open_to_others_is_closed() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let path = dir.path().join("pki");
        fs::create_dir(&path).expect("a folder");
        fs::set_permissions(&path, Permissions::from_mode(0o755)).expect("a mode");
        private_dir(&path).expect("it becomes private");
        assert_eq!(mode(&path), 0o700);
    }

    #[test]
    fn a_bare_file_name_lies_in_the_working_folder() {
        assert_eq!(parent(Path::new("a")), Path::new("."));
        assert_eq!(parent(Path::new("/a")), Path::new("/"));
    }
}
