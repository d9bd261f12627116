//! `steady` and `hold`: nothing is done.

use std::time::Duration;

use crate::observe::ObserveError;
use crate::observe::window::{self, WindowPlan};
use crate::run::draft::Draft;
use crate::run::engine::Engine;
use crate::run::error::RunError;
use crate::run::limits;

impl Engine<'_> {
    /// Measures a quiet window. One that cannot be measured, since the process ends or cannot be read,
    /// fails the step; the gates say what it is worth.
    pub(in crate::run) async fn steady(
        &mut self,
        draft: &mut Draft,
        length: Duration,
    ) -> Result<(), RunError> {
        let phase = draft.start("window", &self.journal);
        let earlier = self.scrape.clone();
        let plan = WindowPlan {
            step: draft.number(),
            length,
            quiet: limits::QUIET_BEFORE_WINDOW,
            patience: limits::PATIENCE,
            earlier: earlier.as_ref(),
        };
        let shown = self.counted(draft.number(), "the end of the window");
        let measuring = window::measure(&self.target, &self.scrapes, plan, &shown);
        let measured = self.unless_stopped(measuring).await?;
        draft.done(phase);
        match measured {
            Ok(window) => {
                self.scrape = Some(window.closed.clone());
                draft.record.window = Some(window);
                Ok(())
            }
            Err(error @ ObserveError::Late { .. }) => {
                draft.fail(error.to_string());
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }

    pub(in crate::run) async fn hold(
        &mut self,
        draft: &mut Draft,
        length: Duration,
    ) -> Result<(), RunError> {
        let phase = draft.start("hold", &self.journal);
        self.unless_stopped(tokio::time::sleep(length)).await?;
        draft.done(phase);
        self.refresh(draft).await
    }

    /// Reads the controller's counters anew, where one runs.
    pub(super) async fn refresh(&mut self, draft: &Draft) -> Result<(), RunError> {
        if draft.record.chart.is_some() {
            self.scrape = self.read(draft, "after").await?;
        }
        Ok(())
    }
}
