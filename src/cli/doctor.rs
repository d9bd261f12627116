//! `aibom-qual doctor`.

use clap::Args;
use serde::Serialize;

use super::Context;
use super::exit::{Exit, Failure};
use super::output::{self, Format};
use super::plane::BinaryArgs;
use crate::plane::binaries::{self, Availability, Obtainable, Request};
use crate::plane::checkup::{self, Check, Health};
use crate::plane::launch::Launcher;
use crate::plane::tool::Tool;

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
    let request = Request {
        tools: Tool::ALL.to_vec(),
        kubernetes: args.binaries.kubernetes.clone(),
        explicit: args.binaries.explicit()?,
        sources: args.binaries.sources(),
    };
    let located = binaries::locate(&context.dirs, &Launcher::current(), &request).await;
    let will_build = located.iter().any(|located| {
        matches!(&located.availability, Availability::Obtainable(ways)
            if ways.iter().any(|way| matches!(way, Obtainable::Build { .. })))
    });
    let mut checks = checkup::machine(&context.dirs, will_build);
    checks.extend(located.iter().map(checkup::program));
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

fn render(checks: &[Check]) -> String {
    let mark = |health| match health {
        Health::Ok => "ok",
        Health::Warning => "warning",
        Health::Failed => "FAILED",
    };
    let mut text = String::new();
    for check in checks {
        let mut lines = check.found.lines();
        let first = lines.next().unwrap_or_default();
        text.push_str(&format!(
            "{:<8} {:<24} {first}\n",
            mark(check.health),
            check.name
        ));
        for line in lines {
            text.push_str(&format!("{:33} {line}\n", ""));
        }
        if let Some(hint) = &check.hint {
            text.push_str(&format!("{:33} hint: {hint}\n", ""));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

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
