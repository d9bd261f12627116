//! The sinks of a configuration: whether they are written as they must be, and then their making,
//! for which Secrets are read.

use std::collections::BTreeSet;

use super::load::FieldError;
use crate::controller::api::config::{Sink, WebhookAuth, WebhookSink};
use crate::controller::api::meta::SecretKeyReference;
use crate::controller::profile::{ClearTextCredentials, Sinks};
use crate::controller::sink::guard::Guard;
use crate::controller::sink::secret::{SecretValue, Secrets};
use crate::controller::sink::webhook::{Credentials, Webhook};

/// Makes sinks.
#[derive(Clone)]
pub struct SinkMaker {
    /// Where credentials are.
    pub secrets: Secrets,
    /// Whether documents may stay inside the network.
    pub guard: Guard,
    /// How sinks deliver.
    pub rules: Sinks,
}

/// The key of a sink's body.
fn body(sink: &Sink) -> Option<&'static str> {
    match sink.type_.as_str() {
        "GCS" => Some("gcs"),
        "Webhook" => Some("webhook"),
        _ => None,
    }
}

/// What is wrong with the sinks as they are written.
pub(super) fn shapes(sinks: &[Sink], clear_text: ClearTextCredentials) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut names = BTreeSet::new();
    for sink in sinks {
        errors.extend(shape(sink, clear_text));
        if !names.insert(sink.name.as_str()) {
            let field = format!("spec.sinks[name={}].name", sink.name);
            let message = format!("Sink name {:?} is not unique.", sink.name);
            errors.push(FieldError::new(field, message));
        }
    }
    errors
}

fn shape(sink: &Sink, clear_text: ClearTextCredentials) -> Option<FieldError> {
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
    let hook = sink.webhook.as_ref()?;
    let auth = hook.auth.as_ref()?;
    if auth.bearer_token.is_some() && auth.mtls.is_some() {
        let message = format!(
            "Sink {name:?} (Type={type_}) has both auth.bearerToken and auth.mtls set. Exactly one \
             auth mechanism per sink; remove one of them."
        );
        return Some(FieldError::new(format!("{at}.webhook.auth"), message));
    }
    let has_any = auth.bearer_token.is_some() || auth.mtls.is_some();
    if has_any && clear_text == ClearTextCredentials::Refused && is_clear_text(&hook.endpoint) {
        let message = format!(
            "Sink {name:?} (Type={type_}) has an http:// endpoint and webhook.auth set, so that \
             credentials would be sent in clear text. Use an https:// endpoint, or remove \
             webhook.auth."
        );
        return Some(FieldError::new(format!("{at}.webhook.endpoint"), message));
    }
    None
}

fn is_clear_text(endpoint: &str) -> bool {
    let endpoint = endpoint.trim().to_ascii_lowercase();
    endpoint.starts_with("http://")
}

impl SinkMaker {
    /// Makes every sink whose credentials can be had.
    pub(super) async fn make(&self, sinks: &[Sink]) -> Result<Vec<Webhook>, Vec<FieldError>> {
        let (mut made, mut errors) = (Vec::new(), Vec::new());
        for sink in sinks {
            match self.make_one(sink).await {
                Ok(sink) => made.push(sink),
                Err(wrong) => errors.extend(wrong),
            }
        }
        if errors.is_empty() {
            Ok(made)
        } else {
            Err(errors)
        }
    }

    async fn make_one(&self, sink: &Sink) -> Result<Webhook, Vec<FieldError>> {
        let Some(hook) = &sink.webhook else {
            return Err(self.no_bucket(sink).await);
        };
        let credentials = self.credentials(sink, hook).await?;
        let made = Webhook::new(&hook.endpoint, credentials, self.guard, self.rules);
        made.map_err(|error| {
            let at = format!("spec.sinks[name={}].webhook", sink.name);
            let message = format!(
                "Sink {:?} (Type={}) failed to construct: {error}. Verify {at}.endpoint and any \
                 referenced credentials.",
                sink.name, sink.type_
            );
            vec![FieldError::new(at, message)]
        })
    }

    /// This controller delivers to no bucket, and says so rather than to lose documents.
    async fn no_bucket(&self, sink: &Sink) -> Vec<FieldError> {
        let secret = sink
            .gcs
            .as_ref()
            .and_then(|gcs| gcs.credentials_secret_ref.as_ref());
        if let Some(secret) = secret {
            let value = self.value(sink, secret, "gcs.credentialsSecretRef").await;
            if let Err(error) = value {
                return vec![error];
            }
        }
        let at = format!("spec.sinks[name={}].gcs", sink.name);
        let message = format!(
            "Sink {:?} (Type={}) failed to construct: gcs sink: not available in the embedded \
             controller. Remove {at}.",
            sink.name, sink.type_
        );
        vec![FieldError::new(at, message)]
    }

    async fn credentials(
        &self,
        sink: &Sink,
        hook: &WebhookSink,
    ) -> Result<Credentials, Vec<FieldError>> {
        let Some(WebhookAuth { bearer_token, mtls }) = &hook.auth else {
            return Ok(Credentials::None);
        };
        if let Some(bearer) = bearer_token {
            let path = "webhook.auth.bearerToken.secretRef";
            let token = self.value(sink, &bearer.secret_ref, path).await;
            return token.map(Credentials::Bearer).map_err(|error| vec![error]);
        }
        let Some(mtls) = mtls else {
            return Ok(Credentials::None);
        };
        let path = "webhook.auth.mtls.clientCertSecretRef";
        let certificate = self.value(sink, &mtls.client_cert_secret_ref, path).await;
        let path = "webhook.auth.mtls.clientKeySecretRef";
        let key = self.value(sink, &mtls.client_key_secret_ref, path).await;
        let authorities = match &mtls.ca_secret_ref {
            Some(reference) => {
                let path = "webhook.auth.mtls.caSecretRef";
                self.value(sink, reference, path).await.map(Some)
            }
            None => Ok(None),
        };
        match (certificate, key, authorities) {
            (Ok(certificate), Ok(key), Ok(authorities)) => Ok(Credentials::Mutual {
                certificate,
                key,
                authorities,
            }),
            (certificate, key, authorities) => {
                let errors = [certificate.err(), key.err(), authorities.err()];
                Err(errors.into_iter().flatten().collect())
            }
        }
    }

    /// What a reference at this place in the sink refers to.
    async fn value(
        &self,
        sink: &Sink,
        reference: &SecretKeyReference,
        path: &str,
    ) -> Result<SecretValue, FieldError> {
        let value = self.secrets.value(reference).await;
        value.map_err(|error| {
            let Sink { name, type_, .. } = sink;
            let part = if error.is_about_the_key() { ".key" } else { "" };
            let field = format!("spec.sinks[name={name}].{path}{part}");
            let message = error.describe(reference, path);
            FieldError::new(
                field,
                format!("Sink {name:?} (Type={type_}) {path}: {message}"),
            )
        })
    }
}
