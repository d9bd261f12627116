//! From when and for how long certificates are valid.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use chrono::{DateTime, Utc};

use super::error::PkiError;

/// A day, in seconds.
const DAY: u64 = 86_400;

/// How certificates are made.
#[derive(Clone, Debug)]
pub struct PkiOptions {
    /// The moment that validities are counted from.
    pub now: DateTime<Utc>,
    /// How far before `now` a validity begins, for clients whose clock is behind.
    pub not_before_skew: Duration,
    /// How long after `now` an authority is valid.
    pub ca_validity: Duration,
    /// How long after `now` any other certificate is valid, unless its authority ends before.
    pub leaf_validity: Duration,
    /// The first address of the service range, which the API server takes for itself.
    pub service_ip: IpAddr,
}

impl Default for PkiOptions {
    fn default() -> Self {
        Self {
            now: Utc::now(),
            not_before_skew: Duration::from_secs(3_600),
            ca_validity: Duration::from_secs(3_650 * DAY),
            leaf_validity: Duration::from_secs(365 * DAY),
            service_ip: IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)),
        }
    }
}

impl PkiOptions {
    pub(super) fn not_before(&self) -> DateTime<Utc> {
        self.now
            .checked_sub_signed(signed(self.not_before_skew))
            .unwrap_or(DateTime::UNIX_EPOCH)
    }

    pub(super) fn end(&self, validity: Duration) -> Result<DateTime<Utc>, PkiError> {
        self.now
            .checked_add_signed(signed(validity))
            .ok_or(PkiError::Date(DateTime::<Utc>::MAX_UTC))
    }
}

/// A length too large for chrono is larger than any date can be apart.
fn signed(length: Duration) -> chrono::TimeDelta {
    chrono::TimeDelta::from_std(length).unwrap_or(chrono::TimeDelta::MAX)
}
