//! Our own folder of programs: where each one is, whether it is still what was put there, and how a
//! new one gets in without ever being seen half-written.
//!
//! Beside each program lies a record of its digest, size, version and origin, written last. A
//! program without a fitting record does not count.

use std::fs::{self, File, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use chrono::{DateTime, Utc};
use semver::Version;
use serde::{Deserialize, Serialize};
use tempfile::TempDir;

use super::error::BinaryError;
use super::pins::Pin;
use super::platform::Platform;
use super::sha256::Sha256;
use super::source::Origin;
use super::{Binary, Want};
use crate::plane::tool::Tool;

/// Starts the names of unfinished work, so that the next holder of the lock can clear it.
const UNFINISHED: &str = ".tmp-";

/// Tells backup programs to leave the folder out (<https://bford.info/cachedir/>).
const TAG: &str = "Signature: 8a477f597d28d172789f06886806bc55\n\
                   # This folder holds programs that aibom-qual can obtain again.\n";

const SCHEMA: u32 = 1;

/// What is known about a cached program.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Record {
    schema: u32,
    sha256: Sha256,
    size: u64,
    version: Version,
    origin: Origin,
    obtained_at: DateTime<Utc>,
}

/// The state of one program in the cache.
#[derive(Debug)]
pub(super) enum Cached {
    /// As it was put there.
    Good(Binary),
    /// Not there.
    Absent,
    /// Not what was put there.
    Damaged(String),
}

/// The layout below the cache folder.
#[derive(Clone, Debug)]
pub(super) struct Cache {
    root: PathBuf,
}

/// The place of one program.
#[derive(Clone, Debug)]
pub(super) struct Slot {
    tool: Tool,
    version: Version,
    dir: PathBuf,
    file: PathBuf,
    record: PathBuf,
    corrupt: PathBuf,
}

impl Cache {
    pub(super) fn new(root: &Path) -> Self {
        Self {
            root: root.to_path_buf(),
        }
    }

    pub(super) fn lock(&self) -> PathBuf {
        self.root.join("binaries.lock")
    }

    /// The log of a build.
    pub(super) fn log(&self, tool: Tool) -> PathBuf {
        self.root.join("logs").join(format!("build-{tool}.log"))
    }

    /// Go's own folders.
    pub(super) fn go(&self) -> PathBuf {
        self.root.join("go")
    }

    /// Makes the folder, its tag and the folder of logs.
    pub(super) fn prepare(&self) -> Result<(), BinaryError> {
        make_dir(&self.root.join("logs"))?;
        let tag = self.root.join("CACHEDIR.TAG");
        if !tag.exists() {
            fs::write(&tag, TAG).map_err(|error| BinaryError::io(&tag, error))?;
        }
        Ok(())
    }

    /// Where a program is kept. Modules and flags are part of the place: when they change, the
    /// program is obtained anew.
    pub(super) fn slot(&self, want: &Want, platform: Platform) -> Slot {
        let family = want.tool.family();
        let digest = Pin::of(family, &want.version).map(Pin::digest);
        let key = format!(
            "{family}-{}-linux-{}-{}",
            want.version,
            platform.go_arch(),
            digest.as_deref().unwrap_or("download")
        );
        let name = want.tool.file_name();
        let dir = self.root.join("binaries").join(&key);
        Slot {
            tool: want.tool,
            version: want.version.clone(),
            file: dir.join(name),
            record: dir.join(format!("{name}.json")),
            corrupt: self.root.join("corrupt").join(format!("{key}-{name}")),
            dir,
        }
    }
}

impl Slot {
    /// Compares the file with its record. Reads all of the file: not for an async thread.
    pub(super) fn check(&self) -> Cached {
        let text = match fs::read(&self.record) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return if self.file.symlink_metadata().is_ok() {
                    Cached::Damaged("it has no record".to_owned())
                } else {
                    Cached::Absent
                };
            }
            Err(error) => return Cached::Damaged(format!("its record is unreadable: {error}")),
        };
        let record: Record = match serde_json::from_slice(&text) {
            Ok(record) => record,
            Err(error) => return Cached::Damaged(format!("its record is unreadable: {error}")),
        };
        if record.schema != SCHEMA || record.version != self.version {
            return Cached::Damaged("its record is of another schema or version".to_owned());
        }
        match Sha256::of_file(&self.file) {
            Ok((_, size)) if size != record.size => Cached::Damaged(format!(
                "it has {size} bytes, its record says {}",
                record.size
            )),
            Ok((sha256, _)) if sha256 != record.sha256 => Cached::Damaged(format!(
                "it has SHA-256 {sha256}, its record says {}",
                record.sha256
            )),
            // Its bytes are right; the right to execute it can be given back.
            Ok(_) if !is_executable(&self.file) && make_executable(&self.file).is_err() => {
                Cached::Damaged("it may not be executed".to_owned())
            }
            Ok((sha256, _)) => Cached::Good(Binary {
                tool: self.tool,
                path: self.file.clone(),
                version: record.version,
                sha256,
                origin: record.origin,
                from_cache: true,
            }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Cached::Absent,
            Err(error) => Cached::Damaged(format!("it is unreadable: {error}")),
        }
    }

    /// Moves a damaged file (and its record) out of the way, over the previous one of that name, so
    /// that the folder does not grow without bound. Returns where it is now.
    pub(super) fn set_aside(&self) -> Result<PathBuf, BinaryError> {
        let fail = |error| BinaryError::io(&self.corrupt, error);
        if let Some(parent) = self.corrupt.parent() {
            make_dir(parent)?;
        }
        let record_aside = self.corrupt.with_added_extension("json");
        for (from, to) in [(&self.record, &record_aside), (&self.file, &self.corrupt)] {
            match fs::rename(from, to) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(fail(error)),
                _ => {}
            }
        }
        Ok(self.corrupt.clone())
    }

    /// A file name in this place, for a download that may be interrupted and go on later.
    pub(super) fn partial(&self, asset: &str) -> PathBuf {
        self.dir.join(format!("{asset}.part"))
    }

    /// An empty folder on the same file system, gone when dropped; clears the leavings of those who
    /// were killed. Only for the holder of the lock.
    pub(super) fn workshop(&self) -> Result<TempDir, BinaryError> {
        make_dir(&self.dir)?;
        let fail = |error| BinaryError::io(&self.dir, error);
        for entry in fs::read_dir(&self.dir).map_err(fail)? {
            let entry = entry.map_err(fail)?;
            if entry.file_name().to_string_lossy().starts_with(UNFINISHED) {
                let path = entry.path();
                let removed = if path.is_dir() {
                    fs::remove_dir_all(&path)
                } else {
                    fs::remove_file(&path)
                };
                removed.map_err(|error| BinaryError::io(&path, error))?;
            }
        }
        tempfile::Builder::new()
            .prefix(UNFINISHED)
            .tempdir_in(&self.dir)
            .map_err(fail)
    }

    /// Puts a finished, executable file in its place. It must be on the same file system.
    pub(super) fn install(&self, finished: &Path, origin: Origin) -> Result<Binary, BinaryError> {
        let fail = |error| BinaryError::io(&self.file, error);
        File::open(finished)
            .and_then(|file| file.sync_all())
            .map_err(fail)?;
        let (sha256, size) = Sha256::of_file(finished).map_err(fail)?;
        fs::rename(finished, &self.file).map_err(fail)?;
        sync_dir(&self.dir).map_err(fail)?;
        self.write_record(&Record {
            schema: SCHEMA,
            sha256,
            size,
            version: self.version.clone(),
            origin: origin.clone(),
            obtained_at: Utc::now(),
        })
        .map_err(|error| BinaryError::io(&self.record, error))?;
        Ok(Binary {
            tool: self.tool,
            path: self.file.clone(),
            version: self.version.clone(),
            sha256,
            origin,
            from_cache: false,
        })
    }

    fn write_record(&self, record: &Record) -> io::Result<()> {
        let mut file = tempfile::Builder::new()
            .prefix(UNFINISHED)
            .tempfile_in(&self.dir)?;
        serde_json::to_writer_pretty(&mut file, record)?;
        file.write_all(b"\n")?;
        file.as_file().sync_all()?;
        file.persist(&self.record).map_err(|error| error.error)?;
        sync_dir(&self.dir)
    }
}

fn sync_dir(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}

pub(super) fn make_dir(dir: &Path) -> Result<(), BinaryError> {
    fs::create_dir_all(dir).map_err(|error| BinaryError::io(dir, error))
}

fn is_executable(file: &Path) -> bool {
    fs::metadata(file).is_ok_and(|meta| meta.permissions().mode() & 0o111 != 0)
}

pub(super) fn make_executable(file: &Path) -> Result<(), BinaryError> {
    fs::set_permissions(file, Permissions::from_mode(0o755))
        .map_err(|error| BinaryError::io(file, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot(root: &Path, version: &str) -> Slot {
        let want = Want {
            tool: Tool::KubeApiserver,
            version: Version::parse(version).expect("a version"),
        };
        Cache::new(root).slot(&want, Platform::Arm64)
    }

    fn installed(root: &Path) -> Slot {
        let slot = slot(root, "1.36.3");
        let workshop = slot.workshop().expect("a workshop");
        let file = workshop.path().join("new");
        fs::write(&file, "program").expect("written");
        slot.install(
            &file,
            Origin::Built {
                go: "go1.26.8".to_owned(),
            },
        )
        .expect("installed");
        slot
    }

    #[test]
    fn the_place_names_what_the_program_depends_on() {
        let root = Path::new("/cache");
        let pinned = slot(root, "1.36.3").file.display().to_string();
        let start = "/cache/binaries/kubernetes-1.36.3-linux-arm64-";
        let rest = pinned.strip_prefix(start).expect("the usual start");
        let (digest, name) = rest.split_once('/').expect("a folder");
        assert!(digest.len() == 12 && digest.bytes().all(|b| b.is_ascii_hexdigit()));
        assert_eq!(name, "kube-apiserver");
        assert_eq!(
            slot(root, "1.33.1").file,
            Path::new("/cache/binaries/kubernetes-1.33.1-linux-arm64-download/kube-apiserver")
        );
    }

    #[test]
    fn only_a_file_with_a_fitting_record_counts() {
        let root = tempfile::tempdir().expect("a folder");
        let slot = installed(root.path());
        let Cached::Good(binary) = slot.check() else {
            panic!("{:?}", slot.check());
        };
        assert!(binary.from_cache);
        assert_eq!(binary.sha256, Sha256::of(&[b"program"]));
        assert_eq!(binary.origin.to_string(), "built with go1.26.8");

        fs::write(&slot.file, "Program").expect("same size, other content");
        assert!(matches!(slot.check(), Cached::Damaged(why) if why.contains("SHA-256")));
        fs::write(&slot.file, "prog").expect("cut");
        assert!(matches!(slot.check(), Cached::Damaged(why) if why.contains("4 bytes")));
        let aside = slot.set_aside().expect("moved");
        assert_eq!(fs::read(aside).expect("kept"), b"prog");
        assert!(matches!(slot.check(), Cached::Absent));
    }

    #[test]
    fn a_file_without_a_record_is_damaged() {
        let root = tempfile::tempdir().expect("a folder");
        let slot = installed(root.path());
        fs::write(&slot.record, "{").expect("cut");
        assert!(matches!(slot.check(), Cached::Damaged(_)));
        fs::remove_file(&slot.record).expect("removed");
        assert!(matches!(slot.check(), Cached::Damaged(_)));
    }

    #[test]
    fn leavings_are_cleared_and_partial_downloads_are_kept() {
        let root = tempfile::tempdir().expect("a folder");
        let slot = installed(root.path());
        let left = slot.workshop().expect("a workshop").keep();
        fs::write(left.join("half"), "x").expect("written");
        fs::write(slot.partial("kube-apiserver"), "half").expect("written");
        let workshop = slot.workshop().expect("a workshop");
        assert!(!left.exists());
        assert!(workshop.path().exists());
        assert!(slot.partial("kube-apiserver").exists());
    }
}
