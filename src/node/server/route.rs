//! Which request gets which answer.

use http::{Method, Request, Response, StatusCode};
use hyper::body::Incoming;

use super::answer::{Body, Refusal, text};
use super::connection::Context;
use super::forward::{self, Forward};
use super::logs;
use crate::node::view::{PodKey, PodView};

/// The answer to a request.
pub(super) enum Reply {
    /// That is all.
    Response(Response<Body>),
    /// The connection turns into a forward.
    Upgrade(Response<Body>, Forward),
}

impl From<Refusal> for Reply {
    fn from(refusal: Refusal) -> Self {
        Self::Response(refusal.into())
    }
}

/// What a path asks for. Names are taken as they stand: none that Kubernetes allows is ever escaped.
#[derive(Debug, PartialEq, Eq)]
enum Route {
    Healthz,
    Logs(PodKey, String),
    PortForward(PodKey),
    /// Something that would need a container to be more than a process.
    Inside,
    Unknown,
}

impl Route {
    fn of(path: &str) -> Self {
        let segments: Vec<&str> = path.strip_prefix('/').unwrap_or(path).split('/').collect();
        let key = |namespace: &str, name: &str| PodKey {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        };
        match segments[..] {
            ["healthz"] => Self::Healthz,
            ["containerLogs", namespace, name, container] => {
                Self::Logs(key(namespace, name), container.to_owned())
            }
            ["portForward", namespace, name] => Self::PortForward(key(namespace, name)),
            ["exec" | "attach" | "run", ..] => Self::Inside,
            _ => Self::Unknown,
        }
    }
}

pub(super) async fn answer(request: Request<Incoming>, context: &Context) -> Reply {
    try_answer(request, context)
        .await
        .unwrap_or_else(Reply::from)
}

async fn try_answer(request: Request<Incoming>, context: &Context) -> Result<Reply, Refusal> {
    let reading = request.method() == Method::GET;
    let response = match Route::of(request.uri().path()) {
        Route::PortForward(key) => {
            let (response, forward) = forward::open(request, key, context)?;
            return Ok(Reply::Upgrade(response, forward));
        }
        Route::Healthz if reading => text(StatusCode::OK, "ok"),
        Route::Logs(key, container) if reading => {
            let query = request.uri().query().unwrap_or_default();
            logs::answer(context, key, container, query).await?
        }
        Route::Healthz | Route::Logs(..) => {
            let why = format!("{} is not allowed here", request.method());
            return Err(Refusal::new(StatusCode::METHOD_NOT_ALLOWED, why));
        }
        Route::Inside => {
            return Err(Refusal::new(
                StatusCode::NOT_IMPLEMENTED,
                "the containers of this node are processes of its machine, which nothing can be run \
                 in or attached to: use kubectl logs, or the machine's own tools",
            ));
        }
        Route::Unknown => {
            let why = format!("this node does not serve {}", request.uri().path());
            return Err(Refusal::new(StatusCode::NOT_FOUND, why));
        }
    };
    Ok(Reply::Response(response))
}

/// The pod, if this node has it.
pub(super) fn find(context: &Context, key: &PodKey) -> Result<PodView, Refusal> {
    context.pods.get(key).ok_or_else(|| {
        let why = format!("pod {:?} does not exist", key.name);
        Refusal::new(StatusCode::NOT_FOUND, why)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_those_of_a_kubelet() {
        let key = PodKey {
            namespace: "models".to_owned(),
            name: "vllm-0".to_owned(),
        };
        for (path, route) in [
            ("/healthz", Route::Healthz),
            (
                "/containerLogs/models/vllm-0/manager",
                Route::Logs(key.clone(), "manager".to_owned()),
            ),
            ("/portForward/models/vllm-0", Route::PortForward(key)),
            ("/exec/models/vllm-0/manager", Route::Inside),
            ("/attach/models/vllm-0/uid/manager", Route::Inside),
            ("/run/models/vllm-0/manager", Route::Inside),
            ("/", Route::Unknown),
            ("/healthz/", Route::Unknown),
            ("/containerLogs/models/vllm-0", Route::Unknown),
            ("/portForward/models/vllm-0/a/b", Route::Unknown),
            ("/metrics", Route::Unknown),
        ] {
            assert_eq!(Route::of(path), route, "{path}");
        }
    }
}
