//! One kind of object, followed: what there is, then every change, for as long as the follower lives.
//!
//! A closed watch is resumed where it ended. When the server has forgotten that place (410), all is
//! listed again: [`Change::Listed`] after the first means that changes in between are unknown. Nothing
//! fails silently: every failure is told as [`Change::Failed`] before the next attempt, which follows
//! after a pause that grows to half a minute.

use std::fmt::Debug;
use std::mem;
use std::time::Duration;

use futures_util::stream::{self, BoxStream};
use futures_util::{StreamExt as _, TryStreamExt as _};
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, Config, Event};
use kube::{Api, Resource};
use serde::de::DeserializeOwned;
use tokio::time::{Instant, sleep, timeout_at};

use super::fault::{Fault, diagnose_chain};

/// How long the first list may take, attempts that fail for a moment included.
const FIRST_LIST: Duration = Duration::from_secs(30);

/// Before all is listed again because a watch cannot be resumed.
const PAUSE: Duration = Duration::from_secs(1);

type Events<T> = BoxStream<'static, Result<Event<T>, watcher::Error>>;

/// What a follower tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Change<T> {
    /// All that there is.
    Listed(Vec<T>),
    /// One is there, or has changed.
    Applied(T),
    /// One is gone; this is what it was.
    Deleted(T),
    /// A request failed; there will be another attempt.
    Failed(Fault),
}

/// Follows what a function makes of each object of a kind, so that nothing more is held of it.
pub(super) struct Follow<T> {
    begin: Box<dyn Fn(Duration) -> Events<T> + Send + Sync>,
    events: Events<T>,
    listed: Vec<T>,
}

impl<T: Send + 'static> Follow<T> {
    /// Nothing is sent yet.
    pub(super) fn new<K>(api: Api<K>, config: Config, map: fn(K) -> T) -> Self
    where
        K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
    {
        let begin = move |pause| {
            let watcher = watcher::watcher(api.clone(), config.clone());
            let events = watcher.default_backoff();
            let after = stream::once(async move {
                sleep(pause).await;
                events
            });
            after
                .flatten()
                .map_ok(move |event| mapped(event, map))
                .boxed()
        };
        Self {
            events: begin(Duration::ZERO),
            begin: Box::new(begin),
            listed: Vec::new(),
        }
    }

    /// The first list. Whatever changes after it is told by [`next`](Self::next).
    pub(super) async fn first(&mut self) -> Result<Vec<T>, Fault> {
        let deadline = Instant::now() + FIRST_LIST;
        let mut last = Fault::Timeout;
        loop {
            match timeout_at(deadline, self.next()).await {
                Ok(Change::Listed(all)) => return Ok(all),
                // Nothing else comes before the first list.
                Ok(Change::Applied(_) | Change::Deleted(_)) => {}
                Ok(Change::Failed(fault)) if fault.is_transient() => last = fault,
                Ok(Change::Failed(fault)) => return Err(fault),
                Err(_) => return Err(last),
            }
        }
    }

    /// The next change. A call that is dropped before it is done loses nothing.
    pub(super) async fn next(&mut self) -> Change<T> {
        loop {
            match self.events.next().await {
                Some(Ok(Event::Init)) => self.listed.clear(),
                Some(Ok(Event::InitApply(object))) => self.listed.push(object),
                Some(Ok(Event::InitDone)) => return Change::Listed(mem::take(&mut self.listed)),
                Some(Ok(Event::Apply(object))) => return Change::Applied(object),
                Some(Ok(Event::Delete(object))) => return Change::Deleted(object),
                Some(Err(error)) => {
                    let fault = diagnose_chain(&error);
                    let refused = matches!(error, watcher::Error::WatchStartFailed(_));
                    if refused && matches!(fault, Fault::Expired { .. }) {
                        // The watcher would ask for the same forgotten place for ever.
                        self.events = (self.begin)(PAUSE);
                    }
                    return Change::Failed(fault);
                }
                // The stream of a watcher has no end.
                None => self.events = (self.begin)(PAUSE),
            }
        }
    }
}

fn mapped<K, T>(event: Event<K>, map: fn(K) -> T) -> Event<T> {
    match event {
        Event::Init => Event::Init,
        Event::InitApply(object) => Event::InitApply(map(object)),
        Event::InitDone => Event::InitDone,
        Event::Apply(object) => Event::Apply(map(object)),
        Event::Delete(object) => Event::Delete(map(object)),
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Namespace;
    use serde_json::{Value, json};

    use super::*;
    use crate::cluster::scripted::{Answer, Asked, client};

    fn namespace(name: &str, version: &str) -> Value {
        json!({
            "apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": name, "resourceVersion": version},
        })
    }

    fn list(names: &[&str], version: &str) -> Answer {
        let items: Vec<_> = names.iter().map(|name| namespace(name, "1")).collect();
        Answer::json(json!({
            "apiVersion": "v1", "kind": "NamespaceList",
            "metadata": {"resourceVersion": version}, "items": items,
        }))
    }

    fn event(type_: &str, object: Value) -> Value {
        json!({"type": type_, "object": object})
    }

    fn gone() -> Value {
        event(
            "ERROR",
            json!({"kind": "Status", "status": "Failure", "reason": "Expired",
                   "message": "too old resource version", "code": 410}),
        )
    }

    fn follow(answers: Vec<Answer>) -> (Follow<String>, Asked) {
        let (client, asked) = client(answers);
        let name = |namespace: Namespace| namespace.metadata.name.unwrap_or_default();
        let follow = Follow::new(Api::all(client), Config::default(), name);
        (follow, asked)
    }

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn a_closed_watch_is_resumed_where_it_ended() {
        let (mut follow, asked) = follow(vec![
            list(&["a"], "5"),
            Answer::watch(&[event("ADDED", namespace("b", "6"))]),
            Answer::quiet(&[event("DELETED", namespace("a", "7"))]),
        ]);
        assert_eq!(follow.first().await.expect("a list"), names(&["a"]));
        assert_eq!(follow.next().await, Change::Applied("b".to_owned()));
        assert_eq!(follow.next().await, Change::Deleted("a".to_owned()));
        let asked = asked.lines();
        assert!(asked[1].contains("resourceVersion=5"), "{asked:?}");
        assert!(asked[2].contains("resourceVersion=6"), "{asked:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_forgotten_place_is_told_and_all_is_listed_again() {
        let (mut follow, _) = follow(vec![
            list(&["a"], "5"),
            Answer::watch(&[gone()]),
            list(&["a", "b"], "9"),
            // The same as an answer without a watch.
            Answer::refused(410, "Expired"),
            list(&["b"], "11"),
        ]);
        follow.first().await.expect("a list");
        for listed in [names(&["a", "b"]), names(&["b"])] {
            let failed = follow.next().await;
            assert!(
                matches!(failed, Change::Failed(Fault::Expired { .. })),
                "{failed:?}"
            );
            assert_eq!(follow.next().await, Change::Listed(listed));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_first_list_waits_for_what_passes_and_for_nothing_else() {
        let busy = Answer::refused(503, "ServiceUnavailable");
        let (mut follow_busy, _) = follow(vec![busy, list(&["a"], "5")]);
        assert_eq!(follow_busy.first().await.expect("a list"), names(&["a"]));
        let (mut forbidden, _) = follow(vec![Answer::refused(403, "Forbidden")]);
        let fault = forbidden.first().await.expect_err("no permission");
        assert!(matches!(fault, Fault::Forbidden { .. }), "{fault:?}");
    }
}
