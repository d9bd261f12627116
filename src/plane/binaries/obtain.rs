//! Fills the cache with what no source on this machine has: download first, then build. One process
//! at a time does this.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::build::Builder;
use super::cache::{Cache, Cached, Slot, make_executable};
use super::download::Downloader;
use super::error::BinaryError;
use super::lock::Lock;
use super::probe::{Demand, Probe};
use super::reason::{Attempt, Reason};
use super::source::{Origin, Source, Sources};
use super::{Binary, Fault, Want, blocking, found, skipped};
use crate::plane::event::{Event, Sink};

/// For the version of a program that was just obtained. Longer than for one that merely lies in
/// `PATH`: it took minutes to get, and the machine may be busy with others' builds.
const ACCEPT_DEADLINE: Duration = Duration::from_secs(30);

/// A program that was not found, and where it was looked for.
#[derive(Debug)]
pub(super) struct Missing {
    pub(super) want: Want,
    pub(super) attempts: Vec<Attempt>,
}

/// Obtains all of them, or fails at the first that no source delivers.
pub(super) async fn obtain(
    cache: &Cache,
    probe: Probe<'_>,
    sources: &Sources,
    missing: Vec<Missing>,
    sink: &dyn Sink,
) -> Result<Vec<Binary>, BinaryError> {
    let to_prepare = cache.clone();
    blocking(move || to_prepare.prepare()).await??;
    let mut lock = Lock::acquire(&cache.lock(), sources.timeouts.lock, sink).await?;
    let mut work = Work {
        probe,
        sources,
        downloader: Downloader::new(sources.mirror.as_ref(), sources.timeouts),
        builder: Builder::new(
            cache,
            probe.launcher,
            probe.platform,
            &sources.environment,
            sources.timeouts,
        ),
        sink,
        told: Vec::new(),
    };
    let mut obtained = Vec::new();
    for Missing { want, attempts } in missing {
        let slot = cache.slot(&want, probe.platform);
        // Whoever held the lock before may have obtained it meanwhile.
        if let Some(binary) = recheck(&want, &slot, sink).await? {
            found(&binary, sink);
            obtained.push(binary);
            continue;
        }
        lock.note(&format!("obtaining {} {}", want.tool, want.version));
        obtained.push(work.deliver(&want, &slot, attempts).await?);
    }
    lock.note("removing build caches");
    work.builder.clean_up(sink).await;
    Ok(obtained)
}

/// What is in the cache now; a damaged file is moved out of the way.
async fn recheck(want: &Want, slot: &Slot, sink: &dyn Sink) -> Result<Option<Binary>, BinaryError> {
    let to_check = slot.clone();
    match blocking(move || to_check.check()).await? {
        Cached::Good(binary) => Ok(Some(binary)),
        Cached::Absent => Ok(None),
        Cached::Damaged(reason) => {
            let slot = slot.clone();
            let moved_to = blocking(move || slot.set_aside()).await??;
            sink.event(Event::BinarySetAside {
                tool: want.tool,
                moved_to,
                reason,
            });
            Ok(None)
        }
    }
}

struct Work<'a> {
    probe: Probe<'a>,
    sources: &'a Sources,
    downloader: Downloader<'a>,
    builder: Builder<'a>,
    sink: &'a dyn Sink,
    /// What was already told of a source for an earlier program.
    told: Vec<Attempt>,
}

impl Work<'_> {
    async fn deliver(
        &mut self,
        want: &Want,
        slot: &Slot,
        mut attempts: Vec<Attempt>,
    ) -> Result<Binary, BinaryError> {
        let begun = Instant::now();
        let to_open = slot.clone();
        let workshop = blocking(move || to_open.workshop()).await??;
        for from in [Source::Download, Source::Build] {
            let enabled = match from {
                Source::Download => self.sources.download,
                _ => self.sources.build,
            };
            if !enabled {
                let reason = Reason::Disabled;
                attempts.push(Attempt { from, reason });
                continue;
            }
            let place = workshop.path();
            let delivered = match from {
                Source::Download => {
                    let platform = self.probe.platform;
                    self.downloader
                        .obtain(want, platform, slot, place, self.sink)
                        .await
                }
                _ => self.builder.obtain(want, place, self.sink).await,
            };
            let (file, origin) = match delivered {
                Ok(delivered) => delivered,
                Err(Fault::Stop(error)) => return Err(error),
                Err(Fault::Skip(reason)) => {
                    let attempt = Attempt { from, reason };
                    let repeated = self.told.contains(&attempt);
                    skipped(want.tool, &attempt, repeated, self.sink);
                    if !repeated {
                        self.told.push(attempt.clone());
                    }
                    attempts.push(attempt);
                    continue;
                }
            };
            let binary = self.accept(want, slot, from, file, origin).await?;
            self.sink.event(Event::BinaryObtained {
                tool: want.tool,
                version: binary.version.clone(),
                origin: binary.origin.clone(),
                took: begun.elapsed(),
            });
            return Ok(binary);
        }
        Err(BinaryError::NoSource {
            tool: want.tool,
            version: want.version.clone(),
            attempts,
        })
    }

    /// Puts a program in its place once it has shown that it is the wanted one.
    async fn accept(
        &self,
        want: &Want,
        slot: &Slot,
        from: Source,
        file: PathBuf,
        origin: Origin,
    ) -> Result<Binary, BinaryError> {
        let to_mark = file.clone();
        blocking(move || make_executable(&to_mark)).await??;
        let patient = Probe {
            deadline: self.probe.deadline.max(ACCEPT_DEADLINE),
            ..self.probe
        };
        let fits = patient.inspect(want.tool, &want.version, Demand::Equal, &file);
        if let Err(problem) = fits.await {
            return Err(BinaryError::Unusable {
                tool: want.tool,
                from,
                path: file,
                problem,
            });
        }
        let slot = slot.clone();
        blocking(move || slot.install(&file, origin)).await?
    }
}
