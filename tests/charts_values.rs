//! What the values of the charts change, and that they change nothing else.

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

use helm::{CHARTS, CONFIG, DEPLOYMENT, Helm, container, find, granted, identity, selector};
use serde_json::{Value, json};

fn names_follow_the_release(helm: &Helm) {
    let name = |release: &str, values: &[&str]| {
        let objects = helm.render_as(release, "1.3.0", values);
        let kind = |object: &&Value| object["kind"] == "Deployment";
        let deployment = objects.iter().find(kind).expect("a Deployment").clone();
        let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        (
            word(&deployment["metadata"]["name"]),
            word(&deployment["spec"]["selector"]["matchLabels"]["app.kubernetes.io/name"]),
            word(&deployment["spec"]["template"]["spec"]["serviceAccountName"]),
        )
    };
    let three = |full: &str, name: &str, account: &str| {
        (full.to_owned(), name.to_owned(), account.to_owned())
    };
    let other = name("other", &[]);
    assert_eq!(
        other,
        three("other-k8s-aibom", "k8s-aibom", "other-k8s-aibom")
    );
    let part = name("my-k8s-aibom-2", &[]);
    assert_eq!(part, three("my-k8s-aibom-2", "k8s-aibom", "my-k8s-aibom-2"));
    let full = name("other", &[r#"fullnameOverride="whole""#]);
    assert_eq!(full, three("whole", "k8s-aibom", "whole"));
    let renamed = name("other", &[r#"nameOverride="part""#]);
    assert_eq!(renamed, three("other-part", "part", "other-part"));
    // The 63rd byte is the hyphen that joins them.
    let long = "a".repeat(62);
    let full = name("other", &[&format!(r#"fullnameOverride="{long}-b""#)]);
    assert_eq!(full.0, long);
    let named = name("k8s-aibom", &[r#"serviceAccount={"name":"own"}"#]);
    assert_eq!(named.2, "own");
    let foreign = name("k8s-aibom", &[r#"serviceAccount={"create":false}"#]);
    assert_eq!(foreign.2, "default");
}

fn values_change_what_they_name(helm: &Helm) {
    for version in CHARTS {
        let plain = helm.render(version, &[]);
        // Renders with these values, checks that nothing else changed but what is named.
        let with = |values: &[&str], changed: &[&str]| {
            let objects = helm.render(version, values);
            let differing: Vec<String> = objects
                .iter()
                .filter(|object| !plain.contains(object))
                .map(identity)
                .collect();
            assert_eq!(differing, changed, "{version} {values:?}");
            objects
        };
        let strict = with(&[r#"readiness={"strictConfig":true}"#], &[DEPLOYMENT]);
        let args = &container(&strict)["args"];
        assert_eq!(*args, json!(["--strict-config-readiness"]));

        let repository = "ghcr.io/googlecloudplatform/k8s-aibom";
        let tagged = with(&[r#"image={"digest":"","tag":"v0"}"#], &[DEPLOYMENT]);
        assert_eq!(container(&tagged)["image"], format!("{repository}:v0"));
        let digest = r#"image={"digest":"sha256:00","tag":"v0"}"#;
        let digested = with(&[digest], &[DEPLOYMENT]);
        assert_eq!(
            container(&digested)["image"],
            format!("{repository}@sha256:00")
        );

        let pod = with(
            &[
                r#"imagePullSecrets=[{"name":"pull"}]"#,
                r#"podAnnotations={"a":"b"}"#,
                r#"nodeSelector={"disk":"fast"}"#,
                r#"tolerations=[{"operator":"Exists"}]"#,
                r#"affinity={"nodeAffinity":{}}"#,
            ],
            &[DEPLOYMENT],
        );
        let template = &find(&pod, DEPLOYMENT)["spec"]["template"];
        assert_eq!(template["metadata"]["annotations"], json!({"a": "b"}));
        let spec = &template["spec"];
        assert_eq!(spec["imagePullSecrets"], json!([{"name": "pull"}]));
        assert_eq!(spec["nodeSelector"], json!({"disk": "fast"}));
        assert_eq!(spec["tolerations"], json!([{"operator": "Exists"}]));
        assert_eq!(spec["affinity"], json!({"nodeAffinity": {}}));

        let discovery = json!({"namespaceSelector": {"matchLabels": {"team": "ml"}}});
        let sinks = json!([{
            "name": "hook", "type": "Webhook", "webhook": {"endpoint": "https://example.com"},
        }]);
        let configured = with(
            &[
                &format!("config.discovery={discovery}"),
                &format!("config.sinks={sinks}"),
                r#"config.logging={"level":"debug"}"#,
                // Large enough for a careless template to print it as a power of ten.
                r#"config.bomGeneration={"inlineThresholdBytes":1048576}"#,
            ],
            &[CONFIG],
        );
        assert_eq!(
            find(&configured, CONFIG)["spec"],
            json!({
                "discovery": discovery,
                "bomGeneration": {
                    "inlineThresholdBytes": 1_048_576, "staleThresholdReconciles": 3,
                },
                "sinks": sinks,
                "logging": {"level": "debug", "format": "json"},
            })
        );

        let secrets = with(
            &[r#"rbac={"sinkSecretAccess":true}"#],
            &[
                "Role k8s-aibom-system/k8s-aibom-namespace-role",
                "RoleBinding k8s-aibom-system/k8s-aibom-namespace-rolebinding",
            ],
        );
        let role = find(&secrets, "Role k8s-aibom-system/k8s-aibom-namespace-role");
        assert_eq!(granted(role), BTreeSet::from(["/secrets: get".to_owned()]));

        let account = with(
            &[r#"serviceAccount={"annotations":{"a":"b"}}"#],
            &["ServiceAccount k8s-aibom-system/k8s-aibom"],
        );
        assert_eq!(account.len(), plain.len());
        let none = r#"serviceAccount={"create":false,"name":"own"}"#;
        let none = with(&[none], &["ClusterRoleBinding k8s-aibom", DEPLOYMENT]);
        assert_eq!(none.len(), plain.len() - 1);
    }
}

fn later_values_change_what_they_name(helm: &Helm) {
    for version in ["1.5.1", "1.6.0"] {
        let volumes = helm.render(
            version,
            &[
                r#"extraVolumes=[{"name":"roots","configMap":{"name":"roots"}}]"#,
                r#"extraVolumeMounts=[{"name":"roots","mountPath":"/roots"}]"#,
            ],
        );
        let spec = &find(&volumes, DEPLOYMENT)["spec"]["template"]["spec"];
        assert_eq!(
            spec["volumes"],
            json!([
                {"name": "tmp-dir", "emptyDir": {}},
                {"name": "roots", "configMap": {"name": "roots"}},
            ])
        );
        assert_eq!(
            spec["containers"][0]["volumeMounts"],
            json!([
                {"name": "tmp-dir", "mountPath": "/tmp"},
                {"name": "roots", "mountPath": "/roots"},
            ])
        );
        // Without a cluster the guard of 1.6 has nothing to look at.
        let verified = helm.render(version, &[r#"config.verification={"enabled":true}"#]);
        let spec = &find(&verified, CONFIG)["spec"];
        assert_eq!(spec["verification"], json!({"enabled": true}));
    }
}

fn metrics_are_opened_on_demand(helm: &Helm) {
    const SERVICE: &str = "Service k8s-aibom-system/k8s-aibom-metrics";
    const MONITOR: &str = "ServiceMonitor k8s-aibom-system/k8s-aibom";
    let plain = helm.render("1.6.0", &[]).len();
    let monitor = r#"metrics={"serviceMonitor":{"enabled":true}}"#;
    assert_eq!(helm.render("1.6.0", &[monitor]).len(), plain);

    let open = helm.render("1.6.0", &[r#"metrics={"enabled":true,"port":9090}"#]);
    assert_eq!(open.len(), plain + 1);
    let manager = container(&open);
    assert_eq!(manager["args"], json!(["--metrics-bind-address=:9090"]));
    assert_eq!(
        manager["ports"],
        json!([{"name": "metrics", "containerPort": 9090, "protocol": "TCP"}])
    );
    assert_eq!(
        find(&open, SERVICE)["spec"],
        json!({
            "type": "ClusterIP",
            "selector": selector(),
            "ports": [
                {"name": "metrics", "port": 9090, "targetPort": "metrics", "protocol": "TCP"},
            ],
        })
    );

    let watched = helm.render(
        "1.6.0",
        &[
            r#"readiness={"strictConfig":true}"#,
            r#"metrics={"enabled":true,"service":{"labels":{"l":"1"},"annotations":{"a":"1"}},"serviceMonitor":{"enabled":true,"labels":{"m":"1"}}}"#,
        ],
    );
    assert_eq!(watched.len(), plain + 2);
    let args = &container(&watched)["args"];
    assert_eq!(
        *args,
        json!(["--strict-config-readiness", "--metrics-bind-address=:8080"])
    );
    let about = &find(&watched, SERVICE)["metadata"];
    assert_eq!(about["labels"]["l"], "1");
    assert_eq!(about["annotations"], json!({"a": "1"}));
    let monitor = find(&watched, MONITOR);
    assert_eq!(monitor["apiVersion"], "monitoring.coreos.com/v1");
    assert_eq!(monitor["metadata"]["labels"]["m"], "1");
    assert_eq!(
        monitor["spec"],
        json!({
            "selector": {"matchLabels": selector()},
            "endpoints": [{"port": "metrics", "interval": "30s", "scrapeTimeout": "10s"}],
        })
    );
}

with_both_majors![
    names_follow_the_release,
    values_change_what_they_name,
    later_values_change_what_they_name,
    metrics_are_opened_on_demand,
];
