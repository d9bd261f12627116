//! `/containerLogs`: what containers wrote, from files in the container runtime interface's format.

mod cri;
mod query;
mod reader;

use chrono::Utc;
use futures_util::stream;
use http::{Response, StatusCode};

use self::query::LogQuery;
use self::reader::{Reader, Writer};
use super::answer::{self, Body, Refusal};
use super::connection::Context;
use super::route::find;
use crate::node::view::PodKey;

/// Refusals are told in the kubelet's words, since people search for them.
pub(super) async fn answer(
    context: &Context,
    key: PodKey,
    container: String,
    query: &str,
) -> Result<Response<Body>, Refusal> {
    let query = LogQuery::parse(query, Utc::now())
        .map_err(|error| Refusal::new(error.status(), error.to_string()))?;
    let pod = find(context, &key)?;
    let name = &key.name;
    let view = pod.containers.get(&container).ok_or_else(|| {
        let why = format!("container {container:?} not found in pod {name:?}");
        Refusal::new(StatusCode::NOT_FOUND, why)
    })?;
    let bad = |why: String| Refusal::new(StatusCode::BAD_REQUEST, why);
    let path = if query.previous {
        view.previous_log.clone().ok_or_else(|| {
            format!("previous terminated container {container:?} in pod {name:?} not found")
        })
    } else {
        view.log.clone().ok_or_else(|| {
            format!("container {container:?} in pod {name:?} is waiting to start - no logs yet")
        })
    };
    let path = path.map_err(bad)?;
    let writer = (query.follow && !query.previous).then(|| Writer {
        context: context.clone(),
        key,
        uid: pod.uid,
        container,
        log: path.clone(),
    });
    let reader = Reader::open(&path, &query, writer).await.map_err(|error| {
        bad(format!(
            "failed to open log file {:?}: {error}",
            path.display()
        ))
    })?;
    Ok(answer::stream(stream::try_unfold(
        reader,
        |mut reader| async {
            let chunk = reader.next().await?;
            Ok(chunk.map(|chunk| (chunk, reader)))
        },
    )))
}
