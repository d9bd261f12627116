//! What a server says of itself: the part of a run's environment that it alone knows (MET-08).

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use http::header::DATE;
use http::{HeaderMap, Request};
use k8s_openapi::api::core::v1::{Namespace, Node};
use k8s_openapi::apimachinery::pkg::version::Info;
use kube::api::ListParams;
use kube::client::Body;
use kube::core::{PartialObjectMeta, Status};
use kube::{Api, Client};

use super::ask::{answer, list};
use super::fault::{Fault, from_status};

/// What is known of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerFacts {
    /// Its `gitVersion`, for example `v1.36.3`.
    pub git_version: String,
    /// The platform that it was built for, for example `linux/amd64`.
    pub platform: String,
    /// The UID of the namespace `kube-system`: the identity of the cluster (MET-09).
    pub kube_system_uid: String,
    /// How many nodes there are.
    pub nodes: u32,
    /// By how much its clock is at least ahead of this machine's (behind, when negative), in
    /// milliseconds (MET-10). It tells whole seconds only, so that this is 0 for any two clocks that
    /// may as well agree.
    pub clock_skew_ms: i64,
}

/// Asks a server for all of it.
///
/// # Errors
///
/// The [`Fault`] of the first request that failed.
pub async fn server(client: &Client) -> Result<ServerFacts, Fault> {
    let system = Api::<PartialObjectMeta<Namespace>>::all(client.clone());
    let nodes = Api::<PartialObjectMeta<Node>>::all(client.clone());
    let all = ListParams::default();
    let (version, system, nodes) = tokio::try_join!(
        version(client),
        answer(system.get("kube-system")),
        list(&nodes, &all, |_| ()),
    )?;
    let (info, clock_skew_ms) = version;
    Ok(ServerFacts {
        git_version: info.git_version,
        platform: info.platform,
        kube_system_uid: system.metadata.uid.unwrap_or_default(),
        nodes: u32::try_from(nodes.len()).unwrap_or(u32::MAX),
        clock_skew_ms,
    })
}

/// The server's version, and its clock's skew. The client library drops headers of answers, so this
/// request goes without it.
async fn version(client: &Client) -> Result<(Info, i64), Fault> {
    let request = Request::get("/version").body(Body::empty());
    let request = request.map_err(|error| Fault::Other(error.to_string()))?;
    let sent = Utc::now();
    let response = answer(client.send(request)).await?;
    let received = Utc::now();
    let (head, body) = response.into_parts();
    let body = answer(body.collect_bytes()).await?;
    if !head.status.is_success() {
        let status = serde_json::from_slice::<Status>(&body).unwrap_or_else(|_| {
            let text = String::from_utf8_lossy(&body);
            Status::failure(&text, "").with_code(head.status.as_u16())
        });
        return Err(from_status(&status));
    }
    let info = serde_json::from_slice(&body)
        .map_err(|error| Fault::Other(format!("the server's version cannot be read: {error}")))?;
    let date = date(&head.headers);
    Ok((info, date.map_or(0, |date| skew(date, sent, received))))
}

fn date(headers: &HeaderMap) -> Option<DateTime<Utc>> {
    let text = headers.get(DATE)?.to_str().ok()?;
    let date = DateTime::parse_from_rfc2822(text).ok()?;
    Some(date.to_utc())
}

/// The least skew, in milliseconds, with which a server can have said this second at some moment
/// between the two of this machine.
fn skew(told: DateTime<Utc>, sent: DateTime<Utc>, received: DateTime<Utc>) -> i64 {
    let end = told + TimeDelta::from_std(Duration::from_secs(1)).unwrap_or_default();
    let ahead = (told - received).num_milliseconds();
    let behind = (end - sent).num_milliseconds();
    if ahead > 0 {
        ahead
    } else if behind < 0 {
        behind
    } else {
        0
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::cluster::scripted::{Answer, answering};

    fn at(text: &str) -> DateTime<Utc> {
        DateTime::parse_from_rfc3339(text)
            .expect("a moment")
            .to_utc()
    }

    #[test]
    fn only_a_skew_that_is_proven_is_told() {
        let told = at("2026-01-01T00:00:10Z");
        let asked = |sent, received| skew(told, at(sent), at(received));
        let same = asked("2026-01-01T00:00:10.900Z", "2026-01-01T00:00:11.100Z");
        assert_eq!(same, 0);
        let ahead = asked("2026-01-01T00:00:07.500Z", "2026-01-01T00:00:07.600Z");
        assert_eq!(ahead, 2_400);
        let behind = asked("2026-01-01T00:00:13.500Z", "2026-01-01T00:00:13.600Z");
        assert_eq!(behind, -2_500);
    }

    fn server_of_2001(line: &str) -> Answer {
        match line {
            "GET /version" => Answer::json(json!({
                "major": "1", "minor": "36", "gitVersion": "v1.36.3", "gitCommit": "", "gitTreeState": "",
                "buildDate": "", "goVersion": "", "compiler": "", "platform": "linux/amd64",
            }))
            .dated("Tue, 09 Jan 2001 01:46:40 GMT"),
            "GET /api/v1/namespaces/kube-system?" | "GET /api/v1/namespaces/kube-system" => {
                Answer::json(json!({"metadata": {"name": "kube-system", "uid": "u-1"}}))
            }
            nodes => {
                assert!(nodes.starts_with("GET /api/v1/nodes?"), "{nodes}");
                Answer::json(json!({
                    "metadata": {"resourceVersion": "1"},
                    "items": [{"metadata": {"name": "a"}}, {"metadata": {"name": "b"}}],
                }))
            }
        }
    }

    #[tokio::test]
    async fn a_server_tells_its_version_identity_nodes_and_clock() {
        let (client, _) = answering(server_of_2001);
        let facts = server(&client).await.expect("facts");
        assert_eq!(facts.git_version, "v1.36.3");
        assert_eq!(facts.platform, "linux/amd64");
        assert_eq!((facts.kube_system_uid.as_str(), facts.nodes), ("u-1", 2));
        let decades = -20 * 365 * 86_400_000_i64;
        assert!(facts.clock_skew_ms < decades, "{}", facts.clock_skew_ms);
    }

    #[tokio::test]
    async fn a_refusal_keeps_its_meaning() {
        let (client, _) = answering(|line| match line {
            "GET /version" => Answer::refused(401, "Unauthorized"),
            other => server_of_2001(other),
        });
        assert_eq!(server(&client).await, Err(Fault::Unauthorized));
    }
}
