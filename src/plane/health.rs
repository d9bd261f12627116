//! When a component counts as ready, and what it said when it did not.

use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use kube::api::Api;
use tokio::time::sleep;

use crate::error_chain::innermost;

/// Between two looks. Short, since the looks are cheap and the start is waited for.
const INTERVAL: Duration = Duration::from_millis(25);
/// For one answer. A starting server may accept a connection long before it answers.
const ANSWER_DEADLINE: Duration = Duration::from_secs(2);
/// Of an answer's text, how much is worth repeating.
const TEXT_LIMIT: usize = 300;

/// Not ready within the time allowed.
#[derive(Clone, Debug)]
pub(crate) struct Late {
    /// What was waited for.
    pub(crate) what: String,
    /// How long.
    pub(crate) waited: Duration,
    /// The last state seen.
    pub(crate) last: String,
}

/// Looks until `look` says yes; keeps what it said last.
pub(crate) async fn until<F>(what: &str, deadline: Instant, mut look: F) -> Result<(), Late>
where
    F: AsyncFnMut() -> Result<(), String>,
{
    let begun = Instant::now();
    let mut last = None;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(Late {
                what: what.to_owned(),
                waited: begun.elapsed(),
                last: last.unwrap_or_else(|| "nothing was seen yet".to_owned()),
            });
        }
        match tokio::time::timeout(ANSWER_DEADLINE.min(left), look()).await {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(seen)) => last = Some(seen),
            // A look that the deadline itself cut short tells less than the one before it.
            Err(_) if left < ANSWER_DEADLINE && last.is_some() => {}
            Err(_) => last = Some("no answer".to_owned()),
        }
        sleep(INTERVAL.min(deadline.saturating_duration_since(Instant::now()))).await;
    }
}

/// A client for health endpoints on the loopback: no proxy, and only the plane's own CA.
pub(crate) fn client(ca_pem: &[u8]) -> Result<reqwest::Client, reqwest::Error> {
    reqwest::Client::builder()
        .no_proxy()
        .tls_certs_only([reqwest::Certificate::from_pem(ca_pem)?])
        .timeout(ANSWER_DEADLINE)
        .build()
}

/// One look at an endpoint that answers 200 when all is well.
pub(crate) async fn http_ok(client: &reqwest::Client, url: &str) -> Result<(), String> {
    let answer = client
        .get(url)
        .send()
        .await
        .map_err(|error| innermost(&error))?;
    let status = answer.status();
    if status.is_success() {
        return Ok(());
    }
    let text = answer.text().await.unwrap_or_default();
    Err(format!(
        "{url} answered {status}: {}",
        failing_checks(&text)
    ))
}

/// `/readyz` lists all checks; only those that fail are worth repeating.
fn failing_checks(text: &str) -> String {
    let failing: Vec<&str> = text
        .lines()
        .filter(|line| line.starts_with("[-]"))
        .collect();
    let said = if failing.is_empty() {
        text.trim().to_owned()
    } else {
        failing.join(", ")
    };
    said.chars().take(TEXT_LIMIT).collect()
}

/// Whether this very process listens on the port of 127.0.0.1: one of its descriptors is the socket
/// that the kernel lists for it. When the kernel does not tell, the answer is yes.
pub(crate) fn listens(pid: u32, port: u16) -> bool {
    let Ok(table) = std::fs::read_to_string("/proc/net/tcp") else {
        return true;
    };
    let Some(inode) = listening_inode(&table, port) else {
        // A server may listen on an IPv6 socket that also takes IPv4; ours are told an IPv4 address.
        return false;
    };
    let Ok(descriptors) = std::fs::read_dir(format!("/proc/{pid}/fd")) else {
        return true;
    };
    let socket = std::path::PathBuf::from(format!("socket:[{inode}]"));
    descriptors
        .flatten()
        .any(|entry| std::fs::read_link(entry.path()).is_ok_and(|link| link == socket))
}

/// The inode of the socket that listens on the port of 127.0.0.1, out of `/proc/net/tcp`.
fn listening_inode(table: &str, port: u16) -> Option<u64> {
    const LISTEN: &str = "0A";
    // The address is the number in memory order, so that its bytes stand reversed.
    let local = format!("0100007F:{port:04X}");
    table.lines().skip(1).find_map(|line| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let ours = fields.get(1) == Some(&local.as_str()) && fields.get(3) == Some(&LISTEN);
        fields.get(9).filter(|_| ours)?.parse().ok()
    })
}

/// The `default` namespace exists: the API server's own start-up hooks have run.
pub(crate) async fn default_namespace(client: &kube::Client) -> Result<(), String> {
    match Api::<Namespace>::all(client.clone())
        .get_opt("default")
        .await
    {
        Ok(Some(_)) => Ok(()),
        Ok(None) => Err("the namespace `default` does not exist yet".to_owned()),
        Err(error) => Err(innermost(&error)),
    }
}

/// The `default` service account exists: the controller manager works, and pods can be admitted.
pub(crate) async fn default_service_account(client: &kube::Client) -> Result<(), String> {
    match Api::<ServiceAccount>::namespaced(client.clone(), "default")
        .get_opt("default")
        .await
    {
        Ok(Some(_)) => Ok(()),
        Ok(None) => Err("the service account `default` does not exist yet".to_owned()),
        Err(error) => Err(innermost(&error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_failing_checks_are_repeated() {
        let text = "[+]ping ok\n[-]poststarthook/rbac/bootstrap-roles failed: reason withheld\nreadyz check failed";
        assert_eq!(
            failing_checks(text),
            "[-]poststarthook/rbac/bootstrap-roles failed: reason withheld"
        );
    }

    #[test]
    fn a_listener_is_told_from_another_process() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a listener");
        let port = listener.local_addr().expect("its address").port();
        assert!(listens(std::process::id(), port));
        assert!(!listens(std::process::id(), 1));
        let line =
            "  0: 0100007F:5E0A 00000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 4711 1";
        assert_eq!(
            listening_inode(&format!("header\n{line}"), 0x5e0a),
            Some(4711)
        );
        assert_eq!(listening_inode(&format!("header\n{line}"), 0x5e0b), None);
    }

    #[tokio::test]
    async fn a_deadline_tells_the_last_state_seen() {
        let deadline = Instant::now() + Duration::from_millis(1);
        let mut looks = 0;
        let late = until("the moon", deadline, async || {
            looks += 1;
            std::thread::sleep(Duration::from_millis(2));
            Err(format!("look {looks}"))
        })
        .await
        .expect_err("never ready");
        assert_eq!(
            (late.what.as_str(), late.last.as_str()),
            ("the moon", "look 1")
        );
    }

    #[tokio::test]
    async fn a_look_cut_short_by_the_deadline_does_not_hide_what_was_seen() {
        let deadline = Instant::now() + Duration::from_millis(200);
        let mut looks = 0;
        let late = until("the moon", deadline, async || {
            looks += 1;
            if looks > 1 {
                std::future::pending::<()>().await;
            }
            Err("clouds".to_owned())
        })
        .await
        .expect_err("never ready");
        assert_eq!(late.last, "clouds");
    }
}
