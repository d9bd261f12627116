//! Tells where each program is or would come from, without obtaining anything and without a network.

use std::path::Path;

use semver::Version;

use super::build::Builder;
use super::cache::{Cache, Cached};
use super::error::BinaryError;
use super::official::{Release, shown};
use super::platform::Platform;
use super::probe::Probe;
use super::reason::{Attempt, Reason};
use super::source::Source;
use super::{Binary, Request, Want, blocking, search};
use crate::host::launch::Launcher;
use crate::plane::dirs::Dirs;
use crate::plane::tool::Tool;

/// What is known about one program before anything is obtained.
#[derive(Debug)]
pub struct Located {
    /// The program.
    pub tool: Tool,
    /// The version that is needed.
    pub wanted: Version,
    /// Whether it is there.
    pub availability: Availability,
    /// Sources that do not have it or cannot deliver it, and why.
    pub passed_over: Vec<Attempt>,
}

/// Whether a program is there, or how it would be had.
#[derive(Debug)]
pub enum Availability {
    /// It is there.
    Found(Binary),
    /// It would be obtained from the first of these that delivers; never empty.
    Obtainable(Vec<Obtainable>),
    /// It cannot be had.
    Refused(BinaryError),
}

/// A source that would be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Obtainable {
    /// A release would be downloaded.
    #[error("download from {url}")]
    Download {
        /// The file, without user name or password.
        url: String,
    },
    /// It would be built from pinned modules.
    #[error("build with {go}")]
    Build {
        /// The toolchain, as in `go1.26.8`.
        go: String,
    },
}

/// Searches as [`ensure`](super::ensure) does, but obtains nothing. One entry per requested tool, in
/// the order of [`Tool::ALL`].
pub async fn locate(dirs: &Dirs, launcher: &Launcher, request: &Request) -> Vec<Located> {
    let mut located = Vec::new();
    let cache = Cache::new(dirs.cache());
    let sources = &request.sources;
    let mut go = None;
    for want in request.wants() {
        let supported = request.require_supported(want.tool);
        let (availability, passed_over) = match supported.and_then(|()| Platform::current()) {
            Err(error) => (Availability::Refused(error), Vec::new()),
            Ok(platform) => {
                let probe = Probe {
                    launcher,
                    platform,
                    deadline: sources.timeouts.version,
                };
                if let Some(dir) = &request.explicit {
                    (explicit(&probe, &want, dir).await, Vec::new())
                } else {
                    let builder = go.get_or_insert_with(|| {
                        let environment = &sources.environment;
                        let timeouts = sources.timeouts;
                        Builder::new(&cache, launcher, platform, environment, timeouts)
                    });
                    one(&cache, &probe, request, &want, builder).await
                }
            }
        };
        located.push(Located {
            tool: want.tool,
            wanted: want.version,
            availability,
            passed_over,
        });
    }
    located
}

async fn explicit(probe: &Probe<'_>, want: &Want, dir: &Path) -> Availability {
    match search::explicit(probe, want, dir).await {
        Ok(binary) => Availability::Found(binary),
        Err(error) => Availability::Refused(error),
    }
}

async fn one(
    cache: &Cache,
    probe: &Probe<'_>,
    request: &Request,
    want: &Want,
    builder: &mut Builder<'_>,
) -> (Availability, Vec<Attempt>) {
    let sources = &request.sources;
    let mut passed_over = Vec::new();
    if sources.search_environment {
        let (binary, attempts) = search::environment(probe, want, &sources.environment).await;
        passed_over = attempts;
        if let Some(binary) = binary {
            return (Availability::Found(binary), passed_over);
        }
    }
    let slot = cache.slot(want, probe.platform);
    let reason = match blocking(move || slot.check()).await {
        Ok(Cached::Good(binary)) => return (Availability::Found(binary), passed_over),
        Ok(Cached::Absent) => Reason::NotFound,
        Ok(Cached::Damaged(why)) => Reason::Damaged { why },
        Err(error) => return (Availability::Refused(error), passed_over),
    };
    let from = Source::Cache;
    passed_over.push(Attempt { from, reason });

    let mut obtainable = Vec::new();
    let disabled = |from| Attempt {
        from,
        reason: Reason::Disabled,
    };
    if sources.download {
        match Release::of(want, probe.platform).url(sources.mirror.as_ref()) {
            Ok(url) => obtainable.push(Obtainable::Download { url: shown(&url) }),
            Err(error) => return (Availability::Refused(error), passed_over),
        }
    } else {
        passed_over.push(disabled(Source::Download));
    }
    if sources.build {
        match builder.prepare(want).await {
            Ok((_, go)) => obtainable.push(Obtainable::Build { go: go.name }),
            Err(reason) => {
                let from = Source::Build;
                passed_over.push(Attempt { from, reason });
            }
        }
    } else {
        passed_over.push(disabled(Source::Build));
    }
    if obtainable.is_empty() {
        let error = BinaryError::NoSource {
            tool: want.tool,
            version: want.version.clone(),
            attempts: passed_over.clone(),
        };
        return (Availability::Refused(error), passed_over);
    }
    (Availability::Obtainable(obtainable), passed_over)
}
