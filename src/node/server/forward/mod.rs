//! `/portForward`: connections to ports of a pod, over one websocket.
//!
//! Served is `v4.channel.k8s.io`: for the i-th port, channel 2i carries data and channel 2i + 1 why
//! there is none. `kubectl port-forward` cannot be served: whatever it speaks to the API server, that
//! speaks SPDY to nodes (`virtual-node.md` 6).

mod handshake;
mod ports;
mod session;
mod target;

use http::{Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::Role;
use tokio_util::sync::CancellationToken;

use self::session::Port;
use super::answer::{Body, Refusal};
use super::connection::Context;
use super::route::find;
use crate::node::view::PodKey;

/// A forward that was agreed to.
#[derive(Debug)]
pub(super) struct Forward {
    upgrade: OnUpgrade,
    ports: Vec<Port>,
}

impl Forward {
    /// Forwards until the client, the backends of all ports, or the server ends it.
    ///
    /// # Errors
    ///
    /// When the connection broke before it was upgraded.
    pub(super) async fn run(self, stop: &CancellationToken) -> Result<(), hyper::Error> {
        let stream = TokioIo::new(self.upgrade.await?);
        let socket = WebSocketStream::from_raw_socket(stream, Role::Server, None).await;
        session::run(socket, self.ports, stop).await;
        Ok(())
    }
}

/// Agrees to a forward, or refuses it.
pub(super) fn open(
    mut request: Request<Incoming>,
    key: PodKey,
    context: &Context,
) -> Result<(Response<Body>, Forward), Refusal> {
    let bad = |why: String| Refusal::new(StatusCode::BAD_REQUEST, why);
    let pod = find(context, &key)?;
    if request.method() != Method::GET {
        let instead = target::instead(&pod);
        return Err(Refusal::new(StatusCode::NOT_IMPLEMENTED, instead));
    }
    let protocol = handshake::protocol(request.headers()).map_err(bad)?;
    let query = request.uri().query().unwrap_or_default();
    let numbers = ports::parse(query).map_err(|error| bad(error.to_string()))?;
    let response = handshake::accept(&request, protocol)
        .map_err(|error| bad(format!("unable to upgrade connection: {error}")))?;
    let ports = numbers.into_iter().map(|number| {
        let PodKey { name, .. } = &key;
        let what = format!(
            "error forwarding port {number} to pod {name}, uid {}",
            pod.uid
        );
        let target = target::of(&pod, number).map_err(|why| format!("{what}: {why}"));
        Port {
            number,
            target,
            what,
        }
    });
    let ports = ports.collect();
    let upgrade = hyper::upgrade::on(&mut request);
    Ok((response, Forward { upgrade, ports }))
}
