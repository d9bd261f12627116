//! The charts against a real API server, with both Helm majors.

#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests fail like the tests themselves"
)]

#[path = "support/definitions.rs"]
mod definitions;
#[path = "support/helm.rs"]
mod helm;
mod support;

use std::sync::Arc;

use aibom_qual::cluster::client::connect;
use aibom_qual::cluster::namespace::gone;
use aibom_qual::controller::api::config::BomGeneration;
use aibom_qual::controller::api::object::ConfigObject;
use aibom_qual::controller::api::release::{ApiKind, ApiVersion};
use aibom_qual::plane::Plane;
use aibom_qual::plane::event::Silent;
use aibom_qual::plane::tool::Tool;
use definitions::{apply, clear, definitions, name, objects, soon};
use helm::{CHARTS, Helm, both, chart};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::DeleteParams;
use kube::{Api, Client};
use support::World;

const NAMESPACE: &str = "k8s-aibom-system";
const VERIFIED: &str = r#"config.verification={"enabled":true}"#;

fn args<'a>(verb: &'a str, chart: &'a str, rest: &[&'a str]) -> Vec<&'a str> {
    let mut args = vec![verb, "k8s-aibom", chart, "-n", NAMESPACE];
    args.extend(rest);
    args
}

/// The render of 1.6 looks at the definition in the cluster before it configures verification.
async fn the_guard_looks_at_the_served_schema(client: &Client, helm: &Helm) {
    let folder = chart("1.6.0").display().to_string();
    let dry = ["--dry-run=server", "--set-json", VERIFIED];
    for (version, passes) in [
        ("1.2.0", false),
        ("1.3.0", false),
        ("1.5.1", true),
        ("1.6.0", true),
    ] {
        clear(client).await;
        apply(client, version).await.expect("they are accepted");
        let output = helm.run(args("install", &folder, &dry));
        let said = String::from_utf8_lossy(&output.stderr);
        let refused = said.contains("does not have spec.verification");
        assert_eq!(
            (output.status.success(), refused),
            (passes, !passes),
            "{version}: {said}"
        );
    }
    clear(client).await;
    apply(client, "1.3.0").await.expect("they are accepted");
    helm.stdout(args("install", &folder, &dry[..1]));
    clear(client).await;
}

/// The way of a cluster through all releases, its definitions applied before each move.
async fn a_cluster_goes_through_all_releases(client: &Client, helm: &Helm) {
    clear(client).await;
    let config: Api<ConfigObject> =
        objects(client, ApiKind::ControllerConfig, ApiVersion::V1Alpha1);
    let deployments = Api::<Deployment>::namespaced(client.clone(), NAMESPACE);
    for (index, version) in CHARTS.into_iter().enumerate() {
        let folder = chart(version).display().to_string();
        if index == 0 {
            helm.stdout(args("install", &folder, &["--create-namespace"]));
        } else {
            apply(client, version).await.expect("they are accepted");
            helm.stdout(args("upgrade", &folder, &[]));
        }
        let deployment = deployments.get("k8s-aibom").await.expect("it is there");
        let labels = deployment.metadata.labels.unwrap_or_default();
        assert_eq!(labels["app.kubernetes.io/version"], format!("v{version}"));
        let seen = config.get("default").await.expect("it is there");
        assert_eq!(seen.spec.bom_generation, Some(BomGeneration::default()));
    }
    helm.stdout(["rollback", "k8s-aibom", "1", "-n", NAMESPACE]);
    let deployment = deployments.get("k8s-aibom").await.expect("it is there");
    let labels = deployment.metadata.labels.unwrap_or_default();
    assert_eq!(labels["app.kubernetes.io/version"], "v1.2.0");
    helm.stdout(["uninstall", "k8s-aibom", "-n", NAMESPACE]);
    let left = definitions(client).get_opt(&name(ApiKind::Aibom)).await;
    assert!(
        left.expect("an answer").is_some(),
        "helm leaves definitions"
    );
}

/// Without its definitions an upgrade passes or fails as the real one does: nobody looks at a field
/// that is not used, Helm 3 loses one that is, and Helm 4 does not.
async fn upgrades_on_older_definitions(client: &Client, helm: &Helm) {
    clear(client).await;
    let folders = CHARTS.map(|version| chart(version).display().to_string());
    let [old, middle, new, _] = &folders;
    helm.stdout(args("install", old, &["--create-namespace"]));
    helm.stdout(args("upgrade", middle, &[]));
    helm.stdout(["uninstall", "k8s-aibom", "-n", NAMESPACE]);

    apply(client, "1.3.0").await.expect("they are accepted");
    helm.stdout(args("install", middle, &[]));
    helm.stdout(args("upgrade", new, &[]));
    helm.stdout(["rollback", "k8s-aibom", "1", "-n", NAMESPACE]);
    let output = helm.run(args("upgrade", new, &["--set-json", VERIFIED]));
    let said = String::from_utf8_lossy(&output.stderr);
    match helm.tool {
        Tool::Helm3 => {
            assert!(output.status.success(), "{said}");
            let api: Api<ConfigObject> =
                objects(client, ApiKind::ControllerConfig, ApiVersion::V1Beta1);
            let seen = api.get("default").await.expect("it is there");
            assert_eq!(seen.spec.verification, None);
        }
        _ => {
            assert!(!output.status.success());
            let wanted = ".spec.verification: field not declared in schema";
            assert!(said.contains(wanted), "{said}");
        }
    }
    helm.stdout(["uninstall", "k8s-aibom", "-n", NAMESPACE]);
}

/// Helm puts the chart's own definitions there before it renders, so that the guard passes.
async fn every_chart_installs_on_an_empty_cluster(client: &Client, helm: &Helm) {
    for version in CHARTS {
        clear(client).await;
        let folder = chart(version).display().to_string();
        let verified = ["--create-namespace", "--set-json", VERIFIED];
        let rest = if version < "1.5" {
            &verified[..1]
        } else {
            &verified[..]
        };
        helm.stdout(args("install", &folder, rest));
        let api: Api<ConfigObject> =
            objects(client, ApiKind::ControllerConfig, ApiVersion::V1Alpha1);
        let seen = api.get("default").await.expect("it is there");
        assert_eq!(
            seen.spec.verification.is_some(),
            version >= "1.5",
            "{version}"
        );
        helm.stdout(["uninstall", "k8s-aibom", "-n", NAMESPACE]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_charts_on_a_real_plane() {
    let world = World::new();
    let helms = both(&world).await;
    let plane = Plane::start(&world.throw_away(), Arc::new(Silent)).await;
    let plane = plane.expect("a plane");
    let client = connect(&plane.kubeconfig()).await.expect("a client");
    for helm in helms {
        let helm = helm.with_cluster(plane.kubeconfig());
        the_guard_looks_at_the_served_schema(&client, &helm).await;
        a_cluster_goes_through_all_releases(&client, &helm).await;
        upgrades_on_older_definitions(&client, &helm).await;
        every_chart_installs_on_an_empty_cluster(&client, &helm).await;
        let namespaces = Api::<Namespace>::all(client.clone());
        let deleted = namespaces.delete(NAMESPACE, &DeleteParams::default()).await;
        deleted.expect("the namespace is being deleted");
        let gone = gone(&client, NAMESPACE, soon()).await;
        gone.expect("it vanishes");
    }
    drop(client);
    plane.stop().await.expect("the plane stops");
}
