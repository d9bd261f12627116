//! A run while it is under way: bars on a terminal, one line per change elsewhere.
//!
//! It sees the entries that the log consists of and nothing else, so that a recorded run can be shown
//! in the same way.

use std::fmt;
use std::io::{self, IsTerminal as _, Write};
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use tokio::sync::mpsc::UnboundedReceiver;

use super::clauses;
use super::words::seconds;
use crate::record::{Entry, Event, StepEnd, StepRecord};

/// How often a bar that nothing moves shows that time passes.
const TICK: Duration = Duration::from_millis(120);

/// Shows a run on standard error, or wherever it is told to.
pub struct Progress {
    /// Otherwise only what must not be missed: steps that failed, and reports that may be missing.
    tell: bool,
    out: Box<dyn Write + Send>,
    /// [`None`]: plain lines.
    bars: Option<Bars>,
    steps: u32,
    /// What was waited for when a line was written last.
    waiting: Option<(String, String)>,
}

struct Bars {
    all: MultiProgress,
    run: ProgressBar,
    step: ProgressBar,
}

impl fmt::Debug for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Progress")
            .field("tell", &self.tell)
            .finish_non_exhaustive()
    }
}

impl Progress {
    /// Shows it on standard error: quietly unless `tell` is set; with bars if `bars` is set and
    /// standard error is a terminal.
    #[must_use]
    pub fn new(tell: bool, bars: bool) -> Self {
        let bars = tell && bars && io::stderr().is_terminal();
        let bars = bars.then(|| Bars::new(ProgressDrawTarget::stderr()));
        Self::to(tell, Box::new(io::stderr()), bars)
    }

    /// Shows a run from its first entry to its last one.
    pub async fn show(mut self, mut entries: UnboundedReceiver<Entry>) {
        while let Some(entry) = entries.recv().await {
            self.entry(&entry);
        }
    }

    fn to(tell: bool, out: Box<dyn Write + Send>, bars: Option<Bars>) -> Self {
        Self {
            tell,
            out,
            bars,
            steps: 0,
            waiting: None,
        }
    }

    /// Shows what has happened. Entries come in the order of the log.
    pub fn entry(&mut self, entry: &Entry) {
        if let Event::RunStarted { steps, .. } = &entry.event {
            self.steps = *steps;
        }
        if let Some(bars) = &self.bars {
            bars.show(&entry.event, self.steps);
        }
        if let Some((needed, line)) = self.line(&entry.event)
            && (needed == Need::Always || self.tell)
            && (needed != Need::WithoutBars || self.bars.is_none())
        {
            self.write(&line);
        }
    }

    /// What an event is worth in words, and whom it is for.
    fn line(&mut self, event: &Event) -> Option<(Need, String)> {
        let number = |step: &u32| format!("[{step}/{}]", self.steps);
        Some(match event {
            Event::Preparing { what } => (Need::WithoutBars, what.clone()),
            Event::StepStarted { step, action, .. } => {
                let line = format!("{} {action}", number(step));
                self.waiting = None;
                (Need::WithoutBars, line)
            }
            Event::Waiting {
                step,
                what,
                state,
                progress,
            } => {
                // What can be counted changes all the time: its end is told by the step's.
                let state = if progress.is_some() {
                    String::new()
                } else {
                    state.clone()
                };
                let now = (what.clone(), state);
                if self.waiting.as_ref() == Some(&now) {
                    return None;
                }
                let colon = if now.1.is_empty() { "" } else { ": " };
                let line = format!("{}   waiting for {what}{colon}{}", number(step), now.1);
                self.waiting = Some(now);
                (Need::WithoutBars, line)
            }
            Event::EventsMissed { reason } => (
                Need::Always,
                format!(
                    "warning: the watch of events was interrupted ({reason}) and began again; \
                     verdicts about events of this step are not given"
                ),
            ),
            Event::StepFinished { record } => {
                let need = match record.end {
                    StepEnd::Done => Need::Usual,
                    StepEnd::Failed { .. } | StepEnd::Aborted { .. } => Need::Always,
                };
                (
                    need,
                    format!("{} {}", number(&record.step), finished(record)),
                )
            }
            Event::RunFinished { outcome } => {
                let line = outcome.aborted.as_ref()?;
                (Need::Always, format!("the run ended early: {line}"))
            }
            // Whoever began the run told where it lies; the cluster's reports are for the log.
            Event::RunStarted { .. } | Event::PhaseStarted { .. } | Event::Cluster { .. } => {
                return None;
            }
        })
    }

    fn write(&mut self, line: &str) {
        // There is no better place to report that this failed.
        let _ = match &self.bars {
            Some(bars) => bars.all.println(line),
            None => writeln!(self.out, "{line}"),
        };
    }
}

/// Whom a line is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Need {
    /// Everybody.
    Always,
    /// All but the quiet.
    Usual,
    /// Those who do not see it move.
    WithoutBars,
}

/// `helm upgrade to 1.5.1: done in 21.4 s: rev 2, 12.3 s`.
fn finished(record: &StepRecord) -> String {
    let action = &record.action;
    let took = seconds(record.seconds);
    let clauses = clauses::of(record).join("; ");
    match &record.end {
        StepEnd::Done if clauses.is_empty() => format!("{action}: done in {took}"),
        StepEnd::Done => format!("{action}: done in {took}: {clauses}"),
        StepEnd::Failed { .. } => format!("{action}: FAILED after {took}: {clauses}"),
        StepEnd::Aborted { hint, .. } => {
            let hint = hint.as_ref().map(|hint| format!("\n\nhint: {hint}"));
            format!(
                "{action}: FAILED after {took}: {clauses}{}",
                hint.unwrap_or_default()
            )
        }
    }
}

impl Bars {
    fn new(target: ProgressDrawTarget) -> Self {
        let all = MultiProgress::with_draw_target(target);
        let run = all.add(ProgressBar::new(0));
        run.set_style(style("{bar:24} step {pos}/{len} {wide_msg} {elapsed:>6}"));
        let step = all.add(ProgressBar::new_spinner());
        step.set_style(style(SPINNER));
        step.enable_steady_tick(TICK);
        Self { all, run, step }
    }

    fn show(&self, event: &Event, steps: u32) {
        match event {
            Event::RunStarted { .. } => self.run.set_length(steps.into()),
            Event::Preparing { what } => self.step.set_message(what.clone()),
            Event::StepStarted { step, action, .. } => {
                self.run.set_position((*step).into());
                self.run.set_message(action.clone());
                self.spin(String::new());
            }
            Event::PhaseStarted { phase, .. } => self.spin(phase.clone()),
            Event::Waiting {
                what,
                state,
                progress: None,
                ..
            } => {
                self.spin(format!("{what}: {state}"));
            }
            Event::Waiting {
                what,
                progress: Some((there, all)),
                ..
            } => {
                self.step.set_style(style(COUNTED));
                self.step.set_length(*all);
                self.step.set_position(*there);
                self.step.set_message(what.clone());
            }
            Event::StepFinished { .. } => self.spin(String::new()),
            Event::RunFinished { .. } => self.clear(),
            Event::Cluster { .. } | Event::EventsMissed { .. } => {}
        }
    }

    fn spin(&self, message: String) {
        self.step.set_style(style(SPINNER));
        self.step.set_message(message);
    }

    fn clear(&self) {
        self.step.finish_and_clear();
        self.run.finish_and_clear();
        let _ = self.all.clear();
    }
}

/// A run that is cut short leaves no bar behind the message that follows.
impl Drop for Bars {
    fn drop(&mut self) {
        self.clear();
    }
}

const SPINNER: &str = "{spinner} {wide_msg}";
const COUNTED: &str = "{spinner} {bar:22} {human_pos}/{human_len} {wide_msg} {eta:>5} left";

/// A template is a literal of this file; one that indicatif refuses shows the default bar.
fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

#[cfg(test)]
mod tests;
