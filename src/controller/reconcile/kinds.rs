//! The kinds that every cluster serves, as the reconciler reads them.

use std::fmt::Debug;

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, StatefulSet};
use k8s_openapi::api::batch::v1::{CronJob, Job};
use kube::Resource;
use serde::de::DeserializeOwned;

use crate::controller::profile::kind::{self, Kind};
use crate::controller::workload::Workload;

/// A kind of workload.
pub trait Tracked:
    Resource<DynamicType = (), Scope = NamespaceResourceScope>
    + Clone
    + Debug
    + DeserializeOwned
    + Send
    + Sync
    + 'static
{
    /// The kind.
    const KIND: &'static Kind;

    /// The object as a workload.
    fn workload(&self) -> Workload<'_>;
}

macro_rules! tracked {
    ($($object:ty => $kind:path),* $(,)?) => {
        $(impl Tracked for $object {
            const KIND: &'static Kind = &$kind;

            fn workload(&self) -> Workload<'_> {
                self.into()
            }
        })*
    };
}

tracked! {
    Deployment => kind::DEPLOYMENT,
    StatefulSet => kind::STATEFUL_SET,
    DaemonSet => kind::DAEMON_SET,
    Job => kind::JOB,
    CronJob => kind::CRON_JOB,
}
