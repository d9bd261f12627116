//! Which instances of API server answer (MET-03).

use std::time::Duration;

use chrono::{DateTime, SecondsFormat};
use kube::Client;
use tokio::time::timeout;

const LIMIT: Duration = Duration::from_secs(10);
const START: &str = "process_start_time_seconds ";

/// The instance that answers now, by its start time. One that does not let us look is nobody.
pub(super) async fn of(client: &Client) -> Option<String> {
    let request = http::Request::get("/metrics").body(Vec::new()).ok()?;
    let text = timeout(LIMIT, client.request_text(request))
        .await
        .ok()?
        .ok()?;
    started(&text)
}

fn started(text: &str) -> Option<String> {
    let line = text.lines().find_map(|line| line.strip_prefix(START))?;
    let seconds: f64 = line.trim().parse().ok()?;
    let at = DateTime::from_timestamp_millis((seconds * 1e3) as i64)?;
    Some(at.to_rfc3339_opts(SecondsFormat::Millis, true))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instance_is_known_by_its_start() {
        let text =
            "# TYPE process_start_time_seconds gauge\nprocess_start_time_seconds 1.76729e+09\n";
        assert_eq!(started(text).as_deref(), Some("2026-01-01T17:53:20.000Z"));
        assert_eq!(started("process_start_time_seconds soon\n"), None);
        assert_eq!(started(""), None);
    }
}
