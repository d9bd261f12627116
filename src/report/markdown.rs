//! The page in Markdown, as GitHub renders it.

use super::page::{Block, Page, Table};

/// Writes a page.
pub(super) fn render(page: &Page) -> String {
    let mut text = format!("# {}\n", escaped(&page.title));
    for block in &page.blocks {
        text.push('\n');
        match block {
            Block::Heading(heading) => text.push_str(&format!("## {}\n", escaped(heading))),
            Block::Facts(facts) => {
                for (name, value) in facts {
                    text.push_str(&format!("- **{}**: {}\n", escaped(name), escaped(value)));
                }
            }
            Block::Table(table) => text.push_str(&self::table(table)),
            Block::Text(words) => text.push_str(&format!("{}\n", escaped(words))),
            Block::List(lines) => {
                for line in lines {
                    text.push_str(&format!("- {}\n", escaped(line)));
                }
            }
        }
    }
    text
}

fn table(table: &Table) -> String {
    let mut text = line(table.header.iter().map(|name| escaped(name)));
    let rule = (0..table.header.len()).map(|column| {
        let right = table.numbers.contains(&column);
        if right { "---:" } else { "---" }.to_owned()
    });
    text.push_str(&line(rule));
    for row in &table.rows {
        text.push_str(&line(row.iter().map(|cell| escaped(cell))));
    }
    text
}

fn line(cells: impl Iterator<Item = String>) -> String {
    let cells: Vec<String> = cells.collect();
    format!("| {} |\n", cells.join(" | "))
}

/// What the cluster or a chart says must not become markup, a link or another cell.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '|' | '<' | '>' | '`' | '*' | '[' | ']' | '\\' => {
                escaped.push('\\');
                escaped.push(letter);
            }
            '\n' | '\r' => escaped.push(' '),
            // `@` names a person, `#` an issue.
            '@' => escaped.push_str("&#64;"),
            '#' => escaped.push_str("&#35;"),
            _ => escaped.push(letter),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_was_found_becomes_markup() {
        assert_eq!(
            escaped("a|b <i>`x`</i> [y](z)\n@team #1"),
            "a\\|b \\<i\\>\\`x\\`\\</i\\> \\[y\\](z) &#64;team &#35;1"
        );
    }
}
