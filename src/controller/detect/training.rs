//! Training frameworks and the data sets they read.

use k8s_openapi::api::core::v1::{Container, VolumeMount};

use super::component::{Category, Component, ComponentType, Confidence, Evidence, Scrape, Source};
use super::{Detector, agent, by_image, result};
use crate::controller::profile::kind::Scraper;
use crate::controller::workload::Workload;

/// Mounts of these names hold a data set, and so does the path.
const DATASET_MOUNTS: [&str; 2] = ["dataset", "training-data"];
const DATASET_PATH: &str = "/data";

/// Per container: images, then environment, then data sets. A data set alone is no training.
pub(super) fn scrape(detector: &Detector, workload: &Workload<'_>) -> Scrape {
    let mut components = Vec::new();
    for (at, container) in by_image::containers(workload) {
        let env = container.env.as_deref().unwrap_or_default();
        components.extend(by_image::components(&detector.trainers, &at, container));
        components.extend(
            agent::known(detector.profile.detection.training_env, env)
                .map(|(_, name)| agent::application(&at, name)),
        );
        components.extend(datasets(&at, container));
    }
    let trains = Confidence::of(&components) != Confidence::Unresolved;
    result(
        Scraper::Training,
        components,
        trains.then_some(Category::Training),
    )
}

fn datasets(at: &str, container: &Container) -> impl Iterator<Item = Component> {
    container
        .volume_mounts
        .iter()
        .flatten()
        .filter(|mount| is_dataset(mount))
        .map(move |mount| {
            let locator = format!("{at}.volumeMounts[{}]", mount.name);
            Component::new(
                ComponentType::Data,
                mount.name.as_str(),
                Evidence::new(Source::VolumeSource, locator),
                Confidence::Inferred,
            )
            .with("dataset.path", mount.mount_path.as_str())
        })
}

fn is_dataset(mount: &VolumeMount) -> bool {
    DATASET_MOUNTS.contains(&mount.name.as_str()) || mount.mount_path == DATASET_PATH
}
