//! The programs that the local plane is made of or used with, and the families that they are released in.

use std::fmt;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// One program that the tool obtains for itself.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, ValueEnum,
)]
#[serde(rename_all = "kebab-case")]
#[value(rename_all = "kebab-case")]
pub enum Tool {
    /// The key-value store behind the API server.
    Etcd,
    /// The Kubernetes API server.
    KubeApiserver,
    /// Runs the built-in controllers (Deployments, garbage collection, namespaces, tokens).
    KubeControllerManager,
    /// Binds pods to nodes.
    KubeScheduler,
    /// Helm, major version 3.
    Helm3,
    /// Helm, major version 4.
    Helm4,
    /// The command-line client of Kubernetes. Nothing here needs it; it is obtained for whoever asks.
    Kubectl,
}

/// Programs that are versioned and released together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Family {
    /// kube-apiserver, kube-controller-manager, kube-scheduler and kubectl.
    Kubernetes,
    /// etcd.
    Etcd,
    /// Helm 3.
    Helm3,
    /// Helm 4.
    Helm4,
}

impl Tool {
    /// Every program, in the order in which they are obtained.
    pub const ALL: [Self; 7] = [
        Self::Etcd,
        Self::KubeApiserver,
        Self::KubeControllerManager,
        Self::KubeScheduler,
        Self::Helm3,
        Self::Helm4,
        Self::Kubectl,
    ];

    /// The programs that are obtained where none is named.
    pub const USUAL: [Self; 6] = [
        Self::Etcd,
        Self::KubeApiserver,
        Self::KubeControllerManager,
        Self::KubeScheduler,
        Self::Helm3,
        Self::Helm4,
    ];

    /// The programs without which no plane starts, in start order.
    pub const PLANE: [Self; 4] = [
        Self::Etcd,
        Self::KubeApiserver,
        Self::KubeControllerManager,
        Self::KubeScheduler,
    ];

    /// The file name under which the program is searched for and kept.
    ///
    /// Both Helm majors are called `helm`; they never share a folder.
    #[must_use]
    pub fn file_name(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::KubeApiserver => "kube-apiserver",
            Self::KubeControllerManager => "kube-controller-manager",
            Self::KubeScheduler => "kube-scheduler",
            Self::Helm3 | Self::Helm4 => "helm",
            Self::Kubectl => "kubectl",
        }
    }

    /// The family that the program is released in.
    #[must_use]
    pub fn family(self) -> Family {
        match self {
            Self::Etcd => Family::Etcd,
            Self::KubeApiserver
            | Self::KubeControllerManager
            | Self::KubeScheduler
            | Self::Kubectl => Family::Kubernetes,
            Self::Helm3 => Family::Helm3,
            Self::Helm4 => Family::Helm4,
        }
    }
}

impl fmt::Display for Tool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Helm3 => "helm3",
            Self::Helm4 => "helm4",
            other => other.file_name(),
        })
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Kubernetes => "kubernetes",
            Self::Etcd => "etcd",
            Self::Helm3 => "helm3",
            Self::Helm4 => "helm4",
        })
    }
}
