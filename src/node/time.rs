//! Moments as the Kubernetes API writes them: whole seconds.

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
