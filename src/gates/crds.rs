//! Definitions: the CRD checks (`qualification.md` B.6).

use semver::Version;

use super::catalogue::Severity::{Finding, Gate};
use super::catalogue::{
    Check, DEFINED, Judge, RUNNING, always, with_controller, with_definitions,
    with_foreign_definitions,
};
use super::seen::{Blind, Faults, Judged, Seen, count, of};
use super::view::StepView;
use crate::compare::{self, Served};
use crate::record::{
    ChartRecord, ConditionStatus, CrdState, DeploymentState, Snapshot,
    StepKind::{Crds, Rollback, Uninstall, Upgrade},
};

/// The checks of this module.
pub(super) static CHECKS: [Check; 6] = [
    Check {
        id: "CRD-01",
        title: "helm changed no definition",
        source: "qualification.md B.6",
        severity: Gate,
        judges: &[Judge::Steps(
            &[Upgrade, Rollback, Uninstall],
            always,
            untouched,
        )],
    },
    Check {
        id: "CRD-02",
        title: "every definition is that of a known chart",
        source: "qualification.md B.6; design.md 7",
        severity: Gate,
        judges: &[Judge::Steps(DEFINED, with_definitions, known)],
    },
    Check {
        id: "CRD-03",
        title: "all definitions are those of one chart",
        source: "qualification.md B.6; design.md 7",
        severity: Gate,
        judges: &[Judge::Steps(DEFINED, with_definitions, same_chart)],
    },
    Check {
        id: "CRD-04",
        title: "the definitions are those of the running chart (not stranded)",
        source: "qualification.md B.6; qualification.md G.6; design.md 7",
        severity: Finding,
        judges: &[Judge::Steps(RUNNING, with_controller, not_stranded)],
    },
    Check {
        id: "CRD-12",
        title: "the definitions were applied, and are served",
        source: "qualification.md B.6",
        severity: Gate,
        judges: &[Judge::Steps(&[Crds], always, applied)],
    },
    Check {
        id: "CRD-13",
        title: "the running controller is undisturbed",
        source: "qualification.md B.6",
        severity: Gate,
        judges: &[Judge::Steps(&[Crds], with_foreign_definitions, undisturbed)],
    },
];

/// CRD-01. Not even a write that changes nothing leaves the resourceVersion as it was.
fn untouched(view: &StepView<'_>) -> Judged {
    let (before, after) = (view.before()?, view.after()?);
    let mut faults = Faults::default();
    for old in &before.crds {
        let Some(new) = after.crds.iter().find(|crd| crd.name == old.name) else {
            faults.0.push(format!("{} is gone", old.name));
            continue;
        };
        let identity = |crd: &CrdState| {
            let CrdState {
                uid,
                generation,
                resource_version,
                versions,
                ..
            } = crd;
            (
                uid.clone(),
                *generation,
                resource_version.clone(),
                versions.clone(),
            )
        };
        faults.unless(identity(old) == identity(new), || {
            format!(
                "{} changed: generation {} to {}, resourceVersion {} to {}",
                old.name,
                old.generation,
                new.generation,
                old.resource_version,
                new.resource_version
            )
        });
    }
    for new in &after.crds {
        let known = before.crds.iter().any(|crd| crd.name == new.name);
        faults.unless(known, || format!("{} is new", new.name));
    }
    let all = count(&before.crds);
    let good = all.saturating_sub(count(&faults.0));
    Ok(Seen::new(
        all,
        faults.0,
        of(good, all, "definitions untouched"),
    ))
}

fn served(view: &StepView<'_>) -> Result<Served, Blind> {
    let after = view.after()?;
    Ok(compare::served(&after.crds, &view.planned.run.charts))
}

/// `aiboms: from, to; aibomcontrollerconfigs: from`.
fn told(served: &Served) -> String {
    let definitions = served.definitions.iter().map(|(name, charts)| {
        let plural = name
            .split_once('.')
            .map_or(name.as_str(), |(plural, _)| plural);
        let charts: Vec<_> = charts.iter().map(String::as_str).collect();
        match charts[..] {
            [] => format!("{plural}: of no known chart"),
            _ => format!("{plural}: {}", charts.join(", ")),
        }
    });
    definitions.collect::<Vec<_>>().join("; ")
}

/// CRD-02.
fn known(view: &StepView<'_>) -> Judged {
    let served = served(view)?;
    let mut faults = Faults::default();
    for (name, charts) in &served.definitions {
        faults.unless(!charts.is_empty(), || {
            if served.missing.contains(name) {
                format!("{name} does not exist")
            } else {
                format!("{name} is that of no chart of the plan")
            }
        });
    }
    let all = served.definitions.len() as u64;
    Ok(Seen::new(all, faults.0, told(&served)))
}

/// CRD-03.
fn same_chart(view: &StepView<'_>) -> Judged {
    let served = served(view)?;
    let mut faults = Faults::default();
    faults.unless(!served.charts.is_empty(), || {
        format!("they are of no common chart: {}", told(&served))
    });
    let charts: Vec<_> = served.charts.iter().map(String::as_str).collect();
    let summary = match charts[..] {
        [] => "no common chart".to_owned(),
        _ => format!("all of {}", charts.join(", ")),
    };
    Ok(Seen::new(
        served.definitions.len() as u64,
        faults.0,
        summary,
    ))
}

/// CRD-04: what no condition shows. Definitions that are newer than the controller are not its own
/// either, but lose nothing of it.
fn not_stranded(view: &StepView<'_>) -> Judged {
    let (running, chart) = view.chart()?;
    let served = served(view)?;
    let charts: Vec<_> = served.charts.iter().map(String::as_str).collect();
    let found = match charts[..] {
        [] => "no chart of the plan".to_owned(),
        _ => charts.join(", "),
    };
    let this = format!("{running} {} runs", chart.version);
    let mut faults = Vec::new();
    let summary = if !compare::stranded(running, &served) {
        format!("{this} over definitions of {found}")
    } else if newer(view, chart, &served) {
        format!("{this} over newer definitions, of {found}")
    } else if is_green(view.after()?) {
        format!("green but stranded: {this} over definitions of {found}")
    } else {
        format!("stranded: {this} over definitions of {found}")
    };
    if compare::stranded(running, &served) {
        faults.push(summary.clone());
    }
    Ok(Seen::new(chart.crds.len() as u64, faults, summary))
}

/// Whether all definitions are those of charts that are later than this one.
fn newer(view: &StepView<'_>, running: &ChartRecord, served: &Served) -> bool {
    let version = |chart: &ChartRecord| Version::parse(&chart.version).ok();
    let Some(running) = version(running) else {
        return false;
    };
    let charts = &view.planned.run.charts;
    let mut versions = served
        .charts
        .iter()
        .map(|name| charts.get(name).and_then(version));
    !served.charts.is_empty() && versions.all(|known| known.is_some_and(|known| known > running))
}

/// Whether all that is usually looked at is as it should be.
fn is_green(after: &Snapshot) -> bool {
    let complete = after
        .deployment
        .as_ref()
        .is_some_and(DeploymentState::is_complete);
    let is = |type_, status| {
        let config = after.config.as_ref();
        let condition = config.and_then(|config| config.condition(type_));
        condition.is_some_and(|condition| condition.status == status)
    };
    complete && is("Ready", ConditionStatus::True) && is("Degraded", ConditionStatus::False)
}

/// CRD-12.
fn applied(view: &StepView<'_>) -> Judged {
    let facts = view.record()?.crds.as_ref();
    let facts = facts.ok_or_else(|| Blind::new("no definitions were applied"))?;
    let after = view.after()?;
    let charts = &view.planned.run.charts;
    let name = view.planned.outlook.crds.as_ref();
    let planned = name.and_then(|name| charts.get_key_value(&name.0));
    let (name, chart) = planned.ok_or_else(|| Blind::new("the planned chart was not read"))?;
    let mut faults = Faults::default();
    for crd in &facts.applied {
        if let Some(why) = &crd.refused {
            faults.0.push(format!("{} was refused: {why}", crd.name));
        }
    }
    for wanted in chart.crds.keys() {
        let applied = facts.applied.iter().any(|crd| crd.name == *wanted);
        faults.unless(applied, || format!("{wanted} was not applied"));
        let Some(crd) = after.crds.iter().find(|crd| crd.name == *wanted) else {
            faults.0.push(format!("{wanted} does not exist"));
            continue;
        };
        let serving = compare::serving(crd, charts);
        faults.unless(serving.contains(name), || {
            format!("{wanted} is not that of {name}")
        });
        faults.unless(crd.established && !crd.terminating, || {
            format!("{wanted} is not established")
        });
    }
    let changed = facts.applied.iter().filter(|crd| crd.changed).count();
    let summary = format!(
        "{} applied as {}, {changed} changed",
        facts.applied.len(),
        facts.manager
    );
    Ok(Seen::new(count(&facts.applied), faults.0, summary))
}

/// CRD-13. The process and its writes are the ones from before; the hashes are DAT-03's and DAT-04's.
fn undisturbed(view: &StepView<'_>) -> Judged {
    let (before, after) = (view.before()?, view.after()?);
    let readings = before.scrape.as_ref().zip(after.scrape.as_ref());
    let (old, new) =
        readings.ok_or_else(|| Blind::new("the controller's metrics were not read"))?;
    let mut faults = Faults::default();
    let config = after.config.as_ref();
    let ready = config.and_then(|config| config.condition("Ready"));
    faults.unless(
        ready.is_some_and(|ready| ready.status == ConditionStatus::True),
        || "the configuration is not Ready".to_owned(),
    );
    faults.unless(new.same_process(old), || {
        "the process is another one".to_owned()
    });
    let wrote = new.counters.writes().saturating_sub(old.counters.writes());
    faults.unless(wrote == 0, || format!("it wrote {wrote} times"));
    let reconciles = new.counters.all_reconciles();
    let reconciles = reconciles.saturating_sub(old.counters.all_reconciles());
    let summary = format!("{wrote} writes, {reconciles} reconciles, same process");
    Ok(Seen::new(3, faults.0, summary))
}
