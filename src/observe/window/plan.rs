//! How a window is to be measured.

use std::time::Duration;

use crate::observe::scrape::Purpose;
use crate::record::Scrape;

/// The longest time between two readings in between.
const LONGEST: Duration = Duration::from_secs(30);
/// The shortest one: each reading costs the controller a little.
const SHORTEST: Duration = Duration::from_secs(2);

/// How a window is to be measured.
#[derive(Clone, Copy, Debug)]
pub struct WindowPlan<'a> {
    /// The step that it belongs to.
    pub step: u32,
    /// Its length.
    pub length: Duration,
    /// For how long nothing may have been written or reconciled when it opens. Thirty seconds are the
    /// rule (STS-01).
    pub quiet: Duration,
    /// How long that is awaited; the window then opens all the same.
    pub patience: Duration,
    /// A reading from before, if there is one: when nothing has been counted since, that time is quiet
    /// as well.
    pub earlier: Option<&'a Scrape>,
}

impl WindowPlan<'_> {
    /// Between two readings: a tenth of the window, and half a minute at most.
    pub(super) fn interval(&self) -> Duration {
        (self.length / 10).clamp(SHORTEST, LONGEST)
    }

    pub(super) fn purpose<'b>(&self, what: &'b str) -> Purpose<'b> {
        Purpose {
            step: self.step,
            what,
        }
    }
}
