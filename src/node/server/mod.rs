//! The kubelet port: logs and port-forward, for the API server only (`virtual-node.md` 6).
//!
//! HTTP/1.1 over TLS, without a choice of protocols. Whoever has no certificate of the given authority
//! does not get past the handshake.

mod answer;
mod connection;
mod forward;
mod logs;
mod route;
mod tls;

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::{CancellationToken, DropGuard};

use self::connection::Context;
pub use self::tls::TlsError;
use super::options::NodeOptions;
use super::view::Pods;
use crate::host::ports::PortError;

/// Ports tried before giving up, since nothing reserves a port between its choice and its use.
const TRIES: usize = 3;
/// How long connections may take to end by themselves when the server stops.
const STOP_DEADLINE: Duration = Duration::from_secs(2);
/// How long to wait when no connection can be accepted, for instance because no descriptor is left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A kubelet port that listens. Dropping it stops it as well, without a wait.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    stop: DropGuard,
    task: JoinHandle<()>,
}

/// The kubelet port cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// It cannot be listened on.
    #[error("cannot listen on the kubelet port")]
    Listen(#[source] io::Error),
    /// No port is free.
    #[error("there is no port for the kubelet")]
    Port(#[from] PortError),
    /// Its certificate, its key or the authority of its clients is of no use.
    #[error(transparent)]
    Tls(#[from] TlsError),
}

impl ServerError {
    /// The one thing to do about it, if there is one.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Port(error) => error.hint(),
            Self::Tls(error) => error.hint(),
            Self::Listen(_) => None,
        }
    }
}

impl Server {
    /// Listens on a free port of 127.0.0.1.
    ///
    /// # Errors
    ///
    /// [`ServerError`].
    pub async fn start(options: &NodeOptions, pods: Pods) -> Result<Self, ServerError> {
        let acceptor = tls::acceptor(&options.serving, &options.client_ca_pem)?;
        let listener = listen(options).await?;
        let address = listener.local_addr().map_err(ServerError::Listen)?;
        let stop = CancellationToken::new();
        let context = Context {
            pods,
            stop: stop.clone(),
        };
        Ok(Self {
            address,
            stop: stop.drop_guard(),
            task: tokio::spawn(accept(listener, acceptor, context)),
        })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Stops listening and ends all connections: logs that are followed end, forwards are closed.
    /// What has not ended after two seconds is cut.
    pub async fn stop(self) {
        drop(self.stop);
        if let Err(error) = self.task.await {
            tracing::debug!(%error, "the kubelet port did not end in order");
        }
    }
}

async fn listen(options: &NodeOptions) -> Result<TcpListener, ServerError> {
    let mut tries = 1;
    loop {
        let port = options.ports.next()?;
        match TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse && tries < TRIES => tries += 1,
            result => return result.map_err(ServerError::Listen),
        }
    }
}

async fn accept(listener: TcpListener, acceptor: TlsAcceptor, context: Context) {
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            () = context.stop.cancelled() => break,
            Some(_) = connections.join_next() => continue,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, _)) => {
                connections.spawn(connection::serve(stream, acceptor.clone(), context.clone()));
            }
            Err(error) => {
                tracing::debug!(%error, "cannot accept a connection");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    drop(listener);
    let ended = async { while connections.join_next().await.is_some() {} };
    if timeout(STOP_DEADLINE, ended).await.is_err() {
        tracing::debug!("connections to the kubelet port had to be cut");
        connections.shutdown().await;
    }
}
