//! Who gets anything, what is served at all, and what a server that cannot start says.

use std::fs;

use aibom_qual::error_chain::chain;
use aibom_qual::node::options::ServingFiles;
use aibom_qual::node::server::Server;
use aibom_qual::node::view::{ContainerView, Pods};

use crate::kubelet::{CERTIFICATES, Kubelet, client, options};

#[tokio::test]
async fn only_a_client_of_the_authority_gets_an_answer() {
    let kubelet = Kubelet::start().await;
    assert_eq!(kubelet.get("/healthz").await, (200, "ok".to_owned()));
    let foreign = CERTIFICATES.pki.front_proxy_client();
    // A certificate for serving is of the other authority as well.
    for pair in [None, Some(foreign), Some(&CERTIFICATES.node.serving)] {
        let refused = client(pair).get(kubelet.url("/healthz")).send().await;
        let error = refused.expect_err("refused");
        assert!(error.status().is_none(), "{error:?}");
    }
    let plain = format!("http://{}/healthz", kubelet.server.address());
    assert!(client(None).get(plain).send().await.is_err());
    assert_eq!(kubelet.get("/healthz").await.0, 200);
}

#[tokio::test]
async fn what_is_not_served_says_so() {
    let kubelet = Kubelet::start().await;
    kubelet.show(ContainerView::default());
    assert_eq!(
        kubelet.get("/stats/summary").await,
        (404, "this node does not serve /stats/summary".to_owned())
    );
    let api_server = client(Some(CERTIFICATES.pki.kubelet_client()));
    for (path, status, text) in [
        ("/healthz", 405, "POST is not allowed here"),
        (
            "/containerLogs/models/web/main",
            405,
            "POST is not allowed here",
        ),
        (
            "/exec/models/web/main?command=true&error=1&output=1",
            501,
            "the containers of this node are processes of its machine, which nothing can be run in \
             or attached to: use kubectl logs, or the machine's own tools",
        ),
        (
            "/portForward/models/web",
            501,
            "this node forwards ports over websockets of v4.channel.k8s.io only, which kubectl does \
             not speak: connect to the pod's own ports on this machine",
        ),
        (
            "/portForward/models/gone",
            404,
            "pod \"gone\" does not exist",
        ),
    ] {
        let answer = api_server
            .post(kubelet.url(path))
            .header("Connection", "Upgrade")
            .header("Upgrade", "SPDY/3.1")
            .send()
            .await
            .expect("an answer");
        assert_eq!(answer.status().as_u16(), status, "{path}");
        assert_eq!(answer.text().await.expect("text"), text);
    }
}

#[tokio::test]
async fn a_server_that_cannot_start_names_the_file() {
    let dir = tempfile::tempdir().expect("a folder");
    let good = options(dir.path().to_owned());
    let text = dir.path().join("text");
    fs::write(&text, "no PEM").expect("a file");
    let with = |cert: &std::path::Path, key: &std::path::Path| {
        let mut options = good.clone();
        options.serving = ServingFiles {
            cert: cert.to_owned(),
            key: key.to_owned(),
        };
        options
    };
    let foreign_key = CERTIFICATES.pki.admin().key();
    for (options, expected) in [
        (with(&text, &good.serving.key), "text"),
        (with(&good.serving.cert, &text), "holds no private key"),
        (
            with(&dir.path().join("gone"), &good.serving.key),
            "No such file",
        ),
        (
            with(&good.serving.cert, foreign_key),
            "cannot serve with the certificate in",
        ),
        (
            aibom_qual::node::options::NodeOptions {
                client_ca_pem: String::new(),
                ..good.clone()
            },
            "the certificate authority of the kubelet's clients is of no use",
        ),
    ] {
        let error = Server::start(&options, Pods::default())
            .await
            .expect_err(expected);
        let words = chain(&error);
        assert!(words.contains(expected), "{words}");
    }
}
