//! Moments of the Kubernetes API as the rest of the program has them.

use chrono::{DateTime, Utc};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// The same moment; [`None`] when it lies outside of what can be told.
#[must_use]
pub fn moment(time: &Time) -> Option<DateTime<Utc>> {
    let nanoseconds = u32::try_from(time.0.subsec_nanosecond()).ok()?;
    DateTime::from_timestamp(time.0.as_second(), nanoseconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_stays_the_same() {
        let time: Time = serde_json::from_str("\"2026-01-02T03:04:05Z\"").expect("a time");
        let moment = moment(&time).expect("a moment");
        assert_eq!(moment.to_rfc3339(), "2026-01-02T03:04:05+00:00");
    }
}
