//! The document's structure. Fields stand in the order they are written.

use std::borrow::Cow;

use serde::Serialize;

use super::redact::{Classes, Redactor};
use super::{FORMAT, SPEC_VERSION, Source, category, timestamp};
use crate::controller::detect::{self, Scrape};
use crate::controller::profile::DocumentRules;
use crate::controller::workload::Workload;

const SCHEMA: &str = "http://cyclonedx.org/schema/bom-1.6.schema.json";
const CONTROLLER: &str = "k8s-aibom";

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Bom<'a> {
    #[serde(rename = "$schema")]
    schema: &'static str,
    bom_format: &'static str,
    spec_version: &'static str,
    version: u32,
    metadata: Metadata<'a>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    components: Vec<Component<'a>>,
}

#[derive(Serialize)]
struct Metadata<'a> {
    timestamp: String,
    tools: Tools<'a>,
    component: Subject<'a>,
    properties: Vec<Property<'a>>,
}

#[derive(Serialize)]
struct Tools<'a> {
    components: [Tool<'a>; 1],
}

#[derive(Serialize)]
struct Tool<'a> {
    #[serde(rename = "type")]
    component_type: &'static str,
    name: &'static str,
    version: &'a str,
}

/// The workload that the document describes.
#[derive(Serialize)]
struct Subject<'a> {
    #[serde(rename = "bom-ref")]
    bom_ref: String,
    #[serde(rename = "type")]
    component_type: &'static str,
    group: Cow<'a, str>,
    name: Cow<'a, str>,
    properties: Vec<Property<'a>>,
}

#[derive(Serialize)]
struct Component<'a> {
    #[serde(rename = "bom-ref")]
    bom_ref: String,
    #[serde(rename = "type")]
    component_type: &'static str,
    #[serde(skip_serializing_if = "str::is_empty")]
    name: Cow<'a, str>,
    #[serde(skip_serializing_if = "str::is_empty")]
    version: Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hashes: Option<[Hash<'a>; 1]>,
    properties: Vec<Property<'a>>,
}

#[derive(Serialize)]
struct Hash<'a> {
    alg: &'static str,
    content: &'a str,
}

#[derive(Serialize)]
struct Property<'a> {
    name: Cow<'static, str>,
    value: Cow<'a, str>,
}

/// Collects properties. One with an empty value is dropped; values are redacted.
struct Properties<'a, 'r> {
    prefix: &'static str,
    redactor: &'r Redactor,
    classes: Classes,
    list: Vec<Property<'a>>,
}

impl<'a, 'r> Properties<'a, 'r> {
    fn new(rules: &DocumentRules, redactor: &'r Redactor) -> Self {
        Self {
            prefix: rules.property_prefix,
            redactor,
            classes: Classes::default(),
            list: Vec::new(),
        }
    }

    /// A property under the controller's own prefix.
    fn own(&mut self, name: &str, value: impl Into<Cow<'a, str>>) {
        let name = format!("{}{name}", self.prefix);
        self.push(name.into(), value.into());
    }

    fn push(&mut self, name: Cow<'static, str>, value: Cow<'a, str>) {
        if value.is_empty() {
            return;
        }
        let value = self.text(value);
        self.list.push(Property { name, value });
    }

    /// Any other text of the same component.
    fn text(&mut self, text: impl Into<Cow<'a, str>>) -> Cow<'a, str> {
        self.redactor.redact(text.into(), &mut self.classes)
    }

    fn finish(mut self) -> Vec<Property<'a>> {
        if !self.classes.is_empty() {
            let name = format!("{}redaction.applied", self.prefix).into();
            let value = self.classes.to_string().into();
            self.list.push(Property { name, value });
        }
        self.list
    }
}

impl<'a> Bom<'a> {
    pub(super) fn new(source: &Source<'a>, rules: &DocumentRules, redactor: &Redactor) -> Self {
        let workload = source.workload;
        let bom_ref = format!(
            "workload:{}/{}/{}",
            workload.namespace, workload.kind.kind, workload.name
        );
        let components = source.scrape.components.iter().enumerate();
        Self {
            schema: SCHEMA,
            bom_format: FORMAT,
            spec_version: SPEC_VERSION,
            version: 1,
            components: components
                .map(|(index, found)| component(&bom_ref, index, found, rules, redactor))
                .collect(),
            metadata: Metadata {
                timestamp: timestamp(source.built_at),
                tools: Tools {
                    components: [Tool {
                        component_type: "application",
                        name: CONTROLLER,
                        version: source.controller_version,
                    }],
                },
                component: subject(bom_ref, workload, source.scrape, rules, redactor),
                properties: run_properties(source, rules, redactor),
            },
        }
    }
}

fn subject<'a>(
    bom_ref: String,
    workload: &Workload<'a>,
    scrape: &Scrape,
    rules: &DocumentRules,
    redactor: &Redactor,
) -> Subject<'a> {
    let mut properties = Properties::new(rules, redactor);
    properties.own("workload.kind", workload.kind.kind);
    properties.own("workload.group", workload.kind.group);
    properties.own("workload.apiVersion", workload.kind.version);
    properties.own("workload.namespace", workload.namespace);
    properties.own("workload.name", workload.name);
    properties.own("workload.uid", workload.uid);
    properties.own("workload.category", category(scrape).as_str());
    Subject {
        bom_ref,
        component_type: "application",
        group: workload.namespace.into(),
        name: workload.name.into(),
        properties: properties.finish(),
    }
}

/// Properties of the document as a whole: how sure, by whom, how complete, from which scrapers.
fn run_properties<'a>(
    source: &Source<'a>,
    rules: &DocumentRules,
    redactor: &Redactor,
) -> Vec<Property<'a>> {
    let scrape = source.scrape;
    let mut properties = Properties::new(rules, redactor);
    properties.own("confidence", scrape.confidence.as_str());
    properties.own("controller.name", CONTROLLER);
    properties.own("controller.version", source.controller_version);
    if scrape.truncated_components > 0 {
        let dropped = format!("components-dropped:{}", scrape.truncated_components);
        properties.own("truncation.applied", dropped);
    }
    for (i, owned) in scrape.owned_workloads.iter().enumerate() {
        properties.own(&format!("rollup.owned.{i}"), owned.as_str());
    }
    for (i, by) in scrape.provenance.iter().enumerate() {
        properties.own(&format!("scrape.{i}.scraperName"), by.scraper_name);
        properties.own(&format!("scrape.{i}.scraperVersion"), by.scraper_version);
        properties.own(&format!("scrape.{i}.method"), by.scrape_method);
        properties.own(
            &format!("scrape.{i}.timestamp"),
            timestamp(source.scraped_at),
        );
    }
    properties.finish()
}

fn component<'a>(
    parent: &str,
    index: usize,
    found: &'a detect::Component,
    rules: &DocumentRules,
    redactor: &Redactor,
) -> Component<'a> {
    let component_type = found.component_type.as_str();
    let mut properties = Properties::new(rules, redactor);
    let name = properties.text(found.name.as_str());
    let version = properties.text(found.version.as_str());
    properties.own("confidence", found.confidence.as_str());
    properties.own("evidence.source", found.evidence.source.as_str());
    properties.own("evidence.locator", found.evidence.locator.as_str());
    for (key, value) in &found.properties {
        properties.push((*key).into(), value.as_str().into());
    }
    Component {
        // Built from the redacted name, so that no credential is left in it.
        bom_ref: format!("{parent}/component/{index}/{component_type}/{name}"),
        component_type,
        name,
        version,
        hashes: found.digest.as_ref().map(|digest| {
            [Hash {
                alg: "SHA-256",
                content: digest.as_hex(),
            }]
        }),
        properties: properties.finish(),
    }
}
