//! The state that an install begins with and leads to: the INS checks (`qualification.md` B.2).

use super::catalogue::Severity::{Finding, Gate};
use super::catalogue::{Check, Judge, always};
use super::seen::{Blind, Faults, Judged, Seen, count, of};
use super::view::StepView;
use crate::record::{ChartRecord, RevisionStatus, StepKind::Install};

/// The checks of this module.
pub(super) static CHECKS: [Check; 6] = [
    Check {
        id: "INS-01",
        title: "the start is as planned",
        source: "qualification.md B.2",
        severity: Gate,
        judges: &[Judge::Steps(&[Install], always, starting_state)],
    },
    Check {
        id: "INS-02",
        title: "helm installed revision 1",
        source: "qualification.md B.2",
        severity: Gate,
        judges: &[Judge::Steps(&[Install], always, helm)],
    },
    Check {
        id: "INS-03",
        title: "the definitions are established",
        source: "qualification.md B.2",
        severity: Gate,
        judges: &[Judge::Steps(&[Install], always, established)],
    },
    Check {
        id: "INS-04",
        title: "the versions of the definitions are the chart's",
        source: "qualification.md B.2",
        severity: Gate,
        judges: &[Judge::Steps(&[Install], always, versions)],
    },
    Check {
        id: "INS-05",
        title: "the stored versions are those of this path",
        source: "qualification.md B.2",
        severity: Finding,
        judges: &[Judge::Steps(&[Install], always, stored_versions)],
    },
    Check {
        id: "INS-06",
        title: "the Deployment is complete",
        source: "qualification.md B.2",
        severity: Gate,
        judges: &[Judge::Steps(&[Install], always, complete)],
    },
];

/// INS-01.
fn starting_state(view: &StepView<'_>) -> Judged {
    let before = view.before()?;
    let mut faults = Faults::default();
    faults.unless(before.release.is_none(), || {
        "there is a release already".to_owned()
    });
    faults.unless(before.deployment.is_none(), || {
        "there is a Deployment already".to_owned()
    });
    faults.unless(before.config.is_none(), || {
        "there is a configuration object already".to_owned()
    });
    let planned = view
        .planned
        .before
        .and_then(|outlook| outlook.crds.as_ref());
    for crd in &before.crds {
        faults.unless(planned.is_some(), || format!("{} exists already", crd.name));
        faults.unless(!crd.terminating, || {
            format!("{} is being deleted", crd.name)
        });
    }
    faults.unless(planned.is_none() || !before.crds.is_empty(), || {
        "the definitions that were planned do not exist".to_owned()
    });
    let summary = format!("{} definitions, no other object", before.crds.len());
    Ok(Seen::new(4, faults.0, summary))
}

/// INS-02.
fn helm(view: &StepView<'_>) -> Judged {
    let helm = view.helm()?;
    let mut faults = Faults::default();
    faults.unless(helm.exit == Some(0) && helm.failure.is_none(), || {
        helm.said
            .clone()
            .unwrap_or_else(|| "helm failed".to_owned())
    });
    let after = view.after()?;
    let Some(newest) = after.release.as_ref().and_then(|release| release.newest()) else {
        return Seen::missing("release");
    };
    faults.unless(newest.revision == 1, || {
        format!("it is revision {}", newest.revision)
    });
    faults.unless(newest.status == RevisionStatus::Deployed, || {
        format!("it is {:?}", newest.status)
    });
    let summary = format!("revision {}, {}", newest.revision, newest.description);
    Ok(Seen::new(3, faults.0, summary))
}

/// The chart whose definitions the plan leads to.
fn planned_definitions<'a>(view: &StepView<'a>) -> Result<&'a ChartRecord, Blind> {
    let name = view.planned.outlook.crds.as_ref();
    let chart = name.and_then(|name| view.planned.run.charts.get(&name.0));
    let chart = chart.ok_or_else(|| Blind::new("no chart of the plan has the definitions"))?;
    if chart.crds.is_empty() {
        return Err(Blind::new(format!(
            "the chart {} has no definitions",
            chart.name
        )));
    }
    Ok(chart)
}

/// INS-03.
fn established(view: &StepView<'_>) -> Judged {
    let chart = planned_definitions(view)?;
    let after = view.after()?;
    let mut faults = Faults::default();
    for name in chart.crds.keys() {
        match after.crds.iter().find(|crd| crd.name == *name) {
            None => faults.0.push(format!("{name} does not exist")),
            Some(crd) => faults.unless(crd.established && !crd.terminating, || {
                format!("{name} is not established")
            }),
        }
    }
    let all = chart.crds.len() as u64;
    let good = all - count(&faults.0);
    Ok(Seen::new(
        all,
        faults.0,
        of(good, all, "definitions established"),
    ))
}

/// INS-04.
fn versions(view: &StepView<'_>) -> Judged {
    let chart = planned_definitions(view)?;
    let after = view.after()?;
    let mut faults = Faults::default();
    let mut told = Vec::new();
    for (name, wanted) in &chart.crds {
        let Some(crd) = after.crds.iter().find(|crd| crd.name == *name) else {
            faults.0.push(format!("{name} does not exist"));
            continue;
        };
        let names: std::collections::BTreeSet<_> =
            wanted.keys().chain(crd.versions.keys()).collect();
        for version in names {
            let flags = |versions: &std::collections::BTreeMap<_, crate::record::CrdVersion>| {
                let version = versions.get(version);
                version.map(|version| (version.served, version.storage))
            };
            faults.unless(flags(wanted) == flags(&crd.versions), || {
                format!("{name} {version} is not served and stored as the chart wants it")
            });
            told.push(version.clone());
        }
    }
    let summary = format!("{} versions as in the chart", told.len());
    Ok(Seen::new(
        count(&told) + count(&faults.0),
        faults.0,
        summary,
    ))
}

/// INS-05. A definition that was there before keeps what it has stored.
fn stored_versions(view: &StepView<'_>) -> Judged {
    let chart = planned_definitions(view)?;
    let (before, after) = (view.before()?, view.after()?);
    let mut faults = Faults::default();
    let mut told = Vec::new();
    for (name, versions) in &chart.crds {
        let find = |crds: &[crate::record::CrdState]| {
            let crd = crds.iter().find(|crd| crd.name == *name);
            crd.map(|crd| crd.stored_versions.clone())
        };
        let storage = versions.iter().find(|(_, version)| version.storage);
        let Some((storage, _)) = storage else {
            continue;
        };
        let mut wanted = find(&before.crds).unwrap_or_default();
        if !wanted.contains(storage) {
            wanted.push(storage.clone());
        }
        let found = find(&after.crds).unwrap_or_default();
        faults.unless(found == wanted, || {
            format!("{name}: {found:?}, not {wanted:?}")
        });
        told.push(format!("{found:?}"));
    }
    told.dedup();
    let summary = format!("storedVersions {}", told.join(" and "));
    Ok(Seen::new(count(&told), faults.0, summary))
}

/// INS-06.
fn complete(view: &StepView<'_>) -> Judged {
    let after = view.after()?;
    let (_, chart) = view.chart()?;
    let Some(deployment) = &after.deployment else {
        return Seen::missing("Deployment");
    };
    let mut faults = Faults::default();
    faults.unless(deployment.is_complete(), || {
        format!(
            "{} wanted, {} there, {} updated, {} available",
            deployment.wanted, deployment.replicas, deployment.updated, deployment.available
        )
    });
    let ready = after
        .pods
        .iter()
        .any(|pod| pod.ready && pod.image == chart.image);
    faults.unless(ready, || format!("no pod of {} is ready", chart.image));
    Ok(Seen::new(
        6,
        faults.0,
        format!("{} available", deployment.available),
    ))
}
