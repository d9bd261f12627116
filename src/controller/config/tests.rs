//! What a spec leads to, against a server that has a few Secrets.

use std::sync::{Arc, Mutex};

use http::{Request, Response};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use tower::{BoxError, service_fn};

use super::load::Loader;
use super::sinks::SinkMaker;
use crate::controller::profile::{Profile, V1_3_0, V1_5_1};
use crate::controller::settings::Settings;
use crate::controller::sink::guard::Guard;
use crate::controller::sink::secret::{DEFAULT_NAMESPACE, Secrets};
use crate::controller::workload::StringMap;

const PREFIX: &str = "/api/v1/namespaces/k8s-aibom-system/secrets/";

/// Base64 of nothing, `x` and `y`; of `two` and `lines` in two lines; and nothing of the sort.
fn secret(path: &str) -> (u16, Value) {
    let data = match path.strip_prefix(PREFIX) {
        Some("tok") => json!({"z": "eQ==", "a": "", "b": "eA=="}),
        Some("lines") => json!({"k": "dHdvCmxpbmVz"}),
        Some("odd") => json!({"k": "not-base64-but-secret"}),
        Some("bare") => return (200, json!({"metadata": {"name": "bare"}})),
        Some("denied") => {
            let message = r#"secrets "denied" is forbidden: no"#;
            return (
                403,
                json!({"code": 403, "reason": "Forbidden", "message": message}),
            );
        }
        _ => {
            return (
                404,
                json!({"code": 404, "reason": "NotFound", "message": "no"}),
            );
        }
    };
    (200, json!({"metadata": {"name": "x"}, "data": data}))
}

/// A loader, and the paths that it asks the server for.
fn loader(profile: &Profile, guard: Guard) -> (Loader, Arc<Mutex<Vec<String>>>) {
    // Without one, reqwest panics.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let asked = Arc::new(Mutex::new(Vec::new()));
    let record = Arc::clone(&asked);
    let server = service_fn(move |request: Request<Body>| {
        let path = request.uri().path().to_owned();
        let (code, object) = secret(&path);
        record.lock().expect("no panic").push(path);
        async move {
            let mut object = object;
            if code != 200 {
                object["kind"] = "Status".into();
                object["status"] = "Failure".into();
            }
            let body = Body::from(object.to_string().into_bytes());
            Response::builder()
                .status(code)
                .body(body)
                .map_err(BoxError::from)
        }
    });
    let loader = Loader {
        defaults: Settings::defaults(profile).expect("settings"),
        rules: profile.config,
        sinks: SinkMaker {
            secrets: Secrets::new(Client::new(server, "default"), DEFAULT_NAMESPACE.to_owned()),
            guard,
            rules: profile.sinks,
        },
    };
    (loader, asked)
}

async fn loaded_by(profile: &Profile, guard: Guard, spec: Value) -> Result<Settings, String> {
    let spec = serde_json::from_value(spec).expect("a spec");
    let (loader, _) = loader(profile, guard);
    let loaded = loader.load(&spec).await;
    loaded.map_err(|invalid| invalid.to_string())
}

async fn loaded(spec: Value) -> Result<Settings, String> {
    loaded_by(&V1_3_0, Guard::Enforced, spec).await
}

fn hook(endpoint: &str, auth: Value) -> Value {
    json!({"sinks": [{"name": "c", "type": "Webhook",
        "webhook": {"endpoint": endpoint, "auth": auth}}]})
}

fn bearer(name: &str, key: &str) -> Value {
    json!({"bearerToken": {"secretRef": {"name": name, "key": key}}})
}

#[tokio::test]
async fn a_selector_that_no_label_can_match_is_an_error() {
    for selector in [
        json!({"matchLabels": {"a b": "c"}}),
        json!({"matchLabels": {"a": "b c"}}),
        json!({"matchExpressions": [{"key": "a/b/c", "operator": "Exists"}]}),
    ] {
        let spec = json!({"discovery": {"namespaceSelector": selector}});
        let error = loaded(spec).await.expect_err("an error");
        let text = "spec.discovery.namespaceSelector: namespaceSelector cannot be materialized: ";
        assert!(error.starts_with(text), "{error}");
    }
}

#[tokio::test]
async fn every_error_is_told_in_order_and_in_the_real_words() {
    let error = loaded(json!({
        "discovery": {
            "namespaceSelector": {"matchExpressions": [{"key": "a", "operator": "Bogus"}]},
            "inferenceRuntimeImagePatterns": [
                {"runtime": "ok", "pattern": "^ok/"},
                {"runtime": "bad", "pattern": "(unclosed"},
            ],
        },
        "sinks": [
            {"name": "a", "type": "Webhook"},
            {"name": "b", "type": "GCS", "gcs": {"bucket": "xyz"}, "webhook": {"endpoint": "http://x"}},
            {"name": "c", "type": "Webhook", "webhook": {"endpoint": "https://x", "auth": {
                "bearerToken": {"secretRef": {"name": "n", "key": "k"}},
                "mtls": {"clientCertSecretRef": {"name": "n", "key": "k"},
                    "clientKeySecretRef": {"name": "n", "key": "k"}},
            }}},
        ],
    }))
    .await
    .expect_err("it is invalid");
    let wanted = [
        r#"spec.discovery.namespaceSelector: namespaceSelector cannot be materialized: "Bogus" is not a valid label selector operator. Common causes: invalid label-key syntax, malformed matchExpressions operator."#,
        r#"spec.discovery.inferenceRuntimeImagePatterns[1].pattern: Runtime "bad" pattern "(unclosed" failed to compile as a Go regexp: error parsing regexp: missing closing ): `(unclosed`. Anchor the pattern (e.g., ^vllm/.*) and escape regex metacharacters in literal path segments."#,
        r#"spec.sinks[name=a].webhook: Sink "a" has Type=Webhook but spec.sinks[name=a].webhook is nil. Set the webhook subfield with the sink configuration, or change Type if a different sink was intended."#,
        r#"spec.sinks[name=b].webhook: Sink "b" has Type=GCS but spec.sinks[name=b].webhook is also populated. Exactly one of {gcs, webhook} may be set per sink; the populated subfield must match Type."#,
        r#"spec.sinks[name=c].webhook.auth: Sink "c" (Type=Webhook) has both auth.bearerToken and auth.mtls set. Exactly one auth mechanism per sink; remove one of them."#,
    ];
    assert_eq!(error, wanted.join("; "));
}

#[tokio::test]
async fn a_good_spec_replaces_what_it_names() {
    let settings = loaded(json!({
        "discovery": {"namespaceSelector": {}},
        "bomGeneration": {"inlineThresholdBytes": 4096},
    }))
    .await
    .expect("it is valid");
    assert!(settings.selects(None));
    assert_eq!(settings.limits.inline_threshold_bytes, 4096);
    assert_eq!(settings.limits.stale_threshold, 3);
    assert!(settings.sinks.is_empty());

    let settings = loaded(json!({"discovery": {"namespaceSelector": {
        "matchLabels": {"a": "b"},
        "matchExpressions": [{"key": "c", "operator": "NotIn", "values": ["d"]}],
    }}}));
    let settings = settings.await.expect("it is valid");
    let labels = |pairs: &[(&str, &str)]| {
        let owned = pairs
            .iter()
            .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()));
        owned.collect::<StringMap>()
    };
    assert!(settings.selects(Some(&labels(&[("a", "b")]))));
    assert!(!settings.selects(Some(&labels(&[("a", "b"), ("c", "d")]))));
    assert!(!settings.selects(None));
}

#[tokio::test]
async fn what_is_wrong_with_a_secret_is_told_in_the_real_words() {
    let field = "spec.sinks[name=c].webhook.auth.bearerToken.secretRef";
    let sink = r#"Sink "c" (Type=Webhook) webhook.auth.bearerToken.secretRef"#;
    for (auth, wanted) in [
        (
            bearer("nosuch", "a"),
            format!(
                r#"{field}: {sink}: Secret "nosuch" not found in namespace "k8s-aibom-system". Create the Secret or update webhook.auth.bearerToken.secretRef.name."#
            ),
        ),
        (
            bearer("tok", "nokey"),
            format!(
                r#"{field}.key: {sink}: Secret "tok" has no key "nokey". Available keys: [a b z]. Update webhook.auth.bearerToken.secretRef.key to one of these, or add the missing key to the Secret."#
            ),
        ),
        (
            bearer("bare", "k"),
            format!(
                r#"{field}.key: {sink}: Secret "bare" has no key "k". Available keys: []. Update webhook.auth.bearerToken.secretRef.key to one of these, or add the missing key to the Secret."#
            ),
        ),
        (
            bearer("tok", "a"),
            format!(
                r#"{field}.key: {sink}: Secret "tok" key "a" has empty value. Populate the Secret data or update webhook.auth.bearerToken.secretRef.key."#
            ),
        ),
        (
            bearer("denied", "k"),
            format!(
                r#"{field}: {sink}: Secret "denied" in namespace "k8s-aibom-system" could not be read: secrets "denied" is forbidden: no. Check that the controller may get Secrets there."#
            ),
        ),
        // What does not parse is not quoted.
        (
            bearer("odd", "k"),
            format!(
                r#"{field}: {sink}: Secret "odd" in namespace "k8s-aibom-system" could not be read: the answer is not a Secret. Check that the controller may get Secrets there."#
            ),
        ),
    ] {
        let error = loaded(hook("https://hook.example", auth)).await;
        assert_eq!(error.expect_err("it is invalid"), wanted);
    }
}

#[tokio::test]
async fn every_reference_of_a_pair_of_certificates_is_looked_at() {
    let reference = |name: &str, key: &str| json!({"name": name, "key": key});
    let error = loaded(hook(
        "https://hook.example",
        json!({"mtls": {
            "clientCertSecretRef": reference("nosuch", "a"),
            "clientKeySecretRef": reference("tok", "a"),
            "caSecretRef": reference("tok", "ca"),
        }}),
    ))
    .await
    .expect_err("it is invalid");
    let path = "webhook.auth.mtls";
    let at = format!("spec.sinks[name=c].{path}");
    let sink = format!(r#"Sink "c" (Type=Webhook) {path}"#);
    let wanted = [
        format!(
            r#"{at}.clientCertSecretRef: {sink}.clientCertSecretRef: Secret "nosuch" not found in namespace "k8s-aibom-system". Create the Secret or update {path}.clientCertSecretRef.name."#
        ),
        format!(
            r#"{at}.clientKeySecretRef.key: {sink}.clientKeySecretRef: Secret "tok" key "a" has empty value. Populate the Secret data or update {path}.clientKeySecretRef.key."#
        ),
        format!(
            r#"{at}.caSecretRef.key: {sink}.caSecretRef: Secret "tok" has no key "ca". Available keys: [a b z]. Update {path}.caSecretRef.key to one of these, or add the missing key to the Secret."#
        ),
    ];
    assert_eq!(error, wanted.join("; "));
}

#[tokio::test]
async fn a_sink_that_cannot_be_made_is_told_with_what_to_look_at() {
    let verify = "Verify spec.sinks[name=c].webhook.endpoint and any referenced credentials.";
    let failed =
        r#"spec.sinks[name=c].webhook: Sink "c" (Type=Webhook) failed to construct: webhook sink:"#;
    for (endpoint, auth, wanted) in [
        (
            "http://127.0.0.1:8080/hook",
            json!(null),
            "endpoint URL points to loopback/private interface",
        ),
        (
            "https://10.1.2.3/hook",
            bearer("tok", "b"),
            "endpoint URL points to loopback/private interface",
        ),
        (
            "https://hook.example",
            bearer("lines", "k"),
            "the bearer token cannot stand in a header",
        ),
    ] {
        let error = loaded(hook(endpoint, auth)).await;
        let wanted = format!("{failed} {wanted}. {verify}");
        assert_eq!(error.expect_err("it is invalid"), wanted);
    }
    let allowed = hook("http://127.0.0.1:8080/hook", bearer("tok", "b"));
    let settings = loaded_by(&V1_3_0, Guard::Disabled, allowed).await;
    assert!(!settings.expect("it is valid").sinks.is_empty());

    let bucket = |gcs| json!({"sinks": [{"name": "c", "type": "GCS", "gcs": gcs}]});
    assert_eq!(
        loaded(bucket(json!({"bucket": "xyz"})))
            .await
            .expect_err("it is invalid"),
        r#"spec.sinks[name=c].gcs: Sink "c" (Type=GCS) failed to construct: gcs sink: not available in the embedded controller. Remove spec.sinks[name=c].gcs."#
    );
    let missing = json!({"bucket": "xyz", "credentialsSecretRef": {"name": "n", "key": "k"}});
    assert_eq!(
        loaded(bucket(missing)).await.expect_err("it is invalid"),
        r#"spec.sinks[name=c].gcs.credentialsSecretRef: Sink "c" (Type=GCS) gcs.credentialsSecretRef: Secret "n" not found in namespace "k8s-aibom-system". Create the Secret or update gcs.credentialsSecretRef.name."#
    );
}

#[tokio::test]
async fn a_wrong_shape_keeps_secrets_unread_and_a_wrong_pattern_does_not() {
    let (loader, asked) = loader(&V1_3_0, Guard::Enforced);
    let load = async |spec: Value| {
        let spec = serde_json::from_value(spec).expect("a spec");
        loader.load(&spec).await.expect_err("it is invalid")
    };
    let mut spec = hook("https://hook.example", bearer("nosuch", "k"));
    spec["discovery"] =
        json!({"inferenceRuntimeImagePatterns": [{"runtime": "a", "pattern": "("}]});
    let error = load(spec.clone()).await.to_string();
    assert!(error.contains("[0].pattern: "), "{error}");
    assert!(error.contains(r#"Secret "nosuch" not found"#), "{error}");
    assert_eq!(
        *asked.lock().expect("no panic"),
        [format!("{PREFIX}nosuch")]
    );

    let sinks = spec["sinks"].as_array_mut().expect("sinks");
    sinks.push(json!({"name": "d", "type": "Webhook"}));
    let error = load(spec).await.to_string();
    assert!(error.contains("spec.sinks[name=d].webhook: "), "{error}");
    assert!(!error.contains("nosuch"), "{error}");
    assert_eq!(asked.lock().expect("no panic").len(), 1);
}

#[tokio::test]
async fn clear_text_endpoints_with_credentials_are_refused_since_1_5_1() {
    for endpoint in ["http://hook.example", " HTTP://hook.example"] {
        let spec = || hook(endpoint, bearer("tok", "b"));
        let old = loaded_by(&V1_3_0, Guard::Enforced, spec()).await;
        assert!(!old.expect("it is valid").sinks.is_empty());
        let new = loaded_by(&V1_5_1, Guard::Enforced, spec()).await;
        let error = new.expect_err("it is invalid");
        let wanted = r#"spec.sinks[name=c].webhook.endpoint: Sink "c" (Type=Webhook) has an http:// endpoint"#;
        assert!(error.starts_with(wanted), "{error}");
    }
    for (endpoint, auth) in [
        ("http://hook.example", json!(null)),
        ("http://hook.example", json!({})),
        ("https://hook.example", bearer("tok", "b")),
    ] {
        let loaded = loaded_by(&V1_5_1, Guard::Enforced, hook(endpoint, auth)).await;
        loaded.expect("it is valid");
    }
}
