//! What a pod's containers need of the API server, read as the node.
//!
//! The Node authorizer lets a node read the ConfigMaps and Secrets, and request the tokens, of pods
//! that are bound to it. It learns of a binding by a watch of its own, which may be a moment behind
//! the node's: a refusal is therefore asked about again before it is believed.

use std::time::Duration;

use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::core::v1::{ConfigMap, Node, Secret, ServiceAccount};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::api::PostParams;
use kube::{Api, Client};
use tokio::time::{sleep, timeout};

use crate::cluster::fault::{Fault, diagnose};

/// How long one request may take.
const REQUEST_DEADLINE: Duration = Duration::from_secs(10);
/// What a token is requested of.
const TOKEN: &str = "token of the serviceaccount";
/// Pauses before a refused request is sent again.
const PAUSES: [Duration; 5] = [
    Duration::from_millis(50),
    Duration::from_millis(100),
    Duration::from_millis(200),
    Duration::from_millis(400),
    Duration::from_millis(800),
];

/// Why an object cannot be had.
#[derive(Debug, thiserror::Error)]
pub(super) enum ObjectError {
    /// There is none (the kubelet's words).
    #[error("{0}")]
    NotFound(String),
    /// The server refused, failed or did not answer.
    #[error("cannot read the {kind} \"{name}\": {fault}")]
    Fault {
        /// What it is, in the words of the API.
        kind: &'static str,
        /// Its name.
        name: String,
        /// Why.
        fault: Fault,
    },
}

impl ObjectError {
    pub(super) fn is_not_found(&self) -> bool {
        matches!(self, Self::NotFound(_))
    }
}

/// The objects of one namespace.
#[derive(Clone)]
pub(super) struct Objects {
    client: Client,
    namespace: String,
    node: String,
}

impl Objects {
    pub(super) fn new(client: Client, namespace: String, node: String) -> Self {
        Self {
            client,
            namespace,
            node,
        }
    }

    pub(super) fn namespace(&self) -> &str {
        &self.namespace
    }

    pub(super) async fn config_map(&self, name: &str) -> Result<ConfigMap, ObjectError> {
        let api = Api::<ConfigMap>::namespaced(self.client.clone(), &self.namespace);
        attempt("configmap", name, || api.get(name)).await
    }

    pub(super) async fn secret(&self, name: &str) -> Result<Secret, ObjectError> {
        let api = Api::<Secret>::namespaced(self.client.clone(), &self.namespace);
        attempt("secret", name, || api.get(name)).await
    }

    pub(super) async fn token(
        &self,
        service_account: &str,
        request: &TokenRequest,
    ) -> Result<TokenRequest, ObjectError> {
        let api = Api::<ServiceAccount>::namespaced(self.client.clone(), &self.namespace);
        let params = PostParams::default();
        attempt(TOKEN, service_account, || {
            api.create_token_request(service_account, &params, request)
        })
        .await
    }

    /// How much of a resource this node offers to pods, if it offers any.
    pub(super) async fn allocatable(
        &self,
        resource: &str,
    ) -> Result<Option<Quantity>, ObjectError> {
        let api = Api::<Node>::all(self.client.clone());
        let node = attempt("node", &self.node, || api.get(&self.node)).await?;
        let allocatable = node.status.and_then(|status| status.allocatable);
        Ok(allocatable.and_then(|mut resources| resources.remove(resource)))
    }
}

async fn attempt<T, F>(
    kind: &'static str,
    name: &str,
    request: impl Fn() -> F,
) -> Result<T, ObjectError>
where
    F: Future<Output = kube::Result<T>>,
{
    let mut pauses = PAUSES.into_iter();
    loop {
        let fault = match timeout(REQUEST_DEADLINE, request()).await {
            Ok(Ok(object)) => return Ok(object),
            Ok(Err(kube::Error::Api(status))) if status.is_not_found() => {
                return Err(ObjectError::NotFound(match kind {
                    // It may be the pod that is gone; the server knows.
                    TOKEN => status.message,
                    _ => format!("{kind} \"{name}\" not found"),
                }));
            }
            Ok(Err(error)) => diagnose(&error),
            Err(_) => Fault::Timeout,
        };
        match pauses.next() {
            Some(pause) if matches!(fault, Fault::Forbidden { .. }) => sleep(pause).await,
            _ => {
                return Err(ObjectError::Fault {
                    kind,
                    name: name.to_owned(),
                    fault,
                });
            }
        }
    }
}
