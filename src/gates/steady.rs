//! The quiet window: the STS checks (`qualification.md` B.7).

use std::ops::RangeInclusive;

use chrono::TimeDelta;

use super::catalogue::Severity::{Finding, Gate};
use super::catalogue::{Check, Judge, always};
use super::measurement::sound;
use super::reconnects::Reconnects;
use super::seen::{Blind, Faults, Judged, Seen, count};
use super::view::{StepView, in_window};
use crate::record::{Counters, PlaneKind, StepKind::Steady, WindowFacts, grouped};

/// The checks of this module.
pub(super) static CHECKS: [Check; 9] = [
    Check {
        id: "STS-01",
        title: "the controller was at rest for 30 s before the window",
        source: "qualification.md B.7",
        severity: Gate,
        judges: &[Judge::Steps(&[Steady], always, at_rest)],
    },
    Check {
        id: "STS-02",
        title: "the GETs are as many as watches can be opened",
        source: "qualification.md B.7",
        severity: Gate,
        judges: &[Judge::Steps(&[Steady], always, possible_reads)],
    },
    Check {
        id: "STS-03",
        title: "nothing was written",
        source: "qualification.md B.7",
        severity: Gate,
        judges: &[Judge::Steps(&[Steady], always, writes)],
    },
    Check {
        id: "STS-04",
        title: "no request failed",
        source: "qualification.md B.7",
        severity: Gate,
        judges: &[Judge::Steps(&[Steady], always, errors)],
    },
    Check {
        id: "STS-05",
        title: "nothing was reconciled without a cause",
        source: "qualification.md B.7",
        severity: Gate,
        judges: &[Judge::Steps(&[Steady], always, reconciles)],
    },
    Check {
        id: "STS-06",
        title: "the GETs lie in the model's 99 % band",
        source: "qualification.md B.7; design.md 7",
        severity: Gate,
        judges: &[Judge::Steps(&[Steady], always, band)],
    },
    Check {
        id: "STS-08",
        title: "at most 5 mCPU on average",
        source: "qualification.md B.7",
        severity: Finding,
        judges: &[Judge::Steps(&[Steady], always, cpu)],
    },
    Check {
        id: "STS-09",
        title: "resident memory is below the container's limit",
        source: "qualification.md B.7",
        severity: Gate,
        judges: &[Judge::Steps(&[Steady], always, memory)],
    },
    Check {
        id: "STS-10",
        title: "nothing waits in a queue",
        source: "qualification.md B.7",
        severity: Finding,
        judges: &[Judge::Steps(&[Steady], always, queues)],
    },
];

/// How long nothing may have been written or reconciled before the window, in seconds.
const REST: f64 = 30.0;
/// What a controller at rest may take of a CPU, in thousandths.
const USUAL_CPU: f64 = 5.0;
/// A window proves something when it would show an extra list per minute this often.
const POWER: f64 = 0.9;

/// How much a count grew in the window.
fn growth(window: &WindowFacts, of: impl Fn(&Counters) -> u64) -> u64 {
    of(&window.closed.counters).saturating_sub(of(&window.opened.counters))
}

fn reads(window: &WindowFacts) -> u64 {
    growth(window, |counters| {
        counters.requests("GET", |code| code.starts_with('2'))
    })
}

/// STS-01. No AIBOM was reconciled later than it may, by the controller's own words.
fn at_rest(view: &StepView<'_>) -> Judged {
    let window = sound(view)?;
    let items = &view.aiboms()?.items;
    let skew = view.environment()?.clock_skew_ms.abs();
    let latest = window.opened.at - TimeDelta::seconds(REST as i64) + TimeDelta::milliseconds(skew);
    let mut faults = Faults::default();
    faults.unless(window.quiet_before >= REST, || {
        format!("quiet for {:.1} s only", window.quiet_before)
    });
    // What is reconciled in the window is STS-03's and STS-05's business.
    for aibom in items {
        let late = aibom
            .last_reconciled
            .is_some_and(|time| time > latest && time <= window.opened.at);
        faults.unless(!late, || {
            format!("{}/{}: reconciled too late", aibom.namespace, aibom.name)
        });
    }
    let summary = format!("quiet for {:.1} s", window.quiet_before);
    Ok(Seen::new(1 + count(items), faults.0, summary))
}

/// What the model of reconnecting watches says of the window.
struct Model {
    /// With as few informers as there can be.
    fewest: Reconnects,
    /// With as many.
    most: Reconnects,
    /// GETs that are no reconnects, at most.
    others: u64,
    informers: RangeInclusive<u64>,
}

impl Model {
    /// On a cluster of the user's there may be third-party kinds; nothing recorded says how many.
    fn of(view: &StepView<'_>, window: &WindowFacts) -> Result<Self, Blind> {
        let (costs, release) = view.costs()?;
        let foreign = match view.environment()?.plane {
            PlaneKind::Local => 0,
            PlaneKind::Cluster { .. } => release.third_party,
        };
        let fewest = release.running_informers();
        let most = fewest + foreign;
        let elapsed = window.elapsed.round() as u64;
        // Informers open their watches within the first second of the process.
        let phase = (window.phase - 1.0).max(0.0).round() as u64;
        let rounds = |every: Option<u64>| every.map_or(0, |seconds| elapsed / seconds + 1);
        let model = |informers| Reconnects::new(informers, phase, elapsed, &costs.watch_seconds);
        Ok(Self {
            fewest: model(fewest),
            most: model(most),
            others: foreign * rounds(release.third_party_probe) + rounds(release.discovery_every),
            informers: fewest..=most,
        })
    }

    fn band(&self) -> RangeInclusive<u64> {
        *self.fewest.band().start()..=self.most.band().end() + self.others
    }

    fn possible(&self) -> RangeInclusive<u64> {
        *self.fewest.possible().start()..=self.most.possible().end() + self.others
    }

    fn informers(&self) -> String {
        let (fewest, most) = self.informers.clone().into_inner();
        if fewest == most {
            fewest.to_string()
        } else {
            format!("{fewest} to {most}")
        }
    }
}

/// STS-02. Outside of this it is not chance.
fn possible_reads(view: &StepView<'_>) -> Judged {
    let window = sound(view)?;
    let model = Model::of(view, window)?;
    let (reads, possible) = (reads(window), model.possible());
    let mut faults = Faults::default();
    faults.unless(possible.contains(&reads), || {
        format!(
            "{reads} GETs, but {} informers make {} to {}",
            model.informers(),
            possible.start(),
            possible.end()
        )
    });
    let rate = reads as f64 / window.elapsed * 60.0;
    let summary = format!(
        "{reads} GETs in {:.0} s, {rate:.2} per minute",
        window.elapsed
    );
    Ok(Seen::new(1, faults.0, summary))
}

/// STS-03.
fn writes(view: &StepView<'_>) -> Judged {
    let window = sound(view)?;
    let mut faults = Vec::new();
    let mut total = 0;
    for method in ["POST", "PUT", "PATCH", "DELETE"] {
        let wrote = growth(window, |counters| counters.requests(method, |_| true));
        total += wrote;
        if wrote > 0 {
            faults.push(format!("{wrote} {method}"));
        }
    }
    Ok(Seen::new(4, faults, format!("{} writes", grouped(total))))
}

/// STS-04. Conflicts, forgotten versions and refusals for load belong to a busy cluster, and are told
/// apart.
fn errors(view: &StepView<'_>) -> Judged {
    let window = sound(view)?;
    let failed = |code: &str| !code.starts_with('2') && !code.starts_with('3');
    let excused = |code: &str| ["409", "410", "429"].contains(&code);
    let mut faults = Vec::new();
    let mut apart = 0;
    let series = &window.closed.counters.requests;
    for known in series.iter().filter(|known| failed(&known.code)) {
        let grew = growth(window, |counters| {
            counters.requests(&known.method, |code| code == known.code)
        });
        if excused(&known.code) {
            apart += grew;
        } else if grew > 0 {
            faults.push(format!("{grew} {} {}", known.method, known.code));
        }
    }
    let summary = format!("{} failed, {apart} of 409, 410 and 429", faults.len());
    Ok(Seen::new(count(series), faults, summary))
}

/// STS-05.
fn reconciles(view: &StepView<'_>) -> Judged {
    let window = sound(view)?;
    if window.churn.is_empty() {
        return Err(Blind::new("nobody watched what else changed"));
    }
    let kinds = window.closed.counters.reconciles.len() as u64;
    let churn: u64 = window.churn.values().sum();
    let reconciles = growth(window, Counters::all_reconciles);
    let allowed = churn.saturating_mul(kinds);
    let mut faults = Faults::default();
    faults.unless(reconciles <= allowed, || {
        format!("{reconciles} reconciles, though {churn} changes explain {allowed} at most")
    });
    let summary = format!(
        "{} reconciles, {} other changes",
        grouped(reconciles),
        grouped(churn)
    );
    Ok(Seen::new(kinds, faults.0, summary))
}

/// STS-06. A window that is too short to show anything still is in its band or is not; but nothing is
/// proven then.
fn band(view: &StepView<'_>) -> Judged {
    let window = sound(view)?;
    let model = Model::of(view, window)?;
    let (reads, band) = (reads(window), model.band());
    let mut faults = Faults::default();
    faults.unless(band.contains(&reads), || {
        format!("{reads} GETs, {} to {} expected", band.start(), band.end())
    });
    let power = model
        .fewest
        .power(window.elapsed.round() as u64 / 60, *band.end());
    let proof = if power < POWER {
        format!(
            "window too short to prove it: an extra list per minute would show in {:.0} % of such windows",
            power * 100.0
        )
    } else {
        format!(
            "an extra list per minute would show in {:.0} %",
            power * 100.0
        )
    };
    let summary = format!(
        "{reads} GETs, {} to {} expected of {} informers; {proof}",
        band.start(),
        band.end(),
        model.informers()
    );
    Ok(Seen::new(1, faults.0, summary))
}

/// STS-08.
fn cpu(view: &StepView<'_>) -> Judged {
    let window = sound(view)?;
    let (opened, closed) = (&window.opened.counters, &window.closed.counters);
    if closed.cpu_seconds <= 0.0 {
        return Err(Blind::new("the process does not count its CPU time"));
    }
    let seconds = closed.cpu_seconds - opened.cpu_seconds;
    let mean = seconds / window.elapsed * 1000.0;
    let mut faults = Faults::default();
    faults.unless(mean <= USUAL_CPU, || format!("{mean:.2} mCPU"));
    let summary = format!(
        "{seconds:.2} CPU-s in {:.0} s, {mean:.2} mCPU",
        window.elapsed
    );
    Ok(Seen::new(1, faults.0, summary))
}

/// STS-09.
fn memory(view: &StepView<'_>) -> Judged {
    let window = sound(view)?;
    let (costs, _) = view.costs()?;
    let readings = in_window(window).map(|scrape| scrape.counters.resident_bytes);
    let known: Vec<_> = readings.filter(|bytes| *bytes > 0).collect();
    let most = known.iter().max().copied().unwrap_or_default();
    let mebibytes = |bytes: u64| bytes as f64 / 1024.0 / 1024.0;
    let (used, limit) = (mebibytes(most), mebibytes(costs.memory_limit));
    let mut faults = Faults::default();
    faults.unless(most < costs.memory_limit, || {
        format!("{used:.0} MiB of {limit:.0} MiB")
    });
    let summary = format!("{used:.0} MiB resident at most, limit {limit:.0} MiB");
    Ok(Seen::new(count(&known), faults.0, summary))
}

/// STS-10.
fn queues(view: &StepView<'_>) -> Judged {
    let window = sound(view)?;
    let depth = window.closed.counters.queue_depth;
    let retries = growth(window, |counters| counters.queue_retries);
    let mut faults = Faults::default();
    faults.unless(depth == 0, || format!("{depth} wait"));
    faults.unless(retries == 0, || format!("{retries} retries"));
    Ok(Seen::new(
        2,
        faults.0,
        format!("{depth} waiting, {retries} retries"),
    ))
}
