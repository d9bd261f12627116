//! The charts, rendered by both Helm majors, against what the releases are documented to install.

#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests fail like the tests themselves"
)]

#[path = "support/helm.rs"]
mod helm;
#[macro_use]
#[path = "support/majors.rs"]
mod majors;
mod support;

use std::collections::BTreeSet;

use aibom_qual::plane::tool::Tool;
use helm::{CHARTS, CONFIG, DEPLOYMENT, Helm, both, chart, find, granted, identity, selector};
use serde_json::{Value, json};
use support::World;

/// The documented digest of the image; 1.6.0 has none that is known.
fn image(version: &str) -> String {
    let digest = match version {
        "1.2.0" => "b5040d14a20b4e890956d5f47b78445dac6c871eb5799586d9011c48ce71c198",
        "1.3.0" => "f8e48d4edc44e6ee8e40a2ac6c5f60b190aa18d411a75702dc5798a77a039e8d",
        "1.5.1" => "7b02731563a5ec524ed3396a07a524b02e3f51e17c976e02e65fc680b51e8164",
        _ => return format!("ghcr.io/googlecloudplatform/k8s-aibom:v{version}"),
    };
    format!("ghcr.io/googlecloudplatform/k8s-aibom@sha256:{digest}")
}

fn labels(version: &str) -> Value {
    json!({
        "helm.sh/chart": format!("k8s-aibom-{version}"),
        "app.kubernetes.io/name": "k8s-aibom",
        "app.kubernetes.io/instance": "k8s-aibom",
        "app.kubernetes.io/version": format!("v{version}"),
        "app.kubernetes.io/managed-by": "Helm",
    })
}

fn pod_spec(version: &str) -> Value {
    let field = |name: &str, path: &str| json!({"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}});
    let probe = |path: &str, delay: u8, period: u8| {
        json!({
            "httpGet": {"path": path, "port": 8081},
            "initialDelaySeconds": delay,
            "periodSeconds": period,
        })
    };
    json!({
        "serviceAccountName": "k8s-aibom",
        "securityContext": {
            "fsGroup": 2000,
            "runAsNonRoot": true,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [{
            "name": "manager",
            "image": image(version),
            "imagePullPolicy": "IfNotPresent",
            "env": [field("POD_NAME", "metadata.name"), field("POD_NAMESPACE", "metadata.namespace")],
            "livenessProbe": probe("/healthz", 15, 20),
            "readinessProbe": probe("/readyz", 5, 10),
            "resources": {
                "requests": {"cpu": "50m", "memory": "128Mi"},
                "limits": {"cpu": "1", "memory": "256Mi"},
            },
            "securityContext": {
                "allowPrivilegeEscalation": false,
                "capabilities": {"drop": ["ALL"]},
                "readOnlyRootFilesystem": true,
                "runAsNonRoot": true,
                "runAsUser": 65532,
            },
            "volumeMounts": [{"name": "tmp-dir", "mountPath": "/tmp"}],
        }],
        "volumes": [{"name": "tmp-dir", "emptyDir": {}}],
    })
}

/// What each release may do, as `GROUP/RESOURCE: VERBS`.
fn permissions(version: &str) -> BTreeSet<String> {
    let mut all = vec![
        "/events: create patch",
        "/namespaces: get list watch",
        "/pods: get list watch",
        "aibom.k8saibom.dev/aibomcontrollerconfigs/status: get patch update",
        "aibom.k8saibom.dev/aibomcontrollerconfigs: get list watch",
        "aibom.k8saibom.dev/aiboms/status: get patch update",
        "aibom.k8saibom.dev/aiboms: create delete get list patch update watch",
        "apps/daemonsets: get list watch",
        "apps/deployments: get list watch",
        "apps/replicasets: get list watch",
        "apps/statefulsets: get list watch",
        "batch/jobs: get list watch",
        "serving.kserve.io/inferenceservices: get list watch",
    ];
    if version == "1.6.0" {
        all.extend([
            "/openapi/v3 (address): get",
            "/openapi/v3/* (address): get",
            "apps.nvidia.com/nimservices: get list watch",
            "batch/cronjobs: get list watch",
            "disaggregatedset.x-k8s.io/disaggregatedsets: get list watch",
            "grove.io/podcliques: get list",
            "grove.io/podcliquescalinggroups: get list",
            "grove.io/podcliquesets: get list",
            "leaderworkerset.x-k8s.io/leaderworkersets: get list watch",
            "nvidia.com/dynamocomponentdeployments: get list watch",
            "nvidia.com/dynamographdeployments: get list watch",
        ]);
    }
    all.into_iter().map(str::to_owned).collect()
}

fn lint_finds_nothing(helm: &Helm) {
    for version in CHARTS {
        let chart = chart(version);
        let said = helm.stdout(["lint".as_ref(), "--strict".as_ref(), chart.as_os_str()]);
        assert!(said.contains("0 chart(s) failed"), "{said}");
        assert!(!said.contains("WARNING"), "{said}");
    }
}

fn charts_are_named_after_their_release(helm: &Helm) {
    for version in CHARTS {
        let chart = chart(version);
        let said = helm.stdout(["show".as_ref(), "chart".as_ref(), chart.as_os_str()]);
        let mut about: Value = serde_yaml::from_str(&said).expect("YAML");
        about["description"].take();
        assert_eq!(
            about,
            json!({
                "apiVersion": "v2",
                "name": "k8s-aibom",
                "description": null,
                "type": "application",
                "version": version,
                "appVersion": format!("v{version}"),
            })
        );
    }
}

fn values_have_the_documented_defaults(helm: &Helm) {
    for version in CHARTS {
        let pod = pod_spec(version);
        let (repository, digest) = match image(version).split_once('@') {
            Some((repository, digest)) => (repository.to_owned(), digest.to_owned()),
            None => (
                "ghcr.io/googlecloudplatform/k8s-aibom".to_owned(),
                String::new(),
            ),
        };
        let mut wanted = json!({
            "image": {
                "repository": repository, "pullPolicy": "IfNotPresent", "tag": "", "digest": digest,
            },
            "imagePullSecrets": [],
            "nameOverride": "",
            "fullnameOverride": "",
            "serviceAccount": {"create": true, "annotations": {}, "name": ""},
            "rbac": {"sinkSecretAccess": false},
            "config": {
                "discovery": {},
                "bomGeneration": {"inlineThresholdBytes": 262_144, "staleThresholdReconciles": 3},
                "sinks": [],
                "logging": {"level": "info", "format": "json"},
            },
            "readiness": {"strictConfig": false},
            "podAnnotations": {},
            "podSecurityContext": pod["securityContext"],
            "securityContext": pod["containers"][0]["securityContext"],
            "resources": pod["containers"][0]["resources"],
            "nodeSelector": {},
            "tolerations": [],
            "affinity": {},
        });
        if version >= "1.5" {
            wanted["config"]["verification"] = json!({});
            wanted["extraVolumes"] = json!([]);
            wanted["extraVolumeMounts"] = json!([]);
        }
        if version >= "1.6" {
            wanted["metrics"] = json!({
                "enabled": false,
                "port": 8080,
                "service": {"annotations": {}, "labels": {}},
                "serviceMonitor": {
                    "enabled": false, "interval": "30s", "scrapeTimeout": "10s", "labels": {},
                },
            });
        }
        let chart = chart(version);
        let said = helm.stdout(["show".as_ref(), "values".as_ref(), chart.as_os_str()]);
        let values: Value = serde_yaml::from_str(&said).expect("YAML");
        assert_eq!(values, wanted, "{version}");
    }
}

fn a_default_release_is_the_documented_one(helm: &Helm) {
    for version in CHARTS {
        let objects = helm.render(version, &[]);
        let identities: Vec<String> = objects.iter().map(identity).collect();
        assert_eq!(
            identities,
            [
                CONFIG,
                "ClusterRole k8s-aibom",
                "ClusterRoleBinding k8s-aibom",
                DEPLOYMENT,
                "ServiceAccount k8s-aibom-system/k8s-aibom",
            ],
            "{version}"
        );
        for object in &objects {
            let labels = labels(version);
            assert_eq!(object["metadata"]["labels"], labels, "{}", identity(object));
        }
        let deployment = find(&objects, DEPLOYMENT);
        assert_eq!(deployment["apiVersion"], "apps/v1");
        assert_eq!(
            deployment["spec"],
            json!({
                "replicas": 1,
                "selector": {"matchLabels": selector()},
                "template": {"metadata": {"labels": selector()}, "spec": pod_spec(version)},
            }),
            "{version}"
        );
        let config = find(&objects, CONFIG);
        let served = match version {
            "1.2.0" | "1.3.0" => "aibom.k8saibom.dev/v1alpha1",
            _ => "aibom.k8saibom.dev/v1beta1",
        };
        assert_eq!(config["apiVersion"], served, "{version}");
        assert_eq!(
            config["spec"],
            json!({
                "bomGeneration": {"inlineThresholdBytes": 262_144, "staleThresholdReconciles": 3},
                "logging": {"level": "info", "format": "json"},
            })
        );
        let role = find(&objects, "ClusterRole k8s-aibom");
        assert_eq!(granted(role), permissions(version), "{version}");
        let mut binding = find(&objects, "ClusterRoleBinding k8s-aibom").clone();
        binding["metadata"].take();
        assert_eq!(
            binding,
            json!({
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "ClusterRoleBinding",
                "metadata": null,
                "roleRef": {
                    "apiGroup": "rbac.authorization.k8s.io",
                    "kind": "ClusterRole",
                    "name": "k8s-aibom",
                },
                "subjects": [{
                    "kind": "ServiceAccount", "name": "k8s-aibom", "namespace": "k8s-aibom-system",
                }],
            })
        );
    }
}

/// Beside versions and images, a default release changes at two moves only.
fn moves_change_what_they_are_documented_to_change(helm: &Helm) {
    for (from, to, changed) in [
        ("1.2.0", "1.3.0", &[][..]),
        ("1.3.0", "1.5.1", &[CONFIG][..]),
        ("1.5.1", "1.6.0", &["ClusterRole k8s-aibom"][..]),
    ] {
        let plain = |version: &str| -> Vec<Value> {
            let mut objects = helm.render(version, &[]);
            for object in &mut objects {
                object["metadata"]["labels"].take();
                if let Some(image) = object.pointer_mut("/spec/template/spec/containers/0/image") {
                    image.take();
                }
            }
            objects
        };
        let (old, new) = (plain(from), plain(to));
        assert_eq!(old.len(), new.len());
        let differing: Vec<String> = old
            .iter()
            .zip(&new)
            .filter(|(old, new)| old != new)
            .map(|(old, _)| identity(old))
            .collect();
        assert_eq!(differing, changed, "{from} to {to}");
    }
}

/// The files of 1.2.0 make one broken document under Helm 3; Helm 4 puts the separator there.
fn definitions_are_shown(helm: &Helm) {
    for version in CHARTS {
        let chart = chart(version);
        let said = helm.stdout(["show".as_ref(), "crds".as_ref(), chart.as_os_str()]);
        let separators = said.lines().filter(|line| *line == "---").count();
        let broken = version == "1.2.0" && helm.tool == Tool::Helm3;
        let wanted = if broken { 1 } else { 2 };
        assert_eq!(separators, wanted, "{version} {}", helm.tool);
        assert_eq!(said.matches("kind: CustomResourceDefinition").count(), 2);
    }
}

with_both_majors![
    lint_finds_nothing,
    charts_are_named_after_their_release,
    values_have_the_documented_defaults,
    a_default_release_is_the_documented_one,
    moves_change_what_they_are_documented_to_change,
    definitions_are_shown,
];

#[tokio::test]
async fn both_majors_render_the_same() {
    let world = World::new();
    let [three, four] = both(&world).await;
    for version in CHARTS {
        assert_eq!(three.render(version, &[]), four.render(version, &[]));
    }
}
