//! `aibom-qual doctor`.

use clap::Args;
use serde::Serialize;

use super::Context;
use super::exit::{Exit, Failure};
use super::output::{self, Format};
use super::plane::BinaryArgs;
use super::progress::Level;
use crate::host::launch::Launcher;
use crate::plane::binaries::{self, Availability, Obtainable, Request};
use crate::plane::checkup::{self, Check, Health};
use crate::plane::dirs::Dirs;
use crate::plane::tool::Tool;

/// The width that a terminal has at least.
const COLUMNS: usize = 80;
/// Of the lines below a check's first one.
const INDENT: usize = 9;

/// Arguments of `doctor`.
#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    #[command(flatten)]
    binaries: BinaryArgs,
}

#[derive(Serialize)]
struct Report<'a> {
    /// The worst of all.
    health: Health,
    checks: &'a [Check],
}

pub(crate) async fn run(args: DoctorArgs, context: Context) -> Result<Exit, Failure> {
    let request = args.binaries.request(Tool::USUAL.to_vec())?;
    let located = binaries::locate(&context.dirs, &Launcher::current(), &request).await;
    let will_build = located.iter().any(|located| {
        matches!(&located.availability, Availability::Obtainable(ways)
            if ways.iter().any(|way| matches!(way, Obtainable::Build { .. })))
    });
    let mut checks = checkup::machine(&context.dirs, will_build);
    let flags = flags_in_force(&request, &context.dirs);
    let verbose = context.level == Level::Verbose;
    checks.extend(
        located
            .iter()
            .map(|located| checkup::program(located, &flags, verbose)),
    );
    let worst = checks
        .iter()
        .map(|check| check.health)
        .max()
        .unwrap_or(Health::Ok);
    match context.format {
        Format::Json => output::json(&Report {
            health: worst,
            checks: &checks,
        })?,
        Format::Human => output::data(&render(&checks))?,
    }
    Ok(if worst == Health::Failed {
        Exit::CouldNotRun
    } else {
        Exit::Pass
    })
}

/// The flags that differ from their defaults, as they are to be repeated on another command line.
fn flags_in_force(request: &Request, dirs: &Dirs) -> String {
    let mut flags = String::new();
    let mut flag = |text: &str| {
        flags.push(' ');
        flags.push_str(text);
    };
    if request.kubernetes != binaries::DEFAULT_KUBERNETES {
        flag(&format!("--kubernetes {}", request.kubernetes));
    }
    let sources = &request.sources;
    if let Some(mirror) = &sources.mirror {
        let mut shown = mirror.clone();
        // A hint may end up in a log; whoever has a password knows where to put it.
        if shown.set_password(None).is_ok() {
            flag(&format!("--mirror '{shown}'"));
        }
    }
    if !sources.download {
        flag("--no-download");
    }
    if !sources.build {
        flag("--no-build");
    }
    if Dirs::resolve(None, None).map_or(true, |usual| usual.cache() != dirs.cache()) {
        let path = dirs.cache().to_string_lossy().replace('\'', r"'\''");
        flag(&format!("--cache-dir '{path}'"));
    }
    flags
}

/// One line per check, what else there is to say below it. Lines stay within 80 columns unless a
/// path is longer.
fn render(checks: &[Check]) -> String {
    let mark = |health| match health {
        Health::Ok => "ok",
        Health::Warning => "warning",
        Health::Failed => "FAILED",
    };
    let mut text = String::new();
    for check in checks {
        let start = format!("{:<8} {:<24} ", mark(check.health), check.name);
        let mut found = check.found.lines();
        text.push_str(&start);
        text.push_str(&wrapped(found.next().unwrap_or_default(), start.len()));
        for line in found {
            text.push_str(&format!("{:INDENT$}{}", "", wrapped(line, INDENT)));
        }
        if let Some(hint) = &check.hint {
            let hint = format!("hint: {hint}");
            // A command stays whole, so that it can be copied.
            let line = if hint.starts_with("hint: aibom-qual ") {
                format!("{hint}\n")
            } else {
                wrapped(&hint, INDENT)
            };
            text.push_str(&format!("{:INDENT$}{line}", ""));
        }
    }
    text
}

/// Breaks a line that begins in this column before the word that would leave the screen; what follows
/// is indented. A path is one word and stays whole.
fn wrapped(line: &str, mut column: usize) -> String {
    let mut text = String::new();
    for (index, word) in line.split(' ').enumerate() {
        let length = word.chars().count();
        if index > 0 && column + 1 + length > COLUMNS {
            text.push_str(&format!("\n{:INDENT$}", ""));
            column = INDENT;
        } else if index > 0 {
            text.push(' ');
            column += 1;
        }
        text.push_str(word);
        column += length;
    }
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plane::binaries::{Environment, Sources};

    #[test]
    fn only_flags_that_differ_from_their_defaults_are_repeated() {
        let mut request = Request {
            tools: Vec::new(),
            kubernetes: binaries::DEFAULT_KUBERNETES,
            explicit: None,
            sources: Sources::new(Environment::default()),
        };
        let dirs = Dirs::new("/else where".into(), "/state".into());
        assert_eq!(
            flags_in_force(&request, &dirs),
            " --cache-dir '/else where'"
        );
        request.kubernetes = "1.35.4".parse().expect("a version");
        request.sources.download = false;
        request.sources.mirror = "http://me:secret@mirror.example/".parse().ok();
        assert_eq!(
            flags_in_force(&request, &dirs),
            " --kubernetes 1.35.4 --mirror 'http://me@mirror.example/' --no-download \
             --cache-dir '/else where'"
        );
    }

    #[test]
    fn nothing_but_a_path_or_a_command_leaves_the_screen() {
        let word = "word ".repeat(40);
        let command = format!(
            "aibom-qual plane install --only etcd --cache-dir '/{}'",
            "d".repeat(60)
        );
        let checks = [word.trim(), &command].map(|hint| Check {
            name: "kube-controller-manager".to_owned(),
            health: Health::Warning,
            found: word.trim().to_owned(),
            hint: Some(hint.to_owned()),
        });
        let text = render(&checks);
        let long: Vec<&str> = text.lines().filter(|line| line.len() > COLUMNS).collect();
        assert_eq!(long.len(), 1, "{text}");
        assert!(long[0].ends_with(&command), "{text}");
        assert!(text.lines().all(|line| !line.ends_with(' ')), "{text}");
    }

    #[test]
    fn a_hint_stands_below_its_check() {
        let check = Check {
            name: "open files".to_owned(),
            health: Health::Failed,
            found: "limit 1024".to_owned(),
            hint: Some("ulimit -Hn 4096".to_owned()),
        };
        let text = render(&[check]);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].starts_with("FAILED   open files"), "{text}");
        assert_eq!(lines[1].trim(), "hint: ulimit -Hn 4096");
    }
}
