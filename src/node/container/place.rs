//! What a pod says about ports and paths, moved to where they are on this machine.
//!
//! A container of a cluster has an address and a file system of its own; a process here shares both
//! with all others. So what a pod's arguments say in the usual forms is rewritten:
//!
//! - An argument `[-FLAG=]HOST:PORT` with a port of the container, and an empty HOST, `0.0.0.0`,
//!   `[::]`, or a name of the loopback itself, binds `127.0.0.1` and the port that stands for the
//!   container's. A port is the container's if it is in `ports`, if a probe names it, or if the
//!   command template does. A bare number is left alone, since nobody can tell what it counts: a
//!   command template has `{port:NUMBER}` for it.
//! - An argument `[-FLAG=]PATH` and the value of a variable that lie in a mounted volume become the
//!   path of the volume's folder. A path within other text is left alone.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::{Container, Probe};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

/// The ports that a container has by its own account.
pub(super) fn declared_ports(container: &Container) -> BTreeSet<u16> {
    let declared = container.ports.iter().flatten();
    let declared = declared.map(|port| port.container_port);
    let probes = [
        &container.startup_probe,
        &container.liveness_probe,
        &container.readiness_probe,
    ];
    let probed = probes.into_iter().flatten().filter_map(probed_port);
    let numbers = declared.chain(probed);
    numbers
        .filter_map(|number| u16::try_from(number).ok())
        .filter(|number| *number != 0)
        .collect()
}

fn probed_port(probe: &Probe) -> Option<i32> {
    let http = probe.http_get.as_ref().map(|http| &http.port);
    match http.or(probe.tcp_socket.as_ref().map(|tcp| &tcp.port)) {
        Some(IntOrString::Int(number)) => Some(*number),
        // A name leads to one of `ports`.
        Some(IntOrString::String(_)) => None,
        None => probe.grpc.as_ref().map(|grpc| grpc.port),
    }
}

/// The volumes of a container: where it sees them, and where they are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Mounts(Vec<(PathBuf, PathBuf)>);

impl Mounts {
    /// Adds a volume.
    pub(super) fn add(&mut self, seen_at: PathBuf, is_at: PathBuf) {
        self.0.push((seen_at, is_at));
    }

    /// Where a path of the container is, if it lies in a volume; the innermost one counts.
    pub(super) fn resolve(&self, path: &Path) -> Option<PathBuf> {
        let fitting = self.0.iter().filter_map(|(seen_at, is_at)| {
            let rest = path.strip_prefix(seen_at).ok()?;
            Some((seen_at.components().count(), is_at, rest))
        });
        let (_, is_at, rest) = fitting.max_by_key(|(depth, ..)| *depth)?;
        // Joining nothing would append a slash.
        Some(match rest.as_os_str().is_empty() {
            true => is_at.clone(),
            false => is_at.join(rest),
        })
    }

    /// The value of a variable as the process has to see it.
    pub(super) fn value(&self, value: &str) -> OsString {
        let path = Path::new(value);
        let moved = path.is_absolute().then(|| self.resolve(path)).flatten();
        moved.map_or_else(|| value.into(), PathBuf::into_os_string)
    }
}

/// An argument of the pod as the process has to see it. `port` tells the port that stands for a
/// container's one, or [`None`] for a port that is not the container's.
///
/// # Errors
///
/// What `port` returns.
pub(super) fn argument<E>(
    text: &str,
    mounts: &Mounts,
    port: impl FnOnce(u16) -> Result<Option<u16>, E>,
) -> Result<OsString, E> {
    let (flag, value) = match text.split_once('=') {
        Some((flag, value)) if flag.starts_with('-') => (&text[..=flag.len()], value),
        _ => ("", text),
    };
    let mut moved = OsString::from(flag);
    match listens_on(value).map(port).transpose()?.flatten() {
        Some(port) => moved.push(format!("127.0.0.1:{port}")),
        None => moved.push(mounts.value(value)),
    }
    Ok(moved)
}

/// The port of text that tells where to listen, on all addresses or on the loopback.
fn listens_on(text: &str) -> Option<u16> {
    let (host, port) = text.rsplit_once(':')?;
    let any = matches!(host, "" | "0.0.0.0" | "[::]");
    let loopback = matches!(host, "127.0.0.1" | "localhost" | "[::1]");
    ((any || loopback) && port.bytes().all(|b| b.is_ascii_digit()))
        .then(|| port.parse().ok())
        .flatten()
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use serde_json::json;

    use super::*;

    fn mounts() -> Mounts {
        let mut mounts = Mounts::default();
        mounts.add("/etc/app".into(), "/v/config".into());
        mounts.add("/etc/app/tls/".into(), "/v/tls".into());
        mounts
    }

    fn moved(text: &str) -> String {
        let port = |port| Ok::<_, Infallible>((port == 8080).then_some(20_001));
        let moved = argument(text, &mounts(), port).expect("no port is refused");
        moved.into_string().expect("it is text")
    }

    #[test]
    fn addresses_to_listen_on_are_moved_and_nothing_else() {
        for (text, expected) in [
            (
                "--metrics-bind-address=:8080",
                "--metrics-bind-address=127.0.0.1:20001",
            ),
            ("-addr=0.0.0.0:8080", "-addr=127.0.0.1:20001"),
            (":8080", "127.0.0.1:20001"),
            ("[::]:8080", "127.0.0.1:20001"),
            ("localhost:8080", "127.0.0.1:20001"),
            ("--addr=127.0.0.1:8080", "--addr=127.0.0.1:20001"),
            ("--addr=:9090", "--addr=:9090"),
            ("--upstream=example.com:8080", "--upstream=example.com:8080"),
            ("--url=http://0.0.0.0:8080", "--url=http://0.0.0.0:8080"),
            ("--port=8080", "--port=8080"),
            ("8080", "8080"),
            ("ADDR=:8080", "ADDR=:8080"),
            (":", ":"),
            (":+8080", ":+8080"),
            (":99999", ":99999"),
            ("--a=b=:8080", "--a=b=:8080"),
        ] {
            assert_eq!(moved(text), expected);
        }
    }

    #[test]
    fn paths_in_volumes_are_moved_to_the_innermost_one() {
        for (text, expected) in [
            ("--config=/etc/app/a.yaml", "--config=/v/config/a.yaml"),
            ("/etc/app", "/v/config"),
            ("/etc/app/tls/crt", "/v/tls/crt"),
            ("/etc/application", "/etc/application"),
            ("etc/app/x", "etc/app/x"),
            ("a:/etc/app/x", "a:/etc/app/x"),
            ("--x=", "--x="),
        ] {
            assert_eq!(moved(text), expected);
        }
        assert_eq!(mounts().value("/etc/app/tls"), "/v/tls");
        assert_eq!(mounts().value("A=/etc/app"), "A=/etc/app");
    }

    #[test]
    fn a_container_has_the_ports_that_it_declares_and_that_are_probed() {
        let container = serde_json::from_value(json!({
            "name": "c",
            "ports": [{"containerPort": 8080}, {"containerPort": 8443, "name": "web"}],
            "livenessProbe": {"httpGet": {"path": "/healthz", "port": 8081}},
            "readinessProbe": {"tcpSocket": {"port": "web"}},
            "startupProbe": {"grpc": {"port": 9000}},
        }));
        let ports = declared_ports(&container.expect("a container"));
        assert_eq!(ports, BTreeSet::from([8080, 8081, 8443, 9000]));
    }
}
