//! What the plane reports while it works. One event type feeds every output: bars on a terminal,
//! plain lines elsewhere, a recorder in tests. The plane itself never prints.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use semver::Version;
use serde::{Deserialize, Serialize};

use super::binaries::{Origin, Source};
use super::tool::Tool;

/// Something that happened while binaries were obtained or a plane started, ran or stopped.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Event {
    /// Another process holds the lock on the binaries cache; this one waits for it.
    LockWait {
        /// The lock file.
        path: PathBuf,
    },
    /// A usable binary was found and, where it came from the cache, its digest rechecked.
    BinaryFound {
        /// The program.
        tool: Tool,
        /// Its version.
        version: Version,
        /// Where it first came from.
        origin: Origin,
        /// Whether it was in our cache.
        from_cache: bool,
    },
    /// A cached binary no longer has its recorded digest and was moved aside.
    BinarySetAside {
        /// The program.
        tool: Tool,
        /// Where the damaged file is now.
        moved_to: PathBuf,
        /// What was wrong with it.
        reason: String,
    },
    /// A source could not deliver this program; the next one is tried.
    SourceSkipped {
        /// The program.
        tool: Tool,
        /// The source.
        origin: Source,
        /// Why it was passed over, in words.
        reason: String,
        /// Whether the same was already told of this source for an earlier program.
        repeated: bool,
    },
    /// A download began.
    DownloadStarted {
        /// The program.
        tool: Tool,
        /// Where it comes from.
        url: String,
        /// Bytes expected in all, when the server says so.
        total: Option<u64>,
    },
    /// A download went on.
    DownloadProgress {
        /// The program.
        tool: Tool,
        /// Bytes present so far.
        received: u64,
    },
    /// A build from pinned Go modules began.
    BuildStarted {
        /// The program.
        tool: Tool,
        /// The version being built.
        version: Version,
        /// The Go toolchain at work.
        go: String,
    },
    /// A build went on; sent about once a second.
    BuildProgress {
        /// The program.
        tool: Tool,
        /// Time since the build began.
        elapsed: Duration,
        /// The last line that the Go toolchain printed, if any.
        last_line: Option<String>,
    },
    /// A program was downloaded or built and is in the cache now.
    BinaryObtained {
        /// The program.
        tool: Tool,
        /// Its version.
        version: Version,
        /// Where it came from.
        origin: Origin,
        /// How long it took.
        took: Duration,
    },
    /// Go's private caches were removed after the last build succeeded.
    BuildCacheRemoved {
        /// Bytes freed on disk.
        bytes: u64,
    },
    /// What an interrupted owner left behind was cleared.
    Reaped {
        /// The plane's name.
        plane: String,
        /// Processes ended.
        processes: usize,
    },
    /// What an interrupted owner left behind could not be cleared.
    NotReaped {
        /// The plane's name.
        plane: String,
        /// Why.
        reason: String,
    },
    /// The port that a persistent plane had is taken; copies of its kubeconfig no longer work.
    KeptPortTaken {
        /// The port.
        port: u16,
    },
    /// The plane does something else from now on.
    Phase {
        /// What it does.
        doing: Doing,
    },
    /// Nothing is being waited for any more: the plane is ready, or it has ended.
    Idle,
    /// A component became ready.
    ComponentReady {
        /// The component.
        tool: Tool,
        /// Time from its spawn to its readiness.
        took: Duration,
    },
    /// The node beside the plane became ready.
    NodeReady {
        /// Its name.
        name: String,
        /// Time from its start to its readiness.
        took: Duration,
    },
    /// A component found its port taken and is tried again on another one.
    PortRetry {
        /// The component.
        tool: Tool,
        /// The port that was taken.
        taken: u16,
        /// The attempt that follows, counted from 1.
        attempt: u32,
    },
    /// A component ended though nobody asked it to.
    ComponentDied {
        /// The component.
        tool: Tool,
        /// How it ended, in words.
        status: String,
    },
    /// A component was stopped.
    ComponentStopped {
        /// The component.
        tool: Tool,
        /// Time from the first signal to its end.
        took: Duration,
        /// Whether it had to be killed.
        killed: bool,
    },
}

/// What a plane does and waits for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Doing {
    /// It makes keys and certificates.
    MakingCertificates,
    /// It starts these components and waits until they are ready.
    Starting(Vec<Tool>),
    /// It has a node started beside it.
    StartingNode,
    /// It has the node beside it stopped.
    StoppingNode,
    /// It stops its components.
    Stopping,
}

impl fmt::Display for Doing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MakingCertificates => f.write_str("making certificates"),
            Self::Starting(tools) => {
                let names: Vec<String> = tools.iter().map(ToString::to_string).collect();
                write!(f, "starting {}", names.join(" and "))
            }
            Self::StartingNode => f.write_str("starting the node"),
            Self::StoppingNode => f.write_str("stopping the node"),
            Self::Stopping => f.write_str("stopping"),
        }
    }
}

/// Receives events. Implementations must not block for long: they are called from the work itself.
pub trait Sink: Send + Sync {
    /// Takes one event.
    fn event(&self, event: Event);
}

/// Ignores every event.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Sink for Silent {
    fn event(&self, _: Event) {}
}
