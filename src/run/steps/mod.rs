//! What each kind of step does.

mod configure;
mod load;
mod moves;
mod prepare;
mod quiet;

/// The cluster as it was found, in the run's folder: what `cleanup --run` compares with.
pub(super) const FOUND_FILE: &str = "found.json";
