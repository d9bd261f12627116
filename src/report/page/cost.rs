//! What the controller costs: the sections about quiet windows and new processes.

use super::{Block, Table};
use crate::record::grouped;
use crate::report::cost::{RestartRow, WindowRow};
use crate::report::timeline::Timeline;
use crate::report::verdicts;
use crate::report::words::{counted, mebibytes, names, seconds};

/// The checks of a quiet window.
const STEADY_GROUP: &str = "STS";

pub(super) fn steady(timeline: &Timeline, window: &WindowRow, blocks: &mut Vec<Block>) {
    let running = window.running.as_deref().unwrap_or("no controller");
    blocks.push(Block::Heading(format!(
        "Steady state of {running}, step {}",
        window.step
    )));
    let tracked = window.tracked.map(|many| counted(many, "tracked workload"));
    blocks.push(Block::Text(format!(
        "{} over {}, begun {} after the process started and {} after its last write or reconcile. \
         Attributed on the client's side: both readings are of the same process.",
        tracked.unwrap_or_else(|| "An unknown number of workloads".to_owned()),
        seconds(window.elapsed_seconds),
        seconds(window.phase_seconds),
        seconds(window.quiet_before_seconds),
    )));
    if !window.unsound.is_empty() {
        blocks.push(Block::Text("INVALID: the window is not sound:".to_owned()));
        blocks.push(Block::List(window.unsound.clone()));
        return;
    }
    let mut table = Table::new(&["Counter", "Delta", "Rate"]);
    table.numbers = vec![1, 2];
    for row in &window.counters {
        table.rows.push(vec![
            row.counter.clone(),
            grouped(row.delta),
            if row.delta == 0 {
                "0".to_owned()
            } else {
                format!("{:.2}/min ({:.3}/s)", row.per_minute, row.per_minute / 60.0)
            },
        ]);
    }
    table.rows.push(vec![
        "process_cpu_seconds_total".to_owned(),
        format!("{:.2} CPU-s", window.cpu_seconds),
        format!("{:.2} mCPU", window.cpu_millis),
    ]);
    let [opened, closed] = window.resident_bytes;
    let sign = if closed < opened { "-" } else { "+" };
    table.rows.push(vec![
        "process_resident_memory_bytes".to_owned(),
        format!("{sign}{}", mebibytes(closed.abs_diff(opened))),
        format!("{} at the end", mebibytes(closed)),
    ]);
    blocks.push(Block::Table(table));
    let changes: Vec<String> = window
        .churn
        .iter()
        .filter(|(_, many)| **many > 0)
        .map(|(kind, many)| format!("{kind} {}", grouped(*many)))
        .collect();
    let changes = if changes.is_empty() {
        "Nothing else changed in the cluster meanwhile.".to_owned()
    } else {
        format!("Changed in the cluster meanwhile: {}.", changes.join(", "))
    };
    let servers = match window.api_servers {
        0 => String::new(),
        many => format!(" {} seen.", counted(many, "API server instance")),
    };
    blocks.push(Block::Text(format!(
        "{changes}{servers}{}",
        own_cost(timeline)
    )));
    // Here a number means little without the band that it has to be in.
    let checks = timeline.verdicts.checks.iter();
    let checks = checks.filter(|check| {
        verdicts::group(&check.id) == STEADY_GROUP && check.step == Some(window.step)
    });
    let lines: Vec<String> = checks
        .map(|check| format!("{} {}: {}", check.id, verdicts::words(check), check.summary))
        .collect();
    if !lines.is_empty() {
        blocks.push(Block::List(lines));
    }
}

/// Nobody must take the embedded controller's cost for that of the release.
fn own_cost(timeline: &Timeline) -> &'static str {
    if timeline.embedded {
        " CPU time and memory are those of the embedded controller, not of the released image."
    } else {
        ""
    }
}

pub(super) fn restarts(timeline: &Timeline, blocks: &mut Vec<Block>) {
    if timeline.restarts.is_empty() {
        return;
    }
    let rare = timeline.restarts.iter().any(|row| row.patch_delete > 0);
    let mut header = vec!["Step", "By", "Controller", "Tracked", "GET", "POST", "PUT"];
    if rare {
        header.push("PATCH, DELETE");
    }
    header.extend(["CPU-s", "RSS", "Settled"]);
    let mut table = Table::new(&header);
    table.numbers = (3..header.len()).collect();
    for row in &timeline.restarts {
        table.rows.push(restart(row, rare));
    }
    blocks.push(Block::Heading(
        "Cost of a new controller process".to_owned(),
    ));
    blocks.push(Block::Table(table));
    blocks.push(Block::Text(format!(
        "Requests since the process began, until it had settled: every tracked AIBOM walked over, and \
         neither a write nor a reconcile any more. Settled is counted from the start of the process.{}",
        own_cost(timeline)
    )));
    let mut notes = Vec::new();
    for row in &timeline.restarts {
        let step = row.step;
        for reason in &row.unsound {
            notes.push(format!("step {step}: INVALID: {reason}"));
        }
        if !row.not_walked.is_empty() {
            notes.push(format!(
                "step {step}: not walked over: {}",
                names(&row.not_walked)
            ));
        }
    }
    if !notes.is_empty() {
        blocks.push(Block::List(notes));
    }
}

fn restart(row: &RestartRow, rare: bool) -> Vec<String> {
    let mut cells = vec![
        row.step.to_string(),
        row.kind.to_string(),
        row.running.clone().unwrap_or_default(),
        grouped(row.tracked),
        grouped(row.get),
        grouped(row.post),
        grouped(row.put),
    ];
    if rare {
        cells.push(grouped(row.patch_delete));
    }
    cells.extend([
        format!("{:.2}", row.cpu_seconds),
        mebibytes(row.resident_bytes),
        row.settled_after_seconds
            .map_or_else(|| "never".to_owned(), seconds),
    ]);
    cells
}
