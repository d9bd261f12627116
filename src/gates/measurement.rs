//! Whether the measurement itself is sound: the MET checks (`qualification.md` B.0).

use std::collections::{BTreeMap, BTreeSet};

use super::catalogue::Severity::{Finding, Validity};
use super::catalogue::{
    Check, DEFINED, Judge, MEASURED, MOVES, always, with_definitions, with_new_process,
};
use super::seen::{Blind, Faults, Judged, Seen, count, of};
use super::view::{Evidence, RunView, StepView, in_window};
use crate::record::StepKind::Steady;
use crate::record::{CheckResult, Counters, Scrape, StepEnd, Verdict, WindowFacts, grouped};

/// The checks of this module.
pub(super) static CHECKS: [Check; 11] = [
    Check {
        id: "MET-01",
        title: "the window lies within one process",
        source: "qualification.md B.0",
        severity: Validity,
        judges: &[Judge::Steps(&[Steady], always, one_process)],
    },
    Check {
        id: "MET-02",
        title: "no counter fell or vanished",
        source: "qualification.md B.0",
        severity: Validity,
        judges: &[Judge::Steps(&[Steady], always, never_fall)],
    },
    Check {
        id: "MET-03",
        title: "one instance of the API server answered",
        source: "qualification.md B.0",
        severity: Finding,
        judges: &[Judge::Steps(&[Steady], always, one_instance)],
    },
    Check {
        id: "MET-04",
        title: "every reading of the metrics is whole",
        source: "qualification.md B.0",
        severity: Validity,
        judges: &[Judge::Steps(MEASURED, with_new_process, whole_scrapes)],
    },
    Check {
        id: "MET-05",
        title: "the counters are those of the controller's own process",
        source: "qualification.md B.0",
        severity: Validity,
        judges: &[Judge::Steps(MEASURED, with_new_process, own_counters)],
    },
    Check {
        id: "MET-06",
        title: "nothing else changed in the window",
        source: "qualification.md B.0",
        severity: Finding,
        judges: &[Judge::Steps(&[Steady], always, quiet_cluster)],
    },
    Check {
        id: "MET-07",
        title: "length and phase of the window are known",
        source: "qualification.md B.0",
        severity: Validity,
        judges: &[Judge::Steps(&[Steady], always, length_and_phase)],
    },
    Check {
        id: "MET-08",
        title: "the environment is recorded",
        source: "qualification.md B.0",
        severity: Validity,
        judges: &[Judge::Run(|_| None, environment)],
    },
    Check {
        id: "MET-11",
        title: "the AIBOMs are of one complete list",
        source: "qualification.md B.0",
        severity: Validity,
        judges: &[Judge::Steps(DEFINED, with_definitions, complete_list)],
    },
    Check {
        id: "MET-13",
        title: "every check looked at something",
        source: "qualification.md B.0",
        severity: Validity,
        judges: &[Judge::Results(looked)],
    },
    Check {
        id: "MET-14",
        title: "the move changes what runs",
        source: "qualification.md B.0",
        severity: Validity,
        judges: &[Judge::Steps(MOVES, always, real_change)],
    },
];

/// How far two clocks that tell one length may be apart, in seconds: a reading takes time.
const CLOCKS: f64 = 2.0;

/// What must hold of a window before any of its numbers is judged.
pub(super) fn sound<'a>(view: &StepView<'a>) -> Result<&'a WindowFacts, Blind> {
    let window = view.window()?;
    let checks = [one_process, never_fall, whole_scrapes, length_and_phase];
    for check in checks {
        if let Some(fault) = check(view)?.faults.first() {
            return Err(Blind::new(format!("the window is not sound: {fault}")));
        }
    }
    Ok(window)
}

/// MET-01.
fn one_process(view: &StepView<'_>) -> Judged {
    let window = view.window()?;
    let others = in_window(window).filter(|scrape| !scrape.same_process(&window.opened));
    let faults: Vec<_> = others
        .map(|scrape| format!("{}: the reading of another process", scrape.file))
        .collect();
    let readings = in_window(window).count() as u64;
    Ok(Seen::new(
        readings,
        faults,
        format!("{readings} readings of pod {}", window.opened.pod),
    ))
}

/// MET-02. A series that is missing at the start counts from 0; one that is missing later has vanished.
fn never_fall(view: &StepView<'_>) -> Judged {
    let window = view.window()?;
    let readings: Vec<_> = in_window(window)
        .map(|scrape| series(&scrape.counters))
        .collect();
    let mut faults = Faults::default();
    for (earlier, later) in readings.iter().zip(readings.iter().skip(1)) {
        for (name, value) in earlier {
            match later.get(name) {
                Some(next) => faults.unless(next >= value, || {
                    format!("{name} fell from {value} to {next}")
                }),
                None => faults.0.push(format!("{name} vanished")),
            }
        }
    }
    let names: BTreeSet<_> = readings.iter().flat_map(BTreeMap::keys).collect();
    let summary = format!("{} counters in {} readings", names.len(), readings.len());
    Ok(Seen::new(names.len() as u64, faults.0, summary))
}

/// All that only grows in a process.
fn series(counters: &Counters) -> BTreeMap<String, f64> {
    let requests = counters.requests.iter().map(|series| {
        let name = format!("requests {} {}", series.method, series.code);
        (name, series.count as f64)
    });
    let reconciles = counters.reconciles.iter();
    let reconciles =
        reconciles.map(|(name, count)| (format!("reconciles of {name}"), *count as f64));
    let mut all: BTreeMap<_, _> = requests.chain(reconciles).collect();
    all.insert(
        "reconcile errors".to_owned(),
        counters.reconcile_errors as f64,
    );
    all.insert("retries".to_owned(), counters.queue_retries as f64);
    all.insert("CPU seconds".to_owned(), counters.cpu_seconds);
    all
}

/// MET-03. No verdict is made of the server's counters; what is told is why they could not be compared.
fn one_instance(view: &StepView<'_>) -> Judged {
    let seen: BTreeSet<_> = view.window()?.api_servers.iter().collect();
    let mut faults = Faults::default();
    faults.unless(seen.len() <= 1, || {
        format!(
            "{} instances answered: their counters are not compared",
            seen.len()
        )
    });
    let summary = format!("{} instances of the API server seen", seen.len());
    Ok(Seen::new(seen.len() as u64, faults.0, summary))
}

/// MET-04.
fn whole_scrapes(view: &StepView<'_>) -> Judged {
    let scrapes = view.scrapes();
    let unsound = scrapes.iter().flat_map(|scrape| {
        let lines = scrape.unsound.iter();
        lines.map(|line| format!("{}: {line}", scrape.file))
    });
    let faults: Vec<_> = unsound.collect();
    let summary = format!("{} readings of the metrics", scrapes.len());
    Ok(Seen::new(count(&scrapes), faults, summary))
}

/// MET-05. A counter of the controller's own process counts nobody else's requests.
fn own_counters(view: &StepView<'_>) -> Judged {
    let snapshots = view.before.into_iter().chain([view.after()?]);
    let pods = snapshots.flat_map(|snapshot| &snapshot.pods);
    let known: BTreeSet<_> = pods.map(|pod| pod.uid.as_str()).collect();
    let scrapes = view.scrapes();
    let foreign = |scrape: &&&Scrape| !known.contains(scrape.pod_uid.as_str());
    let faults: Vec<_> = scrapes
        .iter()
        .filter(foreign)
        .map(|scrape| {
            format!(
                "{}: {} is no pod of the Deployment",
                scrape.file, scrape.pod
            )
        })
        .collect();
    let summary = of(
        count(&scrapes) - count(&faults),
        count(&scrapes),
        "readings are the controller's own",
    );
    Ok(Seen::new(count(&scrapes), faults, summary))
}

/// MET-06. What changes in the window is what reconciles may be due to.
fn quiet_cluster(view: &StepView<'_>) -> Judged {
    let churn = &view.window()?.churn;
    let moved = churn.iter().filter(|(_, changes)| **changes > 0);
    let faults: Vec<_> = moved
        .map(|(kind, changes)| format!("{kind}: {} changes", grouped(*changes)))
        .collect();
    let total = churn.values().sum();
    let summary = format!("{} changes of {} kinds", grouped(total), churn.len());
    Ok(Seen::new(churn.len() as u64, faults, summary))
}

/// MET-07.
fn length_and_phase(view: &StepView<'_>) -> Judged {
    let window = view.window()?;
    let WindowFacts {
        asked,
        elapsed,
        phase,
        ..
    } = window;
    let mut faults = Faults::default();
    faults.unless(
        elapsed.is_finite() && *elapsed > 0.0 && elapsed + 1.0 >= *asked,
        || format!("{elapsed:.1} s long, {asked:.1} s asked for"),
    );
    faults.unless(phase.is_finite() && *phase >= 0.0, || {
        format!("it began {phase:.1} s after the start of its process")
    });
    let readings = window.closed.at_ms.saturating_sub(window.opened.at_ms) as f64 / 1000.0;
    faults.unless((readings - elapsed).abs() <= CLOCKS, || {
        format!("{elapsed:.1} s long, but its readings are {readings:.1} s apart")
    });
    let summary = format!("{elapsed:.1} s, begun {phase:.1} s after the start of the process");
    Ok(Seen::new(2, faults.0, summary))
}

/// MET-08.
fn environment(run: &RunView<'_>) -> Judged {
    let file = run.evidence.run;
    let environment = file.environment.as_ref();
    let environment = environment.ok_or_else(|| Blind::new("no environment is recorded"))?;
    let mut facts = vec![
        (
            "the server's version".to_owned(),
            environment.server.as_str(),
        ),
        ("the server's platform".to_owned(), &environment.platform),
        ("helm's version".to_owned(), &environment.helm.version),
        ("this tool's version".to_owned(), &environment.tool),
    ];
    for name in file.plan.charts.keys() {
        let chart = file.charts.get(&name.0);
        facts.push((
            format!("the digest of the chart {name}"),
            chart.map_or("", |chart| &chart.sha256),
        ));
        facts.push((
            format!("the digest of the values of the chart {name}"),
            chart.map_or("", |chart| &chart.values_sha256),
        ));
    }
    let unknown = facts.iter().filter(|(_, value)| value.is_empty());
    let faults: Vec<_> = unknown
        .map(|(what, _)| format!("{what} is not recorded"))
        .collect();
    let summary = format!(
        "Kubernetes {}, helm {}, tool {}",
        environment.server, environment.helm.version, environment.tool
    );
    Ok(Seen::new(count(&facts), faults, summary))
}

/// MET-11.
fn complete_list(view: &StepView<'_>) -> Judged {
    let list = view.aiboms()?;
    let mut faults = Faults::default();
    faults.unless(list.pages > 0, || "no page was read".to_owned());
    faults.unless(!list.resource_version.is_empty(), || {
        "the list has no resourceVersion".to_owned()
    });
    let names: BTreeSet<_> = list.items.iter().map(|aibom| aibom.key()).collect();
    let twice = list.items.len() - names.len();
    faults.unless(twice == 0, || format!("{twice} AIBOMs came twice"));
    let summary = format!(
        "{} AIBOMs at resourceVersion {} in {} pages, begun again {} times",
        grouped(count(&list.items)),
        list.resource_version,
        list.pages,
        list.restarts
    );
    Ok(Seen::new(1 + count(&list.items), faults.0, summary))
}

/// MET-13. A step that did not end as planned needs a check that says why, or its silence would pass.
fn looked(evidence: &Evidence<'_>, results: &[CheckResult]) -> Judged {
    let judged = results
        .iter()
        .filter(|result| result.verdict != Verdict::NotApplicable);
    let judged: Vec<_> = judged.collect();
    let mut faults = Faults::default();
    for result in &judged {
        faults.unless(result.evaluated > 0, || match result.step {
            Some(step) => format!("step {step}: {} looked at nothing", result.id),
            None => format!("{} looked at nothing", result.id),
        });
    }
    for record in evidence.steps {
        let (StepEnd::Failed { reason } | StepEnd::Aborted { reason, .. }) = &record.end else {
            continue;
        };
        let told = judged.iter().any(|result| {
            let bad = [Verdict::Fail, Verdict::Invalid, Verdict::Expected];
            result.step == Some(record.step) && bad.contains(&result.verdict)
        });
        faults.unless(told, || {
            format!(
                "step {} failed ({reason}), and no check says why",
                record.step
            )
        });
    }
    let summary = format!("{} results", grouped(count(&judged)));
    Ok(Seen::new(count(&judged), faults.0, summary))
}

/// MET-14.
fn real_change(view: &StepView<'_>) -> Judged {
    let (_, to) = view.chart()?;
    let from = view
        .planned
        .before
        .and_then(|outlook| outlook.chart.as_ref());
    let from = from.and_then(|name| view.planned.run.charts.get(&name.0));
    let from = from.ok_or_else(|| Blind::new("no chart ran before the step"))?;
    let rollout = view.rollout()?;
    let release = view.after()?.release.as_ref();
    let newest = release.and_then(|release| release.newest());
    let newest = newest.ok_or_else(|| Blind::new("there is no release after the step"))?;
    let mut faults = Faults::default();
    let images = (&from.image, &from.sha256, &from.values_sha256);
    faults.unless(images != (&to.image, &to.sha256, &to.values_sha256), || {
        format!(
            "both charts are {} {} with the same values",
            to.name, to.version
        )
    });
    faults.unless(rollout.template_changed, || {
        "the pod template is the same".to_owned()
    });
    faults.unless(newest.chart_version == to.version, || {
        format!(
            "the release has chart {}, not {}",
            newest.chart_version, to.version
        )
    });
    let summary = format!("from {} to {}", from.version, to.version);
    Ok(Seen::new(3, faults.0, summary))
}
