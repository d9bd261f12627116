//! What a person sees while the plane works: bars on a terminal, one line per change elsewhere.

use std::collections::HashMap;
use std::io::IsTerminal as _;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use indicatif::{HumanBytes, MultiProgress, ProgressBar, ProgressStyle};

use crate::plane::event::{Event, Sink};
use crate::plane::tool::Tool;

use super::output;

/// How much to tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    /// Only what somebody must know of.
    Quiet,
    /// What changes.
    Normal,
    /// Also what was tried in vain and how long everything took.
    Verbose,
}

/// Reports events on standard error.
#[derive(Debug)]
pub(crate) struct Progress {
    level: Level,
    /// `None`: plain lines.
    bars: Option<Bars>,
}

#[derive(Debug)]
struct Bars {
    all: MultiProgress,
    by_tool: Mutex<HashMap<Tool, ProgressBar>>,
    /// What the plane does, while it does something.
    phase: Mutex<Option<ProgressBar>>,
}

impl Progress {
    /// Bars if `bars` is set and standard error is a terminal, plain lines otherwise.
    #[must_use]
    pub(crate) fn new(level: Level, bars: bool) -> Self {
        let bars = bars && level > Level::Quiet && std::io::stderr().is_terminal();
        Self {
            level,
            bars: bars.then(|| Bars {
                all: MultiProgress::new(),
                by_tool: Mutex::default(),
                phase: Mutex::default(),
            }),
        }
    }

    fn line(&self, text: &str) {
        match &self.bars {
            // Fails only where standard error is gone.
            Some(bars) => {
                let _ = bars.all.println(text);
            }
            None => output::note(text),
        }
    }
}

impl Bars {
    fn bar(&self, tool: Tool) -> ProgressBar {
        let mut by_tool = self.by_tool.lock().unwrap_or_else(PoisonError::into_inner);
        by_tool
            .entry(tool)
            .or_insert_with(|| {
                let bar = self.all.add(ProgressBar::new_spinner());
                bar.enable_steady_tick(Duration::from_millis(120));
                bar.set_prefix(tool.to_string());
                bar.set_style(style("{prefix:<24} {spinner} {wide_msg} {elapsed:>5}"));
                bar
            })
            .clone()
    }

    fn finish(&self, tool: Tool) {
        let mut by_tool = self.by_tool.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(bar) = by_tool.remove(&tool) {
            bar.finish_and_clear();
            self.all.remove(&bar);
        }
    }

    fn phase(&self, doing: &str) {
        let mut phase = self.phase.lock().unwrap_or_else(PoisonError::into_inner);
        let bar = phase.get_or_insert_with(|| {
            let bar = self.all.add(ProgressBar::new_spinner());
            bar.enable_steady_tick(Duration::from_millis(120));
            bar.set_style(style("{spinner} {wide_msg} {elapsed:>5}"));
            bar
        });
        bar.set_message(doing.to_owned());
    }

    fn idle(&self) {
        let mut phase = self.phase.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(bar) = phase.take() {
            bar.finish_and_clear();
            self.all.remove(&bar);
        }
    }

    fn show(&self, event: &Event) {
        match event {
            Event::Phase { doing } => self.phase(&doing.to_string()),
            Event::Idle => self.idle(),
            Event::DownloadStarted { tool, url, total } => {
                let bar = self.bar(*tool);
                if let Some(total) = total {
                    bar.set_length(*total);
                    bar.set_style(style(
                        "{prefix:<24} {wide_bar} {bytes:>10}/{total_bytes} {eta:>4}",
                    ));
                }
                bar.set_message(url.clone());
            }
            Event::DownloadProgress { tool, received } => self.bar(*tool).set_position(*received),
            Event::BuildStarted { tool, version, go } => {
                self.bar(*tool)
                    .set_message(format!("building {version} with {go}"));
            }
            Event::BuildProgress {
                tool,
                last_line: Some(line),
                ..
            } => self.bar(*tool).set_message(line.clone()),
            Event::BinaryObtained { tool, .. }
            | Event::BinaryFound { tool, .. }
            | Event::SourceSkipped { tool, .. } => self.finish(*tool),
            _ => {}
        }
    }
}

/// An interrupted wait leaves no bar behind the message that follows.
impl Drop for Bars {
    fn drop(&mut self) {
        self.idle();
        let _ = self.all.clear();
    }
}

/// A template is a literal of this file; one that indicatif refuses shows the default bar.
fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

impl Sink for Progress {
    fn event(&self, event: Event) {
        if let Some(bars) = &self.bars {
            bars.show(&event);
        }
        if let Some((level, text)) = describe(&event)
            && level <= self.level
        {
            self.line(&text);
        }
    }
}

/// The line for an event, and from which level on it is worth showing. Progress inside a download or
/// a build has no line: it would fill a log.
fn describe(event: &Event) -> Option<(Level, String)> {
    let seconds = |took: &Duration| format!("{:.1} s", took.as_secs_f64());
    Some(match event {
        Event::LockWait { path } => (
            Level::Normal,
            format!(
                "another process obtains the binaries; waiting for {}",
                path.display()
            ),
        ),
        Event::BinaryFound {
            tool,
            version,
            origin,
            from_cache,
        } => {
            let cached = if *from_cache { "cached, " } else { "" };
            (
                Level::Verbose,
                format!("{tool} {version}: {cached}{origin}"),
            )
        }
        Event::BinarySetAside {
            tool,
            moved_to,
            reason,
        } => (
            Level::Quiet,
            format!(
                "warning: the cached {tool} is damaged ({reason}); moved to {}, to be obtained again",
                moved_to.display()
            ),
        ),
        Event::SourceSkipped {
            tool,
            origin,
            reason,
            repeated,
        } => (
            // What holds for every program is news only once.
            if *repeated {
                Level::Verbose
            } else {
                Level::Normal
            },
            format!("{tool}: not from {origin}: {reason}"),
        ),
        Event::DownloadStarted { tool, url, total } => {
            let size = total
                .map(|total| format!(" ({})", HumanBytes(total)))
                .unwrap_or_default();
            (Level::Normal, format!("{tool}: downloading {url}{size}"))
        }
        Event::BuildStarted { tool, version, go } => (
            Level::Normal,
            format!(
                "{tool}: building {version} from pinned modules with {go} (this takes minutes)"
            ),
        ),
        Event::BinaryObtained {
            tool,
            version,
            origin,
            took,
        } => (
            Level::Normal,
            format!("{tool} {version}: {origin} in {}", seconds(took)),
        ),
        Event::BuildCacheRemoved { bytes } => (
            Level::Normal,
            format!("removed Go's private caches ({})", HumanBytes(*bytes)),
        ),
        Event::Reaped { plane, processes } => (
            Level::Normal,
            format!(
                "cleared what an interrupted command left of plane {plane} ({processes} processes ended)"
            ),
        ),
        Event::NotReaped { plane, reason } => (
            Level::Quiet,
            format!("warning: cannot clear what is left of plane {plane}: {reason}"),
        ),
        Event::KeptPortTaken { port } => (
            Level::Quiet,
            format!(
                "warning: port {port}, which this plane had, is taken; it gets another one, and copies \
                 of its kubeconfig no longer work"
            ),
        ),
        Event::Phase { doing } => (Level::Verbose, doing.to_string()),
        Event::ComponentReady { tool, took } => (
            Level::Normal,
            format!("{tool} is ready after {}", seconds(took)),
        ),
        Event::NodeReady { name, took } => (
            Level::Normal,
            format!("node {name} is ready after {}", seconds(took)),
        ),
        Event::PortRetry {
            tool,
            taken,
            attempt,
        } => (
            Level::Normal,
            format!("{tool}: port {taken} was taken meanwhile; attempt {attempt} on another one"),
        ),
        Event::ComponentDied { tool, status } => {
            (Level::Quiet, format!("{tool} ended by itself: {status}"))
        }
        Event::ComponentStopped { tool, took, killed } => {
            let how = if *killed { "killed" } else { "stopped" };
            (
                Level::Verbose,
                format!("{tool} {how} after {}", seconds(took)),
            )
        }
        Event::DownloadProgress { .. } | Event::BuildProgress { .. } | Event::Idle => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plane::binaries::Source;

    #[test]
    fn a_damaged_binary_is_told_even_when_quiet() {
        let event = Event::BinarySetAside {
            tool: Tool::Etcd,
            moved_to: "/c/corrupt/etcd".into(),
            reason: "its SHA-256 differs".to_owned(),
        };
        let (level, text) = describe(&event).expect("has a line");
        assert_eq!(level, Level::Quiet);
        assert!(text.contains("/c/corrupt/etcd"), "{text}");
    }

    #[test]
    fn an_unreachable_host_is_told_once() {
        let level = |repeated| {
            let event = Event::SourceSkipped {
                tool: Tool::Etcd,
                origin: Source::Download,
                reason: "github.com cannot be reached: Name or service not known".to_owned(),
                repeated,
            };
            describe(&event).expect("has a line").0
        };
        assert_eq!(level(false), Level::Normal);
        assert_eq!(level(true), Level::Verbose);
    }

    #[test]
    fn progress_inside_a_download_has_no_line() {
        assert!(
            describe(&Event::DownloadProgress {
                tool: Tool::Etcd,
                received: 1
            })
            .is_none()
        );
    }
}
