//! From the spec of a configuration to settings. Any error makes the whole of it invalid, and all
//! errors are told.

use std::fmt;

use kube::core::Selector;

use super::selector;
use super::sinks::{SinkMaker, shapes};
use crate::controller::api::config::{AibomControllerConfigSpec, Discovery};
use crate::controller::api::meta::LabelSelector;
use crate::controller::detect::image::Matcher;
use crate::controller::profile::ConfigRules;
use crate::controller::settings::Settings;
use crate::controller::status::Limits;

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
    pub(super) fn new(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            field: field.into(),
            message: message.into(),
        }
    }
}

/// Every error of a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invalid(Vec<FieldError>);

impl From<FieldError> for Invalid {
    fn from(error: FieldError) -> Self {
        Self(vec![error])
    }
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let texts: Vec<_> = self.0.iter().map(FieldError::to_string).collect();
        f.write_str(&texts.join("; "))
    }
}

/// Reads specs.
#[derive(Clone)]
pub struct Loader {
    /// What a spec does not say.
    pub defaults: Settings,
    /// How the release reads it.
    pub rules: ConfigRules,
    /// Makes its sinks.
    pub sinks: SinkMaker,
}

impl Loader {
    /// The settings that a spec asks for.
    ///
    /// # Errors
    ///
    /// [`Invalid`] with all errors, in the order selector, patterns, kinds, shapes of sinks,
    /// Secrets and making of sinks. With a wrong shape no sink is made, and no Secret read.
    pub async fn load(&self, spec: &AibomControllerConfigSpec) -> Result<Settings, Invalid> {
        let mut errors = Vec::new();
        let mut settings = self.defaults.clone();
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
            settings.limits = Limits {
                inline_threshold_bytes: generation.inline_threshold_bytes,
                stale_threshold: generation.stale_threshold_reconciles,
            };
        }
        let shapes = shapes(&spec.sinks, self.rules.clear_text_credentials);
        if shapes.is_empty() {
            match self.sinks.make(&spec.sinks).await {
                Ok(sinks) => settings.sinks = sinks.into_iter().collect(),
                Err(wrong) => errors.extend(wrong),
            }
        } else {
            errors.extend(shapes);
        }
        if errors.is_empty() {
            Ok(settings)
        } else {
            Err(Invalid(errors))
        }
    }
}

fn selector(wanted: &LabelSelector) -> Result<Selector, FieldError> {
    selector::selector(wanted).map_err(|reason| {
        FieldError::new(
            "spec.discovery.namespaceSelector",
            format!(
                "namespaceSelector cannot be materialized: {reason}. Common causes: invalid \
                 label-key syntax, malformed matchExpressions operator."
            ),
        )
    })
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
