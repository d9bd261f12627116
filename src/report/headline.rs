//! What the run was about and what it ran on: without it no number below can be read.

use std::collections::BTreeMap;

use serde::Serialize;

use super::RunView;
use super::definitions::{DefinitionRow, all_stranded};
use super::verdicts::{Standing, Verdicts};
use super::words::{counted, date, digest, duration, image};
use crate::record::{ApplyMethod, ChartRecord, Environment, PlaneKind, SubjectKind, grouped};
use crate::subject::images::CONTROLLERS;

/// One fact of the headline.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Fact {
    /// What it is about.
    pub name: String,
    /// What is so.
    pub value: String,
}

/// All facts, the most important first.
pub(super) fn facts(
    view: &RunView<'_>,
    verdicts: &Verdicts,
    definitions: &[DefinitionRow],
    seconds: f64,
) -> Vec<Fact> {
    let mut facts = Vec::new();
    let mut add = |name: &str, value: String| {
        let name = name.to_owned();
        facts.push(Fact { name, value });
    };
    add("verdict", verdict(verdicts));
    for stranded in all_stranded(definitions) {
        let row = stranded.first;
        let value = format!(
            "{}: controller {} over {}",
            stranded.words(),
            stranded.running,
            row.words()
        );
        add("state", value);
    }
    if let Some(reason) = &verdicts.aborted {
        add("ended early", reason.clone());
    } else if verdicts.standing == Standing::Unfinished {
        add(
            "ended early",
            "from outside, unless it is still under way: there are no verdicts".to_owned(),
        );
    }
    add(
        "started",
        format!("{}, took {}", date(view.run.started_at), duration(seconds)),
    );
    if let Some(environment) = &view.run.environment {
        add("where", place(environment));
        add("helm", helm(view, environment));
    }
    for (name, chart) in &view.run.charts {
        add(&format!("chart {name}"), self::chart(view, chart));
    }
    let load = &view.run.plan.workloads;
    let mut workloads = format!(
        "{} before the controller, {} by the load ({}, {}, seed {})",
        grouped(load.preexisting.into()),
        grouped(load.count.into()),
        load.mix,
        counted(load.namespaces.get().into(), "namespace"),
        load.seed
    );
    if let Some(rate) = load.rate {
        workloads.push_str(&format!(", at most {rate}/s"));
    }
    add("workloads", workloads);
    if let Some(environment) = &view.run.environment {
        add(
            "tool",
            format!(
                "aibom-qual {} on {}, its clock {} ms from the API server's",
                environment.tool,
                counted(environment.cpus.into(), "CPU"),
                environment.clock_skew_ms
            ),
        );
    }
    add("run", view.run.run.clone());
    facts
}

fn verdict(verdicts: &Verdicts) -> String {
    let total = verdicts.total();
    let counts = [
        (total.fail, "failed"),
        (total.invalid, "invalid"),
        (total.pass, "passed"),
        (total.finding, "told as findings"),
        (total.expected, "failed as declared"),
        (total.not_applicable, "not applicable"),
    ];
    let counts: Vec<String> = counts
        .iter()
        .filter(|(many, _)| *many > 0)
        .map(|(many, what)| format!("{} {what}", grouped(*many)))
        .collect();
    let standing = verdicts.standing;
    if counts.is_empty() {
        format!("{standing}: no checks")
    } else {
        format!(
            "{standing}: of {} checks, {}",
            grouped(verdicts.checks.len() as u64),
            counts.join(", ")
        )
    }
}

fn place(environment: &Environment) -> String {
    let place = match &environment.plane {
        PlaneKind::Local => "private local control plane".to_owned(),
        PlaneKind::Cluster { context } => format!("cluster of context {context}"),
    };
    format!(
        "{place}, Kubernetes {} ({}), {}",
        environment.server,
        environment.platform,
        counted(environment.nodes.into(), "node")
    )
}

/// The same charts lead to different states under different majors and apply methods.
fn helm(view: &RunView<'_>, environment: &Environment) -> String {
    let helm = &environment.helm;
    let mut methods: BTreeMap<u32, Option<ApplyMethod>> = BTreeMap::new();
    for snapshot in view.snapshots.values() {
        for revision in snapshot.release.iter().flat_map(|release| &release.history) {
            methods.insert(revision.revision, revision.apply_method);
        }
    }
    let word = |method: Option<ApplyMethod>| match method {
        Some(ApplyMethod::Ssa) => "server-side apply",
        Some(ApplyMethod::Csa) => "client-side apply",
        None => "client-side apply (not recorded)",
    };
    let mut groups: Vec<(&str, Vec<u32>)> = Vec::new();
    for (revision, method) in methods {
        match groups.iter_mut().find(|(known, _)| *known == word(method)) {
            Some((_, revisions)) => revisions.push(revision),
            None => groups.push((word(method), vec![revision])),
        }
    }
    let mut text = format!("Helm {} ({})", helm.major, helm.version);
    match groups.as_slice() {
        [] => {}
        [(method, _)] => text.push_str(&format!(", {method}")),
        several => {
            for (method, revisions) in several {
                let revisions = super::words::enumerated(revisions);
                text.push_str(&format!(", {method} in revision {revisions}"));
            }
        }
    }
    text
}

fn chart(view: &RunView<'_>, chart: &ChartRecord) -> String {
    let subject = view
        .run
        .environment
        .as_ref()
        .map(|environment| &environment.subject);
    let known = CONTROLLERS
        .iter()
        .find(|known| known.reference() == chart.image);
    let runs = match (subject, known) {
        (Some(SubjectKind::Embedded), Some(known)) => {
            format!("embedded controller, profile {}", known.release)
        }
        (Some(SubjectKind::Embedded), None) => "embedded controller".to_owned(),
        (Some(SubjectKind::Runtime { commands }), _) => {
            let own = commands
                .iter()
                .find_map(|command| command.strip_prefix(&format!("{}=", chart.image)));
            match own {
                Some(command) => format!("local command {command}"),
                None => "a local command".to_owned(),
            }
        }
        (Some(SubjectKind::Image) | None, _) => "the image itself".to_owned(),
    };
    let mut text = format!(
        "{} {} ({}), image {}: {runs}; values {} ({})",
        chart.name,
        chart.version,
        digest(&chart.sha256),
        image(&chart.image),
        chart.values,
        digest(&chart.values_sha256)
    );
    if let Some(oci) = &chart.oci_digest {
        text.push_str(&format!("; registry digest {}", digest(oci)));
    }
    text
}
