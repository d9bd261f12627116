//! What a probe does, read from its spec.

use std::io;
use std::net::Ipv4Addr;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, Probe};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use tokio::net::TcpStream;

use super::http_get::HttpGet;
use super::worker::{Attempt, Outcome};
use crate::error_chain::innermost;
use crate::node::port_map::PortMap;

/// How often a probe that could not be made is made anew at once, the first time included.
const TRIES: usize = 3;

/// A probe of one start of a container.
pub(super) struct Action {
    what: What,
    ports: PortMap,
    timeout: Duration,
}

enum What {
    /// Asks over HTTP at a port of the container.
    Http(u16, HttpGet),
    /// Connects to a port of the container.
    Tcp(u16),
    /// Something that this node cannot do, and so never succeeds at.
    Unsupported(&'static str),
    /// Not a probe that anything could do.
    Unusable(String),
}

impl Action {
    pub(super) fn new(
        probe: &Probe,
        container: &Container,
        ports: PortMap,
        timeout: Duration,
    ) -> Self {
        Self {
            what: What::of(probe, container, timeout).unwrap_or_else(What::Unusable),
            ports,
            timeout,
        }
    }

    async fn once(&self) -> Outcome {
        let container_port = match &self.what {
            What::Http(port, _) | What::Tcp(port) => *port,
            What::Unsupported(why) => return Outcome::Failure((*why).to_owned()),
            What::Unusable(why) => return Outcome::Error(why.clone()),
        };
        let port = match self.ports.host(container_port) {
            Ok(port) => port,
            Err(error) => return Outcome::Error(error.to_string()),
        };
        match &self.what {
            What::Http(_, get) => get.ask(port).await,
            _ => connect(port, self.timeout).await,
        }
    }
}

impl Attempt for Action {
    async fn attempt(&mut self) -> Outcome {
        let mut outcome = self.once().await;
        for _ in 1..TRIES {
            if !matches!(outcome, Outcome::Error(_)) {
                break;
            }
            outcome = self.once().await;
        }
        outcome
    }
}

impl What {
    /// `host` is not looked at: every container of this node is on the loopback.
    fn of(probe: &Probe, container: &Container, timeout: Duration) -> Result<Self, String> {
        if let Some(get) = &probe.http_get {
            let port = container_port(&get.port, container)?;
            return Ok(Self::Http(port, HttpGet::new(get, timeout)?));
        }
        if let Some(socket) = &probe.tcp_socket {
            return Ok(Self::Tcp(container_port(&socket.port, container)?));
        }
        if probe.exec.is_some() {
            return Ok(Self::Unsupported(
                "this node has no exec probes, since its containers have no file system of their \
                 own to run commands in: use httpGet or tcpSocket",
            ));
        }
        if probe.grpc.is_some() {
            return Ok(Self::Unsupported(
                "this node has no grpc probes: use httpGet or tcpSocket",
            ));
        }
        Err(format!("missing probe handler for {}", container.name))
    }
}

/// The number of a port that a probe gives by number or by name.
fn container_port(port: &IntOrString, container: &Container) -> Result<u16, String> {
    let number = match port {
        IntOrString::Int(number) => *number,
        IntOrString::String(name) => {
            let declared = container.ports.iter().flatten();
            match declared
                .filter(|declared| declared.name.as_ref() == Some(name))
                .map(|declared| declared.container_port)
                .next()
            {
                Some(number) => number,
                // A number in quotes is one as well. The words are the kubelet's.
                None => name
                    .parse()
                    .map_err(|_| format!("strconv.Atoi: parsing {name:?}: invalid syntax"))?,
            }
        }
    };
    u16::try_from(number)
        .ok()
        .filter(|port| *port > 0)
        .ok_or_else(|| format!("invalid port number: {number}"))
}

async fn connect(port: u16, timeout: Duration) -> Outcome {
    let connecting = TcpStream::connect((Ipv4Addr::LOCALHOST, port));
    match tokio::time::timeout(timeout, connecting).await {
        Ok(Ok(_)) => Outcome::Success,
        Ok(Err(error)) => Outcome::Failure(dial_error(port, &error)),
        Err(_) => Outcome::Failure(format!("dial tcp 127.0.0.1:{port}: i/o timeout")),
    }
}

/// Why there is no connection to a port of this machine, as Go says it.
pub(super) fn dial_error(port: u16, error: &io::Error) -> String {
    let why = match error.kind() {
        io::ErrorKind::ConnectionRefused => "connection refused".to_owned(),
        io::ErrorKind::ConnectionReset => "connection reset by peer".to_owned(),
        _ => innermost(error),
    };
    format!("dial tcp 127.0.0.1:{port}: connect: {why}")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use k8s_openapi::api::core::v1::{ContainerPort, ExecAction, GRPCAction, TCPSocketAction};
    use tokio::net::TcpListener;

    use super::*;
    use crate::host::ports::PortPicker;

    fn container() -> Container {
        Container {
            name: "manager".to_owned(),
            ports: Some(vec![ContainerPort {
                name: Some("health".to_owned()),
                container_port: 8081,
                ..ContainerPort::default()
            }]),
            ..Container::default()
        }
    }

    fn ports() -> PortMap {
        PortMap::new(Arc::new(PortPicker::new()))
    }

    fn action(probe: &Probe, ports: &PortMap) -> Action {
        let timeout = Duration::from_secs(1);
        Action::new(probe, &container(), ports.clone(), timeout)
    }

    fn tcp(port: IntOrString) -> Probe {
        Probe {
            tcp_socket: Some(TCPSocketAction { host: None, port }),
            ..Probe::default()
        }
    }

    #[test]
    fn ports_are_numbers_names_or_numbers_in_quotes() {
        let named =
            |name: &str| container_port(&IntOrString::String(name.to_owned()), &container());
        let number = |number| container_port(&IntOrString::Int(number), &container());
        assert_eq!(named("health"), Ok(8081));
        assert_eq!(named("9000"), Ok(9000));
        assert_eq!(number(1), Ok(1));
        assert_eq!(
            named("web"),
            Err("strconv.Atoi: parsing \"web\": invalid syntax".to_owned())
        );
        for wrong in [0, -1, 65_536] {
            let expected = format!("invalid port number: {wrong}");
            assert_eq!(number(wrong), Err(expected));
        }
    }

    #[tokio::test]
    async fn a_tcp_probe_succeeds_when_somebody_listens_on_the_mapped_port() {
        let ports = ports();
        let port = ports.host(8081).expect("a free port");
        let mut probe = action(&tcp(IntOrString::String("health".to_owned())), &ports);
        assert_eq!(
            probe.attempt().await,
            Outcome::Failure(format!(
                "dial tcp 127.0.0.1:{port}: connect: connection refused"
            ))
        );
        let _listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))
            .await
            .expect("the port is still free");
        assert_eq!(probe.attempt().await, Outcome::Success);
    }

    #[tokio::test]
    async fn what_this_node_cannot_do_fails_and_what_makes_no_sense_is_an_error() {
        let exec = Probe {
            exec: Some(ExecAction { command: None }),
            ..Probe::default()
        };
        let grpc = Probe {
            grpc: Some(GRPCAction {
                port: 9000,
                service: None,
            }),
            ..Probe::default()
        };
        for probe in [exec, grpc] {
            let outcome = action(&probe, &ports()).attempt().await;
            let Outcome::Failure(why) = outcome else {
                panic!("{outcome:?}");
            };
            assert!(why.contains("use httpGet or tcpSocket"), "{why}");
        }
        for probe in [Probe::default(), tcp(IntOrString::Int(0))] {
            let outcome = action(&probe, &ports()).attempt().await;
            assert!(matches!(outcome, Outcome::Error(_)), "{outcome:?}");
        }
    }
}
