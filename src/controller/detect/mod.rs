//! From a workload and its pods to components.
//!
//! Several scrapers look at a workload, each for its own kind of thing; what they find is put
//! together in a fixed order. A result that is unresolved counts as nothing found.

pub mod component;
pub mod image;
pub mod pods;

mod agent;
mod by_image;
mod inference;
mod kserve;
mod model;
mod training;

use k8s_openapi::api::core::v1::Pod;
use regex::Regex;

use super::go_regexp::{self, PatternError};
use super::profile::Profile;
use super::profile::kind::Scraper;
use super::workload::Workload;
pub use component::{Category, Component, ComponentType, Confidence, Provenance, Scrape};
use image::Matcher;

/// The name of a result that nobody contributed to.
const NOBODY: &str = "multi.spec";

/// Finds components by the rules of one release, and of a configuration that may replace the
/// runtimes among them.
#[derive(Clone, Debug)]
pub struct Detector {
    profile: Profile,
    runtimes: Vec<Matcher>,
    vector_databases: Vec<Matcher>,
    agents: Vec<Matcher>,
    trainers: Vec<Matcher>,
    evaluators: Vec<Matcher>,
    /// Tags that say which release of a runtime an image holds.
    release_tag: Regex,
}

impl Detector {
    /// A detector with the release's own rules.
    ///
    /// # Errors
    ///
    /// When one of the profile's patterns does not compile.
    pub fn new(profile: &Profile) -> Result<Self, PatternError> {
        let rules = &profile.detection;
        Ok(Self {
            profile: *profile,
            runtimes: Matcher::all(rules.runtimes)?,
            vector_databases: Matcher::all(rules.vector_databases)?,
            agents: Matcher::all(rules.agent_images)?,
            trainers: Matcher::all(rules.training_images)?,
            evaluators: Matcher::all(rules.evaluation_images)?,
            release_tag: go_regexp::compile(r"^v?\d+\.\d+(\.\d+)?(-[\w.]+)?$")?,
        })
    }

    /// Replaces the release's runtimes. An empty list behaves as none: the release's own stay.
    #[must_use]
    pub fn with_runtimes(mut self, runtimes: Vec<Matcher>) -> Self {
        if !runtimes.is_empty() {
            self.runtimes = runtimes;
        }
        self
    }

    /// What the workload is made of.
    ///
    /// `pods` are the workload's (see [`pods`]), in the order they are listed: the first that
    /// reports a digest decides.
    #[must_use]
    pub fn scrape(&self, workload: &Workload<'_>, pods: &[&Pod]) -> Scrape {
        let found = workload
            .kind
            .scrapers
            .iter()
            .map(|scraper| self.run(*scraper, workload, pods))
            .filter(|scrape| scrape.confidence != Confidence::Unresolved);
        let mut scrape = found.reduce(merge).unwrap_or_else(|| Scrape {
            scraper_name: NOBODY,
            ..result(Scraper::Inference, Vec::new(), None)
        });
        if let Some(cap) = self.profile.detection.component_cap {
            scrape.truncated_components = scrape.components.len().saturating_sub(cap);
            scrape.components.truncate(cap);
        }
        scrape
    }

    fn run(&self, scraper: Scraper, workload: &Workload<'_>, pods: &[&Pod]) -> Scrape {
        match scraper {
            Scraper::Inference => inference::scrape(self, workload, pods),
            Scraper::VectorDatabase => by_image::scrape(
                scraper,
                &self.vector_databases,
                Category::VectorDatabase,
                workload,
            ),
            Scraper::Agent => agent::scrape(self, workload),
            Scraper::Training => training::scrape(self, workload),
            Scraper::Evaluation => {
                by_image::scrape(scraper, &self.evaluators, Category::Evaluation, workload)
            }
            Scraper::KServe => kserve::scrape(self, workload),
        }
    }
}

/// The result of one scraper, as sure as its components are.
fn result(scraper: Scraper, components: Vec<Component>, category: Option<Category>) -> Scrape {
    Scrape {
        scraper_name: scraper.name(),
        confidence: Confidence::of(&components),
        components,
        provenance: vec![Provenance::of(scraper.name())],
        category,
        truncated_components: 0,
        owned_workloads: Vec::new(),
        errors: Vec::new(),
    }
}

/// Adds a later result to an earlier one. Components stay in their scrapers' order.
fn merge(mut base: Scrape, later: Scrape) -> Scrape {
    base.components.extend(later.components);
    base.provenance.extend(later.provenance);
    base.errors.extend(later.errors);
    base.category = base.category.max(later.category);
    if later.confidence == Confidence::Inferred {
        base.confidence = Confidence::Inferred;
    }
    base
}
