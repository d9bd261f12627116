//! Takes one program out of a release archive, and nothing else.

use std::fs::File;
use std::io::{self, BufReader};
use std::path::{Component, Path};

use flate2::read::GzDecoder;

/// Why the program could not be taken out.
#[derive(Debug, thiserror::Error)]
pub(super) enum ArchiveError {
    /// The archive is not what it should be.
    #[error("{0}")]
    Format(String),
    /// The program cannot be written.
    #[error(transparent)]
    Write(io::Error),
}

/// Writes the regular file `member` of a gzipped tar archive to the new file `to`.
pub(super) fn extract(archive: &Path, member: &str, to: &Path) -> Result<(), ArchiveError> {
    let broken = |error: io::Error| ArchiveError::Format(error.to_string());
    let file = File::open(archive).map_err(broken)?;
    let mut archive = tar::Archive::new(GzDecoder::new(BufReader::new(file)));
    for entry in archive.entries().map_err(broken)? {
        let mut entry = entry.map_err(broken)?;
        let path = entry.path().map_err(broken)?.into_owned();
        let odd = path
            .components()
            .any(|part| !matches!(part, Component::Normal(_) | Component::CurDir));
        if odd {
            return Err(ArchiveError::Format(format!(
                "it holds the path {}",
                path.display()
            )));
        }
        if path.strip_prefix(".").unwrap_or(&path) != Path::new(member) {
            continue;
        }
        if !entry.header().entry_type().is_file() {
            return Err(ArchiveError::Format(format!(
                "{member} is not a regular file"
            )));
        }
        let mut out = File::create_new(to).map_err(ArchiveError::Write)?;
        return match io::copy(&mut entry, &mut out) {
            Ok(_) => Ok(()),
            // Reading and writing fail alike here; only the disk says these.
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::StorageFull
                        | io::ErrorKind::QuotaExceeded
                        | io::ErrorKind::FileTooLarge
                        | io::ErrorKind::ReadOnlyFilesystem
                ) =>
            {
                Err(ArchiveError::Write(error))
            }
            Err(error) => Err(broken(error)),
        };
    }
    Err(ArchiveError::Format(format!("it does not hold {member}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::{Compression, write::GzEncoder};
    use tar::{EntryType, Header};

    fn archive(dir: &Path, entries: &[(&str, EntryType, &[u8])]) -> std::path::PathBuf {
        let path = dir.join("a.tar.gz");
        let file = File::create(&path).expect("created");
        let mut builder = tar::Builder::new(GzEncoder::new(file, Compression::fast()));
        for (name, kind, content) in entries {
            let mut header = Header::new_gnu();
            // Set by hand: the builder itself refuses the odd paths that this test needs.
            header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
            header.set_entry_type(*kind);
            header.set_size(content.len() as u64);
            header.set_mode(0o755);
            header.set_cksum();
            builder.append(&header, *content).expect("appended");
        }
        builder
            .into_inner()
            .and_then(GzEncoder::finish)
            .expect("written");
        path
    }

    fn extracted(entries: &[(&str, EntryType, &[u8])]) -> Result<Vec<u8>, String> {
        let dir = tempfile::tempdir().expect("a folder");
        let to = dir.path().join("out");
        extract(&archive(dir.path(), entries), "linux-amd64/helm", &to)
            .map_err(|error| error.to_string())?;
        Ok(std::fs::read(to).expect("written"))
    }

    const FILE: EntryType = EntryType::Regular;

    #[test]
    fn only_the_wanted_file_is_written() {
        let readme: (&str, EntryType, &[u8]) = ("linux-amd64/README.md", FILE, b"words");
        let helm = |name| -> (&str, EntryType, &[u8]) { (name, FILE, b"program") };
        assert_eq!(
            extracted(&[readme, helm("linux-amd64/helm")]),
            Ok(b"program".to_vec())
        );
        assert_eq!(
            extracted(&[helm("./linux-amd64/helm")]),
            Ok(b"program".to_vec())
        );
        assert_eq!(
            extracted(&[readme]),
            Err("it does not hold linux-amd64/helm".to_owned())
        );
    }

    #[test]
    fn odd_paths_and_links_are_refused() {
        for odd in ["../helm", "/linux-amd64/helm", "linux-amd64/../../helm"] {
            assert_eq!(
                extracted(&[(odd, FILE, b"x"), ("linux-amd64/helm", FILE, b"program")]),
                Err(format!("it holds the path {odd}"))
            );
        }
        assert_eq!(
            extracted(&[("linux-amd64/helm", EntryType::Symlink, b"")]),
            Err("linux-amd64/helm is not a regular file".to_owned())
        );
    }

    #[test]
    fn something_else_than_an_archive_is_refused() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("a.tar.gz");
        std::fs::write(&path, "<html>").expect("written");
        let result = extract(&path, "linux-amd64/helm", &dir.path().join("out"));
        assert!(matches!(result, Err(ArchiveError::Format(_))));
    }
}
