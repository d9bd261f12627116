//! Keeps documents away from addresses inside the network.
//!
//! An endpoint that is written as such an address is refused when its sink is made. One that is a name
//! is resolved here, and only what passed is handed to the connector: the address that was checked is
//! the one that is connected to. No proxy and no redirect leads around that.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};

/// Whether addresses inside the network are refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Guard {
    /// They are.
    #[default]
    Enforced,
    /// Documents may go anywhere.
    Disabled,
}

/// Every address of a host is inside the network.
#[derive(Debug, thiserror::Error)]
#[error("{host} resolves to {address}, a loopback or private address")]
struct Internal {
    host: String,
    address: IpAddr,
}

/// Whether the host of a URL is, as it is written, inside the network.
pub(super) fn names_internal(host: &str) -> bool {
    let literal = host.trim_start_matches('[').trim_end_matches(']');
    if let Ok(address) = literal.parse() {
        return is_internal(address);
    }
    let name = host.trim_end_matches('.');
    // Those names are this machine's by definition (RFC 6761), whatever a resolver says.
    let (_, top) = name.rsplit_once('.').unwrap_or(("", name));
    top.eq_ignore_ascii_case("localhost")
}

/// Whether an address is loopback, private, link-local, multicast or no destination at all; also
/// when it stands inside one of version 6 that leads to it.
pub(super) fn is_internal(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_internal_v4(address),
        IpAddr::V6(address) => {
            address.is_loopback()
                || address.is_unspecified()
                || address.is_unique_local()
                || address.is_unicast_link_local()
                || address.is_multicast()
                || embedded(address).is_some_and(is_internal_v4)
        }
    }
}

fn is_internal_v4(address: Ipv4Addr) -> bool {
    let [network, ..] = address.octets();
    network == 0
        || address.is_loopback()
        || address.is_private()
        || address.is_link_local()
        || address.is_multicast()
        || address.is_broadcast()
}

/// The address of version 4 that one of version 6 stands for.
fn embedded(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let [_, a, b, .., y, z] = address.segments();
    let join = |high: u16, low: u16| Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low));
    match address.segments() {
        // Mapped, compatible, and translated by NAT64 (RFC 4291, RFC 6052).
        [0, 0, 0, 0, 0, 0xffff | 0, ..] | [0x64, 0xff9b, 0, 0, 0, 0, ..] => Some(join(y, z)),
        // 6to4 (RFC 3056).
        [0x2002, ..] => Some(join(a, b)),
        _ => None,
    }
}

/// Resolves names as the system does, and refuses what is inside the network.
pub(super) fn resolver() -> Arc<dyn Resolve> {
    Arc::new(Checked(System))
}

struct System;

impl Resolve for System {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move {
            // The connector puts the port of the URL in the place of 0.
            let found: Vec<_> = tokio::net::lookup_host((name.as_str(), 0)).await?.collect();
            Ok(Box::new(found.into_iter()) as Addrs)
        })
    }
}

/// Hands on what may be connected to.
pub(super) struct Checked<R>(pub(super) R);

impl<R: Resolve> Resolve for Checked<R> {
    fn resolve(&self, name: Name) -> Resolving {
        let host = name.as_str().to_owned();
        let found = self.0.resolve(name);
        Box::pin(async move {
            let (internal, open): (Vec<SocketAddr>, Vec<_>) =
                found.await?.partition(|found| is_internal(found.ip()));
            if !open.is_empty() {
                return Ok(Box::new(open.into_iter()) as Addrs);
            }
            Err(match internal.first() {
                Some(first) => {
                    let address = first.ip();
                    Internal { host, address }.into()
                }
                None => io::Error::from(io::ErrorKind::NotFound).into(),
            })
        })
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Resolves every name to these.
    pub(in super::super) struct Fixed(pub(in super::super) Vec<IpAddr>);

    impl Resolve for Fixed {
        fn resolve(&self, _: Name) -> Resolving {
            let found: Vec<_> = self.0.iter().map(|ip| SocketAddr::new(*ip, 0)).collect();
            Box::pin(async move { Ok(Box::new(found.into_iter()) as Addrs) })
        }
    }

    fn address(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn addresses_inside_the_network_are_known_in_every_spelling() {
        for internal in [
            "127.0.0.1",
            "127.255.255.254",
            "0.0.0.0",
            "0.1.2.3",
            "10.0.0.1",
            "172.16.0.1",
            "172.31.255.255",
            "192.168.1.1",
            "169.254.169.254",
            "224.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::127.0.0.1",
            "::ffff:127.0.0.1",
            "::ffff:10.1.2.3",
            "64:ff9b::192.168.0.1",
            "2002:7f00:1::",
            "fc00::1",
            "fd12:3456::1",
            "fe80::1",
            "ff02::1",
        ] {
            assert!(is_internal(address(internal)), "{internal}");
        }
        for open in [
            "8.8.8.8",
            "172.15.0.1",
            "172.32.0.1",
            "100.64.0.1",
            "2001:4860:4860::8888",
            "::ffff:8.8.8.8",
            "64:ff9b::808:808",
            "2002:808:808::",
        ] {
            assert!(!is_internal(address(open)), "{open}");
        }
    }

    #[test]
    fn a_host_is_judged_as_it_is_connected_to() {
        let host = |url: &str| {
            let url: reqwest::Url = url.parse().expect("a URL");
            names_internal(url.host_str().expect("a host"))
        };
        for internal in [
            "http://127.0.0.1:8080/x",
            "http://127.1/",
            "http://2130706433/",
            "http://0x7f.0.0.1/",
            "http://0177.0.0.1/",
            "http://[::1]/",
            "http://[::ffff:7f00:1]/",
            "http://LOCALHOST/",
            "http://localhost./",
            "http://a.localhost/",
            "https://user@10.0.0.1/",
            "https://1%2e1%2e1%2e1@127.0.0.1/",
        ] {
            assert!(host(internal), "{internal}");
        }
        for open in [
            "https://8.8.8.8/",
            "https://hook.example/",
            "https://localhost.example/",
            "https://mylocalhost/",
        ] {
            assert!(!host(open), "{open}");
        }
    }

    #[tokio::test]
    async fn a_name_leads_only_to_what_was_checked() {
        let resolve = async |found: &[&str]| {
            let found = found.iter().map(|text| address(text)).collect();
            let name = "hook.example".parse().expect("a name");
            let passed = Checked(Fixed(found)).resolve(name).await;
            let passed = passed.map(|passed| passed.map(|found| found.ip()).collect::<Vec<_>>());
            passed.map_err(|error| error.to_string())
        };
        let mixed = resolve(&["127.0.0.1", "8.8.8.8", "fe80::1"]).await;
        assert_eq!(mixed, Ok(vec![address("8.8.8.8")]));
        assert_eq!(
            resolve(&["10.0.0.7", "::1"]).await,
            Err("hook.example resolves to 10.0.0.7, a loopback or private address".to_owned())
        );
        resolve(&[]).await.expect_err("nothing to connect to");
    }
}
