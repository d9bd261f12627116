//! AIBOMs against the workloads that should have them: the CNV checks (`qualification.md` B.3).

use std::collections::{BTreeMap, BTreeSet};

use super::catalogue::Severity::Gate;
use super::catalogue::{Check, Judge, RUNNING, always, with_running_aiboms};
use super::seen::{Blind, Faults, Judged, Seen, count, of};
use super::view::StepView;
use crate::record::{
    AibomState, ConditionStatus, DocumentState, StepKind::Load, Workload, grouped,
};

/// The checks of this module.
pub(super) static CHECKS: [Check; 7] = [
    Check {
        id: "CNV-01",
        title: "one AIBOM per workload, and none other",
        source: "qualification.md B.3",
        severity: Gate,
        judges: &[Judge::Steps(RUNNING, with_running_aiboms, one_each)],
    },
    Check {
        id: "CNV-02",
        title: "every AIBOM is Ready",
        source: "qualification.md B.3",
        severity: Gate,
        judges: &[Judge::Steps(RUNNING, with_running_aiboms, ready)],
    },
    Check {
        id: "CNV-03",
        title: "all AIBOMs became Ready after the load",
        source: "qualification.md B.3",
        severity: Gate,
        judges: &[Judge::Steps(&[Load], with_running_aiboms, time)],
    },
    Check {
        id: "CNV-04",
        title: "every workload was made",
        source: "qualification.md B.3",
        severity: Gate,
        judges: &[Judge::Steps(&[Load], always, load)],
    },
    Check {
        id: "CNV-05",
        title: "every AIBOM is of its workload's generation",
        source: "qualification.md B.3",
        severity: Gate,
        judges: &[Judge::Steps(RUNNING, with_running_aiboms, current)],
    },
    Check {
        id: "CNV-06",
        title: "every AIBOM belongs to its workload",
        source: "qualification.md B.3",
        severity: Gate,
        judges: &[Judge::Steps(RUNNING, with_running_aiboms, owned)],
    },
    Check {
        id: "CNV-07",
        title: "every document is what its status states",
        source: "qualification.md B.3",
        severity: Gate,
        judges: &[Judge::Steps(RUNNING, with_running_aiboms, documents)],
    },
];

/// How long a thousand workloads may take before it is worth a word, in seconds.
const USUAL: f64 = 30.0;

type Key<'a> = (&'a str, &'a str, &'a str);

fn of_owner(aibom: &AibomState) -> Option<Key<'_>> {
    let owner = aibom.owner.as_ref()?;
    Some((&aibom.namespace, &owner.kind, &owner.name))
}

fn of_workload(workload: &Workload) -> Key<'_> {
    (&workload.namespace, &workload.kind, &workload.name)
}

fn told((namespace, kind, name): Key<'_>) -> String {
    format!("{kind} {namespace}/{name}")
}

fn name(aibom: &AibomState) -> String {
    format!("{}/{}", aibom.namespace, aibom.name)
}

/// CNV-01.
fn one_each(view: &StepView<'_>) -> Judged {
    let list = view.aiboms()?;
    let expected: BTreeSet<_> = view.after()?.expected.iter().map(of_workload).collect();
    let mut found = BTreeMap::<_, u32>::new();
    let mut faults = Faults::default();
    for aibom in &list.items {
        match of_owner(aibom) {
            Some(key) => *found.entry(key).or_default() += 1,
            None => faults.0.push(format!("{}: it has no owner", name(aibom))),
        }
    }
    for key in &expected {
        faults.unless(found.contains_key(key), || {
            format!("{}: no AIBOM", told(*key))
        });
    }
    for (key, times) in &found {
        faults.unless(expected.contains(key), || {
            format!("{}: an AIBOM that is not expected", told(*key))
        });
        faults.unless(*times == 1, || format!("{}: {times} AIBOMs", told(*key)));
    }
    let all = expected.len() as u64;
    let there = expected
        .iter()
        .filter(|key| found.contains_key(*key))
        .count() as u64;
    Ok(Seen::new(
        all,
        faults.0,
        of(there, all, "workloads have their AIBOM"),
    ))
}

/// CNV-02.
fn ready(view: &StepView<'_>) -> Judged {
    each_aibom(view, "Ready", |aibom| match aibom.ready {
        Some(ConditionStatus::True) => Ok(()),
        Some(status) => Err(format!("Ready is {status:?}")),
        None => Err("it has no condition Ready".to_owned()),
    })
}

/// Holds every AIBOM to the same rule.
fn each_aibom(
    view: &StepView<'_>,
    suffix: &str,
    rule: impl Fn(&AibomState) -> Result<(), String>,
) -> Judged {
    let items = &view.aiboms()?.items;
    let faults: Vec<_> = items
        .iter()
        .filter_map(|aibom| {
            let fault = rule(aibom).err()?;
            Some(format!("{}: {fault}", name(aibom)))
        })
        .collect();
    let all = count(items);
    Ok(Seen::new(
        all,
        faults.clone(),
        of(all - count(&faults), all, suffix),
    ))
}

/// CNV-03.
fn time(view: &StepView<'_>) -> Judged {
    let load = view.record()?.load.as_ref();
    let load = load.ok_or_else(|| Blind::new("no load was applied"))?;
    let made = u64::from(load.created) + u64::from(load.existing);
    let Some(seconds) = load.converged_after else {
        let fault = "not all AIBOMs became Ready".to_owned();
        return Ok(Seen::new(made, vec![fault.clone()], fault));
    };
    let usual = USUAL * (made as f64 / 1000.0).max(1.0);
    let pace = if seconds > usual {
        format!(", slower than the usual {usual:.0} s")
    } else {
        String::new()
    };
    let summary = format!(
        "{} Ready {seconds:.1} s after the load{pace}",
        grouped(made)
    );
    Ok(Seen::new(made, Vec::new(), summary))
}

/// CNV-04.
fn load(view: &StepView<'_>) -> Judged {
    let load = view.record()?.load.as_ref();
    let load = load.ok_or_else(|| Blind::new("no load was applied"))?;
    let failed = load.failed.iter();
    let mut faults = Faults(failed.map(|(name, why)| format!("{name}: {why}")).collect());
    let made = u64::from(load.created) + u64::from(load.existing);
    let asked = u64::from(load.asked);
    faults.unless(made == asked, || of(made, asked, "workloads are there"));
    let summary = format!(
        "{} in {:.1} s, {:.0} per second",
        of(made, asked, "workloads"),
        load.seconds,
        load.rate
    );
    Ok(Seen::new(asked, faults.0, summary))
}

/// The workloads that AIBOMs belong to, by who the AIBOM says that it is owned by.
fn workloads<'a>(view: &StepView<'a>) -> Result<BTreeMap<Key<'a>, &'a Workload>, Blind> {
    let expected = view.after()?.expected.iter();
    Ok(expected
        .map(|workload| (of_workload(workload), workload))
        .collect())
}

/// CNV-05. `status.observedGeneration` is the workload's, not the AIBOM's own.
fn current(view: &StepView<'_>) -> Judged {
    let workloads = workloads(view)?;
    each_aibom(view, "of their workload's generation", |aibom| {
        let workload = of_owner(aibom).and_then(|key| workloads.get(&key));
        let workload = workload.ok_or("its workload was not found")?;
        if aibom.observed_generation == Some(workload.generation) {
            return Ok(());
        }
        let observed = aibom.observed_generation;
        let observed = observed.map_or("none".to_owned(), |generation| generation.to_string());
        Err(format!(
            "generation {observed}, its workload has {}",
            workload.generation
        ))
    })
}

/// CNV-06.
fn owned(view: &StepView<'_>) -> Judged {
    let workloads = workloads(view)?;
    each_aibom(view, "belong to their workload", |aibom| {
        let owner = aibom.owner.as_ref().ok_or("it has no owner")?;
        let workload = of_owner(aibom).and_then(|key| workloads.get(&key));
        let workload = workload.ok_or("its workload was not found")?;
        if owner.uid == workload.uid {
            return Ok(());
        }
        Err(format!(
            "it belongs to {}, its workload is {}",
            owner.uid, workload.uid
        ))
    })
}

/// CNV-07. A document that was too large to be kept cannot be looked at.
fn documents(view: &StepView<'_>) -> Judged {
    let mut seen = each_aibom(view, "documents are as stated", |aibom| {
        let (sha256, bytes, stated_sha256, stated_bytes) = match &aibom.document {
            DocumentState::Inline {
                sha256,
                bytes,
                stated_sha256,
                stated_bytes,
                ..
            } => (sha256, *bytes, stated_sha256, *stated_bytes),
            DocumentState::Truncated => return Ok(()),
            DocumentState::Absent => return Err("it has no document".to_owned()),
            DocumentState::Unreadable { reason } => return Err(reason.clone()),
        };
        if stated_sha256.as_ref() != Some(sha256) {
            return Err(format!(
                "the document's digest is {sha256}, and is stated otherwise"
            ));
        }
        if aibom.bom_hash.as_ref() != Some(sha256) {
            return Err(format!(
                "the document's digest is {sha256}, bomHash another"
            ));
        }
        if stated_bytes != Some(bytes) {
            return Err(format!(
                "the document has {bytes} bytes, and is stated otherwise"
            ));
        }
        Ok(())
    })?;
    let items = view.aiboms()?.items.iter();
    let truncated = items.filter(|aibom| aibom.document == DocumentState::Truncated);
    seen.evaluated -= truncated.count() as u64;
    Ok(seen)
}
