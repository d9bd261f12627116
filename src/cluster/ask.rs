//! Requests with an end: an answer within a limit, and lists that are of one piece.

use std::fmt::Debug;
use std::future::Future;
use std::time::Duration;

use kube::api::ListParams;
use kube::{Api, Resource};
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use super::fault::{Fault, diagnose};

/// How long one request may take that is not a watch.
const ANSWER: Duration = Duration::from_secs(30);
/// Objects per page of a list.
const PAGE: u32 = 500;
/// How often a list is begun again after the server forgot its state between two pages.
const RESTARTS: usize = 3;

/// The answer to one request.
pub(super) async fn answer<T>(
    request: impl Future<Output = Result<T, kube::Error>>,
) -> Result<T, Fault> {
    match timeout(ANSWER, request).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(error)) => Err(diagnose(&error)),
        Err(_) => Err(Fault::Timeout),
    }
}

/// What `map` makes of every object of a list, page by page, all of one state (MET-11): a list whose
/// state the server has forgotten in between is begun again, and at last given up.
pub(super) async fn list<K, T>(
    api: &Api<K>,
    params: &ListParams,
    map: impl Fn(K) -> T,
) -> Result<Vec<T>, Fault>
where
    K: Resource + Clone + DeserializeOwned + Debug,
{
    let mut restarts = 0;
    loop {
        match list_once(api, params, &map).await {
            Err(Fault::Expired { .. }) if restarts < RESTARTS => restarts += 1,
            result => return result,
        }
    }
}

async fn list_once<K, T>(
    api: &Api<K>,
    params: &ListParams,
    map: impl Fn(K) -> T,
) -> Result<Vec<T>, Fault>
where
    K: Resource + Clone + DeserializeOwned + Debug,
{
    let mut params = params.clone().limit(PAGE);
    let mut all = Vec::new();
    loop {
        let page = answer(api.list(&params)).await?;
        all.extend(page.items.into_iter().map(&map));
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params.continue_token = Some(token),
            None => return Ok(all),
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Namespace;
    use serde_json::json;

    use super::*;
    use crate::cluster::scripted::{Answer, client};

    fn page(names: &[&str], token: &str) -> Answer {
        let items: Vec<_> = names
            .iter()
            .map(|name| json!({"metadata": {"name": name}}))
            .collect();
        Answer::json(json!({
            "apiVersion": "v1", "kind": "NamespaceList",
            "metadata": {"resourceVersion": "7", "continue": token}, "items": items,
        }))
    }

    async fn names(answers: Vec<Answer>) -> (Result<Vec<String>, Fault>, Vec<String>) {
        let (client, asked) = client(answers);
        let api = Api::<Namespace>::all(client);
        let all = ListParams::default();
        let name = |namespace: Namespace| namespace.metadata.name.unwrap_or_default();
        let listed = list(&api, &all, name).await;
        (listed, asked.lines())
    }

    #[tokio::test]
    async fn pages_make_one_list() {
        let (listed, asked) = names(vec![page(&["a", "b"], "more"), page(&["c"], "")]).await;
        assert_eq!(listed.expect("a list"), ["a", "b", "c"]);
        assert!(asked[1].contains("continue=more"), "{asked:?}");
    }

    #[tokio::test]
    async fn pages_of_two_states_are_never_put_together() {
        let (listed, asked) = names(vec![
            page(&["a", "b"], "old"),
            Answer::refused(410, "Expired"),
            page(&["b"], "new"),
            page(&["c"], ""),
        ])
        .await;
        assert_eq!(listed.expect("a list"), ["b", "c"]);
        assert!(!asked[2].contains("continue"), "{asked:?}");
    }

    #[tokio::test]
    async fn a_list_that_never_gets_through_is_given_up() {
        let expired = || [page(&["a"], "old"), Answer::refused(410, "Expired")];
        let (listed, asked) = names((0..=RESTARTS).flat_map(|_| expired()).collect()).await;
        assert!(matches!(listed, Err(Fault::Expired { .. })), "{listed:?}");
        assert_eq!(asked.len(), 2 * (RESTARTS + 1));
    }
}
