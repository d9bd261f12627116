//! Moments and durations as the Kubernetes API and its events write them: in whole seconds.

use std::time::Duration;

use chrono::{DateTime, Utc};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, Time};
use k8s_openapi::jiff::Timestamp;

/// A moment, to the second.
pub(super) fn at(moment: DateTime<Utc>) -> Time {
    Time(Timestamp::from_second(moment.timestamp()).unwrap_or(Timestamp::UNIX_EPOCH))
}

/// This moment, to the second.
pub(super) fn now() -> Time {
    at(Utc::now())
}

/// This moment, to the microsecond.
pub(super) fn precisely_now() -> MicroTime {
    let micros = Utc::now().timestamp_micros();
    MicroTime(Timestamp::from_microsecond(micros).unwrap_or(Timestamp::UNIX_EPOCH))
}

/// As Go prints a duration of whole seconds.
pub(super) fn go_duration(duration: Duration) -> String {
    match (duration.as_secs() / 60, duration.as_secs() % 60) {
        (0, seconds) => format!("{seconds}s"),
        (minutes, seconds) => format!("{minutes}m{seconds}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_printed_as_go_prints_them() {
        let text = |seconds| go_duration(Duration::from_secs(seconds));
        assert_eq!([text(10), text(80), text(300)], ["10s", "1m20s", "5m0s"]);
    }
}
