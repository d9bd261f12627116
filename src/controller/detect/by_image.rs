//! Things that an image alone gives away: vector databases and evaluation harnesses.

use k8s_openapi::api::core::v1::Container;

use super::component::{Category, Component, ComponentType, Confidence, Evidence, Scrape, Source};
use super::image::Matcher;
use super::result;
use crate::controller::profile::kind::Scraper;
use crate::controller::workload::Workload;

/// Reports every pattern that matches, not only the first.
pub(super) fn scrape(
    scraper: Scraper,
    matchers: &[Matcher],
    category: Category,
    workload: &Workload<'_>,
) -> Scrape {
    let mut found = Vec::new();
    for (at, container) in containers(workload) {
        found.extend(components(matchers, &at, container));
    }
    result(scraper, found, Some(category))
}

/// The regular containers of all templates, each with its path.
pub(super) fn containers<'w>(
    workload: &'w Workload<'_>,
) -> impl Iterator<Item = (String, &'w Container)> {
    workload.templates.iter().flat_map(|template| {
        let spec = template.template.spec.as_ref();
        spec.into_iter()
            .flat_map(|spec| spec.containers.iter().enumerate())
            .map(|(i, container)| (format!("{}.spec.containers[{i}]", template.path), container))
    })
}

/// One application per pattern that matches the container's image.
pub(super) fn components(
    matchers: &[Matcher],
    at: &str,
    container: &Container,
) -> impl Iterator<Item = Component> {
    let image = container.image.as_deref().unwrap_or_default();
    matchers
        .iter()
        .filter(move |matcher| matcher.matches(image))
        .map(move |matcher| {
            let evidence = Evidence::new(Source::ImagePattern, format!("{at}.image"));
            Component::new(
                ComponentType::Application,
                matcher.name(),
                evidence,
                Confidence::Inferred,
            )
            .with("runtime.name", matcher.name())
            .with("runtime.pattern", matcher.pattern())
        })
}
