//! What was measured, and whether the exact part of it holds.

use std::collections::HashMap;
use std::process::ExitCode;

/// Values of all rounds, by profile and figure, in the order of their first appearance.
#[derive(Default)]
pub(crate) struct Figures {
    order: Vec<(String, String)>,
    rows: HashMap<(String, String), Row>,
    misses: Vec<String>,
}

struct Row {
    /// No more than this, if there is a goal; or the very value.
    wanted: String,
    values: Vec<f64>,
}

impl Figures {
    /// Something that is reported beside its goal.
    pub(crate) fn note(&mut self, profile: &str, what: &str, goal: Option<f64>, value: f64) {
        eprintln!("  {what}: {}", shown(value));
        let wanted = goal.map_or_else(String::new, |goal| format!("≤ {}", shown(goal)));
        self.add(profile, what, wanted, value);
    }

    /// A count that has to be this one.
    pub(crate) fn exactly(&mut self, profile: &str, what: &str, wanted: u64, seen: u64) {
        if seen != wanted {
            self.miss(format!("{profile}: {what}: expected {wanted}, seen {seen}"));
        }
        self.add(profile, what, format!("= {wanted}"), seen as f64);
    }

    /// A count that has to lie between these.
    pub(crate) fn within(&mut self, profile: &str, what: &str, least: u64, most: u64, seen: u64) {
        if !(least..=most).contains(&seen) {
            self.miss(format!(
                "{profile}: {what}: expected {least} to {most}, seen {seen}"
            ));
        }
    }

    fn miss(&mut self, text: String) {
        eprintln!("  MISMATCH: {text}");
        self.misses.push(text);
    }

    fn add(&mut self, profile: &str, what: &str, wanted: String, value: f64) {
        let key = (profile.to_owned(), what.to_owned());
        let row = self.rows.entry(key.clone()).or_insert_with(|| {
            self.order.push(key);
            Row {
                wanted,
                values: Vec::new(),
            }
        });
        row.values.push(value);
    }

    /// Prints the table and says how the command ends.
    pub(crate) fn print(mut self, rounds: usize) -> ExitCode {
        println!(
            "\n| profile | {rounds} rounds | goal | min | median | max |\n|---|---|---|---|---|---|"
        );
        for key in &self.order {
            let row = self.rows.get_mut(key).expect("it was added");
            row.values.sort_by(f64::total_cmp);
            let [min, median, max] = [0, row.values.len() / 2, row.values.len() - 1]
                .map(|index| shown(row.values[index]));
            let ((profile, what), wanted) = (key, &row.wanted);
            println!("| {profile} | {what} | {wanted} | {min} | {median} | {max} |");
        }
        if self.misses.is_empty() {
            return ExitCode::SUCCESS;
        }
        eprintln!("\ncounts that do not hold:");
        for miss in &self.misses {
            eprintln!("- {miss}");
        }
        ExitCode::FAILURE
    }
}

/// Whole numbers as such, others to the hundredth.
fn shown(value: f64) -> String {
    if value.fract() == 0.0 {
        format!("{value:.0}")
    } else {
        format!("{value:.2}")
    }
}
