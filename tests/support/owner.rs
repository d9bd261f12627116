//! A command that runs beside the test and never outlives it.

use std::io::{BufRead as _, BufReader, Read};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::{Finished, signal};

/// Nothing that a test waits for takes this long.
const LIMIT: Duration = Duration::from_secs(120);

/// A command that was left running, killed when the test ends first.
#[derive(Debug)]
pub(crate) struct Owner {
    child: Child,
    stdout: Lines,
    stderr: Lines,
}

impl Owner {
    #[track_caller]
    pub(crate) fn spawn(mut command: Command) -> Self {
        command.stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the command starts");
        Self {
            stdout: Lines::of(child.stdout.take().expect("its output")),
            stderr: Lines::of(child.stderr.take().expect("its error output")),
            child,
        }
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns as soon as the command has printed a line with this text on standard error.
    #[track_caller]
    pub(crate) fn until(&mut self, text: &str) {
        let begun = Instant::now();
        while let Some(line) = self.stderr.next(LIMIT.saturating_sub(begun.elapsed())) {
            if line.contains(text) {
                return;
            }
        }
        panic!("`{text}` was never printed: {}", self.stderr.seen);
    }

    pub(crate) fn terminate(&self) {
        signal(self.id(), Signal::TERM);
    }

    /// SIGKILL; returns when the process is gone.
    #[track_caller]
    pub(crate) fn kill(&mut self) {
        self.child.kill().expect("killed");
        self.child.wait().expect("reaped");
    }

    /// Waits for the end of the command and of its output.
    #[track_caller]
    pub(crate) fn finish(&mut self) -> Finished {
        let begun = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("a child of this process") {
                break status;
            }
            assert!(begun.elapsed() < LIMIT, "still runs: {}", self.stderr.seen);
            thread::sleep(Duration::from_millis(5));
        };
        self.finished(status)
    }

    fn finished(&mut self, status: ExitStatus) -> Finished {
        for lines in [&mut self.stdout, &mut self.stderr] {
            // A supervisor that the command left behind may hold on to its output.
            while lines.next(Duration::from_secs(2)).is_some() {}
        }
        Finished {
            code: status.code(),
            stdout: self.stdout.seen.clone(),
            stderr: self.stderr.seen.clone(),
        }
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        // Fails only when it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Lines of a pipe, read by a thread so that waiting for one has a deadline.
#[derive(Debug)]
struct Lines {
    lines: Receiver<String>,
    seen: String,
}

impl Lines {
    fn of(pipe: impl Read + Send + 'static) -> Self {
        let (sender, lines) = mpsc::channel();
        thread::spawn(move || {
            for line in BufReader::new(pipe).lines().map_while(Result::ok) {
                // The command must not be blocked by a test that no longer listens.
                let _ = sender.send(line);
            }
        });
        Self {
            lines,
            seen: String::new(),
        }
    }

    fn next(&mut self, within: Duration) -> Option<String> {
        match self.lines.recv_timeout(within) {
            Ok(line) => {
                self.seen.push_str(&line);
                self.seen.push('\n');
                Some(line)
            }
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => None,
        }
    }
}
