use std::sync::{Arc, Mutex};

use chrono::DateTime;

use super::*;
use crate::record::{KubernetesEvent, StepKind};
use crate::report::fixture;

/// Keeps what is written.
#[derive(Clone, Default)]
struct Paper(Arc<Mutex<Vec<u8>>>);

impl Write for Paper {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("no panic").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn shown(tell: bool, events: impl IntoIterator<Item = Event>) -> String {
    let paper = Paper::default();
    let mut progress = Progress::to(tell, Box::new(paper.clone()), None);
    for event in events {
        progress.entry(&Entry {
            at: DateTime::UNIX_EPOCH,
            at_ms: 0,
            event,
        });
    }
    drop(progress);
    let bytes = paper.0.lock().expect("no panic").clone();
    String::from_utf8(bytes).expect("text")
}

fn waiting(state: &str, progress: Option<(u64, u64)>) -> Event {
    Event::Waiting {
        step: 3,
        what: "AIBOMs".to_owned(),
        state: state.to_owned(),
        progress,
    }
}

#[test]
fn a_whole_run_is_two_lines_per_step() {
    let run = fixture::run();
    let events: Vec<Event> = run.events.iter().map(|entry| entry.event.clone()).collect();
    let lines = shown(true, events.clone());
    assert_eq!(lines.lines().count(), 2 * 10, "{lines}");
    assert!(
        lines.contains("\n[4/10] helm upgrade to 1.5.1\n"),
        "{lines}"
    );
    let done = "\n[4/10] helm upgrade to 1.5.1: done in 21.9 s: rev 2, 12.3 s\n";
    assert!(lines.contains(done), "{lines}");
    assert_eq!(shown(false, events), "");
}

#[test]
fn what_can_be_counted_has_one_line_and_a_state_has_one_each() {
    let counted = (0..50).map(|many| waiting(&format!("{many} Ready"), Some((many, 50))));
    assert_eq!(shown(true, counted), "[3/0]   waiting for AIBOMs\n");
    let states = ["none", "none", "some"].map(|state| waiting(state, None));
    assert_eq!(
        shown(true, states),
        "[3/0]   waiting for AIBOMs: none\n[3/0]   waiting for AIBOMs: some\n"
    );
}

#[test]
fn a_failure_and_missed_reports_are_told_even_when_quiet() {
    let mut record = fixture::run().steps[3].clone();
    record.end = StepEnd::Aborted {
        reason: "the disk is full".to_owned(),
        hint: Some("free some space".to_owned()),
    };
    let events = [
        Event::EventsMissed {
            reason: "410 Gone".to_owned(),
        },
        Event::StepFinished {
            record: Box::new(record),
        },
    ];
    let lines = shown(false, events);
    assert!(lines.starts_with("warning: the watch of events was interrupted (410 Gone)"));
    assert!(
        lines.contains("FAILED after 21.9 s: ended the run: the disk is full"),
        "{lines}"
    );
    assert!(lines.ends_with("\n\nhint: free some space\n"), "{lines}");
}

#[test]
fn reports_of_the_cluster_are_for_the_log() {
    let reported = KubernetesEvent {
        uid: "u".to_owned(),
        type_: "Warning".to_owned(),
        reason: "Unhealthy".to_owned(),
        message: "m".to_owned(),
        component: "kubelet".to_owned(),
        kind: "Pod".to_owned(),
        namespace: "n".to_owned(),
        name: "p".to_owned(),
        count: 1,
    };
    assert_eq!(shown(true, [Event::Cluster { reported }]), "");
}

#[test]
fn bars_follow_the_run() {
    let bars = Bars::new(ProgressDrawTarget::hidden());
    bars.show(
        &Event::RunStarted {
            run: "r".to_owned(),
            steps: 10,
        },
        10,
    );
    let started = Event::StepStarted {
        step: 3,
        kind: StepKind::Load,
        action: "create".to_owned(),
    };
    bars.show(&started, 10);
    assert_eq!((bars.run.position(), bars.run.length()), (3, Some(10)));
    bars.show(&waiting("412 Ready", Some((412, 1_002))), 10);
    assert_eq!(
        (bars.step.position(), bars.step.length()),
        (412, Some(1_002))
    );
    assert_eq!(bars.step.message(), "AIBOMs");
}
