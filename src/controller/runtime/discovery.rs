//! Which kinds the server serves.
//!
//! A controller asks before it watches: one aggregated answer for the core group and one for all
//! others, which are the two requests of a start that are no watch (`controller.md` M). A kind that is
//! missing then is asked for again every ten seconds, and is complained about each time.

use std::collections::HashSet;
use std::time::Duration;

use kube::Client;
use kube::client::APIGroupDiscoveryList;
use kube::core::GroupVersionKind;
use tokio::time::{sleep, timeout};

/// The time between two questions after a missing kind.
pub const RETRY: Duration = Duration::from_secs(10);
/// How long the server may take for one answer; that of client-go.
const ANSWER: Duration = Duration::from_secs(32);

/// A kind cannot be watched yet.
#[derive(Debug, thiserror::Error)]
pub enum DiscoveryError {
    /// The server does not serve it.
    #[error("no matches for kind \"{kind}\" in version \"{api_version}\"")]
    NoMatch {
        /// The kind.
        kind: String,
        /// Its group and version.
        api_version: String,
    },
    /// The server said nothing.
    #[error("the server did not say within {} s which kinds it serves", ANSWER.as_secs())]
    Silent,
    /// The server did not say what it serves.
    #[error("cannot ask the server for the kinds it serves")]
    Request(#[source] Box<kube::Error>),
}

impl DiscoveryError {
    /// The one thing to do about it, if there is one.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::NoMatch { kind, api_version } => Some(format!(
                "install the CustomResourceDefinition that serves {kind} in {api_version}"
            )),
            Self::Silent | Self::Request(_) => None,
        }
    }
}

/// The kinds that a server served when it was asked.
#[derive(Debug, Clone, Default)]
pub struct Served(HashSet<GroupVersionKind>);

impl Served {
    /// Asks, with two requests.
    ///
    /// # Errors
    ///
    /// [`DiscoveryError`] when the server does not answer.
    pub async fn discover(client: &Client) -> Result<Self, DiscoveryError> {
        let core = answer(client.list_core_api_versions_aggregated()).await?;
        let mut served = Self::discover_groups(client).await?;
        served.add(core);
        Ok(served)
    }

    /// Asks with one request, and learns nothing of the core group.
    ///
    /// # Errors
    ///
    /// [`DiscoveryError`] when the server does not answer.
    pub async fn discover_groups(client: &Client) -> Result<Self, DiscoveryError> {
        let groups = answer(client.list_api_groups_aggregated()).await?;
        let mut served = Self::default();
        served.add(groups);
        Ok(served)
    }

    /// Whether it served this kind.
    ///
    /// # Errors
    ///
    /// [`DiscoveryError::NoMatch`] if not.
    pub fn check(&self, kind: &GroupVersionKind) -> Result<(), DiscoveryError> {
        if self.0.contains(kind) {
            return Ok(());
        }
        Err(DiscoveryError::NoMatch {
            kind: kind.kind.clone(),
            api_version: kind.api_version(),
        })
    }

    /// Asks the server once more for the one group and version of a kind that it served. A start with
    /// a third-party kind costs this request beside the watch (`controller.md` M).
    ///
    /// # Errors
    ///
    /// [`DiscoveryError`] when the kind is gone again, or the server does not answer.
    pub async fn confirm(client: &Client, kind: &GroupVersionKind) -> Result<(), DiscoveryError> {
        let api_version = kind.api_version();
        let resources = answer(client.list_api_group_resources(&api_version)).await?;
        if resources
            .resources
            .iter()
            .any(|known| known.kind == kind.kind)
        {
            return Ok(());
        }
        Err(DiscoveryError::NoMatch {
            kind: kind.kind.clone(),
            api_version,
        })
    }

    /// Waits until the server serves this kind, for ever if it never does; `absent` hears of every
    /// vain question.
    pub async fn wait_for(
        &self,
        client: &Client,
        kind: &GroupVersionKind,
        mut absent: impl FnMut(&DiscoveryError) + Send,
    ) {
        let mut result = self.check(kind);
        while let Err(error) = result {
            absent(&error);
            sleep(RETRY).await;
            result = Self::discover(client)
                .await
                .and_then(|served| served.check(kind));
        }
    }

    fn add(&mut self, list: APIGroupDiscoveryList) {
        for group in list.items {
            let name = group.metadata.and_then(|metadata| metadata.name);
            let name = name.unwrap_or_default();
            for version in group.versions {
                let number = version.version.unwrap_or_default();
                let kinds = version
                    .resources
                    .into_iter()
                    .filter_map(|resource| resource.response_kind?.kind);
                self.0
                    .extend(kinds.map(|kind| GroupVersionKind::gvk(&name, &number, &kind)));
            }
        }
    }
}

async fn answer<T>(
    request: impl Future<Output = Result<T, kube::Error>>,
) -> Result<T, DiscoveryError> {
    let answer = timeout(ANSWER, request).await;
    let answer = answer.map_err(|_| DiscoveryError::Silent)?;
    answer.map_err(|error| DiscoveryError::Request(Box::new(error)))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use tokio::time::Instant;

    use super::super::scripted::{Answer, Part, Script};
    use super::*;

    fn group(name: &str, version: &str, kinds: &[&str]) -> Value {
        let resources: Vec<_> = kinds
            .iter()
            .map(|kind| json!({"resource": kind.to_lowercase(), "responseKind": {"kind": kind}}))
            .collect();
        json!({
            "metadata": {"name": name},
            "versions": [{"version": version, "resources": resources}],
        })
    }

    fn answer(groups: &[Value]) -> Answer {
        Answer::json(
            200,
            &json!({"kind": "APIGroupDiscoveryList", "items": groups}),
        )
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_says_nothing_is_not_waited_for() {
        let script = Script::new([Answer::watch([Part::Hang])]);
        let error = Served::discover(&script.client()).await;
        let error = error.expect_err("no answer");
        assert_eq!(
            error.to_string(),
            "the server did not say within 32 s which kinds it serves"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_missing_kind_is_asked_for_every_ten_seconds() {
        let core = || answer(&[group("", "v1", &["Pod", "Namespace"])]);
        let without = || answer(&[group("apps", "v1", &["Deployment"])]);
        let with = answer(&[group("example.dev", "v1", &["Thing"])]);
        let script = Script::new([
            core(),
            without(),
            core(),
            without(),
            Answer::refused(),
            core(),
            with,
        ]);
        let client = script.client();
        let served = Served::discover(&client).await.expect("an answer");
        assert_eq!(script.seen().len(), 2);
        served
            .check(&GroupVersionKind::gvk("", "v1", "Pod"))
            .expect("served");
        served
            .check(&GroupVersionKind::gvk("apps", "v1", "Deployment"))
            .expect("served");
        served
            .check(&GroupVersionKind::gvk("apps", "v1beta1", "Deployment"))
            .expect_err("another version");

        let start = Instant::now();
        let mut heard = Vec::new();
        let thing = GroupVersionKind::gvk("example.dev", "v1", "Thing");
        served
            .wait_for(&client, &thing, |error| heard.push(error.to_string()))
            .await;
        assert_eq!(start.elapsed(), Duration::from_secs(30));
        let absent = "no matches for kind \"Thing\" in version \"example.dev/v1\"";
        assert_eq!(
            heard,
            [
                absent,
                absent,
                "cannot ask the server for the kinds it serves"
            ]
        );
    }
}
