//! `aibom-qual plane status`.

use chrono::Utc;
use clap::Args;
use serde::Serialize;

use crate::cli::Context;
use crate::cli::exit::{Exit, Failure};
use crate::cli::output::{self, Format};
use crate::plane::registry::Registry;
use crate::plane::state::{ComponentState, Phase, PlaneState};

/// Arguments of `plane status`.
#[derive(Debug, Args)]
pub(crate) struct StatusArgs {
    /// Only this plane, with its components; exit code 4 unless it is ready.
    name: Option<String>,
}

/// What `--format json` prints for one plane.
#[derive(Serialize)]
struct Report<'a> {
    name: &'a str,
    /// The phase as far as it can be believed.
    phase: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<&'a PlaneState>,
}

pub(crate) async fn run(args: StatusArgs, context: &Context) -> Result<Exit, Failure> {
    let registry = Registry::new(context.dirs.planes());
    match args.name {
        Some(name) => one(&registry, &name, context),
        None => all(&registry, context),
    }
}

fn all(registry: &Registry, context: &Context) -> Result<Exit, Failure> {
    let planes = registry.list()?;
    if context.format == Format::Json {
        let reports: Vec<Report<'_>> = planes
            .iter()
            .map(|(name, state)| match state {
                Ok(state) => report(state),
                Err(error) => Report {
                    name,
                    phase: "unknown",
                    problem: Some(error.to_string()),
                    state: None,
                },
            })
            .collect();
        output::json(&reports)?;
        return Ok(Exit::Pass);
    }
    if planes.is_empty() {
        output::note("no planes");
        return Ok(Exit::Pass);
    }
    let rows = planes
        .iter()
        .map(|(name, state)| match state {
            Ok(state) => vec![
                name.clone(),
                state.effective_phase().word().to_owned(),
                state.kubernetes.to_string(),
                state.server().unwrap_or_else(|| "-".to_owned()),
                age(Utc::now() - state.created),
                String::new(),
            ],
            Err(error) => vec![
                name.clone(),
                "unknown".to_owned(),
                "-".to_owned(),
                "-".to_owned(),
                "-".to_owned(),
                error.to_string(),
            ],
        })
        .collect();
    output::data(&output::table(
        &["PLANE", "PHASE", "KUBERNETES", "SERVER", "AGE", ""],
        rows,
    ))?;
    Ok(Exit::Pass)
}

fn one(registry: &Registry, name: &str, context: &Context) -> Result<Exit, Failure> {
    let (layout, state) = registry.load(name)?;
    let phase = state.effective_phase();
    match context.format {
        Format::Json => output::json(&report(&state))?,
        Format::Human => {
            let mut text = format!(
                "plane        {}\nphase        {}\nkubernetes   {}\n",
                state.name,
                phase.word(),
                state.kubernetes
            );
            if let Some(server) = state.server() {
                text.push_str(&format!("server       {server}\n"));
            }
            if let Some(node) = &state.node {
                let port = node.port.map_or_else(
                    || "not running".to_owned(),
                    |port| format!("kubelet port {port}"),
                );
                text.push_str(&format!("node         {} ({port})\n", node.settings.name));
            }
            text.push_str(&format!(
                "folder       {}\nsupervisor   process {}\n",
                layout.root().display(),
                if state.is_supervised() {
                    state.owner.pid.to_string()
                } else {
                    format!("{} (gone)", state.owner.pid)
                }
            ));
            if let Phase::Failed { reason, .. } = &phase {
                text.push_str(&format!(
                    "reason       {}\n",
                    reason.replace('\n', "\n             ")
                ));
            }
            if !state.components.is_empty() {
                text.push('\n');
                text.push_str(&components(&state));
            }
            output::data(&text)?;
        }
    }
    Ok(if phase == Phase::Ready {
        Exit::Pass
    } else {
        Exit::CouldNotRun
    })
}

fn components(state: &PlaneState) -> String {
    let rows = state
        .components
        .iter()
        .map(|(tool, component)| {
            let alive = component.process.is_alive();
            vec![
                tool.to_string(),
                component.version.to_string(),
                component.process.pid.to_string(),
                component.port.to_string(),
                if alive {
                    "running".to_owned()
                } else {
                    "ended".to_owned()
                },
                resident(component).unwrap_or_else(|| "-".to_owned()),
                age(Utc::now() - component.started),
            ]
        })
        .collect();
    output::table(
        &[
            "COMPONENT",
            "VERSION",
            "PID",
            "PORT",
            "PROCESS",
            "MEMORY",
            "AGE",
        ],
        rows,
    )
}

/// Resident memory, from `/proc/PID/status` (kibibytes there).
fn resident(component: &ComponentState) -> Option<String> {
    let status = std::fs::read_to_string(format!("/proc/{}/status", component.process.pid)).ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(format!("{} MiB", kib / 1024))
}

fn report(state: &PlaneState) -> Report<'_> {
    let phase = state.effective_phase();
    let problem = match &phase {
        Phase::Failed { reason, .. } => Some(reason.clone()),
        _ => None,
    };
    Report {
        name: &state.name,
        phase: phase.word(),
        problem,
        state: Some(state),
    }
}

/// The largest two units, as `kubectl get` prints ages.
fn age(span: chrono::TimeDelta) -> String {
    let seconds = span.num_seconds().max(0);
    let (days, hours, minutes) = (seconds / 86400, seconds / 3600 % 24, seconds / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds}s"),
        (0, 0, m) => format!("{m}m{}s", seconds % 60),
        (0, h, m) => format!("{h}h{m}m"),
        (d, h, _) => format!("{d}d{h}h"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_have_two_units() {
        let text = |seconds| age(chrono::TimeDelta::seconds(seconds));
        assert_eq!(
            [text(5), text(65), text(3661), text(90_000)],
            ["5s", "1m5s", "1h1m", "1d1h"]
        );
    }
}
