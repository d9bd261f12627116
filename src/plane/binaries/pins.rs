//! Which version of each program is wanted, and the Go modules that it can be built from.
//!
//! A family is pinned by a `go.mod` and a `go.sum` under `tools/`. They are embedded, so that an
//! installed binary needs no checkout. What is not in the table is never built.

use semver::Version;

use super::sha256::Sha256;
use crate::plane::tool::{Family, Tool};

/// The Kubernetes version of a plane for which none was asked.
pub const DEFAULT_KUBERNETES: Version = Version::new(1, 36, 3);
/// The oldest Kubernetes release of which a plane can be made, whatever its patch. It is the lowest
/// version of the API types used here; before 1.28 the controllers also had other names. There is no
/// newest one.
pub const OLDEST_KUBERNETES: Version = Version::new(1, 33, 0);
/// The etcd version under every plane.
pub const ETCD: Version = Version::new(3, 6, 15);
/// The version that stands for Helm 3.
pub const HELM3: Version = Version::new(3, 22, 0);
/// The version that stands for Helm 4.
pub const HELM4: Version = Version::new(4, 3, 1);

/// The Go modules that one version of a family is built from.
#[derive(Debug)]
pub(super) struct Pin {
    family: Family,
    version: Version,
    pub(super) go_mod: &'static str,
    pub(super) go_sum: &'static str,
}

macro_rules! pin {
    ($family:ident, $version:expr, $folder:literal) => {
        Pin {
            family: Family::$family,
            version: $version,
            go_mod: include_str!(concat!("../../../tools/", $folder, "/go.mod")),
            go_sum: include_str!(concat!("../../../tools/", $folder, "/go.sum")),
        }
    };
}

/// Newest Kubernetes first.
static PINS: &[Pin] = &[
    pin!(Kubernetes, DEFAULT_KUBERNETES, "kube-1.36.3"),
    pin!(Kubernetes, Version::new(1, 35, 4), "kube-1.35.4"),
    pin!(Etcd, ETCD, "etcd-3.6.15"),
    pin!(Helm3, HELM3, "helm-3.22.0"),
    pin!(Helm4, HELM4, "helm-4.3.1"),
];

/// The Kubernetes versions that can be built from pinned modules, newest first. Any other version
/// can only be downloaded.
#[must_use]
pub fn pinned_kubernetes() -> Vec<Version> {
    PINS.iter()
        .filter(|pin| pin.family == Family::Kubernetes)
        .map(|pin| pin.version.clone())
        .collect()
}

/// The version of `tool` that goes with a plane of this Kubernetes version.
#[must_use]
pub fn wanted(tool: Tool, kubernetes: &Version) -> Version {
    match tool.family() {
        Family::Kubernetes => kubernetes.clone(),
        Family::Etcd => ETCD,
        Family::Helm3 => HELM3,
        Family::Helm4 => HELM4,
    }
}

/// Whether a plane can be made of this Kubernetes version.
pub(super) fn is_supported(kubernetes: &Version) -> bool {
    let release = |version: &Version| (version.major, version.minor);
    release(kubernetes) >= release(&OLDEST_KUBERNETES)
}

impl Pin {
    /// The modules of this very version, if there are any.
    pub(super) fn of(family: Family, version: &Version) -> Option<&'static Self> {
        PINS.iter()
            .find(|pin| pin.family == family && pin.version == *version)
    }

    /// Whether these modules are known to hold all that this program is built from: their `go.mod`
    /// names its package.
    pub(super) fn declares(&self, tool: Tool) -> bool {
        let package = package(tool);
        let mut lines = self.go_mod.lines();
        lines.any(|line| line.trim().trim_start_matches("tool ") == package)
    }

    /// The linker flags. Without the stamped version an API server calls itself v0.0.0 and fails the
    /// `kubeVersion` of charts.
    pub(super) fn ldflags(&self) -> String {
        let version = &self.version;
        match self.family {
            Family::Etcd => "-s -w".to_owned(),
            Family::Kubernetes => {
                let base = "k8s.io/component-base/version";
                format!(
                    "-s -w -X {base}.gitVersion=v{version} -X {base}.gitMajor={} \
                     -X {base}.gitMinor={} -X k8s.io/client-go/pkg/version.gitVersion=v{version}",
                    version.major, version.minor
                )
            }
            Family::Helm3 | Family::Helm4 => format!(
                "-s -w -X helm.sh/helm/v{}/internal/version.version=v{version}",
                version.major
            ),
        }
    }

    /// Tells builds of the same version from different modules or flags apart: twelve hex digits.
    pub(super) fn digest(&self) -> String {
        let mut hex = Sha256::of(&[
            self.go_mod.as_bytes(),
            b"\0",
            self.go_sum.as_bytes(),
            b"\0",
            self.ldflags().as_bytes(),
        ])
        .to_string();
        hex.truncate(12);
        hex
    }

    /// The folder name under which the modules are laid out for a build.
    pub(super) fn name(&self) -> String {
        format!("{}-{}", self.family, self.version)
    }

    /// The Go version that the modules demand (their `go` directive).
    pub(super) fn go_directive(&self) -> Option<&'static str> {
        self.go_mod
            .lines()
            .find_map(|line| line.strip_prefix("go "))
            .map(str::trim)
    }
}

/// The main package of a program.
pub(super) fn package(tool: Tool) -> &'static str {
    match tool {
        Tool::Etcd => "go.etcd.io/etcd/server/v3",
        Tool::KubeApiserver => "k8s.io/kubernetes/cmd/kube-apiserver",
        Tool::KubeControllerManager => "k8s.io/kubernetes/cmd/kube-controller-manager",
        Tool::KubeScheduler => "k8s.io/kubernetes/cmd/kube-scheduler",
        Tool::Helm3 => "helm.sh/helm/v3/cmd/helm",
        Tool::Helm4 => "helm.sh/helm/v4/cmd/helm",
        Tool::Kubectl => "k8s.io/kubernetes/cmd/kubectl",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_go_mod_names_the_version_of_its_pin() {
        for pin in PINS {
            let module = match pin.family {
                Family::Etcd => "go.etcd.io/etcd/server/v3",
                Family::Kubernetes => "k8s.io/kubernetes",
                Family::Helm3 => "helm.sh/helm/v3",
                Family::Helm4 => "helm.sh/helm/v4",
            };
            let requirement = format!("{module} v{}", pin.version);
            let named = pin.go_mod.lines().any(|line| {
                let line = line.trim().trim_start_matches("require ");
                line.split(" //").next() == Some(requirement.as_str())
            });
            assert!(named, "{} does not require {requirement}", pin.name());
            assert!(
                pin.go_sum.contains(&format!("{requirement} h1:")),
                "{} has no checksum of {requirement}",
                pin.name()
            );
            assert!(pin.go_directive().is_some(), "{}", pin.name());
        }
    }

    #[test]
    fn every_program_of_a_default_plane_is_pinned_and_its_package_is_declared() {
        for tool in Tool::ALL {
            let version = wanted(tool, &DEFAULT_KUBERNETES);
            let pin = Pin::of(tool.family(), &version).expect("pinned");
            assert!(pin.declares(tool), "{tool}");
        }
        assert!(pinned_kubernetes().contains(&DEFAULT_KUBERNETES));
    }

    #[test]
    fn kubernetes_is_stamped_with_its_version() {
        let pin = Pin::of(Family::Kubernetes, &DEFAULT_KUBERNETES).expect("pinned");
        assert_eq!(
            pin.ldflags(),
            "-s -w -X k8s.io/component-base/version.gitVersion=v1.36.3 \
             -X k8s.io/component-base/version.gitMajor=1 \
             -X k8s.io/component-base/version.gitMinor=36 \
             -X k8s.io/client-go/pkg/version.gitVersion=v1.36.3"
        );
    }

    #[test]
    fn releases_without_an_upper_end_are_supported() {
        for version in ["1.33.0", "1.33.0-rc.0", "1.99.1", "2.0.0"] {
            assert!(
                is_supported(&version.parse().expect("a version")),
                "{version}"
            );
        }
        for version in ["1.32.9", "1.27.0", "0.40.0"] {
            assert!(
                !is_supported(&version.parse().expect("a version")),
                "{version}"
            );
        }
        assert!(pinned_kubernetes().iter().all(is_supported));
    }

    #[test]
    fn another_version_is_not_pinned() {
        assert!(Pin::of(Family::Kubernetes, &Version::new(1, 36, 2)).is_none());
    }
}
