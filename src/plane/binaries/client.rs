//! The HTTP client for releases: which places it may go to, and how its failures are told.

use std::net::IpAddr;

use reqwest::{Client, Url, redirect};

use super::source::Timeouts;
use crate::error_chain::{chain, innermost};

const MOST_REDIRECTS: usize = 5;

/// A client for official releases (`https` only, after redirects too) or for the user's mirror.
pub(super) fn new(mirror: Option<&Url>, timeouts: Timeouts) -> Result<Client, String> {
    // Without one, reqwest panics.
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        return Err("no cryptography is installed in this process".to_owned());
    }
    let official = mirror.is_none();
    let mut builder = Client::builder()
        .user_agent(concat!("aibom-qual/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(timeouts.connect)
        .https_only(official)
        .redirect(redirect::Policy::custom(move |attempt| {
            match refusal(official, attempt.previous().len(), attempt.url()) {
                Some(why) => attempt.error(why),
                None => attempt.follow(),
            }
        }));
    // A proxy cannot reach our loopback.
    if mirror.is_some_and(is_loopback) {
        builder = builder.no_proxy();
    }
    builder.build().map_err(|error| chain(&error.without_url()))
}

/// Why a redirect must not be followed. `before` counts the addresses already asked.
fn refusal(official: bool, before: usize, to: &Url) -> Option<String> {
    if before > MOST_REDIRECTS {
        Some(format!("more than {MOST_REDIRECTS} redirects"))
    } else if official && to.scheme() != "https" {
        Some("an official release redirects to a place without https".to_owned())
    } else {
        None
    }
}

fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// The innermost cause, without the address (it may hold a password).
pub(super) fn why(error: reqwest::Error) -> String {
    innermost(&error.without_url())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> Url {
        text.parse().expect("an address")
    }

    #[test]
    fn an_official_release_never_leaves_https() {
        let plain = url("http://objects.example/etcd.tar.gz");
        assert!(refusal(true, 1, &plain).is_some_and(|why| why.contains("without https")));
        assert_eq!(refusal(false, 1, &plain), None);
        assert_eq!(refusal(true, 1, &url("https://objects.example/x")), None);
        let circle = refusal(true, MOST_REDIRECTS + 1, &url("https://objects.example/x"));
        assert_eq!(circle.as_deref(), Some("more than 5 redirects"));
    }

    #[tokio::test]
    async fn an_official_client_does_not_even_connect_without_https() {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        listener.set_nonblocking(true).expect("a listener");
        let address = format!("http://{}/", listener.local_addr().expect("an address"));
        let client = new(None, Timeouts::default()).expect("a client");
        let error = client.get(&address).send().await.expect_err("refused");
        assert!(error.is_builder(), "{error:?}");
        assert!(listener.accept().is_err(), "it connected");
    }
}
