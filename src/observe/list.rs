//! Whole lists from one state of the cluster (MET-11, MET-12).
//!
//! A list is read by pages, without a `resourceVersion`, so that it is not older than the last write.
//! When the server forgets the state in between, it offers a token that goes on in a newer one; that
//! is never taken, nor is a page of another state: the whole list begins again. Every object is
//! handed over as the text that it was on the wire, and dropped with its page.

#[cfg(test)]
mod tests;

use std::time::Duration;

use form_urlencoded::byte_serialize;
use http::header::ACCEPT;
use kube::Client;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::task::spawn_blocking;
use tokio::time::sleep;

use super::error::ObserveError;
use crate::cluster::fault::{Fault, diagnose};

/// Objects of a page.
const LIMIT: u32 = 500;
/// How often a list is begun. A server remembers its states for minutes.
const ATTEMPTS: u32 = 5;
/// How often one page is asked for when failures that pass come in between.
const TRIES: u32 = 5;
/// Between two tries.
const PAUSE: Duration = Duration::from_millis(200);

/// In which form objects are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// As they are.
    Whole,
    /// Their metadata only.
    Metadata,
}

impl Form {
    fn accept(self) -> &'static str {
        match self {
            Self::Whole => "application/json",
            Self::Metadata => "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
        }
    }
}

/// A whole list.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Listed<T> {
    /// The state that all of it is from.
    pub(super) resource_version: String,
    /// How many pages it took.
    pub(super) pages: u32,
    /// How often it was begun again.
    pub(super) restarts: u32,
    /// What became of the objects, in the order of the server.
    pub(super) items: Vec<T>,
}

/// Lists what is at this path and makes something of each object's text.
///
/// # Errors
///
/// [`ObserveError::Api`] on a failure that does not pass, [`ObserveError::Inconsistent`] when the
/// server keeps forgetting the state, [`ObserveError::Unreadable`] when an answer or an object is not
/// understood.
pub(super) async fn list<T, F>(
    client: &Client,
    what: &str,
    path: &str,
    form: Form,
    decode: F,
) -> Result<Listed<T>, ObserveError>
where
    T: Send + 'static,
    F: Fn(&str) -> Result<T, String> + Copy + Send + 'static,
{
    for restarts in 0..ATTEMPTS {
        if let Some(listed) = attempt(client, what, path, form, decode).await? {
            return Ok(Listed { restarts, ..listed });
        }
    }
    Err(ObserveError::Inconsistent {
        what: what.to_owned(),
        attempts: ATTEMPTS,
    })
}

/// One attempt; [`None`] when the state is gone before the end.
async fn attempt<T, F>(
    client: &Client,
    what: &str,
    path: &str,
    form: Form,
    decode: F,
) -> Result<Option<Listed<T>>, ObserveError>
where
    T: Send + 'static,
    F: Fn(&str) -> Result<T, String> + Copy + Send + 'static,
{
    let (mut state, mut token): (Option<String>, Option<String>) = (None, None);
    let (mut pages, mut items) = (0, Vec::new());
    loop {
        let body = match ask(client, path, form, token.as_deref()).await {
            Ok(body) => body,
            Err(Fault::Expired { .. }) if token.is_some() => return Ok(None),
            Err(fault) => return Err(ObserveError::api(what, fault)),
        };
        let unreadable = |reason: String| ObserveError::Unreadable {
            what: what.to_owned(),
            reason,
        };
        // Megabytes of JSON and their hashes: not on a thread that other tasks wait for.
        let page = spawn_blocking(move || page(&body, decode)).await;
        let page = page
            .map_err(|error| unreadable(error.to_string()))?
            .map_err(unreadable)?;
        if *state.get_or_insert_with(|| page.resource_version.clone()) != page.resource_version {
            return Ok(None);
        }
        pages += 1;
        items.extend(page.items);
        if page.next.is_none() {
            return Ok(Some(Listed {
                resource_version: page.resource_version,
                pages,
                restarts: 0,
                items,
            }));
        }
        token = page.next;
    }
}

async fn ask(
    client: &Client,
    path: &str,
    form: Form,
    token: Option<&str>,
) -> Result<String, Fault> {
    let mut uri = format!("{path}?limit={LIMIT}");
    if let Some(token) = token {
        uri.push_str("&continue=");
        uri.extend(byte_serialize(token.as_bytes()));
    }
    let mut tries = 1;
    loop {
        let request = http::Request::get(&uri)
            .header(ACCEPT, form.accept())
            .body(Vec::new())
            .map_err(|error| Fault::Other(error.to_string()))?;
        match client
            .request_text(request)
            .await
            .map_err(|error| diagnose(&error))
        {
            Ok(body) => return Ok(body),
            Err(fault @ Fault::Expired { .. }) => return Err(fault),
            Err(fault) if fault.is_transient() && tries < TRIES => {
                tries += 1;
                sleep(PAUSE).await;
            }
            Err(fault) => return Err(fault),
        }
    }
}

struct Page<T> {
    resource_version: String,
    next: Option<String>,
    items: Vec<T>,
}

#[derive(Deserialize)]
struct RawPage<'a> {
    metadata: PageMetadata,
    #[serde(borrow)]
    items: Option<Vec<&'a RawValue>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PageMetadata {
    resource_version: String,
    #[serde(rename = "continue")]
    next: Option<String>,
}

fn page<T>(body: &str, decode: impl Fn(&str) -> Result<T, String>) -> Result<Page<T>, String> {
    let page: RawPage<'_> = serde_json::from_str(body).map_err(|error| error.to_string())?;
    let items = page.items.unwrap_or_default();
    let items = items.into_iter().map(|item| decode(item.get()));
    Ok(Page {
        resource_version: page.metadata.resource_version,
        next: page.metadata.next.filter(|token| !token.is_empty()),
        items: items.collect::<Result<_, _>>()?,
    })
}
