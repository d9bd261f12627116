//! The page on a terminal: as wide as it is, understandable without colour and at 80 columns.

use tabled::builder::Builder;
use tabled::settings::object::{Columns, Rows};
use tabled::settings::{Alignment, Padding, Style};

use super::page::{Block, Page, Table};

/// Between two columns.
const GAP: usize = 2;
/// A column is never made narrower than this for another one's sake.
const NARROWEST: usize = 8;
/// A word up to this length is not broken while there is another way.
const LONGEST: usize = 24;
/// Running text is not made wider than this, however wide the terminal is.
const MEASURE: usize = 100;

const BOLD: &str = "\u{1b}[1m";
const RED: &str = "\u{1b}[1;31m";
const YELLOW: &str = "\u{1b}[33m";
const GREEN: &str = "\u{1b}[32m";
const PLAIN: &str = "\u{1b}[0m";

/// What is coloured wherever it stands.
const COLORED: [(&str, &str); 7] = [
    ("FAIL", RED),
    ("INVALID", RED),
    ("failed:", RED),
    ("PASS", GREEN),
    ("EXPECTED", YELLOW),
    ("finding", YELLOW),
    ("green but stranded", YELLOW),
];

/// Writes a page for a terminal of this width, in columns.
pub(super) fn render(page: &Page, width: usize, color: bool) -> String {
    let mut text = heading(&page.title, color);
    for block in &page.blocks {
        text.push('\n');
        text.push_str(&match block {
            Block::Heading(heading) => self::heading(heading, color),
            Block::Facts(facts) => {
                let rows = facts
                    .iter()
                    .map(|(name, value)| vec![name.clone(), value.clone()]);
                paint(&grid(rows.collect(), &[], &[0], width), color)
            }
            Block::Table(table) => paint(&self::table(table, width), color),
            Block::Text(text) => paint(&filled(text, "", width.min(MEASURE)), color),
            Block::List(lines) => {
                let lines = lines.iter().map(|line| filled(line, "- ", width));
                paint(&lines.collect::<String>(), color)
            }
        });
    }
    text
}

fn heading(text: &str, color: bool) -> String {
    if color {
        format!("{BOLD}{text}{PLAIN}\n")
    } else {
        format!("{text}\n{}\n", "-".repeat(text.chars().count()))
    }
}

fn table(table: &Table, width: usize) -> String {
    let header = table.header.iter().map(|name| upper(name)).collect();
    let mut rows = vec![header];
    rows.extend(table.rows.iter().cloned());
    grid(rows, &table.numbers, &table.numbers, width)
}

/// In capitals, but for names that are told by theirs, for example `inputHash`.
fn upper(header: &str) -> String {
    let words = header.split(' ').map(|word| {
        if word.chars().skip(1).any(char::is_uppercase) {
            word.to_owned()
        } else {
            word.to_uppercase()
        }
    });
    words.collect::<Vec<String>>().join(" ")
}

/// Columns without borders, as `kubectl get` prints them; cells are broken between words.
fn grid(rows: Vec<Vec<String>>, right: &[usize], firm: &[usize], width: usize) -> String {
    let widths = widths(&rows, firm, width);
    let mut builder = Builder::default();
    for row in rows {
        let cells = row.iter().zip(&widths);
        builder.push_record(cells.map(|(cell, width)| broken(cell, *width).join("\n")));
    }
    let mut table = builder.build();
    table
        .with(Style::empty())
        .with(Padding::new(0, GAP, 0, 0))
        .modify(Rows::new(..), Alignment::left());
    for column in right {
        table.modify(Columns::one(*column), Alignment::right());
    }
    let mut text = String::new();
    for line in table.to_string().lines() {
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// How wide each column is: as its widest cell, until the whole fits. Then columns yield, in the one
/// of two ways that makes the table shorter. Those whose cells below the header are not to be broken
/// are `firm`.
fn widths(rows: &[Vec<String>], firm: &[usize], width: usize) -> Vec<usize> {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let widest = |column: usize, from: usize, measure: fn(&str) -> usize| {
        let cells = rows.iter().skip(from).filter_map(|row| row.get(column));
        cells.map(|cell| measure(cell)).max().unwrap_or(0)
    };
    let available = width.saturating_sub(GAP * columns.saturating_sub(1));
    let widths: Vec<usize> = (0..columns)
        .map(|column| widest(column, 0, length).min(available))
        .collect();
    let narrowest = (0..columns).map(|column| {
        let whole = if firm.contains(&column) {
            widest(column, 1, length)
        } else {
            0
        };
        widest(column, 0, unbroken).max(whole)
    });
    let mut narrowest: Vec<usize> = narrowest.collect();
    while narrowest.iter().sum::<usize>() > available {
        // Then words have to be broken.
        match narrowest.iter_mut().max() {
            Some(widest) if *widest > NARROWEST => *widest -= 1,
            _ => break,
        }
    }
    let widest_first = narrowed(rows, &widths, &narrowest, available, |_, _| 0);
    let cheapest_first = narrowed(rows, &widths, &narrowest, available, lines_more);
    if lines(&heights(rows, &cheapest_first)) < lines(&heights(rows, &widest_first)) {
        cheapest_first
    } else {
        widest_first
    }
}

/// Takes one column after the other from whichever costs least, of several from the widest.
fn narrowed(
    rows: &[Vec<String>],
    widths: &[usize],
    narrowest: &[usize],
    available: usize,
    cost: fn(&[Vec<usize>], &[usize]) -> usize,
) -> Vec<usize> {
    let mut widths = widths.to_vec();
    // Of each row, the lines of each of its cells.
    let mut heights = heights(rows, &widths);
    while widths.iter().sum::<usize>() > available {
        let yielding = (0..widths.len()).filter(|column| widths[*column] > narrowest[*column]);
        let cheapest = yielding
            .map(|column| {
                let narrower = column_heights(rows, column, widths[column] - 1);
                let cost = cost(&heights, &narrower);
                (cost, usize::MAX - widths[column], column, narrower)
            })
            .min();
        let Some((_, _, column, narrower)) = cheapest else {
            break;
        };
        widths[column] -= 1;
        for (row, height) in heights.iter_mut().zip(narrower) {
            if let Some(cell) = row.get_mut(column) {
                *cell = height;
            }
        }
    }
    widths
}

fn heights(rows: &[Vec<String>], widths: &[usize]) -> Vec<Vec<usize>> {
    let row = |row: &Vec<String>| {
        let cells = row.iter().zip(widths);
        cells
            .map(|(cell, width)| broken(cell, *width).len())
            .collect()
    };
    rows.iter().map(row).collect()
}

fn column_heights(rows: &[Vec<String>], column: usize, width: usize) -> Vec<usize> {
    let height = |row: &Vec<String>| row.get(column).map_or(0, |cell| broken(cell, width).len());
    rows.iter().map(height).collect()
}

/// The lines of a whole table.
fn lines(heights: &[Vec<usize>]) -> usize {
    let tallest = heights.iter().map(|row| row.iter().copied().max());
    tallest.map(|tallest| tallest.unwrap_or(0)).sum()
}

/// How many lines a table grows by when a column gets these heights.
fn lines_more(heights: &[Vec<usize>], column: &[usize]) -> usize {
    let rows = heights.iter().zip(column);
    let more = rows.map(|(row, height)| {
        let tallest = row.iter().copied().max().unwrap_or(0);
        height.saturating_sub(tallest)
    });
    more.sum()
}

fn length(text: &str) -> usize {
    text.chars().count()
}

/// The length of the longest word that a column is made wide enough for.
fn unbroken(cell: &str) -> usize {
    let lengths = words(cell).into_iter().map(length);
    lengths
        .filter(|length| *length <= LONGEST)
        .max()
        .unwrap_or(0)
}

/// The words of a text; a number and what it counts are one.
fn words(text: &str) -> Vec<&str> {
    let mut words = Vec::new();
    let mut rest = text;
    loop {
        let end = rest.find(' ').unwrap_or(rest.len());
        let (word, tail) = rest.split_at(end);
        let number = |letter: char| letter.is_ascii_digit() || matches!(letter, '.' | ',');
        let counts = word.ends_with(|last: char| last.is_ascii_digit()) && word.chars().all(number);
        let joined = match tail.get(1..) {
            Some(next) if counts => {
                let length = next.find(' ').unwrap_or(next.len());
                end + 1 + length
            }
            _ => end,
        };
        words.push(&rest[..joined]);
        match rest.get(joined + 1..) {
            Some(tail) => rest = tail,
            None => return words,
        }
    }
}

/// Breaks a text before the word that would leave the width. A word that is too long by itself is
/// broken after a sign that ends a part of it, or wherever the width ends.
fn broken(text: &str, width: usize) -> Vec<String> {
    let width = width.max(1);
    let mut lines = Vec::new();
    let mut line = String::new();
    let mut used = 0;
    for mut word in words(text) {
        let mut size = length(word);
        if used > 0 && used + 1 + size <= width {
            line.push(' ');
            used += 1;
        } else if used > 0 {
            lines.push(std::mem::take(&mut line));
            used = 0;
        }
        while size > width {
            let (head, tail) = word.split_at(cut(word, width));
            lines.push(head.trim_end().to_owned());
            word = tail;
            size = length(word);
        }
        line.push_str(word);
        used += size;
    }
    lines.push(line);
    lines
}

/// Where to cut a word that is longer than the width, in bytes.
fn cut(word: &str, width: usize) -> usize {
    let end = word
        .char_indices()
        .nth(width)
        .map_or(word.len(), |(index, _)| index);
    match word[..end].rfind([' ', '/', ',', '=', '-', '.', ':', '@']) {
        Some(sign) if sign > 0 => sign + 1,
        _ => end,
    }
}

/// Running text, its further lines below the first one's beginning.
fn filled(text: &str, mark: &str, width: usize) -> String {
    let indent = mark.chars().count();
    let mut filled = String::new();
    for (index, line) in broken(text, width.saturating_sub(indent))
        .iter()
        .enumerate()
    {
        let start = if index == 0 { mark } else { &"  "[..indent] };
        filled.push_str(&format!("{start}{line}\n"));
    }
    filled
}

/// Colours whole words. It comes last, since what cannot be seen has no width.
fn paint(text: &str, color: bool) -> String {
    if !color {
        return text.to_owned();
    }
    let mut painted = text.to_owned();
    for (word, color) in COLORED {
        painted = replaced(&painted, word, &format!("{color}{word}{PLAIN}"));
    }
    painted
}

/// Replaces a word where it is not a part of another one.
fn replaced(text: &str, word: &str, by: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(place) = rest.find(word) {
        let (before, found) = rest.split_at(place);
        let after = &found[word.len()..];
        let joins = |letter: char| letter.is_alphanumeric() || letter == '-';
        let part = before
            .chars()
            .next_back()
            .or(out.chars().next_back())
            .is_some_and(joins)
            || after.chars().next().is_some_and(joins);
        out.push_str(before);
        out.push_str(if part { word } else { by });
        rest = after;
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_broken_between_words_and_long_words_after_a_sign() {
        assert_eq!(broken("one two three", 7), ["one two", "three"]);
        assert_eq!(broken("", 7), [""]);
        assert_eq!(
            broken("image ghcr.io/owner/name:v1 x", 12),
            ["image", "ghcr.io/", "owner/name:", "v1 x"]
        );
        assert_eq!(broken("abcdefghij", 4), ["abcd", "efgh", "ij"]);
    }

    #[test]
    fn a_number_stays_with_what_it_counts() {
        assert_eq!(
            words("took 0.6 s, 1,002 AIBOMs  x"),
            ["took", "0.6 s,", "1,002 AIBOMs", "", "x"]
        );
        assert_eq!(words("rev 2"), ["rev", "2"]);
        assert_eq!(words(""), [""]);
        assert_eq!(broken("after 0.6 s", 9), ["after", "0.6 s"]);
        assert_eq!(broken("1,002 AIBOMs", 8), ["1,002", "AIBOMs"]);
    }

    #[test]
    fn the_column_that_costs_least_yields_and_words_stay_whole() {
        let rows = vec![
            vec!["one two three four".to_owned(), "word ".repeat(30)],
            vec!["aibomcontrollerconfigs".to_owned(), "x".to_owned()],
        ];
        // The second column sets the height, so that the first one breaks for nothing.
        assert_eq!(widths(&rows, &[], 60), [22, 60 - GAP - 22]);
        assert_eq!(widths(&rows, &[], 20).iter().sum::<usize>(), 20 - GAP);
        assert_eq!(upper("inputHash equal"), "inputHash EQUAL");
    }

    #[test]
    fn only_whole_words_are_coloured() {
        let text = paint("FAIL FAILED NOT-FAIL\n", true);
        assert_eq!(text, format!("{RED}FAIL{PLAIN} FAILED NOT-FAIL\n"));
        assert_eq!(paint("FAIL", false), "FAIL");
    }
}
