//! The loop of one probe.

use std::future::Future;

use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior, interval_at};

use super::schedule::{Schedule, Tally};
use super::{Gate, Kind, Report};

/// What an attempt came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The container did as asked.
    Success,
    /// It did not.
    Failure(String),
    /// The probe itself could not be made; nothing is known of the container, and nothing counted.
    Error(String),
}

/// One try of a probe, which keeps its timeout by itself.
pub(super) trait Attempt: Send {
    fn attempt(&mut self) -> impl Future<Output = Outcome> + Send;
}

/// Probes until nobody listens, or until there is no more to be found out.
pub(super) struct Worker<A> {
    kind: Kind,
    schedule: Schedule,
    gate: Gate,
    reports: mpsc::Sender<Report>,
    attempt: A,
}

impl<A: Attempt> Worker<A> {
    pub(super) fn new(
        kind: Kind,
        schedule: Schedule,
        gate: Gate,
        reports: mpsc::Sender<Report>,
        attempt: A,
    ) -> Self {
        Self {
            kind,
            schedule,
            gate,
            reports,
            attempt,
        }
    }

    pub(super) async fn run(mut self, started: Instant) {
        let mut tally = Tally::new(self.kind, &self.schedule);
        let mut ticks = interval_at(started, self.schedule.period);
        // An attempt may outlast its period. Of the ticks that it covers the first one counts, late.
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        loop {
            ticks.tick().await;
            if !self.schedule.is_due(started.elapsed()) || !self.may_run() {
                continue;
            }
            let outcome = self.attempt.attempt().await;
            let report = self.judge(&mut tally, outcome);
            // A container that is to be restarted is left alone, one that has started needs no more
            // of this probe.
            let last = report.restart || (self.kind == Kind::Startup && report.healthy);
            if self.reports.send(report).await.is_err() || last {
                return;
            }
        }
    }

    fn may_run(&self) -> bool {
        self.kind == Kind::Startup || self.gate.is_open()
    }

    fn judge(&self, tally: &mut Tally, outcome: Outcome) -> Report {
        let kind = self.kind;
        let (failure, complete) = match outcome {
            Outcome::Success => (None, tally.count(true)),
            Outcome::Failure(why) => {
                let text = format!("{kind} probe failed: {why}");
                (Some(text), tally.count(false))
            }
            Outcome::Error(why) => {
                let text = format!("{kind} probe errored and resulted in unknown state: {why}");
                (Some(text), false)
            }
        };
        let healthy = tally.is_healthy();
        if kind == Kind::Startup && healthy {
            self.gate.open();
        }
        Report {
            kind,
            failure,
            healthy,
            restart: complete && !healthy && kind != Kind::Readiness,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::time::Duration;

    use k8s_openapi::api::core::v1::Probe;
    use tokio::task::JoinHandle;

    use super::*;

    /// Answers by script, then successfully; each answer takes this long.
    struct Script(VecDeque<Outcome>, Duration);

    impl Attempt for Script {
        async fn attempt(&mut self) -> Outcome {
            tokio::time::sleep(self.1).await;
            self.0.pop_front().unwrap_or(Outcome::Success)
        }
    }

    fn schedule(delay: i32, period: i32) -> Schedule {
        Schedule::of(&Probe {
            initial_delay_seconds: Some(delay),
            period_seconds: Some(period),
            ..Probe::default()
        })
    }

    fn failed(times: usize) -> Vec<Outcome> {
        vec![Outcome::Failure("no".to_owned()); times]
    }

    struct Watched {
        started: Instant,
        reports: mpsc::Receiver<Report>,
        task: JoinHandle<()>,
    }

    fn watch(
        kind: Kind,
        schedule: Schedule,
        gate: &Gate,
        takes: Duration,
        script: Vec<Outcome>,
    ) -> Watched {
        let (sender, reports) = mpsc::channel(16);
        let started = Instant::now();
        let script = Script(script.into(), takes);
        let worker = Worker::new(kind, schedule, gate.clone(), sender, script);
        let task = tokio::spawn(worker.run(started));
        Watched {
            started,
            reports,
            task,
        }
    }

    impl Watched {
        /// When the next report comes, in seconds after the start, and what it says.
        async fn next(&mut self) -> (u64, Report) {
            let report = self.reports.recv().await.expect("a report");
            (self.started.elapsed().as_secs(), report)
        }

        async fn times(&mut self, count: usize) -> Vec<u64> {
            let mut times = Vec::new();
            for _ in 0..count {
                times.push(self.next().await.0);
            }
            times
        }
    }

    #[tokio::test(start_paused = true)]
    async fn ticks_before_the_delay_are_skipped_and_do_not_move() {
        for (delay, period, expected) in [
            (5, 10, [10, 20]),
            (15, 20, [20, 40]),
            (0, 10, [0, 10]),
            (10, 10, [10, 20]),
            (11, 10, [20, 30]),
        ] {
            let mut watched = watch(
                Kind::Readiness,
                schedule(delay, period),
                &Gate::new(true),
                Duration::ZERO,
                Vec::new(),
            );
            assert_eq!(watched.times(2).await, expected, "{delay} {period}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_attempt_that_outlasts_its_period_costs_ticks() {
        let takes = Duration::from_secs(25);
        let gate = Gate::new(true);
        let mut watched = watch(Kind::Readiness, schedule(0, 10), &gate, takes, Vec::new());
        // Begun at 0, at 25 (the tick of 10, late) and at 50 (that of 30, and 50 is one itself).
        assert_eq!(watched.times(3).await, [25, 50, 75]);
    }

    #[tokio::test(start_paused = true)]
    async fn the_others_wait_until_the_container_has_started() {
        let gate = Gate::new(false);
        let mut startup = watch(
            Kind::Startup,
            schedule(0, 3),
            &gate,
            Duration::ZERO,
            failed(2),
        );
        let mut readiness = watch(
            Kind::Readiness,
            schedule(0, 4),
            &gate,
            Duration::ZERO,
            Vec::new(),
        );
        for at in [0, 3] {
            let (when, report) = startup.next().await;
            assert_eq!(when, at);
            assert_eq!(report.failure.as_deref(), Some("Startup probe failed: no"));
            assert!(!report.healthy && !report.restart);
        }
        let (when, report) = startup.next().await;
        assert_eq!((when, report.healthy), (6, true));
        let (when, report) = readiness.next().await;
        assert_eq!((when, report.healthy), (8, true));
        startup.task.await.expect("it has found out what it could");
        assert!(startup.reports.recv().await.is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn failing_for_good_asks_for_a_restart_once() {
        for (kind, below) in [(Kind::Liveness, true), (Kind::Startup, false)] {
            let gate = Gate::new(kind != Kind::Startup);
            let mut watched = watch(kind, schedule(0, 5), &gate, Duration::ZERO, failed(9));
            for at in [0, 5] {
                let (when, report) = watched.next().await;
                assert_eq!(
                    (when, report.healthy, report.restart),
                    (at, below, false),
                    "{kind}"
                );
            }
            let (when, report) = watched.next().await;
            assert_eq!(
                (when, report.healthy, report.restart),
                (10, false, true),
                "{kind}"
            );
            assert!(watched.reports.recv().await.is_none(), "{kind}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn readiness_comes_and_goes() {
        let gate = Gate::new(true);
        let mut script = failed(1);
        script.push(Outcome::Success);
        script.extend(failed(4));
        let mut watched = watch(
            Kind::Readiness,
            schedule(0, 1),
            &gate,
            Duration::ZERO,
            script,
        );
        let mut held = Vec::new();
        for _ in 0..7 {
            let report = watched.next().await.1;
            assert!(!report.restart);
            held.push(report.healthy);
        }
        assert_eq!(held, [false, true, true, true, false, false, true]);
    }

    #[tokio::test(start_paused = true)]
    async fn what_could_not_be_tried_counts_for_nothing() {
        let gate = Gate::new(true);
        let mut script = failed(2);
        script.extend(vec![Outcome::Error("odd".to_owned()); 5]);
        script.extend(failed(1));
        let mut watched = watch(
            Kind::Liveness,
            schedule(0, 1),
            &gate,
            Duration::ZERO,
            script,
        );
        for _ in 0..2 {
            watched.next().await;
        }
        for _ in 0..5 {
            let (_, report) = watched.next().await;
            assert_eq!(
                report.failure.as_deref(),
                Some("Liveness probe errored and resulted in unknown state: odd")
            );
            assert!(report.healthy && !report.restart);
        }
        assert!(watched.next().await.1.restart);
    }

    #[tokio::test(start_paused = true)]
    async fn it_ends_when_nobody_listens() {
        let gate = Gate::new(true);
        let watched = watch(
            Kind::Readiness,
            schedule(0, 1),
            &gate,
            Duration::ZERO,
            Vec::new(),
        );
        drop(watched.reports);
        watched.task.await.expect("it ends by itself");
    }
}
