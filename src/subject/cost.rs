//! What the thing under test costs an API server and says of itself, by release: the figures that
//! exact checks are made of.

use std::ops::{Range, RangeInclusive};

use semver::Version;

use super::{K8S_AIBOM, Subject};
use crate::record::StepKind;

/// What one release does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Release {
    /// Its version, without a leading `v`.
    pub version: &'static str,
    /// Informers of a start on a cluster without third-party kinds; each costs one streaming GET.
    pub informers: u64,
    /// Informers that start when something gives reason to. The controller's own pod does, at once.
    pub late_informers: u64,
    /// GETs of a start that ask what the server serves.
    pub discovery: u64,
    /// GETs of a start that are neither.
    pub other_reads: RangeInclusive<u64>,
    /// Events that a start posts. One that does not know its pod's name cannot post the first.
    pub events: RangeInclusive<u64>,
    /// Kinds of third parties that it watches where their definitions are installed.
    pub third_party: u64,
    /// How often each of them is listed besides, in seconds.
    pub third_party_probe: Option<u64>,
    /// How often it asks for definitions that are missing, in seconds.
    pub discovery_every: Option<u64>,
    /// Reasons for which its configuration may be `Degraded` though its spec is valid.
    pub degraded: &'static [&'static str],
}

impl Release {
    /// Informers of a process that runs, on a cluster without third-party kinds.
    #[must_use]
    pub fn running_informers(&self) -> u64 {
        self.informers + self.late_informers
    }
}

/// A Warning that is documented to come with certain steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownWarning {
    /// Its reason.
    pub reason: &'static str,
    /// The kinds of steps that it may come with.
    pub steps: &'static [StepKind],
    /// The kind of the object that it is about; any when [`None`].
    pub about: Option<&'static str>,
    /// How its message begins, one of these; anyhow when there is none.
    pub messages: &'static [&'static str],
}

/// What a subject costs.
#[derive(Clone, Debug)]
pub struct Costs {
    /// The subject.
    pub subject: &'static Subject,
    /// What differs between releases, oldest first.
    pub releases: &'static [Release],
    /// Documented Warnings.
    pub warnings: &'static [KnownWarning],
    /// How long a watch lasts before the informer opens the next one, in whole seconds, uniformly.
    pub watch_seconds: Range<u64>,
    /// Further GETs of a fresh install: an informer that comes while the storage of its definition is
    /// being made is told 429 once (`helm-moves.md` A).
    pub install_reads: u64,
    /// PUTs of a restart besides one per object of the inventory: the configuration's.
    pub config_writes: u64,
    /// The container's limit of memory, in bytes.
    pub memory_limit: u64,
}

impl Costs {
    /// What this version is judged by: its own figures, or those of the newest release before it.
    /// [`None`] when it is older than all of them, or no version.
    #[must_use]
    pub fn release(&self, app_version: &str) -> Option<&'static Release> {
        let wanted = triple(app_version)?;
        let mut known = self.releases.iter().rev();
        known.find(|release| triple(release.version).is_some_and(|version| version <= wanted))
    }
}

/// A candidate counts as the release that it is for.
fn triple(version: &str) -> Option<(u64, u64, u64)> {
    let version = Version::parse(version.strip_prefix('v').unwrap_or(version)).ok()?;
    Some((version.major, version.minor, version.patch))
}

/// The costs of the subject whose chart has this name.
#[must_use]
pub fn of_chart(name: &str) -> Option<&'static Costs> {
    [&K8S_AIBOM_COSTS]
        .into_iter()
        .find(|costs| costs.subject.chart == name)
}

/// Measured on running processes (`controller.md` M): informers for the inventory, the configuration,
/// four kinds of workloads, namespaces and pods; one for ReplicaSets later.
const V1_2_0: Release = Release {
    version: "1.2.0",
    informers: 8,
    late_informers: 1,
    discovery: 2,
    other_reads: 0..=0,
    events: 1..=2,
    third_party: 1,
    third_party_probe: None,
    discovery_every: None,
    degraded: &[],
};

const MEBIBYTE: u64 = 1024 * 1024;

/// The costs of the controller that this tool was made for (`controller.md` E.4, F.4, F.5, G.3, M).
pub static K8S_AIBOM_COSTS: Costs = Costs {
    subject: &K8S_AIBOM,
    releases: &[
        V1_2_0,
        Release {
            version: "1.3.0",
            ..V1_2_0
        },
        Release {
            version: "1.5.1",
            ..V1_2_0
        },
        // CronJobs have an informer. The served schema is read at every look at the configuration,
        // once at a start and again when its own status write comes back too early to be skipped.
        Release {
            version: "1.6.0",
            informers: 9,
            other_reads: 2..=6,
            third_party: 6,
            third_party_probe: Some(120),
            discovery_every: Some(300),
            degraded: &["SchemaPredatesController", "ThirdPartyWatchUnhealthy"],
            ..V1_2_0
        },
    ],
    warnings: &[
        KnownWarning {
            reason: "AIBOMControllerConfigMissing",
            steps: &[StepKind::Install],
            about: None,
            messages: &[],
        },
        KnownWarning {
            reason: "AIBOMControllerConfigDeleted",
            steps: &[StepKind::Uninstall, StepKind::Cleanup],
            about: None,
            messages: &[],
        },
        KnownWarning {
            reason: "Unhealthy",
            steps: &[
                StepKind::Install,
                StepKind::Upgrade,
                StepKind::Rollback,
                StepKind::Restart,
            ],
            about: Some("Pod"),
            messages: &["Readiness probe failed", "Startup probe failed"],
        },
    ],
    watch_seconds: 300..600,
    install_reads: 1,
    config_writes: 1,
    memory_limit: 256 * MEBIBYTE,
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::subject::images::CONTROLLERS;

    #[test]
    fn every_release_with_an_image_has_figures() {
        let known = K8S_AIBOM_COSTS.releases.iter().map(|known| known.version);
        assert!(known.eq(CONTROLLERS.iter().map(|image| image.release)));
    }

    #[test]
    fn a_version_without_figures_is_judged_by_the_one_before() {
        let costs = of_chart("k8s-aibom").expect("it is known");
        let judged_by = |version| costs.release(version).map(|release| release.version);
        assert_eq!(judged_by("v1.3.0"), Some("1.3.0"));
        assert_eq!(judged_by("v1.4.0-dev"), Some("1.3.0"));
        assert_eq!(judged_by("1.6.0-rc.1"), Some("1.6.0"));
        assert_eq!(judged_by("2.0.0"), Some("1.6.0"));
        assert_eq!(judged_by("1.1.9"), None);
        assert_eq!(judged_by("latest"), None);
        assert!(of_chart("another").is_none());
    }

    #[test]
    fn a_plain_cluster_has_nine_informers() {
        let running = |version| {
            let release = K8S_AIBOM_COSTS.release(version);
            release.expect("it is known").running_informers()
        };
        assert_eq!(running("v1.5.1"), 9);
        assert_eq!(running("v1.6.0"), 10);
    }
}
