//! The definitions of the charts on a real API server.

#![allow(dead_code, reason = "each test binary uses a part of this")]

use std::fs;
use std::time::Duration;

use aibom_qual::cluster::crd::established;
use aibom_qual::cluster::wait::{Deadline, Look, wait_until};
use aibom_qual::controller::api::object::resource;
use aibom_qual::controller::api::release::{ApiKind, ApiVersion};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::core::{ApiResource, DynamicResourceScope};
use kube::{Api, Client};
use serde_json::Value;

use crate::helm::chart;

pub(crate) fn soon() -> Deadline<'static> {
    Deadline::within(Duration::from_secs(60))
}

pub(crate) fn definitions(client: &Client) -> Api<CustomResourceDefinition> {
    Api::all(client.clone())
}

pub(crate) fn name(kind: ApiKind) -> String {
    format!("{}.aibom.k8saibom.dev", kind.plural())
}

/// The definition as a chart has it.
pub(crate) fn documented(version: &str, kind: ApiKind) -> Value {
    let file = format!("aibom.k8saibom.dev_{}.yaml", kind.plural());
    let text = fs::read_to_string(chart(version).join("crds").join(file)).expect("the file");
    serde_yaml::from_str(&text).expect("YAML")
}

/// Applies both definitions of a chart on the server's side, as its instructions say.
pub(crate) async fn apply(client: &Client, version: &str) -> Result<(), kube::Error> {
    for kind in ApiKind::ALL {
        let params = PatchParams::apply("k8s-aibom-crds").force();
        let patch = Patch::Apply(documented(version, kind));
        definitions(client)
            .patch(&name(kind), &params, &patch)
            .await?;
    }
    for kind in ApiKind::ALL {
        let served = established(client, &name(kind), soon()).await;
        served.unwrap_or_else(|error| panic!("{version} {}: {error:?}", name(kind)));
    }
    Ok(())
}

/// Deletes both definitions and waits until they are gone.
pub(crate) async fn clear(client: &Client) {
    let api = definitions(client);
    for kind in ApiKind::ALL {
        // What is not there needs no deletion.
        let _ = api.delete(&name(kind), &DeleteParams::default()).await;
        let what = format!("{} to vanish", name(kind));
        wait_until(what, soon(), async || {
            Ok(match api.get_opt(&name(kind)).await? {
                None => Look::Done(()),
                Some(_) => Look::NotYet("it is there".to_owned()),
            })
        })
        .await
        .expect("it vanishes");
    }
}

pub(crate) async fn stored(client: &Client, kind: ApiKind) -> Vec<String> {
    let crd = definitions(client).get(&name(kind)).await;
    let status = crd.expect("the definition").status;
    status.and_then(|s| s.stored_versions).unwrap_or_default()
}

pub(crate) fn objects<K>(client: &Client, kind: ApiKind, version: ApiVersion) -> Api<K>
where
    K: kube::Resource<DynamicType = ApiResource, Scope = DynamicResourceScope>,
{
    match kind {
        ApiKind::Aibom => Api::namespaced_with(client.clone(), "default", &resource(kind, version)),
        ApiKind::ControllerConfig => Api::all_with(client.clone(), &resource(kind, version)),
    }
}
