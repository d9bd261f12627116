//! The files of a chart, below one folder of ours: copied, unpacked or written there, within Helm's own
//! limits.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read, Write as _};
use std::path::{Component, Path, PathBuf};

use flate2::read::GzDecoder;
use tar::EntryType;

use crate::helm::embedded::Embedded;
use crate::record::sha256_hex;

/// Most bytes of one file: what Helm takes.
pub(super) const MOST_FILE: u64 = 5 << 20;
/// Most bytes of a chart: what Helm takes.
pub(super) const MOST_TOTAL: u64 = 100 << 20;
/// Most files of a chart.
const MOST_FILES: usize = 10_000;
/// Most bytes that an archive may unpack to, with the headers and padding of its entries.
const MOST_UNPACKED: u64 = 2 * MOST_TOTAL;
/// Deeper folders are a circle, or a bad joke.
const MOST_LEVELS: usize = 32;

/// The files of a chart cannot be brought to our folder.
#[derive(Debug, thiserror::Error)]
pub enum TreeError {
    /// A file or folder cannot be read or written.
    #[error("cannot {action} {}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// An archive cannot be read.
    #[error("{} is not a gzipped tar archive", path.display())]
    Archive {
        /// The archive.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A path leads out of the chart, or is none that every system knows.
    #[error("the chart holds the path {0:?}")]
    Path(String),
    /// Neither a file nor a folder.
    #[error("{name} is {kind}, and a chart holds files and folders only")]
    Kind {
        /// Its path in the chart.
        name: String,
        /// What it is.
        kind: &'static str,
    },
    /// A path is there twice.
    #[error("the archive holds {0} twice")]
    Twice(String),
    /// Larger than anything that Helm takes.
    #[error("the chart is too large: {0}")]
    TooLarge(String),
}

impl TreeError {
    /// The one thing to do about it, if there is one.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Io { .. } | Self::TooLarge(_) => None,
            Self::Archive { .. } => Some("make one by `helm package`".to_owned()),
            Self::Kind { .. } => Some("put a copy of the file in its place".to_owned()),
            Self::Path(_) | Self::Twice(_) => {
                Some("do not use this archive: `helm package` makes none like it".to_owned())
            }
        }
    }
}

/// Files below a folder.
#[derive(Clone, Debug)]
pub(super) struct Tree {
    root: PathBuf,
    /// Digest in hex by path with `/`.
    files: BTreeMap<String, String>,
    total: u64,
}

impl Tree {
    fn new(root: &Path) -> Result<Self, TreeError> {
        fs::create_dir(root).map_err(failed("create the folder", root))?;
        Ok(Self {
            root: root.to_owned(),
            files: BTreeMap::new(),
            total: 0,
        })
    }

    /// Copies a folder.
    pub(super) fn copy(from: &Path, to: &Path) -> Result<Self, TreeError> {
        let mut names = Vec::new();
        list(from, "", 0, &mut names)?;
        let mut tree = Self::new(to)?;
        for name in names {
            let path = from.join(&name);
            let file = File::open(&path).map_err(failed("read", &path))?;
            let bytes = bounded(file, &name).map_err(failed("read", &path))??;
            tree.add(name, &bytes)?;
        }
        Ok(tree)
    }

    /// Unpacks an archive, without the folder that everything in it lies in.
    pub(super) fn unpack(archive: &Path, to: &Path) -> Result<Self, TreeError> {
        let broken = |source| TreeError::Archive {
            path: archive.to_owned(),
            source,
        };
        let mut tree = Self::new(to)?;
        let file = File::open(archive).map_err(failed("read", archive))?;
        let unpacked = GzDecoder::new(io::BufReader::new(file)).take(MOST_UNPACKED);
        let mut unpacked = tar::Archive::new(unpacked);
        for entry in unpacked.entries().map_err(broken)? {
            let entry = entry.map_err(broken)?;
            let path = entry.path_bytes();
            let shown = String::from_utf8_lossy(&path).into_owned();
            let kind = match entry.header().entry_type() {
                EntryType::Regular => None,
                EntryType::Directory | EntryType::XGlobalHeader => continue,
                EntryType::Symlink => Some("a symbolic link"),
                EntryType::Link => Some("a hard link"),
                _ => Some("of an unusual kind"),
            };
            if let Some(kind) = kind {
                return Err(TreeError::Kind { name: shown, kind });
            }
            let inside = std::str::from_utf8(&path).ok().and_then(inside);
            let name = inside.ok_or(TreeError::Path(shown))?;
            let bytes = bounded(entry, &name).map_err(broken)??;
            tree.add(name, &bytes)?;
        }
        Ok(tree)
    }

    /// Writes a chart of this program.
    pub(super) fn write(chart: &Embedded, to: &Path) -> Result<Self, TreeError> {
        let mut tree = Self::new(to)?;
        for (name, text) in chart.files {
            tree.add((*name).to_owned(), text.as_bytes())?;
        }
        Ok(tree)
    }

    /// Copies all files once more.
    pub(super) fn copy_to(&self, to: &Path) -> Result<Self, TreeError> {
        Self::copy(&self.root, to)
    }

    /// Adds a file.
    pub(super) fn add(&mut self, name: String, bytes: &[u8]) -> Result<(), TreeError> {
        self.total += bytes.len() as u64;
        if self.total > MOST_TOTAL {
            return Err(TreeError::TooLarge(format!("more than {MOST_TOTAL} bytes")));
        }
        if self.files.len() >= MOST_FILES {
            return Err(TreeError::TooLarge(format!("more than {MOST_FILES} files")));
        }
        let path = self.root.join(&name);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(failed("create the folder", folder))?;
        }
        let mut file = match File::create_new(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                return Err(TreeError::Twice(name));
            }
            file => file.map_err(failed("create", &path))?,
        };
        file.write_all(bytes).map_err(failed("write", &path))?;
        self.files.insert(name, sha256_hex(bytes));
        Ok(())
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// Paths of all files, sorted.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.files.keys().map(String::as_str)
    }

    /// The text of a file.
    pub(super) fn text(&self, name: &str) -> Result<String, TreeError> {
        let path = self.root.join(name);
        fs::read_to_string(&path).map_err(failed("read", &path))
    }

    /// SHA-256 over the digests and paths of all files, sorted by path, one `DIGEST  PATH` a line: what
    /// `find * -type f | LC_ALL=C sort | xargs sha256sum | sha256sum` tells.
    pub(super) fn sha256(&self) -> String {
        let lines = self
            .files
            .iter()
            .map(|(name, digest)| format!("{digest}  {name}\n"));
        sha256_hex(lines.collect::<String>().as_bytes())
    }
}

/// The files below a folder by their paths with `/`, sorted within each folder.
fn list(root: &Path, below: &str, level: usize, names: &mut Vec<String>) -> Result<(), TreeError> {
    if level > MOST_LEVELS {
        return Err(TreeError::TooLarge(format!(
            "more than {MOST_LEVELS} folders deep"
        )));
    }
    let folder = root.join(below);
    let entries = fs::read_dir(&folder).map_err(failed("read the folder", &folder))?;
    let mut entries: Vec<_> = entries
        .collect::<Result<_, _>>()
        .map_err(failed("read the folder", &folder))?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let path = entry.path();
        let name = entry.file_name();
        let name = name.to_str().filter(|name| !name.contains('\\'));
        let name = name.ok_or_else(|| TreeError::Path(path.display().to_string()))?;
        let name = format!("{below}{name}");
        // Not followed: a link that leads elsewhere would make the digest one of something else.
        let kind = entry.file_type().map_err(failed("look at", &path))?;
        if kind.is_dir() {
            list(root, &format!("{name}/"), level + 1, names)?;
        } else if kind.is_file() {
            names.push(name);
        } else {
            let kind = if kind.is_symlink() {
                "a symbolic link"
            } else {
                "of an unusual kind"
            };
            return Err(TreeError::Kind { name, kind });
        }
        if names.len() > MOST_FILES {
            return Err(TreeError::TooLarge(format!("more than {MOST_FILES} files")));
        }
    }
    Ok(())
}

/// A path in an archive without its first folder; [`None`] when it leads out of it, or has none.
fn inside(path: &str) -> Option<String> {
    if path.contains('\\') || path.contains('\0') {
        return None;
    }
    let mut parts = Vec::new();
    for part in Path::new(path).components() {
        match part {
            Component::Normal(part) => parts.push(part.to_str()?),
            Component::CurDir => {}
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    (2..=MOST_LEVELS)
        .contains(&parts.len())
        .then(|| parts[1..].join("/"))
}

/// Reads a file of at most [`MOST_FILE`] bytes, whatever it says of its size.
fn bounded(file: impl Read, name: &str) -> io::Result<Result<Vec<u8>, TreeError>> {
    let mut bytes = Vec::new();
    file.take(MOST_FILE + 1).read_to_end(&mut bytes)?;
    Ok(if bytes.len() as u64 > MOST_FILE {
        Err(TreeError::TooLarge(format!(
            "{name} has more than {MOST_FILE} bytes"
        )))
    } else {
        Ok(bytes)
    })
}

pub(super) fn failed(
    action: &'static str,
    path: &Path,
) -> impl FnOnce(io::Error) -> TreeError + use<> {
    let path = path.to_owned();
    move |source| TreeError::Io {
        action,
        path,
        source,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use flate2::{Compression, write::GzEncoder};
    use tar::Header;

    use super::*;

    type Entry<'a> = (&'a str, EntryType, &'a [u8]);

    const FILE: EntryType = EntryType::Regular;

    fn archive(folder: &Path, entries: &[Entry<'_>]) -> PathBuf {
        let path = folder.join("chart.tgz");
        let file = File::create(&path).expect("created");
        let mut builder = tar::Builder::new(GzEncoder::new(file, Compression::fast()));
        for (name, kind, content) in entries {
            let mut header = Header::new_gnu();
            // Set by hand: the builder itself refuses the odd paths that this test needs.
            header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
            header.set_entry_type(*kind);
            header.set_size(content.len() as u64);
            header.set_mode(0o644);
            header.set_cksum();
            builder.append(&header, *content).expect("appended");
        }
        let packed = builder.into_inner().and_then(GzEncoder::finish);
        packed.expect("written");
        path
    }

    fn unpacked(entries: &[Entry<'_>]) -> Result<Vec<String>, TreeError> {
        let folder = tempfile::tempdir().expect("a folder");
        let archive = archive(folder.path(), entries);
        let tree = Tree::unpack(&archive, &folder.path().join("to"))?;
        Ok(tree.names().map(str::to_owned).collect())
    }

    #[test]
    fn an_archive_is_unpacked_without_its_first_folder() {
        let names = unpacked(&[
            ("pax", EntryType::XGlobalHeader, b""),
            ("a/", EntryType::Directory, b""),
            ("a/Chart.yaml", FILE, b"x"),
            ("./a/crds/b.yaml", FILE, b"y"),
        ]);
        assert_eq!(names.expect("unpacked"), ["Chart.yaml", "crds/b.yaml"]);
    }

    #[test]
    fn paths_that_lead_elsewhere_are_refused() {
        for odd in [
            "../x",
            "/a/x",
            "a/../../x",
            "a/b/../x",
            "Chart.yaml",
            "a\\..\\x",
            "a/\\x",
        ] {
            let error = unpacked(&[(odd, FILE, b"x")]).expect_err(odd);
            assert!(
                matches!(&error, TreeError::Path(path) if path == odd),
                "{odd}: {error}"
            );
        }
    }

    #[test]
    fn links_and_other_kinds_are_refused() {
        for (kind, words) in [
            (EntryType::Symlink, "a/x is a symbolic link, and"),
            (EntryType::Link, "a/x is a hard link, and"),
            (EntryType::Fifo, "a/x is of an unusual kind, and"),
        ] {
            let error = unpacked(&[("a/x", kind, b"")]).expect_err("refused");
            assert!(error.to_string().starts_with(words), "{error}");
        }
    }

    #[test]
    fn a_path_that_is_there_twice_is_refused() {
        let error = unpacked(&[("a/x", FILE, b"1"), ("b/x", FILE, b"2")]).expect_err("twice");
        assert!(
            matches!(&error, TreeError::Twice(name) if name == "x"),
            "{error}"
        );
    }

    #[test]
    fn what_helm_would_not_take_is_refused_before_it_is_all_read() {
        let zeros = vec![0; usize::try_from(MOST_FILE).expect("it fits") + 1];
        let error = unpacked(&[("a/x", FILE, &zeros)]).expect_err("too large");
        assert!(matches!(error, TreeError::TooLarge(_)), "{error}");
        let names: Vec<String> = (0..21).map(|number| format!("a/{number}")).collect();
        let part = &zeros[1..];
        let entries: Vec<Entry<'_>> = names
            .iter()
            .map(|name| (name.as_str(), FILE, part))
            .collect();
        let error = unpacked(&entries).expect_err("too large");
        assert!(error.to_string().contains("104857600 bytes"), "{error}");
    }

    #[test]
    fn something_else_than_an_archive_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("chart.tgz");
        fs::write(&path, "<html>").expect("written");
        let error = Tree::unpack(&path, &folder.path().join("to")).expect_err("refused");
        assert!(matches!(error, TreeError::Archive { .. }), "{error}");
    }

    #[test]
    fn a_copy_has_the_digest_that_a_shell_tells() {
        let folder = tempfile::tempdir().expect("a folder");
        let from = folder.path().join("from");
        fs::create_dir_all(from.join("b")).expect("a folder");
        fs::write(from.join("b/c"), "2").expect("written");
        // Between `b/c` and `b` by its bytes.
        fs::write(from.join("b.x"), "1").expect("written");
        let tree = Tree::copy(&from, &folder.path().join("to")).expect("copied");
        assert_eq!(tree.names().collect::<Vec<_>>(), ["b.x", "b/c"]);
        let lines = format!("{}  b.x\n{}  b/c\n", sha256_hex(b"1"), sha256_hex(b"2"));
        assert_eq!(tree.sha256(), sha256_hex(lines.as_bytes()));
        let again = tree.copy_to(&folder.path().join("again")).expect("copied");
        assert_eq!(again.sha256(), tree.sha256());
    }

    #[test]
    fn links_in_a_folder_are_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let from = folder.path().join("from");
        fs::create_dir(&from).expect("a folder");
        symlink("/etc/hostname", from.join("values.yaml")).expect("a link");
        let error = Tree::copy(&from, &folder.path().join("to")).expect_err("refused");
        assert_eq!(
            error.to_string(),
            "values.yaml is a symbolic link, and a chart holds files and folders only"
        );
    }
}
