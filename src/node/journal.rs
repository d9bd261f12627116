//! The node's own log: what it did and what went wrong, one line each.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use chrono::{SecondsFormat, Utc};

/// A file that lines are appended to.
#[derive(Debug)]
pub(super) struct Journal(Mutex<File>);

impl Journal {
    /// Opens the file, which only its owner may read.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new()
            .create(true)
            .append(true)
            .mode(0o600)
            .open(path)?;
        Ok(Self(Mutex::new(file)))
    }

    /// Appends a line. A disk that refuses it is told of by whatever else needs the disk.
    pub(super) fn note(&self, line: &str) {
        let now = Utc::now().to_rfc3339_opts(SecondsFormat::Millis, true);
        let mut file = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = writeln!(file, "{now} {line}");
    }
}
