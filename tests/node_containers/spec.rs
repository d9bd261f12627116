//! What a pod's spec makes of a process: arguments, variables, volumes and credentials.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use aibom_qual::node::container::StartError;
use serde_json::json;

use crate::bench::{Bench, NAMESPACE, end, log, merge, mode, only, pause, pod, start};

#[tokio::test]
async fn a_process_sees_what_its_pod_says_and_nothing_of_ours() {
    let config = json!({
        "metadata": {"name": "settings"},
        "data": {"MODE": "fast", "level": "3"},
    });
    let secret = json!({"metadata": {"name": "keys"}, "data": {"key": "czNjcmV0"}});
    let node = json!({"metadata": {"name": "node"}, "status": {"allocatable": {"memory": "2Gi"}}});
    let bench = Bench::new([
        (&format!("{NAMESPACE}/configmaps/settings"), config),
        (&format!("{NAMESPACE}/secrets/keys"), secret),
        ("/api/v1/nodes/node", node),
    ]);
    let pod = pod(
        json!({
            "args": ["--metrics-bind-address=:8080", "--probe=0.0.0.0:8081", "$(APP)", "--x=:9999"],
            "ports": [{"containerPort": 8080}],
            "livenessProbe": {"httpGet": {"port": 8081}},
            "command": ["/manager"],
            "envFrom": [
                {"prefix": "C_", "configMapRef": {"name": "settings"}},
                {"configMapRef": {"name": "none", "optional": true}},
            ],
            "env": [
                {"name": "APP", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['app']"}}},
                {"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "keys", "key": "key"}}},
                {"name": "NO", "valueFrom": {"secretKeyRef": {"name": "keys", "key": "no", "optional": true}}},
                {"name": "MEM", "valueFrom": {"resourceFieldRef": {"resource": "limits.memory", "divisor": "1Mi"}}},
                {"name": "ALL", "value": "$(APP) $(C_MODE) $(KUBERNETES_SERVICE_PORT) $(LATER) $$(APP)"},
                {"name": "LATER", "value": "x"},
                {"name": "C_level", "value": "4"},
            ],
        }),
        json!({}),
    );
    let sandbox = bench.prepare(&pod).await;
    let image = bench.script(
        "tr '\\0' '\\n' < /proc/$$/cmdline | head -n 1; pwd; for arg; do echo \"$arg\"; done; env",
        &["--template=127.0.0.1:{port:9999}", "a b"],
    );
    let running = start(&sandbox, &pod, &image, 0).await;
    assert_eq!(end(&running).await.exit_code, 0);

    let folder = bench.pod_dir().join("manager/0");
    let folder = folder.to_str().expect("text");
    let lines = log(&running);
    let ports = running.ports().expect("a process has ports");
    let host = |port| ports.known(port).expect("it was drawn");
    assert_eq!(
        lines[..8],
        [
            format!("{folder}/.bin/manager"),
            folder.to_owned(),
            format!("--template=127.0.0.1:{}", host(9999)),
            "a b".to_owned(),
            format!("--metrics-bind-address=127.0.0.1:{}", host(8080)),
            format!("--probe=127.0.0.1:{}", host(8081)),
            "manager".to_owned(),
            format!("--x=127.0.0.1:{}", host(9999)),
        ]
    );
    let variables = lines[8..]
        .iter()
        .map(|line| line.split_once('=').expect("a variable"));
    let mut variables: BTreeMap<_, _> = variables.collect();
    // The shell's own ones.
    for name in ["PWD", "OLDPWD", "SHLVL", "_"] {
        variables.remove(name);
    }
    assert_eq!(
        variables.remove("PATH"),
        std::env::var("PATH").ok().as_deref()
    );
    let expected = [
        ("ALL", "manager fast 24680 $(LATER) $(APP)"),
        ("APP", "manager"),
        ("C_MODE", "fast"),
        ("C_level", "4"),
        ("HOME", folder),
        ("HOSTNAME", "manager-0"),
        ("KEY", "s3cret"),
        ("KUBERNETES_SERVICE_HOST", "127.0.0.1"),
        ("KUBERNETES_SERVICE_PORT", "24680"),
        ("KUBERNETES_SERVICE_PORT_HTTPS", "24680"),
        ("LATER", "x"),
        ("MEM", "2048"),
        ("TMPDIR", folder),
    ];
    assert_eq!(variables, BTreeMap::from(expected));
    sandbox.remove().await.expect("it is removed");
}

#[tokio::test]
async fn volumes_are_folders_and_files_and_their_paths_are_moved() {
    let config = json!({
        "metadata": {"name": "settings"},
        "data": {"a.yaml": "a: 1\n", "run.sh": "x"},
        "binaryData": {"b": "AAE="},
    });
    let secret = json!({"metadata": {"name": "keys"}, "data": {"tls.key": "czNjcmV0"}});
    let bench = Bench::new([
        (&format!("{NAMESPACE}/configmaps/settings"), config),
        (&format!("{NAMESPACE}/secrets/keys"), secret),
    ]);
    let pod = pod(
        json!({
            "args": ["--config=/etc/app/a.yaml", "/tmp/x"],
            "env": [{"name": "KEYS", "value": "/etc/keys/deep/key"}, {"name": "WHO", "value": "me"}],
            "volumeMounts": [
                {"name": "config", "mountPath": "/etc/app"},
                {"name": "keys", "mountPath": "/etc/keys"},
                {"name": "all", "mountPath": "/all"},
                {"name": "tmp", "mountPath": "/tmp", "subPathExpr": "of-$(WHO)"},
            ],
        }),
        json!({"volumes": [
            {"name": "config", "configMap": {"name": "settings", "items": [
                {"key": "a.yaml", "path": "a.yaml"}, {"key": "run.sh", "path": "bin/run", "mode": 493},
            ]}},
            {"name": "keys", "secret": {"secretName": "keys", "defaultMode": 256, "items": [
                {"key": "tls.key", "path": "deep/key"},
            ]}},
            {"name": "all", "projected": {"sources": [
                {"configMap": {"name": "settings"}},
                {"secret": {"name": "none", "optional": true}},
                {"downwardAPI": {"items": [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]}},
            ]}},
            {"name": "tmp", "emptyDir": {}},
            {"name": "unused", "configMap": {"name": "none"}},
        ]}),
    );
    let sandbox = bench.prepare(&pod).await;
    let image = bench.script(
        "cat ${1#--config=}; echo $2; cat $KEYS; echo; echo $TMPDIR; echo hello > $TMPDIR/x",
        &[],
    );
    let running = start(&sandbox, &pod, &image, 0).await;
    assert_eq!(end(&running).await.exit_code, 0);

    let volumes = bench.pod_dir().join("_volumes");
    let tmp = volumes.join("tmp/of-me");
    let tmp = tmp.to_str().expect("text");
    assert_eq!(log(&running), ["a: 1", &format!("{tmp}/x"), "s3cret", tmp]);
    let read = |path: &str| fs::read(volumes.join(path)).expect("a file");
    assert_eq!(read("tmp/of-me/x"), b"hello\n");
    assert_eq!(read("all/b"), [0, 1]);
    assert_eq!(read("all/labels"), b"app=\"manager\"");
    assert_eq!(mode(&volumes.join("config/a.yaml")), 0o600);
    assert_eq!(mode(&volumes.join("config/bin/run")), 0o700);
    assert_eq!(mode(&volumes.join("keys/deep/key")), 0o400);
    assert_eq!(mode(&bench.pod_dir()), 0o700);
    assert!(!volumes.join("unused").exists());
    // An attempt over what is there already succeeds.
    bench.prepare(&pod).await;
    sandbox.remove().await.expect("it is removed");
    assert!(!bench.pod_dir().exists());
}

#[tokio::test]
async fn a_missing_object_fails_in_the_words_of_a_kubelet() {
    let config = json!({"metadata": {"name": "settings"}, "data": {"a": "1"}});
    let secret = json!({"metadata": {"name": "keys"}, "data": {}});
    let bench = Bench::new([
        (&format!("{NAMESPACE}/configmaps/settings"), config),
        (&format!("{NAMESPACE}/secrets/keys"), secret),
    ]);
    for (source, words) in [
        (
            json!({"configMap": {"name": "none"}}),
            "configmap \"none\" not found",
        ),
        (
            json!({"secret": {"secretName": "none"}}),
            "secret \"none\" not found",
        ),
        (
            json!({"configMap": {"name": "settings", "items": [{"key": "b", "path": "b"}]}}),
            "configmap references non-existent config key: b",
        ),
        (
            json!({"projected": {"sources": [{"secret": {"name": "keys", "items": [{"key": "b", "path": "b"}]}}]}}),
            "references non-existent secret key: b",
        ),
    ] {
        let mut volume = json!({"name": "v"});
        merge(&mut volume, source);
        let pod = pod(
            json!({"volumeMounts": [{"name": "v", "mountPath": "/v"}]}),
            json!({"volumes": [volume]}),
        );
        let error = bench.containers.prepare(&pod).await.expect_err(words);
        assert!(matches!(error, StartError::Volume(_)));
        assert_eq!(
            error.to_string(),
            format!("MountVolume.SetUp failed for volume \"v\" : {words}")
        );
        assert!(!bench.pod_dir().exists());
    }

    for (container, words) in [
        (
            json!({"envFrom": [{"configMapRef": {"name": "none"}}]}),
            "configmap \"none\" not found",
        ),
        (
            json!({"envFrom": [{"secretRef": {"name": "none"}}]}),
            "secret \"none\" not found",
        ),
        (
            json!({"env": [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "b"}}}]}),
            "couldn't find key b in ConfigMap models/settings",
        ),
        (
            json!({"env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "keys", "key": "b"}}}]}),
            "couldn't find key b in Secret models/keys",
        ),
        (
            json!({"securityContext": {"runAsNonRoot": true}}),
            "container has runAsNonRoot and image will run as root (pod: \"manager-0_models(u-1)\", container: \
             manager)",
        ),
    ] {
        let pod = pod(container, json!({}));
        let sandbox = bench.prepare(&pod).await;
        let error = sandbox
            .start(&pod, only(&pod), &pause(), 0)
            .await
            .expect_err(words);
        assert!(matches!(error, StartError::Config(_)));
        assert_eq!(error.to_string(), words);
    }
}

#[tokio::test]
async fn a_container_with_a_token_has_a_kubeconfig_and_others_have_none() {
    let root_ca = json!({"metadata": {"name": "kube-root-ca.crt"}, "data": {"ca.crt": "ca"}});
    let bench = Bench::new([(&format!("{NAMESPACE}/configmaps/kube-root-ca.crt"), root_ca)]);
    let volumes = json!([{"name": "kube-api-access-x", "projected": {"defaultMode": 420, "sources": [
        {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
    ]}}]);
    let at = "/var/run/secrets/kubernetes.io/serviceaccount";
    let pod_with = pod(
        json!({"volumeMounts": [{"name": "kube-api-access-x", "mountPath": at}]}),
        json!({"volumes": volumes}),
    );
    let image = bench.script("echo $KUBECONFIG", &[]);
    let sandbox = bench.prepare(&pod_with).await;
    let running = start(&sandbox, &pod_with, &image, 0).await;
    end(&running).await;

    let path = PathBuf::from(&log(&running)[0]);
    assert_eq!(mode(&path), 0o600);
    let read = kube::config::Kubeconfig::read_from(&path).expect("kube reads it");
    let read = serde_json::to_value(read).expect("it is data");
    assert_eq!(
        read["clusters"][0]["cluster"]["server"],
        "https://127.0.0.1:24680"
    );
    assert_eq!(read["contexts"][0]["context"]["namespace"], "models");
    let token = read["users"][0]["user"]["tokenFile"]
        .as_str()
        .expect("a file");
    assert_eq!(fs::read_to_string(token).expect("a token"), "the token");
    assert_eq!(mode(Path::new(token)), 0o600);
    let requests = bench.requests.lock().expect("not poisoned").clone();
    assert_eq!(requests.len(), 1);
    assert_eq!(
        requests[0]["spec"],
        json!({
            "audiences": [],
            "boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": "manager-0", "uid": "u-1"},
            "expirationSeconds": 3607,
        })
    );
    sandbox.remove().await.expect("it is removed");

    let pod_without = pod(json!({}), json!({"automountServiceAccountToken": false}));
    let sandbox = bench.prepare(&pod_without).await;
    let running = start(&sandbox, &pod_without, &image, 0).await;
    end(&running).await;
    assert_eq!(log(&running), [""]);
}
