//! Whether the server's schema of the configuration is older than this controller.
//!
//! A server drops the fields that its schema does not know, so that a configuration can lose a feature
//! without an error. Releases that notice compare the keys of `spec` in the published schema with the
//! ones they know (`controller.md` F.4). What cannot be read is no skew: nothing is known of it.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use http::header::LOCATION;
use http::{Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use kube::client::Body;
use kube::core::ApiResource;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use super::degraded::Cause;
use crate::controller::events::{Happening, Severity};
use crate::error_chain::chain;

/// Where the server lists its documents.
const INDEX: &str = "/openapi/v3";
/// How long the server may take for both documents. A reconcile has more to do than this.
const DEADLINE: Duration = Duration::from_secs(10);
/// How often the server may name another place for one document.
const HOPS: usize = 3;

/// Fields of `spec` that the server does not know; at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skew(Vec<&'static str>);

impl Skew {
    /// The reason of the condition, and of the event.
    pub const REASON: &'static str = "SchemaPredatesController";

    /// What degrades the controller.
    #[must_use]
    pub fn cause(&self) -> Cause {
        Cause {
            reason: Self::REASON,
            message: self.message(),
        }
    }

    /// The message of both. The real one's words are not known, only what they tell.
    #[must_use]
    pub fn message(&self) -> String {
        format!(
            "The served schema of AIBOMControllerConfig is older than the controller and lacks spec \
             fields [{}]: stored values of these fields are pruned and their features are off. Apply \
             the CustomResourceDefinitions of this release with kubectl apply --server-side, then \
             restart the controller.",
            self.0.join(" ")
        )
    }
}

/// What a look at the served schema found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Look {
    /// Nothing: it is not published, or could not be read.
    Unknown,
    /// Every field.
    Current,
    /// Less.
    Behind(Skew),
}

impl Look {
    /// The skew, if one is known.
    #[must_use]
    pub const fn skew(&self) -> Option<&Skew> {
        match self {
            Self::Behind(skew) => Some(skew),
            Self::Unknown | Self::Current => None,
        }
    }
}

/// The schema that the server publishes, and what was last told of it.
pub struct ServedSchema {
    client: Client,
    resource: ApiResource,
    wanted: &'static [&'static str],
    told: Mutex<Option<Skew>>,
}

/// Why the schema is not known.
#[derive(Debug, thiserror::Error)]
enum SchemaError {
    #[error("cannot read {path}")]
    Request {
        path: String,
        source: Box<kube::Error>,
    },
    #[error("`{path}` is not a path")]
    Path { path: String, source: http::Error },
    #[error("{path} answers with {status}")]
    Status {
        path: String,
        status: http::StatusCode,
    },
    #[error("{path} is not the expected JSON")]
    Json {
        path: String,
        source: serde_json::Error,
    },
    #[error("redirected {HOPS} times, at last to {path}")]
    Redirects { path: String },
    #[error("no answer within {} s", DEADLINE.as_secs())]
    Deadline,
}

/// The part of the index that is looked at.
#[derive(Deserialize)]
struct Index {
    paths: BTreeMap<String, Document>,
}

#[derive(Deserialize)]
struct Document {
    #[serde(rename = "serverRelativeURL")]
    url: String,
}

/// The part of a group version's document that is looked at.
#[derive(Deserialize)]
struct GroupVersion {
    #[serde(default)]
    components: Components,
}

#[derive(Default, Deserialize)]
struct Components {
    #[serde(default)]
    schemas: BTreeMap<String, Schema>,
}

#[derive(Default, Deserialize)]
struct Schema {
    #[serde(default)]
    properties: BTreeMap<String, Schema>,
}

impl ServedSchema {
    /// The schema of this kind, which has to hold these keys of `spec`.
    #[must_use]
    pub fn new(client: Client, resource: ApiResource, wanted: &'static [&'static str]) -> Self {
        Self {
            client,
            resource,
            wanted,
            told: Mutex::default(),
        }
    }

    /// Reads it.
    pub async fn look(&self) -> Look {
        let read = timeout(DEADLINE, self.lacking()).await;
        match read.unwrap_or(Err(SchemaError::Deadline)) {
            Ok(None) => Look::Unknown,
            Ok(Some(lacking)) if lacking.is_empty() => Look::Current,
            Ok(Some(lacking)) => Look::Behind(Skew(lacking)),
            Err(error) => {
                tracing::debug!(error = chain(&error), "the served schema is not known");
                Look::Unknown
            }
        }
    }

    /// The event that this look is worth: one when a skew is new or another one, one when it is gone.
    /// A look that found nothing is worth none.
    pub fn news(
        &self,
        look: &Look,
        component: &'static str,
        regarding: ObjectReference,
    ) -> Option<Happening> {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let (severity, reason, message) = match look {
            Look::Behind(skew) if told.as_ref() != Some(skew) => {
                (Severity::Warning, Skew::REASON, skew.message())
            }
            Look::Current if told.is_some() => (
                Severity::Normal,
                "SchemaCurrent",
                "The served schema of AIBOMControllerConfig has every field of the controller."
                    .to_owned(),
            ),
            Look::Behind(_) | Look::Current | Look::Unknown => return None,
        };
        *told = look.skew().cloned();
        tracing::info!(reason, "{message}");
        Some(Happening {
            component,
            regarding,
            severity,
            reason,
            message,
        })
    }

    /// The wanted keys that are not served; [`None`] if the schema is not published.
    async fn lacking(&self) -> Result<Option<Vec<&'static str>>, SchemaError> {
        let ApiResource {
            group,
            version,
            kind,
            ..
        } = &self.resource;
        let index: Index = self.get(INDEX).await?;
        let Some(document) = index.paths.get(&format!("apis/{group}/{version}")) else {
            return Ok(None);
        };
        let document: GroupVersion = self.get(&document.url).await?;
        let reversed: Vec<_> = group.rsplit('.').collect();
        let name = format!("{}.{version}.{kind}", reversed.join("."));
        let schema = document.components.schemas.get(&name);
        let Some(spec) = schema.and_then(|schema| schema.properties.get("spec")) else {
            return Ok(None);
        };
        let lacks = |key: &&str| !spec.properties.contains_key(*key);
        Ok(Some(self.wanted.iter().copied().filter(lacks).collect()))
    }

    /// Reads a document. The index is a little behind the documents: where it names one by a hash that
    /// is no longer right, the server redirects to the right one.
    async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, SchemaError> {
        let mut path = path.to_owned();
        for _ in 0..HOPS {
            let (parts, body) = self.ask(&path).await?.into_parts();
            let failed = |source| SchemaError::Request {
                path: path.clone(),
                source: Box::new(source),
            };
            let location = parts.headers.get(LOCATION).map(|value| value.to_str());
            match (parts.status, location) {
                (StatusCode::OK, _) => {
                    let body = body.collect().await.map_err(failed)?.to_bytes();
                    let read = serde_json::from_slice(&body);
                    return read.map_err(|source| SchemaError::Json { path, source });
                }
                (status, Some(Ok(location))) if status.is_redirection() => {
                    path = location.to_owned();
                }
                (status, _) => return Err(SchemaError::Status { path, status }),
            }
        }
        Err(SchemaError::Redirects { path })
    }

    async fn ask(&self, path: &str) -> Result<Response<Body>, SchemaError> {
        let request = Request::get(path).body(Body::empty());
        let request = request.map_err(|source| SchemaError::Path {
            path: path.to_owned(),
            source,
        })?;
        let answer = self.client.send(request).await;
        answer.map_err(|source| SchemaError::Request {
            path: path.to_owned(),
            source: Box::new(source),
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use tower::BoxError;

    use super::*;
    use crate::controller::api::object::resource;
    use crate::controller::api::release::{ApiKind, ApiVersion};

    const WANTED: &[&str] = &["discovery", "sinks", "verification"];

    fn index() -> Value {
        json!({"paths": {
            "apis/aibom.k8saibom.dev/v1alpha1": {"serverRelativeURL": "/elsewhere"},
            "apis/aibom.k8saibom.dev/v1beta1": {"serverRelativeURL": "/document?hash=1"},
        }})
    }

    fn document(kind: &str, spec: &[&str]) -> Value {
        let fields: serde_json::Map<_, _> = spec
            .iter()
            .map(|name| ((*name).to_owned(), json!({"type": "object"})))
            .collect();
        let name = format!("dev.k8saibom.aibom.v1beta1.{kind}");
        json!({"components": {"schemas": {
            name: {"type": "object", "properties": {"spec": {"properties": fields}}},
        }}})
    }

    /// A server of this index and this document.
    fn schema(index: Value, document: Value) -> ServedSchema {
        let service = tower::service_fn(move |request: Request<Body>| {
            let answer = Response::builder();
            let (answer, body) = match request.uri().to_string().as_str() {
                "/openapi/v3" => (answer, index.to_string()),
                "/document?hash=1" => {
                    let answer = answer.status(301).header(LOCATION, "/document?hash=2");
                    (answer, String::new())
                }
                "/document?hash=2" => (answer, document.to_string()),
                other => panic!("asked for {other}"),
            };
            async move { Ok::<_, BoxError>(answer.body(Body::from(body.into_bytes()))?) }
        });
        let resource = resource(ApiKind::ControllerConfig, ApiVersion::V1Beta1);
        ServedSchema::new(Client::new(service, "default"), resource, WANTED)
    }

    #[tokio::test]
    async fn keys_of_the_spec_are_compared() {
        let kind = "AIBOMControllerConfig";
        let served = |spec: &[&str]| schema(index(), document(kind, spec));
        let look = served(&["sinks"]).look().await;
        assert_eq!(look, Look::Behind(Skew(vec!["discovery", "verification"])));
        let message = look.skew().expect("a skew").message();
        assert!(message.contains(" [discovery verification]:"), "{message}");
        let more = served(&["verification", "sinks", "discovery", "new"]);
        assert_eq!(more.look().await, Look::Current);
    }

    #[tokio::test]
    async fn what_cannot_be_read_is_no_skew() {
        let full = || document("AIBOMControllerConfig", WANTED);
        for (index, document) in [
            (json!({"paths": {}}), full()),
            (json!("no index"), full()),
            (index(), json!([])),
            (index(), json!({})),
            (index(), document("Other", &[])),
            (
                index(),
                json!({"components": {"schemas": {
                    "dev.k8saibom.aibom.v1beta1.AIBOMControllerConfig": {"type": "object"},
                }}}),
            ),
        ] {
            let label = document.to_string();
            let look = schema(index, document).look().await;
            assert_eq!(look, Look::Unknown, "{label}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_server_does_not_hold_up_the_reconcile() {
        let service = tower::service_fn(|_: Request<Body>| {
            std::future::pending::<Result<Response<Body>, BoxError>>()
        });
        let resource = resource(ApiKind::ControllerConfig, ApiVersion::V1Beta1);
        let client = Client::new(service, "default");
        let look = ServedSchema::new(client, resource, WANTED).look().await;
        assert_eq!(look, Look::Unknown);
    }

    #[tokio::test]
    async fn each_set_is_told_once_and_its_end_too() {
        let schema = schema(json!({}), json!({}));
        let told = |look: &Look| {
            let happening = schema.news(look, "test", ObjectReference::default());
            happening.map(|happening| happening.reason)
        };
        let one = Look::Behind(Skew(vec!["sinks"]));
        let other = Look::Behind(Skew(vec!["sinks", "verification"]));
        assert_eq!(told(&Look::Current), None);
        assert_eq!(told(&one), Some(Skew::REASON));
        assert_eq!(told(&one), None);
        assert_eq!(told(&Look::Unknown), None);
        assert_eq!(told(&one), None);
        assert_eq!(told(&other), Some(Skew::REASON));
        assert_eq!(told(&Look::Current), Some("SchemaCurrent"));
        assert_eq!(told(&Look::Current), None);
        assert_eq!(told(&one), Some(Skew::REASON));
    }
}
