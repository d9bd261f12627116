//! `aibom-qual man`.

use std::io;

use clap::{Command, CommandFactory as _};

use super::exit::{Exit, Failure};
use super::{Cli, output};

pub(crate) fn run() -> Result<Exit, Failure> {
    let mut command = Cli::command();
    // Names the pages of verbs by the whole path to them, and gives them the flags of every verb.
    command.build();
    let mut pages = Vec::new();
    render(command, &mut pages).map_err(|error| Failure {
        exit: Exit::CouldNotRun,
        message: format!("cannot write the manual pages: {error}"),
        hint: None,
    })?;
    output::data(&String::from_utf8_lossy(&pages))?;
    Ok(Exit::Pass)
}

/// The page of a command, then those of its verbs; `man -l` shows them one after the other.
fn render(command: Command, pages: &mut Vec<u8>) -> io::Result<()> {
    let verbs: Vec<Command> = command
        .get_subcommands()
        .filter(|verb| !verb.is_hide_set() && verb.get_name() != "help")
        .cloned()
        .collect();
    // clap_mangen titles a page with the bare name.
    let name = command
        .get_display_name()
        .unwrap_or(command.get_name())
        .to_owned();
    clap_mangen::Man::new(command.name(name)).render(pages)?;
    verbs.into_iter().try_for_each(|verb| render(verb, pages))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_verb_has_a_page() {
        let mut command = Cli::command();
        command.build();
        let mut pages = Vec::new();
        render(command, &mut pages).expect("rendered");
        let text = String::from_utf8(pages).expect("text");
        let titles: Vec<&str> = text
            .lines()
            .filter_map(|line| line.strip_prefix(".TH "))
            .filter_map(|line| line.split_whitespace().next())
            .collect();
        assert_eq!(
            titles[..3],
            ["aibom-qual", "aibom-qual-run", "aibom-qual-plan"]
        );
        for verb in [
            "plane-install",
            "plane-up",
            "plane-down",
            "doctor",
            "completions",
            "man",
        ] {
            assert!(
                titles.contains(&format!("aibom-qual-{verb}").as_str()),
                "{verb}: {titles:?}"
            );
        }
    }
}
