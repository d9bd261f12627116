//! What a run leaves behind: the CLN checks (`qualification.md` B.13).

use super::catalogue::Severity::Gate;
use super::catalogue::{Check, Judge, always};
use super::seen::{Blind, Faults, Judged, Seen};
use super::view::StepView;
use crate::record::{CleanupFacts, StepKind::Cleanup, grouped};

/// The checks of this module.
pub(super) static CHECKS: [Check; 3] = [
    Check {
        id: "CLN-01",
        title: "the cluster is as it was found",
        source: "qualification.md B.13",
        severity: Gate,
        judges: &[Judge::Steps(&[Cleanup], always, as_found)],
    },
    Check {
        id: "CLN-02",
        title: "nothing that the run made is left",
        source: "qualification.md B.13",
        severity: Gate,
        judges: &[Judge::Steps(&[Cleanup], always, nothing_left)],
    },
    Check {
        id: "CLN-05",
        title: "release, controller and definitions are gone",
        source: "qualification.md B.13",
        severity: Gate,
        judges: &[Judge::Steps(&[Cleanup], always, objects_gone)],
    },
];

fn facts<'a>(view: &StepView<'a>) -> Result<&'a CleanupFacts, Blind> {
    let cleanup = view.record()?.cleanup.as_ref();
    cleanup.ok_or_else(|| Blind::new("nothing was cleaned up"))
}

/// CLN-01.
fn as_found(view: &StepView<'_>) -> Judged {
    let differences = &facts(view)?.differences;
    let summary = format!(
        "{} differences from the cluster as it was found",
        differences.len()
    );
    Ok(Seen::new(1, differences.clone(), summary))
}

/// CLN-02.
fn nothing_left(view: &StepView<'_>) -> Judged {
    let facts = facts(view)?;
    let deleted: u64 = facts.deleted.values().sum();
    let summary = format!(
        "{} objects deleted, {} left",
        grouped(deleted),
        facts.left.len()
    );
    Ok(Seen::new(deleted, facts.left.clone(), summary))
}

/// CLN-05. Definitions that were there before the run are not its own.
fn objects_gone(view: &StepView<'_>) -> Judged {
    let after = view.after()?;
    let mut faults = Faults::default();
    faults.unless(after.release.is_none(), || "the release is left".to_owned());
    faults.unless(after.deployment.is_none(), || {
        "the Deployment is left".to_owned()
    });
    faults.unless(after.config.is_none(), || {
        "the configuration object is left".to_owned()
    });
    for pod in &after.pods {
        faults.0.push(format!("the pod {} is left", pod.name));
    }
    for crd in &after.crds {
        let found = view
            .found
            .is_some_and(|found| found.crds.iter().any(|known| known.uid == crd.uid));
        faults.unless(found, || format!("{} is left", crd.name));
    }
    Ok(Seen::new(
        5,
        faults.0,
        "release, Deployment, pods, configuration and definitions",
    ))
}
