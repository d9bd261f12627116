//! `/containerLogs`: what containers wrote, from files in the container runtime interface's format.

mod cri;
mod query;
mod reader;

use chrono::Utc;
use futures_util::stream;
use http::{Response, StatusCode};

use self::query::LogQuery;
use self::reader::{Reader, Writer};
use super::answer::{self, Body, text};
use super::connection::Context;
use super::route::find;
use crate::node::view::PodKey;

/// Refusals are told in the kubelet's words, since people search for them.
pub(super) async fn answer(
    context: &Context,
    key: PodKey,
    container: String,
    query: &str,
) -> Response<Body> {
    let query = match LogQuery::parse(query, Utc::now()) {
        Ok(query) => query,
        Err(error) => return text(error.status(), error.to_string()),
    };
    let pod = match find(context, &key) {
        Ok(pod) => pod,
        Err(response) => return response,
    };
    let name = &key.name;
    let Some(view) = pod.containers.get(&container) else {
        return text(
            StatusCode::NOT_FOUND,
            format!("container {container:?} not found in pod {name:?}"),
        );
    };
    let path = if query.previous {
        view.previous_log.clone().ok_or_else(|| {
            format!("previous terminated container {container:?} in pod {name:?} not found")
        })
    } else {
        view.log.clone().ok_or_else(|| {
            format!("container {container:?} in pod {name:?} is waiting to start - no logs yet")
        })
    };
    let path = match path {
        Ok(path) => path,
        Err(why) => return text(StatusCode::BAD_REQUEST, why),
    };
    let writer = (query.follow && !query.previous).then(|| Writer {
        context: context.clone(),
        key,
        uid: pod.uid,
        container,
        log: path.clone(),
    });
    match Reader::open(&path, &query, writer).await {
        Ok(reader) => answer::stream(stream::try_unfold(reader, |mut reader| async {
            let chunk = reader.next().await?;
            Ok(chunk.map(|chunk| (chunk, reader)))
        })),
        Err(error) => text(
            StatusCode::BAD_REQUEST,
            format!("failed to open log file {:?}: {error}", path.display()),
        ),
    }
}
