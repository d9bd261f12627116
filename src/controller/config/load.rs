//! From the spec of a configuration to settings. Any error makes the whole of it invalid, and all
//! errors are told.

use std::collections::BTreeSet;
use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1 as k8s;
use kube::core::Selector;

use crate::controller::api::config::{AibomControllerConfigSpec, Discovery, Sink};
use crate::controller::api::meta::LabelSelector;
use crate::controller::detect::image::Matcher;
use crate::controller::settings::Settings;
use crate::controller::status::Limits;

/// Smallest and largest threshold for documents inside an AIBOM, in bytes.
const THRESHOLDS: (i64, i64) = (1024, 1_048_576);

/// An error at one field.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {message}")]
pub struct FieldError {
    /// Path of the field.
    field: String,
    /// What is wrong with it, and what to do.
    message: String,
}

impl FieldError {
    fn new(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            field: field.into(),
            message: message.into(),
        }
    }
}

/// Every error of a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invalid(Vec<FieldError>);

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let texts: Vec<_> = self.0.iter().map(FieldError::to_string).collect();
        f.write_str(&texts.join("; "))
    }
}

/// The settings that a configuration asks for, on top of these defaults.
///
/// # Errors
///
/// [`Invalid`] with all errors, in the order selector, patterns, kinds, sinks.
pub fn load(spec: &AibomControllerConfigSpec, defaults: &Settings) -> Result<Settings, Invalid> {
    let mut errors = Vec::new();
    let mut settings = defaults.clone();
    if let Some(discovery) = &spec.discovery {
        if let Some(wanted) = &discovery.namespace_selector {
            match selector(wanted) {
                Ok(selector) => settings.selector = selector,
                Err(error) => errors.push(error),
            }
        }
        let runtimes = runtimes(discovery, &mut errors);
        settings.detector = settings.detector.with_runtimes(runtimes);
        match settings.kinds.named(&discovery.workload_kinds) {
            Ok(kinds) => settings.kinds = kinds,
            Err(wrong) => errors.extend(wrong.into_iter().map(|(index, error)| {
                let field = format!("spec.discovery.workloadKinds[{index}]");
                FieldError::new(field, error.to_string())
            })),
        }
    }
    if let Some(generation) = &spec.bom_generation {
        settings.limits = limits(
            generation.inline_threshold_bytes,
            generation.stale_threshold_reconciles,
        );
    }
    let before = errors.len();
    let mut names = BTreeSet::new();
    for sink in &spec.sinks {
        errors.extend(shape(sink));
        if !names.insert(sink.name.as_str()) {
            let field = format!("spec.sinks[name={}].name", sink.name);
            let message = format!("Sink name {:?} is not unique.", sink.name);
            errors.push(FieldError::new(field, message));
        }
    }
    if errors.len() == before {
        errors.extend(spec.sinks.iter().map(unavailable));
    }
    if errors.is_empty() {
        Ok(settings)
    } else {
        Err(Invalid(errors))
    }
}

fn limits(inline_threshold_bytes: i64, stale_threshold: i32) -> Limits {
    let (least, most) = THRESHOLDS;
    let inline_threshold_bytes = if inline_threshold_bytes <= 0 {
        Limits::default().inline_threshold_bytes
    } else {
        inline_threshold_bytes.clamp(least, most)
    };
    Limits {
        inline_threshold_bytes,
        stale_threshold,
    }
}

fn selector(wanted: &LabelSelector) -> Result<Selector, FieldError> {
    let wrong = |reason: String| {
        FieldError::new(
            "spec.discovery.namespaceSelector",
            format!(
                "namespaceSelector cannot be materialized: {reason}. Common causes: invalid \
                 label-key syntax, malformed matchExpressions operator."
            ),
        )
    };
    for requirement in &wanted.match_expressions {
        let operator = requirement.operator.as_str();
        let takes_values = match operator {
            "In" | "NotIn" => true,
            "Exists" | "DoesNotExist" => false,
            _ => {
                let reason = format!("{operator:?} is not a valid label selector operator");
                return Err(wrong(reason));
            }
        };
        if takes_values == requirement.values.is_empty() {
            let reason = if takes_values {
                format!(
                    "for 'in', 'notin' operators, values set can't be empty (key {:?})",
                    requirement.key
                )
            } else {
                format!(
                    "values set must be empty for exists and does not exist (key {:?})",
                    requirement.key
                )
            };
            return Err(wrong(reason));
        }
    }
    let expressions =
        wanted
            .match_expressions
            .iter()
            .map(|requirement| k8s::LabelSelectorRequirement {
                key: requirement.key.clone(),
                operator: requirement.operator.clone(),
                values: Some(requirement.values.clone()),
            });
    let wanted = k8s::LabelSelector {
        match_expressions: Some(expressions.collect()),
        match_labels: Some(wanted.match_labels.clone()),
    };
    Selector::try_from(wanted).map_err(|error| wrong(error.to_string()))
}

fn runtimes(discovery: &Discovery, errors: &mut Vec<FieldError>) -> Vec<Matcher> {
    let mut runtimes = Vec::new();
    let patterns = &discovery.inference_runtime_image_patterns;
    for (index, wanted) in patterns.iter().enumerate() {
        match Matcher::new(&wanted.runtime, &wanted.pattern) {
            Ok(matcher) => runtimes.push(matcher),
            Err(error) => errors.push(FieldError::new(
                format!("spec.discovery.inferenceRuntimeImagePatterns[{index}].pattern"),
                format!(
                    "Runtime {:?} pattern {:?} failed to compile as a Go regexp: {error}. Anchor \
                     the pattern (e.g., ^vllm/.*) and escape regex metacharacters in literal path \
                     segments.",
                    wanted.runtime, wanted.pattern
                ),
            )),
        }
    }
    runtimes
}

/// The key of a sink's body.
fn body(sink: &Sink) -> Option<&'static str> {
    match sink.type_.as_str() {
        "GCS" => Some("gcs"),
        "Webhook" => Some("webhook"),
        _ => None,
    }
}

/// What is wrong with a sink as it is written.
fn shape(sink: &Sink) -> Option<FieldError> {
    let Sink { name, type_, .. } = sink;
    let at = format!("spec.sinks[name={name}]");
    let Some(own) = body(sink) else {
        let message = format!("Sink {name:?} has an unknown type {type_:?}.");
        return Some(FieldError::new(format!("{at}.type"), message));
    };
    let is_set = |key| match key {
        "gcs" => sink.gcs.is_some(),
        _ => sink.webhook.is_some(),
    };
    if !is_set(own) {
        let message = format!(
            "Sink {name:?} has Type={type_} but {at}.{own} is nil. Set the {own} subfield with the \
             sink configuration, or change Type if a different sink was intended."
        );
        return Some(FieldError::new(format!("{at}.{own}"), message));
    }
    let foreign = if own == "gcs" { "webhook" } else { "gcs" };
    if is_set(foreign) {
        let message = format!(
            "Sink {name:?} has Type={type_} but {at}.{foreign} is also populated. Exactly one of \
             {{gcs, webhook}} may be set per sink; the populated subfield must match Type."
        );
        return Some(FieldError::new(format!("{at}.{foreign}"), message));
    }
    let auth = sink.webhook.as_ref().and_then(|hook| hook.auth.as_ref());
    if auth.is_some_and(|auth| auth.bearer_token.is_some() && auth.mtls.is_some()) {
        let message = format!(
            "Sink {name:?} (Type={type_}) has both auth.bearerToken and auth.mtls set. Exactly one \
             auth mechanism per sink; remove one of them."
        );
        return Some(FieldError::new(format!("{at}.webhook.auth"), message));
    }
    None
}

/// This controller delivers to no sink, and says so rather than to lose documents.
fn unavailable(sink: &Sink) -> FieldError {
    let Sink { name, type_, .. } = sink;
    let own = body(sink).unwrap_or_default();
    let at = format!("spec.sinks[name={name}].{own}");
    let message = format!(
        "Sink {name:?} (Type={type_}) failed to construct: {own} sink: not available in the embedded \
         controller. Remove {at}."
    );
    FieldError::new(at, message)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::controller::profile::V1_3_0;
    use crate::controller::workload::StringMap;

    fn loaded(spec: Value) -> Result<Settings, String> {
        let spec = serde_json::from_value(spec).expect("a spec");
        let defaults = Settings::defaults(&V1_3_0).expect("settings");
        load(&spec, &defaults).map_err(|invalid| invalid.to_string())
    }

    #[test]
    fn every_error_is_told_in_order_and_in_the_real_words() {
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

    #[test]
    fn a_good_spec_replaces_what_it_names() {
        let settings = loaded(json!({
            "discovery": {"namespaceSelector": {}},
            "bomGeneration": {"inlineThresholdBytes": 4096},
        }))
        .expect("it is valid");
        assert!(settings.selects(None));
        assert_eq!(settings.limits.inline_threshold_bytes, 4096);
        assert_eq!(settings.limits.stale_threshold, 3);

        let settings = loaded(json!({"discovery": {"namespaceSelector": {
            "matchLabels": {"a": "b"},
            "matchExpressions": [{"key": "c", "operator": "NotIn", "values": ["d"]}],
        }}}));
        let settings = settings.expect("it is valid");
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
}
