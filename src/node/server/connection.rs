//! One connection: the handshake, its requests, and the forward that it may turn into.

use std::convert::Infallible;
use std::error::Error;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use super::forward::Forward;
use super::route::{Reply, answer};
use crate::error_chain::chain;
use crate::node::view::Pods;

/// How long a client may take to show who it is.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a client may take to say what it wants.
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);

/// What every connection knows.
#[derive(Clone, Debug)]
pub(super) struct Context {
    /// What may be asked about.
    pub(super) pods: Pods,
    /// Set when the server stops.
    pub(super) stop: CancellationToken,
}

/// Serves a connection to its end. Trouble with it is its client's.
pub(super) async fn serve(stream: TcpStream, acceptor: TlsAcceptor, context: Context) {
    if let Err(error) = try_serve(stream, acceptor, context).await {
        tracing::debug!(
            error = chain(&*error),
            "a connection to the kubelet port ended"
        );
    }
}

async fn try_serve(
    stream: TcpStream,
    acceptor: TlsAcceptor,
    context: Context,
) -> Result<(), Box<dyn Error + Send + Sync>> {
    stream.set_nodelay(true)?;
    let stop = context.stop.clone();
    let stream = tokio::select! {
        () = stop.cancelled() => return Ok(()),
        accepted = timeout(HANDSHAKE_TIMEOUT, acceptor.accept(stream)) => accepted??,
    };
    // A connection that is upgraded has had its last request.
    let upgraded = Arc::new(Mutex::new(None::<Forward>));
    let service = service_fn(|request: Request<Incoming>| {
        let (context, upgraded) = (context.clone(), Arc::clone(&upgraded));
        async move {
            let response = match answer(request, &context).await {
                Reply::Response(response) => response,
                Reply::Upgrade(response, forward) => {
                    *upgraded.lock().unwrap_or_else(PoisonError::into_inner) = Some(forward);
                    response
                }
            };
            Ok::<_, Infallible>(response)
        }
    });
    let mut connection = pin!(
        http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEADER_TIMEOUT)
            .serve_connection(TokioIo::new(stream), service)
            .with_upgrades()
    );
    tokio::select! {
        served = connection.as_mut() => served?,
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await?;
        }
    }
    let forward = upgraded
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .take();
    if let Some(forward) = forward {
        forward.run(&stop).await?;
    }
    Ok(())
}
