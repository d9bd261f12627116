//! Agent frameworks, and model APIs that are called over the network.

use k8s_openapi::api::core::v1::EnvVar;

use super::component::{Category, Component, ComponentType, Confidence, Evidence, Scrape, Source};
use super::{Detector, by_image, result};
use crate::controller::profile::image::EnvName;
use crate::controller::profile::kind::Scraper;
use crate::controller::workload::Workload;

/// Per container: images, then the environment of frameworks, then that of remote APIs.
///
/// Only a framework makes an agent; a key for an API does not.
pub(super) fn scrape(detector: &Detector, workload: &Workload<'_>) -> Scrape {
    let rules = &detector.profile.detection;
    let mut components = Vec::new();
    for (at, container) in by_image::containers(workload) {
        let env = container.env.as_deref().unwrap_or_default();
        components.extend(by_image::components(&detector.agents, &at, container));
        components.extend(known(rules.agent_env, env).map(|(_, name)| framework(&at, name)));
        components.extend(known(rules.remote_apis, env).map(|(var, name)| remote(&at, var, name)));
    }
    let is_agent = components
        .iter()
        .any(|component| component.component_type == ComponentType::Application);
    let mut scrape = result(
        Scraper::Agent,
        components,
        is_agent.then_some(Category::Agent),
    );
    // Even an API whose key comes from elsewhere, which is itself unresolved.
    if !scrape.components.is_empty() {
        scrape.confidence = Confidence::Inferred;
    }
    scrape
}

/// The variables that give something away, in the order they are set.
pub(super) fn known<'e>(
    names: &'static [EnvName],
    env: &'e [EnvVar],
) -> impl Iterator<Item = (&'e EnvVar, &'static EnvName)> {
    env.iter().filter_map(|var| {
        let name = names.iter().find(|known| known.variable == var.name)?;
        Some((var, name))
    })
}

fn framework(at: &str, name: &EnvName) -> Component {
    application(at, name).with("runtime.name", name.name)
}

/// An application that a variable's presence gives away.
pub(super) fn application(at: &str, name: &EnvName) -> Component {
    let locator = format!("{at}.env[{}]", name.variable);
    Component::new(
        ComponentType::Application,
        name.name,
        Evidence::new(Source::EnvVarNamePresent, locator),
        Confidence::Inferred,
    )
}

fn remote(at: &str, var: &EnvVar, name: &EnvName) -> Component {
    let locator = format!("{at}.env[{}]", name.variable);
    let model = |locator, confidence| {
        Component::new(
            ComponentType::MachineLearningModel,
            name.name,
            Evidence::new(Source::EnvVarNamePresent, locator),
            confidence,
        )
    };
    if var.value_from.is_some() {
        model(format!("{locator}.valueFrom"), Confidence::Unresolved)
    } else {
        model(locator, Confidence::Inferred).with("dependency.type", "remote-api")
    }
}
