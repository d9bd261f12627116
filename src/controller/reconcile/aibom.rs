//! How AIBOMs are written: with PUT, from the cached resource version, never with PATCH.

use std::sync::Arc;

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::api::{DeleteParams, PostParams};
use kube::core::{ApiResource, Request};
use kube::{Api, Client, Resource as _};

use crate::controller::api::aibom::{AibomSpec, WorkloadReference};
use crate::controller::api::meta::group;
use crate::controller::api::object::{Versioned, resource};
use crate::controller::api::release::{ApiKind, ApiVersion};
use crate::controller::detect::pods::controller_of;
use crate::controller::events::{Happening, Recorder, Severity};
use crate::controller::runtime::metrics::aibom::AibomMetrics;
use crate::controller::runtime::store::ObjectKey;
use crate::controller::runtime::worker::Outcome;
use crate::controller::status::Status;
use crate::controller::workload::Workload;
use crate::controller::{document, name};

/// An AIBOM with the status that this controller writes, in the API version that it uses.
pub type Aibom = Versioned<AibomSpec, Status>;

/// Who says what happened to an AIBOM.
const COMPONENT: &str = "k8s-aibom";

/// An AIBOM could not be written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// Another object owns it as controller.
    #[error("AIBOM {aibom} is already owned by {kind} {owner}")]
    Owned {
        /// The AIBOM.
        aibom: ObjectKey,
        /// The owner's kind.
        kind: String,
        /// The owner's name.
        owner: String,
    },
    /// The server refused, or could not be reached.
    #[error("cannot {verb} AIBOM {aibom}")]
    Request {
        /// What was tried.
        verb: &'static str,
        /// The AIBOM.
        aibom: ObjectKey,
        /// Why not.
        source: Box<kube::Error>,
    },
}

impl WriteError {
    /// The one thing to do about it, if there is one.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Owned { aibom, .. } => Some(format!("delete AIBOM {aibom}, or its owner")),
            Self::Request { source, .. } => match &**source {
                kube::Error::Api(status) if status.is_forbidden() => {
                    Some("check the rules of the controller's ClusterRole".to_owned())
                }
                _ => None,
            },
        }
    }
}

/// Writes AIBOMs; clones are handles to the same client.
#[derive(Clone)]
pub struct Writer {
    client: Client,
    resource: ApiResource,
    recorder: Recorder,
    metrics: Arc<AibomMetrics>,
}

impl Writer {
    /// A writer in this API version.
    #[must_use]
    pub fn new(
        client: Client,
        version: ApiVersion,
        recorder: Recorder,
        metrics: Arc<AibomMetrics>,
    ) -> Self {
        Self {
            client,
            resource: resource(ApiKind::Aibom, version),
            recorder,
            metrics,
        }
    }

    fn api(&self, namespace: &str) -> Api<Aibom> {
        Api::namespaced_with(self.client.clone(), namespace, &self.resource)
    }

    /// Deletes an AIBOM; one that is gone already is deleted.
    ///
    /// # Errors
    ///
    /// [`WriteError::Request`] when the server refuses.
    pub async fn delete(&self, key: &ObjectKey) -> Result<(), WriteError> {
        let api = self.api(&key.namespace);
        match api.delete(&key.name, &DeleteParams::default()).await {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
            Err(error) => Err(failed("delete", key, error)),
        }
    }

    /// Makes the AIBOM of a workload, or corrects its spec and owner if they differ. The result
    /// is as the server holds it.
    ///
    /// # Errors
    ///
    /// [`WriteError`] when another object owns it, or when the server refuses.
    pub async fn settle(
        &self,
        key: &ObjectKey,
        workload: &Workload<'_>,
        cached: Option<&Aibom>,
    ) -> Result<Aibom, WriteError> {
        let api = self.api(&key.namespace);
        let parameters = PostParams::default();
        let Some(cached) = cached else {
            let new = self.new_aibom(key, workload);
            let created = api.create(&parameters, &new).await;
            return created.map_err(|error| failed("create", key, error));
        };
        let mut wanted = cached.clone();
        wanted.spec = spec(workload);
        own(&mut wanted.metadata, name::owner(workload), key)?;
        if wanted == *cached {
            return Ok(wanted);
        }
        let replaced = api.replace(&key.name, &parameters, &wanted).await;
        replaced.map_err(|error| failed("update", key, error))
    }

    fn new_aibom(&self, key: &ObjectKey, workload: &Workload<'_>) -> Aibom {
        Aibom {
            api_version: self.resource.api_version.clone(),
            kind: self.resource.kind.clone(),
            metadata: ObjectMeta {
                name: Some(key.name.clone()),
                namespace: Some(key.namespace.clone()),
                owner_references: Some(vec![name::owner(workload)]),
                ..ObjectMeta::default()
            },
            spec: spec(workload),
            status: Status::default(),
        }
    }

    /// Writes the status that the object holds. A conflict is tried again, quietly; any other
    /// failure is also told as an event and counted.
    ///
    /// # Errors
    ///
    /// [`WriteError::Request`] when the server refuses for another reason than a conflict.
    pub async fn put_status(&self, aibom: &Aibom, kind: &str) -> Result<Outcome, WriteError> {
        let key = ObjectKey::of(aibom);
        let error = match self.send_status(&key, aibom).await {
            Ok(()) => return Ok(Outcome::Done),
            Err(kube::Error::Api(status)) if status.is_conflict() => return Ok(Outcome::Requeue),
            Err(error) => error,
        };
        self.metrics
            .persist_failures
            .with_label_values(&[key.namespace.as_str(), kind])
            .inc();
        self.recorder.record(Happening {
            component: COMPONENT,
            regarding: reference(aibom),
            severity: Severity::Warning,
            reason: "AIBOMStatusPersistFailed",
            message: format!("failed to persist AIBOM status: {error}"),
        });
        Err(failed("update the status of", &key, error))
    }

    /// The answer is the object once more. It is not read as one: the watch brings it in any case, and
    /// reading it costs as much as everything else about the request.
    async fn send_status(&self, key: &ObjectKey, aibom: &Aibom) -> Result<(), kube::Error> {
        let url = Aibom::url_path(&self.resource, Some(&key.namespace));
        let body = serde_json::to_vec(aibom).map_err(kube::Error::SerdeError)?;
        let request = Request::new(url)
            .replace_subresource("status", &key.name, &PostParams::default(), body)
            .map_err(kube::Error::BuildRequest)?;
        self.client.request_text(request).await.map(drop)
    }
}

fn failed(verb: &'static str, aibom: &ObjectKey, error: kube::Error) -> WriteError {
    WriteError::Request {
        verb,
        aibom: aibom.clone(),
        source: Box::new(error),
    }
}

fn spec(workload: &Workload<'_>) -> AibomSpec {
    AibomSpec {
        workload_ref: WorkloadReference {
            api_version: workload.kind.api_version(),
            kind: workload.kind.kind.to_owned(),
            name: workload.name.to_owned(),
        },
        bom_format: document::FORMAT.to_owned(),
        bom_spec_version: document::SPEC_VERSION.to_owned(),
    }
}

/// Makes this the controller of the object, unless another object is.
fn own(
    metadata: &mut ObjectMeta,
    owner: OwnerReference,
    aibom: &ObjectKey,
) -> Result<(), WriteError> {
    // A workload that was made anew under its old name is the same owner with another UID.
    let is_same = |known: &OwnerReference| {
        group(&known.api_version) == group(&owner.api_version)
            && known.kind == owner.kind
            && known.name == owner.name
    };
    if let Some(other) = controller_of(metadata).filter(|known| !is_same(known)) {
        return Err(WriteError::Owned {
            aibom: aibom.clone(),
            kind: other.kind.clone(),
            owner: other.name.clone(),
        });
    }
    let owners = metadata.owner_references.get_or_insert_default();
    match owners.iter_mut().find(|known| is_same(known)) {
        Some(known) => *known = owner,
        None => owners.push(owner),
    }
    Ok(())
}

fn reference(aibom: &Aibom) -> ObjectReference {
    ObjectReference {
        api_version: Some(aibom.api_version.clone()),
        kind: Some(aibom.kind.clone()),
        namespace: aibom.metadata.namespace.clone(),
        name: aibom.metadata.name.clone(),
        uid: aibom.metadata.uid.clone(),
        resource_version: aibom.metadata.resource_version.clone(),
        field_path: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(name: &str, uid: &str) -> OwnerReference {
        OwnerReference {
            api_version: "apps/v1".to_owned(),
            kind: "Deployment".to_owned(),
            name: name.to_owned(),
            uid: uid.to_owned(),
            controller: Some(true),
            block_owner_deletion: Some(true),
        }
    }

    #[test]
    fn an_aibom_has_one_controller() {
        let key = ObjectKey::new("ns", "a");
        let mut metadata = ObjectMeta::default();
        own(&mut metadata, owner("web", "1"), &key).expect("owned");
        own(&mut metadata, owner("web", "2"), &key).expect("owned anew");
        assert_eq!(metadata.owner_references, Some(vec![owner("web", "2")]));
        let error = own(&mut metadata, owner("other", "3"), &key).expect_err("an error");
        assert_eq!(
            error.to_string(),
            "AIBOM ns/a is already owned by Deployment web"
        );
    }
}
