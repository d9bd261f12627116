//! Install, upgrade and rollback, as the reference of Helm's moves tells them.

use std::time::Instant;

use aibom_qual::subject::images::{CONTROLLERS, REPOSITORY};
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client};

use crate::NAMESPACE;
use crate::access::{hold_to_the_end, read_log, scrape, scrape_to_the_end};
use crate::cluster::Release;
use crate::definitions::{apply, clear};
use crate::helm::chart;
use crate::node::{event, phase, waiting};
use crate::sight::Sight;

/// Scrapes in a row, none of which may fail.
const SCRAPES: usize = 200;

/// What the status of a pod gives for the image of a release.
pub(crate) fn image_id(release: &str) -> String {
    let mut images = CONTROLLERS.iter();
    let image = images.find(|image| image.release == release);
    let digest = image.and_then(|image| image.digest).expect("a digest");
    format!("{REPOSITORY}@{digest}")
}

/// One major on an otherwise empty cluster.
pub(crate) async fn there_and_back(client: &Client, helm: Release) {
    let pods: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    clear(client).await;
    let sight = Sight::begin(client, NAMESPACE).await;
    helm.install("1.3.0", &["--wait"]).await;
    let first = sight.only(&image_id("1.3.0")).await;
    assert_eq!(sight.ready(), (0, 1));
    let first_began = scrape(&pods, &first).await.expect("metrics");

    apply(client, "1.5.1").await.expect("they are accepted");
    let ((), scrapes, (), ()) = tokio::join!(
        helm.upgrade("1.5.1", &["--wait"]),
        scrape_to_the_end(&pods, &first),
        hold_to_the_end(&pods, &first),
        read_both_logs(&sight, &pods, &first),
    );
    eprintln!("{scrapes} scrapes of the old pod while it was replaced");
    assert!(scrapes > 10, "{scrapes}");
    let second = sight.only(&image_id("1.5.1")).await;
    assert_eq!(sight.ready(), (1, 2));
    let second_began = scrape(&pods, &second).await.expect("metrics");
    assert!(first_began < second_began);

    helm.rollback("1").await;
    let third = sight.only(&image_id("1.3.0")).await;
    assert_eq!(sight.ready(), (1, 2));
    assert_eq!(
        helm.history().await,
        [
            "1 superseded, Install complete, k8s-aibom-1.3.0, v1.3.0",
            "2 superseded, Upgrade complete, k8s-aibom-1.5.1, v1.5.1",
            "3 deployed, Rollback to 1, k8s-aibom-1.3.0, v1.3.0",
        ]
    );

    tokio::join!(
        scrape_in_a_row(&pods, &third),
        an_image_that_does_not_exist_stalls(client, &helm, &sight, &third),
    );
    helm.pass(&["uninstall", "k8s-aibom", "--wait"]).await;
    sight
        .until("no pod is left", |pods| pods.is_empty().then_some(()))
        .await;
}

/// The logs of both pods of a rollout, while both are there.
async fn read_both_logs(sight: &Sight, pods: &Api<Pod>, old: &str) {
    let new = sight
        .beside(old, "a new pod that runs", |pod| phase(pod) == "Running")
        .await;
    read_log(pods, old).await;
    read_log(pods, &new).await;
}

async fn scrape_in_a_row(pods: &Api<Pod>, name: &str) {
    let begun = Instant::now();
    let began = scrape(pods, name).await.expect("metrics");
    for number in 1..SCRAPES {
        let again = scrape(pods, name).await;
        assert_eq!(again, Ok(began), "number {number}");
    }
    let seconds = begun.elapsed().as_secs_f64();
    eprintln!("{SCRAPES} scrapes in a row: {seconds:.1} s");
}

/// The old pod serves until somebody goes back.
async fn an_image_that_does_not_exist_stalls(
    client: &Client,
    helm: &Release,
    sight: &Sight,
    old: &str,
) {
    let folder = chart("1.5.1").display().to_string();
    let upgrade = [
        "upgrade",
        "k8s-aibom",
        &folder,
        "--set",
        "image.tag=v9.9.9,image.digest=",
        "--wait",
        "--timeout",
        "20s",
    ];
    let pulls = async {
        let what = "a new pod that waits for its image";
        let waits = |pod: &Pod| waiting(pod) == Some("ImagePullBackOff");
        let new = sight.beside(old, what, waits).await;
        let failed = event(client, NAMESPACE, &new, "Failed").await;
        let message = failed.message.expect("a message");
        assert!(
            message.ends_with("k8s-aibom:v9.9.9: not found"),
            "{message}"
        );
    };
    let (said, ()) = tokio::join!(helm.fail(&upgrade), pulls);
    assert!(said.contains("context deadline exceeded"), "{said}");
    helm.rollback("3").await;
    let left = sight.only(&image_id("1.3.0")).await;
    assert_eq!(left, old, "it never stopped serving");
    assert_eq!(sight.ready(), (1, 1));
    let history = helm.history().await;
    let last = history.last().expect("a revision");
    assert_eq!(last, "5 deployed, Rollback to 3, k8s-aibom-1.3.0, v1.3.0");
}
