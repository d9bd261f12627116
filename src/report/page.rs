//! The page: the rows in words, in the order in which somebody reads them. Terminal and Markdown are
//! two ways to write the same page down.

mod cost;

use super::definitions::{DefinitionRow, ServedRow, all_stranded};
use super::rollback::{Kept, RollbackRow};
use super::steps::{Difference, StepRow};
use super::timeline::Timeline;
use super::verdicts::{self, GroupRow};
use super::words::{date, duration, names, of, seconds, time};
use crate::record::grouped;

/// Details of a verdict that are printed; the rest is in `summary.json`.
const DETAILS: usize = 20;

/// A page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Page {
    pub(super) title: String,
    pub(super) blocks: Vec<Block>,
}

/// A part of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Block {
    Heading(String),
    /// Names and values.
    Facts(Vec<(String, String)>),
    Table(Table),
    Text(String),
    List(Vec<String>),
}

/// A table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Table {
    pub(super) header: Vec<String>,
    /// Columns of numbers, by index: they end where their neighbours end.
    pub(super) numbers: Vec<usize>,
    pub(super) rows: Vec<Vec<String>>,
}

impl Table {
    fn new(header: &[&str]) -> Self {
        Self {
            header: header.iter().map(|&name| name.to_owned()).collect(),
            ..Self::default()
        }
    }
}

/// Makes the page. Sections without rows are left out.
pub(super) fn page(timeline: &Timeline) -> Page {
    let Page { title, mut blocks } = headline(timeline);
    if !timeline.steps.is_empty() {
        blocks.push(Block::Heading(format!(
            "Timeline, {}",
            date(timeline.started_at)
                .split(' ')
                .next()
                .unwrap_or_default()
        )));
        blocks.push(Block::Table(steps(timeline)));
    }
    let differing = timeline
        .steps
        .iter()
        .filter(|row| !row.differences.is_empty());
    let differing: Vec<String> = differing
        .flat_map(|row| told(&format!("step {}", row.step), &row.differences))
        .collect();
    if !differing.is_empty() {
        blocks.push(Block::Heading("AIBOMs that differ".to_owned()));
        blocks.push(Block::List(differing));
    }
    served(timeline, &mut blocks);
    for window in &timeline.windows {
        cost::steady(timeline, window, &mut blocks);
    }
    cost::restarts(timeline, &mut blocks);
    rollbacks(timeline, &mut blocks);
    if !timeline.steps.is_empty() {
        blocks.push(Block::Heading("Where the time went".to_owned()));
        blocks.push(Block::Table(phases(timeline)));
    }
    verdict_blocks(timeline, &mut blocks);
    blocks.push(Block::Text(format!(
        "Every number and verdict is a function of events.jsonl, snapshots/ and scrapes/ of the run \
         {}; names and digests are there in full.",
        timeline.run
    )));
    Page { title, blocks }
}

/// The beginning of the page.
pub(super) fn headline(timeline: &Timeline) -> Page {
    let facts = timeline.headline.iter();
    let facts = facts.map(|fact| (fact.name.clone(), fact.value.clone()));
    let mut blocks = vec![Block::Facts(facts.collect())];
    if !timeline.problems.is_empty() {
        blocks.push(Block::Heading("What could not be read".to_owned()));
        blocks.push(Block::List(timeline.problems.clone()));
    }
    Page {
        title: format!("{}: {}", timeline.scenario, timeline.verdicts.standing),
        blocks,
    }
}

fn steps(timeline: &Timeline) -> Table {
    let mut table = Table::new(&["UTC", "Step", "Result"]);
    for row in &timeline.steps {
        table.rows.push(vec![
            time(row.at, timeline.started_at),
            format!("{}. {}", row.step, row.action),
            row.clauses.join("; "),
        ]);
    }
    table
}

fn told(prefix: &str, differences: &[Difference]) -> Vec<String> {
    let lines = differences.iter().map(|difference| {
        let many = grouped(difference.names.len() as u64);
        format!(
            "{prefix}, {} ({many}): {}",
            difference.what,
            names(&difference.names)
        )
    });
    lines.collect()
}

/// Which charts' definitions were served; steps in a row that look the same are one line.
fn served(timeline: &Timeline, blocks: &mut Vec<Block>) {
    let Some(first) = timeline.definitions.first() else {
        return;
    };
    let mut header = vec!["Step", "Controller"];
    header.extend(
        first
            .definitions
            .keys()
            .map(|name| name.split('.').next().unwrap_or(name)),
    );
    header.push("State");
    let mut table = Table::new(&header);
    let mut rows = timeline.definitions.iter().peekable();
    while let Some(row) = rows.next() {
        let mut last = row.step;
        while let Some(next) = rows.next_if(|next| alike(row, next)) {
            last = next.step;
        }
        let steps = if last == row.step {
            row.step.to_string()
        } else {
            format!("{}–{last}", row.step)
        };
        let mut cells = vec![
            steps,
            row.running.clone().unwrap_or_else(|| "none".to_owned()),
        ];
        cells.extend(row.definitions.values().map(definition));
        cells.push(row.level.words().to_owned());
        table.rows.push(cells);
    }
    blocks.push(Block::Heading("Served CRDs".to_owned()));
    blocks.push(Block::Table(table));
    blocks.extend(stranded(timeline).into_iter().map(Block::Text));
}

fn alike(one: &DefinitionRow, other: &DefinitionRow) -> bool {
    let key = |row: &DefinitionRow| (row.running.clone(), row.definitions.clone(), row.level);
    key(one) == key(other)
}

fn definition(row: &ServedRow) -> String {
    match &row.stored_versions {
        None => "absent".to_owned(),
        Some(stored) => {
            let like = if row.like.is_empty() {
                "no chart".to_owned()
            } else {
                row.like.join(" = ")
            };
            format!("{like}; stored {}", stored.join(", "))
        }
    }
}

/// The headline case in plain words.
fn stranded(timeline: &Timeline) -> Vec<String> {
    let all = all_stranded(&timeline.definitions).into_iter();
    let texts = all.map(|stranded| {
        let running = stranded.running;
        let foreign = stranded.first.definitions.iter();
        let foreign = foreign.filter(|(_, served)| !served.like.iter().any(|like| like == running));
        let foreign: Vec<String> = foreign
            .map(|(name, served)| match served.like.as_slice() {
                [] => format!("{name} is that of no chart of this run"),
                like => format!("{name} is still that of {}", like.join(" and ")),
            })
            .collect();
        let healthy = if stranded.green {
            "the rollout is complete and every condition is healthy, while"
        } else {
            "and"
        };
        let words = stranded.words();
        let (first, rest) = words.split_at(1);
        format!(
            "{}{rest}: controller {running} runs, {healthy} {}. What only the CRDs of {running} have is \
             not stored. Neither helm upgrade nor helm rollback changes a CRD; applying those of \
             {running} does.",
            first.to_uppercase(),
            foreign.join(", ")
        )
    });
    texts.collect()
}

/// One column per way back, so that the variants stand side by side.
fn rollbacks(timeline: &Timeline, blocks: &mut Vec<Block>) {
    let rows = &timeline.rollbacks;
    if !rows.is_empty() {
        let mut table = Table {
            header: vec![String::new()],
            ..Table::default()
        };
        table
            .header
            .extend(rows.iter().map(|row| format!("Step {}", row.step)));
        let mut line = |name: &str, value: fn(&RollbackRow) -> String| {
            let mut cells = vec![name.to_owned()];
            cells.extend(rows.iter().map(value));
            table.rows.push(cells);
        };
        line("from, to", |row| {
            let chart = |chart: &Option<String>| chart.clone().unwrap_or_else(|| "none".to_owned());
            format!("{} to {}", chart(&row.from), chart(&row.to))
        });
        line("served", |row| unknown(row.definitions.clone()));
        line("new revision", |row| {
            unknown(row.revision.map(|number| number.to_string()))
        });
        line("complete after", |row| {
            row.complete_after_seconds
                .map_or_else(|| "never".to_owned(), seconds)
        });
        line("AIBOMs kept", |row| {
            unknown(row.kept.map(|kept| of(kept.same, kept.before)))
        });
        line("inputHash equal", |row| {
            unknown(row.kept.map(|kept| of(kept.input_hash, kept.common)))
        });
        line("bomHash equal", |row| {
            unknown(row.kept.map(|kept| of(kept.bom_hash, kept.common)))
        });
        line("conditions", |row| unknown(row.conditions.clone()));
        line("events", |row| unknown(row.warnings.clone()));
        blocks.push(Block::Heading("Rollback".to_owned()));
        blocks.push(Block::Table(table));
    }
    if timeline.round_trips.is_empty() {
        return;
    }
    let mut table = Table::new(&[
        "Round trip",
        "Steps",
        "AIBOMs kept",
        "inputHash equal",
        "bomHash equal",
        "Documents equal",
    ]);
    table.numbers = vec![2, 3, 4, 5];
    let mut notes = Vec::new();
    for row in &timeline.round_trips {
        let Kept {
            before,
            same,
            common,
            input_hash,
            bom_hash,
            documents,
            same_documents,
        } = row.kept;
        table.rows.push(vec![
            row.charts.join(" to "),
            format!("{} to {}", row.from_step, row.to_step),
            of(same, before),
            of(input_hash, common),
            of(bom_hash, common),
            of(same_documents, documents),
        ]);
        let prefix = format!("steps {} to {}", row.from_step, row.to_step);
        notes.extend(told(&prefix, &row.differences));
    }
    blocks.push(Block::Heading("Round trips".to_owned()));
    blocks.push(Block::Table(table));
    if !notes.is_empty() {
        blocks.push(Block::List(notes));
    }
    blocks.push(Block::Text(
        "inputHash is the claim about the data; an equal bomHash says that nothing was built anew. \
         Documents are equal when they differ in nothing but the time of their generation and their \
         serial number."
            .to_owned(),
    ));
}

fn unknown(value: Option<String>) -> String {
    value.unwrap_or_else(|| "not observed".to_owned())
}

fn phases(timeline: &Timeline) -> Table {
    let mut table = Table::new(&["Step", "Time", "Of which"]);
    table.numbers = vec![1];
    for row in &timeline.steps {
        table.rows.push(vec![
            format!("{}. {}", row.step, row.kind),
            seconds(row.seconds),
            parts(row),
        ]);
    }
    table.rows.push(vec![
        "all".to_owned(),
        duration(timeline.seconds),
        String::new(),
    ]);
    table
}

fn parts(row: &StepRow) -> String {
    let mut parts: Vec<String> = Vec::new();
    for phase in &row.phases {
        parts.push(format!("{} {}", phase.name, seconds(phase.seconds)));
    }
    parts.join(", ")
}

fn verdict_blocks(timeline: &Timeline, blocks: &mut Vec<Block>) {
    let verdicts = &timeline.verdicts;
    if verdicts.checks.is_empty() {
        return;
    }
    blocks.push(Block::Heading("Verdicts".to_owned()));
    let mut table = Table::new(&["Check", "Step", "Verdict", "What was measured"]);
    for check in &verdicts.told {
        let mut what = check.summary.clone();
        let details: Vec<&str> = check
            .details
            .iter()
            .take(DETAILS)
            .map(String::as_str)
            .collect();
        if !details.is_empty() {
            what.push_str(": ");
            what.push_str(&details.join(", "));
        }
        if let Some(more) = check
            .details
            .len()
            .checked_sub(DETAILS)
            .filter(|more| *more > 0)
        {
            what.push_str(&format!(" and {} more", grouped(more as u64)));
        }
        table.rows.push(vec![
            check.id.clone(),
            check
                .step
                .map_or_else(|| "run".to_owned(), |step| step.to_string()),
            verdicts::words(check).to_owned(),
            what,
        ]);
    }
    if table.rows.is_empty() {
        blocks.push(Block::Text("All checks passed.".to_owned()));
    } else {
        blocks.push(Block::Table(table));
    }
    blocks.push(Block::Table(groups(&verdicts.groups, &verdicts.total())));
}

/// Only the verdicts that occur have a column.
fn groups(groups: &[GroupRow], total: &GroupRow) -> Table {
    type Column = (&'static str, fn(&GroupRow) -> u64);
    let columns: [Column; 6] = [
        ("PASS", |row| row.pass),
        ("finding", |row| row.finding),
        ("FAIL", |row| row.fail),
        ("INVALID", |row| row.invalid),
        ("EXPECTED", |row| row.expected),
        ("N/A", |row| row.not_applicable),
    ];
    let columns: Vec<&Column> = columns.iter().filter(|(_, of)| of(total) > 0).collect();
    let mut header = vec!["Group", "About"];
    header.extend(columns.iter().map(|(name, _)| *name));
    let mut table = Table::new(&header);
    table.numbers = (2..header.len()).collect();
    for row in groups {
        let mut cells = vec![row.group.clone(), row.title.clone()];
        cells.extend(columns.iter().map(|(_, of)| grouped(of(row))));
        table.rows.push(cells);
    }
    table
}
