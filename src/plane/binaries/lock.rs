//! One process at a time fills the cache.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Seek as _, Write as _};
use std::path::Path;
use std::time::{Duration, Instant};

use super::error::BinaryError;
use crate::plane::event::{Event, Sink};

const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// Holds the lock until it is dropped; the kernel releases it when the process ends in any way.
#[derive(Debug)]
pub(super) struct Lock {
    file: File,
}

impl Lock {
    /// Takes the lock, waiting for another holder until the deadline.
    pub(super) async fn acquire(
        path: &Path,
        deadline: Duration,
        sink: &dyn Sink,
    ) -> Result<Self, BinaryError> {
        let file = OpenOptions::new()
            .create(true)
            .read(true)
            .write(true)
            .truncate(false)
            .open(path)
            .map_err(|error| BinaryError::io(path, error))?;
        let begun = Instant::now();
        let mut told = false;
        loop {
            match file.try_lock() {
                Ok(()) => break,
                Err(TryLockError::Error(error)) => return Err(BinaryError::io(path, error)),
                Err(TryLockError::WouldBlock) => {}
            }
            if !told {
                told = true;
                sink.event(Event::LockWait {
                    path: path.to_path_buf(),
                });
            }
            if begun.elapsed() >= deadline {
                let holder = std::fs::read_to_string(path).unwrap_or_default();
                return Err(BinaryError::Lock {
                    path: path.to_path_buf(),
                    after: deadline,
                    holder: match holder.trim() {
                        "" => "nothing".to_owned(),
                        words => words.to_owned(),
                    },
                });
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
        Ok(Self { file })
    }

    /// Takes the lock if nobody holds it and it can be used at all.
    pub(super) fn try_acquire(path: &Path) -> Option<Self> {
        let file = OpenOptions::new().read(true).write(true).open(path).ok()?;
        file.try_lock().ok()?;
        Some(Self { file })
    }

    /// Leaves word of what is being done for those who wait. A failure to do so changes nothing.
    pub(super) fn note(&mut self, doing: &str) {
        let line = format!("process {} is {doing}\n", std::process::id());
        let _ = self
            .file
            .rewind()
            .and_then(|()| self.file.set_len(0))
            .and_then(|()| self.file.write_all(line.as_bytes()));
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // The next holder has not said anything yet.
        let _ = self.file.set_len(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plane::event::Silent;

    #[tokio::test]
    async fn giving_up_tells_what_the_holder_does() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("lock");
        let soon = Duration::from_millis(150);
        let mut first = Lock::acquire(&path, soon, &Silent).await.expect("free");
        first.note("building etcd 3.6.15");
        let error = Lock::acquire(&path, soon, &Silent).await.expect_err("held");
        assert!(Lock::try_acquire(&path).is_none());
        assert!(
            error.to_string().ends_with("is building etcd 3.6.15"),
            "{error}"
        );
        drop(first);
        Lock::acquire(&path, soon, &Silent)
            .await
            .expect("free again");
    }
}
