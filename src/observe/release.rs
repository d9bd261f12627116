//! The release, as Helm's own records tell it.

use super::error::ObserveError;
use super::target::Target;
use crate::cluster::release_secrets;
use crate::helm::records;
use crate::record::ReleaseState;

/// The release with its history; [`None`] when there is none.
pub(super) async fn release(target: &Target) -> Result<Option<ReleaseState>, ObserveError> {
    let (name, namespace) = (&target.release, &target.namespace);
    let secrets = release_secrets(&target.client, name, namespace).await;
    let secrets = secrets.map_err(|fault| {
        let what = format!("the records of the release {name}");
        ObserveError::api(what, fault)
    })?;
    records::release(name, namespace, &secrets).map_err(|source| ObserveError::Release {
        name: name.clone(),
        namespace: namespace.clone(),
        source: Box::new(source),
    })
}
