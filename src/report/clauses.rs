//! What a step came to, in a few clauses, as far as its own record tells: also while the run is under
//! way.

use super::cost::WindowRow;
use super::words::{counted, seconds};
use crate::record::{
    CleanupFacts, CrdFacts, HelmFacts, LoadFacts, RolloutFacts, StepEnd, StepKind, StepRecord,
    grouped,
};

/// The clauses of a step, the most important first.
pub(super) fn of(record: &StepRecord) -> Vec<String> {
    let mut clauses = Vec::new();
    match &record.end {
        StepEnd::Done => {}
        StepEnd::Failed { reason } => clauses.push(format!("failed: {reason}")),
        StepEnd::Aborted { reason, .. } => clauses.push(format!("ended the run: {reason}")),
    }
    if let Some(helm) = &record.helm {
        clauses.push(moved(helm, record.rollout.as_ref()));
    }
    if let Some(rollout) = &record.rollout {
        clauses.extend(rolled_out(record.kind, rollout));
    }
    if let Some(load) = &record.load {
        clauses.extend(loaded(load));
    }
    if let Some(crds) = &record.crds {
        clauses.push(applied(crds));
    }
    if let Some(window) = &record.window {
        clauses.extend(WindowRow::new(record.step, None, window).clauses());
    }
    if let Some(restart) = record.restart.as_ref()
        && record.kind == StepKind::Restart
    {
        clauses.push(match restart.settled_after {
            Some(after) => format!("settled {} after the process started", seconds(after)),
            None => "did not settle".to_owned(),
        });
    }
    if let Some(cleanup) = &record.cleanup {
        clauses.extend(cleaned(cleanup));
    }
    if record.kind == StepKind::Hold {
        clauses.push(format!("waited {}", seconds(record.seconds)));
    }
    clauses
}

/// `rev 2, 12.3 s`: the time from the start of the helm process until the rollout was complete.
fn moved(helm: &HelmFacts, rollout: Option<&RolloutFacts>) -> String {
    let mut text = match helm.revision_after {
        Some(revision) => format!("rev {revision}, "),
        None => String::new(),
    };
    let complete = rollout.and_then(|rollout| rollout.complete_after);
    text.push_str(&match (&helm.failure, complete, rollout) {
        (Some(_), ..) => {
            let said = helm.said.as_deref().unwrap_or("nothing");
            format!("helm failed after {}: {said}", seconds(helm.seconds))
        }
        (None, Some(complete), _) => seconds(complete),
        (None, None, None) => format!("helm took {}", seconds(helm.seconds)),
        (None, None, Some(rollout)) => format!(
            "helm came back after {}, but the rollout was not complete: {}",
            seconds(helm.seconds),
            rollout.last_seen
        ),
    });
    text
}

/// What is not as it should be; an install has no pod before its first one.
fn rolled_out(kind: StepKind, rollout: &RolloutFacts) -> Vec<String> {
    let mut clauses = Vec::new();
    let gap = rollout.longest_without_ready;
    if kind != StepKind::Install && gap > 0.0 {
        clauses.push(format!("{} without a ready pod", seconds(gap)));
    }
    if let Some(restarts) = u64::try_from(rollout.restarts)
        .ok()
        .filter(|many| *many > 0)
    {
        clauses.push(counted(restarts, "restart"));
    }
    if let Some(trouble) = &rollout.trouble {
        clauses.push(trouble.clone());
    }
    let left = rollout.old_pods_left.len() as u64;
    if left > 0 {
        clauses.push(format!("{} of the old version left", counted(left, "pod")));
    }
    clauses
}

fn loaded(load: &LoadFacts) -> Vec<String> {
    let mut clauses = vec![format!(
        "{} created in {} ({:.0}/s)",
        grouped(load.created.into()),
        seconds(load.seconds),
        load.rate
    )];
    if load.existing > 0 {
        clauses.push(format!("{} existed", grouped(load.existing.into())));
    }
    let failed = load.failed.len() as u64;
    if let Some((name, reason)) = load.failed.first_key_value() {
        clauses.push(format!(
            "{} not created ({name}: {reason})",
            grouped(failed)
        ));
    }
    clauses
}

fn applied(crds: &CrdFacts) -> String {
    let changed = crds.applied.iter().filter(|crd| crd.changed).count() as u64;
    let mut text = format!(
        "{} applied, {} changed",
        counted(crds.applied.len() as u64, "CRD"),
        grouped(changed)
    );
    for crd in &crds.applied {
        if let Some(reason) = &crd.refused {
            text.push_str(&format!("; {} refused: {reason}", crd.name));
        }
    }
    text
}

fn cleaned(cleanup: &CleanupFacts) -> Vec<String> {
    let kinds: Vec<String> = cleanup
        .deleted
        .iter()
        .map(|(kind, number)| format!("{kind} {}", grouped(*number)))
        .collect();
    let mut clauses = Vec::new();
    if !kinds.is_empty() {
        clauses.push(format!("deleted: {}", kinds.join(", ")));
    }
    if !cleanup.left.is_empty() {
        clauses.push(format!(
            "left behind: {}",
            super::words::names(&cleanup.left)
        ));
    }
    clauses.push(match cleanup.differences.len() as u64 {
        0 => "cluster as found".to_owned(),
        many => format!(
            "{} to the cluster as found: {}",
            counted(many, "difference"),
            super::words::names(&cleanup.differences)
        ),
    });
    clauses
}
