//! Agreeing on a websocket and on what is spoken over it.

use http::header::{HeaderMap, HeaderValue, SEC_WEBSOCKET_PROTOCOL, UPGRADE};
use http::{Request, Response};
use hyper::body::Incoming;
use tokio_tungstenite::tungstenite;

use super::super::answer::Body;

/// The one protocol that is served.
const V4: &str = "v4.channel.k8s.io";

/// Chooses the protocol.
///
/// A server that upgrades without a choice leaves clients hanging, so that a request without a
/// protocol that is served is refused.
pub(super) fn protocol(headers: &HeaderMap) -> Result<&'static str, String> {
    if !headers.contains_key(UPGRADE) {
        return Err(format!(
            "a port-forward is an upgrade to a websocket of {V4}"
        ));
    }
    let offered: Vec<&str> = headers
        .get_all(SEC_WEBSOCKET_PROTOCOL)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(str::trim)
        .filter(|protocol| !protocol.is_empty())
        .collect();
    if offered.contains(&V4) {
        Ok(V4)
    } else {
        Err(format!(
            "unable to upgrade connection: this node speaks {V4} only, and was offered {offered:?}"
        ))
    }
}

/// The answer that turns the connection into a websocket.
///
/// # Errors
///
/// When the request does not ask for one as it should.
pub(super) fn accept(
    request: &Request<Incoming>,
    protocol: &'static str,
) -> Result<Response<Body>, tungstenite::Error> {
    let mut response =
        tungstenite::handshake::server::create_response_with_body(request, Body::default)?;
    let protocol = HeaderValue::from_static(protocol);
    response
        .headers_mut()
        .insert(SEC_WEBSOCKET_PROTOCOL, protocol);
    Ok(response)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offered(lists: &[&'static str]) -> Result<&'static str, String> {
        let mut headers = HeaderMap::new();
        headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
        for list in lists {
            headers.append(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(list));
        }
        protocol(&headers)
    }

    #[test]
    fn v4_is_chosen_wherever_it_is_offered() {
        for lists in [
            &["v4.channel.k8s.io"][..],
            &["v5.channel.k8s.io, v4.channel.k8s.io"],
            &["v5.channel.k8s.io", "v4.channel.k8s.io"],
            &["v4.base64.channel.k8s.io,v4.channel.k8s.io"],
        ] {
            assert_eq!(offered(lists), Ok(V4), "{lists:?}");
        }
    }

    #[test]
    fn without_v4_nothing_is_agreed_to() {
        for lists in [
            &[][..],
            &[""],
            &["v5.channel.k8s.io"],
            &["v4.base64.channel.k8s.io"],
            &["SPDY/3.1+portforward.k8s.io"],
        ] {
            let why = offered(lists).expect_err("no v4");
            assert!(why.contains("speaks v4.channel.k8s.io only"), "{why}");
        }
        assert!(protocol(&HeaderMap::new()).is_err());
    }
}
