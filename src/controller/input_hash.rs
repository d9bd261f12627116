//! The input hash: one number for everything that was detected, and for nothing else.
//!
//! It covers what was extracted and where it stands (and with it indices and the text of patterns),
//! but no time, no name, generation or label of the workload, no configuration and no version. Two
//! workloads with the same pod template have the same input hash, under every release whose rules
//! find the same in it.

use super::detect::Scrape;
use super::{go_json, sha256};

/// The exact bytes that are hashed: compact JSON without a newline at the end.
///
/// # Errors
///
/// Never for a [`Scrape`], all of whose keys are strings.
pub fn pre_image(scrape: &Scrape) -> Result<Vec<u8>, serde_json::Error> {
    go_json::to_vec(scrape)
}

/// The input hash: 64 lower-case hexadecimal digits without a prefix.
///
/// # Errors
///
/// As [`pre_image`].
pub fn of(scrape: &Scrape) -> Result<String, serde_json::Error> {
    Ok(sha256::hex(&pre_image(scrape)?))
}
