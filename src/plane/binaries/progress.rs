//! Tells how a download gets on.

use std::time::{Duration, Instant};

use reqwest::Url;

use super::official::shown;
use crate::plane::event::{Event, Sink};
use crate::plane::tool::Tool;

const EVERY: Duration = Duration::from_millis(250);

/// Sends events about one download, not more often than somebody can read.
pub(super) struct Progress<'a> {
    tool: Tool,
    url: &'a Url,
    sink: &'a dyn Sink,
    started: bool,
    last: Instant,
}

impl<'a> Progress<'a> {
    pub(super) fn new(tool: Tool, url: &'a Url, sink: &'a dyn Sink) -> Self {
        Self {
            tool,
            url,
            sink,
            started: false,
            last: Instant::now(),
        }
    }

    pub(super) fn start(&mut self, total: Option<u64>) {
        if !self.started {
            self.started = true;
            self.sink.event(Event::DownloadStarted {
                tool: self.tool,
                url: shown(self.url),
                total,
            });
        }
    }

    pub(super) fn at(&mut self, received: u64) {
        if self.last.elapsed() >= EVERY {
            self.end(received);
        }
    }

    pub(super) fn end(&mut self, received: u64) {
        self.last = Instant::now();
        self.sink.event(Event::DownloadProgress {
            tool: self.tool,
            received,
        });
    }
}
