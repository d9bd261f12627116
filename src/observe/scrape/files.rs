//! Where the raw bytes are kept, and the clock that goes with them.

use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use chrono::{DateTime, Utc};
use tokio::fs::OpenOptions;
use tokio::io::AsyncWriteExt as _;
use tokio::time::Instant;

use super::ScrapeError;

/// The folder's name in that of the run.
const FOLDER: &str = "scrapes";

/// What a reading is for: part of its file's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Purpose<'a> {
    /// The number of the step, from 1.
    pub step: u32,
    /// Which of its readings, for example `settle`.
    pub what: &'a str,
}

/// The raw bytes of all readings of a run.
#[derive(Debug)]
pub struct ScrapeFiles {
    folder: PathBuf,
    begun: Instant,
    next: AtomicU32,
}

impl ScrapeFiles {
    /// Keeps them in this folder, which exists; `begun` is when the run did.
    #[must_use]
    pub fn new(folder: impl Into<PathBuf>, begun: Instant) -> Self {
        Self {
            folder: folder.into(),
            begun,
            next: AtomicU32::new(1),
        }
    }

    /// Now, by the calendar and in milliseconds since the run began.
    pub(in crate::observe) fn now(&self) -> (DateTime<Utc>, u64) {
        let ms = self.begun.elapsed().as_millis();
        (Utc::now(), u64::try_from(ms).unwrap_or(u64::MAX))
    }

    /// Writes one body and returns its name relative to the run's folder. What is there stays: a run
    /// that is resumed counts on behind it.
    pub(super) async fn write(
        &self,
        purpose: Purpose<'_>,
        body: &[u8],
    ) -> Result<String, ScrapeError> {
        let Purpose { step, what } = purpose;
        loop {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            let name = format!("{step:02}-{what}-{number:04}.prom");
            let path = self.folder.join(&name);
            let opened = OpenOptions::new()
                .write(true)
                .create_new(true)
                .open(&path)
                .await;
            let written = match opened {
                Ok(mut file) => match file.write_all(body).await {
                    Ok(()) => file.flush().await,
                    Err(error) => Err(error),
                },
                Err(error) if error.kind() == ErrorKind::AlreadyExists => continue,
                Err(error) => Err(error),
            };
            return match written {
                Ok(()) => Ok(format!("{FOLDER}/{name}")),
                Err(source) => Err(ScrapeError::Write { path, source }),
            };
        }
    }
}
