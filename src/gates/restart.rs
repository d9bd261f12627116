//! What the start of a new process costs: the RST checks (`qualification.md` B.8).
//!
//! Counters are those of the new process since it began, so that nothing is subtracted. They are final
//! once it has come to rest.

use super::catalogue::Severity::{Finding, Gate};
use super::catalogue::{Check, Judge, ROLLOUTS, with_new_process};
use super::seen::{Blind, Faults, Judged, Seen};
use super::view::StepView;
use crate::record::grouped;
use crate::record::{
    PlaneKind, RestartFacts,
    StepKind::{self, Install, Restart, Rollback, Upgrade},
};

/// The checks of this module.
pub(super) static CHECKS: [Check; 6] = [
    Check {
        id: "RST-01",
        title: "a new process walked the inventory and came to rest",
        source: "qualification.md B.8",
        severity: Gate,
        judges: &[Judge::Steps(ROLLOUTS, with_new_process, settled)],
    },
    Check {
        id: "RST-02",
        title: "one status PUT per AIBOM and one for the configuration",
        source: "qualification.md B.8",
        severity: Gate,
        judges: &[Judge::Steps(ROLLOUTS, with_new_process, puts)],
    },
    Check {
        id: "RST-03",
        title: "the GETs of the start are those of the model",
        source: "qualification.md B.8",
        severity: Gate,
        judges: &[Judge::Steps(
            &[Install, Upgrade, Rollback, Restart],
            with_new_process,
            gets,
        )],
    },
    Check {
        id: "RST-04",
        title: "other writes are events only",
        source: "qualification.md B.8",
        severity: Gate,
        judges: &[Judge::Steps(ROLLOUTS, with_new_process, other_writes)],
    },
    Check {
        id: "RST-05",
        title: "no write met a conflict",
        source: "qualification.md B.8",
        severity: Finding,
        judges: &[Judge::Steps(ROLLOUTS, with_new_process, conflicts)],
    },
    Check {
        id: "RST-07",
        title: "the walk took its usual time",
        source: "qualification.md B.8",
        severity: Finding,
        judges: &[Judge::Steps(ROLLOUTS, with_new_process, time)],
    },
];

/// A walk is usually over after this time, in seconds, and the time that its AIBOMs take.
const USUAL: f64 = 60.0;
/// AIBOMs that even a slow walk refreshes in a second.
const USUAL_PACE: f64 = 10.0;

/// The new process's cost, once it can grow no more.
fn final_counters<'a>(view: &StepView<'a>) -> Result<&'a RestartFacts, Blind> {
    let restart = view.restart()?;
    if restart.settled_after.is_none() {
        return Err(Blind::new(
            "the new process did not come to rest: its counters are not final",
        ));
    }
    if let Some(fault) = restart.after.unsound.first() {
        return Err(Blind::new(format!("{}: {fault}", restart.after.file)));
    }
    Ok(restart)
}

/// RST-01.
fn settled(view: &StepView<'_>) -> Judged {
    let restart = view.restart()?;
    let mut faults = Faults::default();
    faults.unless(restart.settled_after.is_some(), || {
        "it did not come to rest".to_owned()
    });
    if let Some(before) = &restart.before {
        faults.unless(restart.after.process_start > before.process_start, || {
            "the process is not a new one".to_owned()
        });
    }
    for name in &restart.not_walked {
        faults.0.push(format!("{name}: not walked"));
    }
    let summary = match restart.settled_after {
        Some(seconds) => format!("at rest {seconds:.1} s after its start"),
        None => "not at rest by the deadline".to_owned(),
    };
    Ok(Seen::new(1 + restart.tracked, faults.0, summary))
}

/// RST-02.
fn puts(view: &StepView<'_>) -> Judged {
    let restart = final_counters(view)?;
    let (costs, _) = view.costs()?;
    let listed = view.aiboms()?.items.len() as u64;
    if listed != restart.tracked {
        return Err(Blind::new(format!(
            "{} AIBOMs were tracked, but {listed} are listed",
            restart.tracked
        )));
    }
    let wanted = restart.tracked + costs.config_writes;
    let counters = &restart.after.counters;
    let puts = counters.requests("PUT", |code| code.starts_with('2'));
    let mut faults = Faults::default();
    faults.unless(puts == wanted, || {
        format!("{} PUTs, {} wanted", grouped(puts), grouped(wanted))
    });
    let summary = format!(
        "{} PUTs of {} AIBOMs and {} configuration",
        grouped(puts),
        grouped(restart.tracked),
        costs.config_writes
    );
    Ok(Seen::new(wanted, faults.0, summary))
}

/// RST-03. A start that was measured late has opened watches anew.
fn gets(view: &StepView<'_>) -> Judged {
    let restart = final_counters(view)?;
    let (costs, release) = view.costs()?;
    let foreign = match view.environment()?.plane {
        PlaneKind::Local => 0,
        PlaneKind::Cluster { .. } => release.third_party,
    };
    let age = restart.after.at.timestamp() as f64 - restart.after.process_start;
    let age = age.max(0.0) as u64;
    let informers = release.running_informers() + foreign;
    let least = release.informers + release.discovery + release.other_reads.start();
    let mut most = informers + release.discovery + release.other_reads.end();
    most += informers * (age / costs.watch_seconds.start.max(1));
    if view.kind() == StepKind::Install {
        most += costs.install_reads;
    }
    let gets = restart.after.counters.requests("GET", |_| true);
    let mut faults = Faults::default();
    faults.unless((least..=most).contains(&gets), || {
        format!(
            "{gets} GETs, {least} to {most} by the model of {}",
            release.version
        )
    });
    let summary = format!(
        "{gets} GETs, {least} to {most} by the model of {}",
        release.version
    );
    Ok(Seen::new(1, faults.0, summary))
}

/// RST-04.
fn other_writes(view: &StepView<'_>) -> Judged {
    let restart = final_counters(view)?;
    let (_, release) = view.costs()?;
    let counters = &restart.after.counters;
    let posts = counters.requests("POST", |_| true);
    let mut faults = Faults::default();
    faults.unless(release.events.contains(&posts), || {
        format!(
            "{posts} POSTs, but a start reports {} to {} events",
            release.events.start(),
            release.events.end()
        )
    });
    for method in ["PATCH", "DELETE"] {
        let wrote = counters.requests(method, |_| true);
        faults.unless(wrote == 0, || format!("{wrote} {method}"));
    }
    Ok(Seen::new(
        3,
        faults.0,
        format!("{posts} POSTs, all of them events"),
    ))
}

/// RST-05. While two controllers overlap, one of them may write what the other has just written.
fn conflicts(view: &StepView<'_>) -> Judged {
    let restart = final_counters(view)?;
    let counters = &restart.after.counters;
    let all = ["POST", "PUT", "PATCH", "DELETE"];
    let conflicts = all.map(|method| counters.requests(method, |code| code == "409"));
    let conflicts: u64 = conflicts.iter().sum();
    let mut faults = Faults::default();
    faults.unless(conflicts == 0, || format!("{conflicts} conflicts"));
    Ok(Seen::new(
        counters.writes(),
        faults.0,
        format!("{conflicts} conflicts"),
    ))
}

/// RST-07.
fn time(view: &StepView<'_>) -> Judged {
    let restart = final_counters(view)?;
    let seconds = restart.settled_after.unwrap_or_default();
    let usual = USUAL + restart.tracked as f64 / USUAL_PACE;
    let mut faults = Faults::default();
    faults.unless(seconds <= usual, || {
        format!("{seconds:.1} s, usually {usual:.0} s at most")
    });
    let summary = format!(
        "{seconds:.1} s, {:.2} CPU-s for {} AIBOMs",
        restart.after.counters.cpu_seconds,
        grouped(restart.tracked)
    );
    Ok(Seen::new(1, faults.0, summary))
}
