//! What an upgrade, a rollback or a restart does to the release and its pods: the UPG checks
//! (`qualification.md` B.4).

use super::catalogue::Severity::{Finding, Gate};
use super::catalogue::{ALL_MOVES, Check, Judge, MOVES, ROLLOUTS, always};
use super::seen::{Blind, Faults, Judged, Seen, count};
use super::view::StepView;
use crate::record::{ApplyMethod, HelmRevision, RevisionStatus, Snapshot, StepKind};

/// The checks of this module.
pub(super) static CHECKS: [Check; 9] = [
    Check {
        id: "UPG-01",
        title: "helm did what was planned",
        source: "qualification.md B.4",
        severity: Gate,
        judges: &[Judge::Steps(MOVES, always, helm)],
    },
    Check {
        id: "UPG-02",
        title: "the apply method is the one that helm chooses",
        source: "qualification.md B.4",
        severity: Finding,
        judges: &[Judge::Steps(ALL_MOVES, always, apply_method)],
    },
    Check {
        id: "UPG-03",
        title: "the rollout is complete",
        source: "qualification.md B.4",
        severity: Gate,
        judges: &[Judge::Steps(ROLLOUTS, always, complete)],
    },
    Check {
        id: "UPG-04",
        title: "only the wanted image runs",
        source: "qualification.md B.4",
        severity: Gate,
        judges: &[Judge::Steps(MOVES, always, image)],
    },
    Check {
        id: "UPG-05",
        title: "there was a ready pod all the time",
        source: "qualification.md B.4",
        severity: Gate,
        judges: &[Judge::Steps(ROLLOUTS, always, gap)],
    },
    Check {
        id: "UPG-06",
        title: "two controllers ran together for a minute at most",
        source: "qualification.md B.4",
        severity: Finding,
        judges: &[Judge::Steps(ROLLOUTS, always, overlap)],
    },
    Check {
        id: "UPG-07",
        title: "the new pod did not restart",
        source: "qualification.md B.4",
        severity: Gate,
        judges: &[Judge::Steps(ROLLOUTS, always, restarts)],
    },
    Check {
        id: "UPG-09",
        title: "objects of the release are the same objects",
        source: "qualification.md B.4",
        severity: Gate,
        judges: &[Judge::Steps(MOVES, always, same_objects)],
    },
    Check {
        id: "UPG-13",
        title: "the release is deployed, and not half applied",
        source: "qualification.md B.4",
        severity: Gate,
        judges: &[Judge::Steps(ALL_MOVES, always, deployed)],
    },
];

/// How long a rollout usually takes at most, in seconds.
const USUAL: f64 = 60.0;

fn newest(snapshot: &Snapshot) -> Option<&HelmRevision> {
    snapshot
        .release
        .as_ref()
        .and_then(|release| release.newest())
}

/// UPG-01.
fn helm(view: &StepView<'_>) -> Judged {
    let helm = view.helm()?;
    let (_, chart) = view.chart()?;
    let outlook = view.planned.outlook;
    let mut faults = Faults::default();
    faults.unless(helm.exit == Some(0) && helm.failure.is_none(), || {
        helm.said
            .clone()
            .unwrap_or_else(|| "helm failed".to_owned())
    });
    let Some(newest) = newest(view.after()?) else {
        return Seen::missing("release");
    };
    faults.unless(Some(newest.revision) == outlook.revision, || {
        let planned = outlook
            .revision
            .map_or("none".to_owned(), |number| number.to_string());
        format!("revision {}, planned {planned}", newest.revision)
    });
    faults.unless(newest.chart_version == chart.version, || {
        format!("chart {}, planned {}", newest.chart_version, chart.version)
    });
    if let (StepKind::Rollback, Some(target)) = (view.kind(), outlook.target) {
        let wanted = format!("Rollback to {target}");
        faults.unless(newest.description == wanted, || {
            format!("{:?}, planned {wanted:?}", newest.description)
        });
    }
    let summary = format!(
        "revision {}, {}, chart {}, {:.1} s",
        newest.revision, newest.description, newest.chart_version, helm.seconds
    );
    Ok(Seen::new(4, faults.0, summary))
}

/// UPG-02. Left to itself, Helm 4 applies as the revision before was applied, and a fresh release
/// server-side; Helm 3 knows one way, and does not name it.
fn apply_method(view: &StepView<'_>) -> Judged {
    let major = view.environment()?.helm.major;
    let Some(after) = newest(view.after()?) else {
        return Seen::missing("release");
    };
    let before = view.before()?;
    let wanted = match (major, newest(before)) {
        (..=3, _) => None,
        (_, None) => Some(ApplyMethod::Ssa),
        (_, Some(before)) => Some(before.apply_method.unwrap_or(ApplyMethod::Csa)),
    };
    let named = |method: Option<ApplyMethod>| match method {
        None => "none named",
        Some(ApplyMethod::Csa) => "client-side",
        Some(ApplyMethod::Ssa) => "server-side",
    };
    let found = after.apply_method;
    let mut faults = Faults::default();
    faults.unless(found == wanted, || {
        format!(
            "{}, where Helm {major} chooses {}",
            named(found),
            named(wanted)
        )
    });
    Ok(Seen::new(1, faults.0, named(found)))
}

/// UPG-03.
fn complete(view: &StepView<'_>) -> Judged {
    let rollout = view.rollout()?;
    let Some(deployment) = &view.after()?.deployment else {
        return Seen::missing("Deployment");
    };
    let mut faults = Faults::default();
    let trouble = || {
        rollout
            .trouble
            .as_ref()
            .unwrap_or(&rollout.last_seen)
            .clone()
    };
    faults.unless(rollout.complete_after.is_some(), trouble);
    faults.unless(deployment.is_complete(), || {
        format!(
            "{} wanted, {} there, {} updated, {} available",
            deployment.wanted, deployment.replicas, deployment.updated, deployment.available
        )
    });
    let summary = match rollout.complete_after {
        None => "it was never complete".to_owned(),
        Some(seconds) if seconds > USUAL => {
            format!("{seconds:.1} s, more than the usual {USUAL:.0} s")
        }
        Some(seconds) => format!("{seconds:.1} s"),
    };
    Ok(Seen::new(2, faults.0, summary))
}

/// UPG-04.
fn image(view: &StepView<'_>) -> Judged {
    let (_, chart) = view.chart()?;
    let rollout = view.rollout()?;
    let pods = &view.after()?.pods;
    let mut faults = Faults::default();
    for pod in pods.iter().filter(|pod| pod.image != chart.image) {
        faults.0.push(format!("{} runs {}", pod.name, pod.image));
    }
    for pod in &rollout.old_pods_left {
        faults
            .0
            .push(format!("{pod} of the previous template is left"));
    }
    let wanted = pods.iter().filter(|pod| pod.image == chart.image);
    let ready = wanted.filter(|pod| pod.ready && !pod.terminating).count();
    faults.unless(ready > 0, || format!("no pod of {} is ready", chart.image));
    let summary = format!("{ready} ready of {}", chart.image);
    Ok(Seen::new(count(pods).max(1), faults.0, summary))
}

/// UPG-05.
fn gap(view: &StepView<'_>) -> Judged {
    let rollout = view.rollout()?;
    let seconds = rollout.longest_without_ready;
    let mut faults = Faults::default();
    faults.unless(seconds <= 0.0, || {
        format!("{seconds:.1} s without a ready pod")
    });
    let summary = format!("{seconds:.1} s without a ready pod");
    Ok(Seen::new(u64::from(rollout.observed), faults.0, summary))
}

/// UPG-06. Nothing elects one of them.
fn overlap(view: &StepView<'_>) -> Judged {
    let rollout = view.rollout()?;
    let seconds = rollout.overlap;
    let mut faults = Faults::default();
    faults.unless(seconds <= USUAL, || {
        format!("{seconds:.1} s with two controllers")
    });
    let summary = format!("{seconds:.1} s with two controllers");
    Ok(Seen::new(u64::from(rollout.observed), faults.0, summary))
}

/// UPG-07.
fn restarts(view: &StepView<'_>) -> Judged {
    let rollout = view.rollout()?;
    let pods = &view.after()?.pods;
    let mut faults = Faults::default();
    faults.unless(rollout.restarts == 0, || {
        format!("the new pod restarted {} times", rollout.restarts)
    });
    for pod in pods {
        faults.unless(pod.restarts == 0, || {
            format!("{}: {} restarts", pod.name, pod.restarts)
        });
    }
    let restarts = pods.iter().map(|pod| pod.restarts).sum::<i32>();
    let summary = format!("{restarts} restarts of {} pods", pods.len());
    Ok(Seen::new(count(pods), faults.0, summary))
}

/// UPG-09.
fn same_objects(view: &StepView<'_>) -> Judged {
    let (before, after) = (view.before()?, view.after()?);
    let objects = |snapshot: &Snapshot| {
        let deployment = snapshot.deployment.as_ref();
        let config = snapshot.config.as_ref();
        [
            (
                "the Deployment",
                deployment.map(|object| object.uid.clone()),
            ),
            ("the configuration", config.map(|object| object.uid.clone())),
        ]
    };
    let mut faults = Faults::default();
    let mut evaluated = 0;
    for ((what, before), (_, after)) in objects(before).into_iter().zip(objects(after)) {
        let Some(before) = before else {
            continue;
        };
        evaluated += 1;
        match after {
            None => faults.0.push(format!("{what} is gone")),
            Some(after) => faults.unless(after == before, || format!("{what} is another object")),
        }
    }
    Ok(Seen::new(
        evaluated,
        faults.0,
        format!("{evaluated} UIDs compared"),
    ))
}

/// UPG-13. What an earlier step left behind in the history is not this step's doing.
fn deployed(view: &StepView<'_>) -> Judged {
    let Some(release) = &view.after()?.release else {
        return Seen::missing("release");
    };
    let newest = release.newest();
    let newest = newest.ok_or_else(|| Blind::new("the release has no history"))?;
    let known = view.before.and_then(self::newest);
    let known = known.map_or(0, |revision| revision.revision);
    let made = release
        .history
        .iter()
        .filter(|revision| revision.revision > known);
    let mut faults = Faults::default();
    for revision in made
        .clone()
        .filter(|revision| revision.revision != newest.revision)
    {
        faults.unless(revision.status == RevisionStatus::Superseded, || {
            format!("revision {} is {:?}", revision.revision, revision.status)
        });
    }
    faults.unless(newest.status == RevisionStatus::Deployed, || {
        format!("revision {} is {:?}", newest.revision, newest.status)
    });
    let summary = format!("revision {} is {:?}", newest.revision, newest.status);
    Ok(Seen::new(made.count().max(1) as u64, faults.0, summary))
}
