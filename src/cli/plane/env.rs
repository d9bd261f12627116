//! `aibom-qual plane env`.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::Path;

use clap::Args;

use super::named_or_only;
use crate::cli::Context;
use crate::cli::exit::{Exit, Failure};
use crate::cli::output::{self, Format};
use crate::host::launch::Launcher;
use crate::host::process::PROXY_VARIABLES;
use crate::plane::PlaneError;
use crate::plane::binaries::{self, Availability, Environment, Request, Sources};
use crate::plane::registry::Registry;
use crate::plane::state::{Phase, PlaneState};
use crate::plane::tool::Tool;

/// Arguments of `plane env`.
#[derive(Debug, Args)]
pub(crate) struct EnvArgs {
    /// The plane; may be left out when only one runs.
    name: Option<String>,
}

pub(crate) async fn run(args: EnvArgs, context: &Context) -> Result<Exit, Failure> {
    let name = named_or_only(args.name, context)?;
    let (layout, state) = Registry::new(context.dirs.planes()).load(&name)?;
    let phase = state.effective_phase();
    if phase != Phase::Ready {
        let reason = match &phase {
            Phase::Failed { reason, .. } => Some(reason.clone()),
            _ => None,
        };
        return Err(PlaneError::NotRunning {
            name,
            phase: phase.word(),
            reason,
        }
        .into());
    }
    let mut variables = BTreeMap::from([("KUBECONFIG", text(&layout.kubeconfig()))]);
    if let Some(node) = &state.node {
        variables.insert("AIBOM_QUAL_NODE", node.settings.name.clone());
    }
    variables.extend(tools(&state, context).await);
    variables.extend(loopback_without_proxy(|name| std::env::var(name).ok()));
    match context.format {
        Format::Json => output::json(&variables)?,
        Format::Human => {
            let lines = variables
                .iter()
                .map(|(name, value)| format!("export {name}={}\n", shell_quoted(value)));
            output::data(&lines.collect::<String>())?;
        }
    }
    Ok(Exit::Pass)
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// The plane's own programs under the names that envtest reads, and Helm where it is there already.
async fn tools(state: &PlaneState, context: &Context) -> Vec<(&'static str, String)> {
    let own = [
        ("TEST_ASSET_ETCD", Tool::Etcd),
        ("TEST_ASSET_KUBE_APISERVER", Tool::KubeApiserver),
    ];
    let own = own.into_iter().filter_map(|(name, tool)| {
        let component = state.components.get(&tool)?;
        Some((name, text(&component.binary)))
    });
    let request = Request {
        tools: vec![Tool::Helm3, Tool::Helm4],
        kubernetes: state.kubernetes.clone(),
        explicit: None,
        sources: Sources {
            download: false,
            build: false,
            ..Sources::new(Environment::from_process())
        },
    };
    let located = binaries::locate(&context.dirs, &Launcher::current(), &request).await;
    let helm = located.into_iter().filter_map(|located| {
        let name = match located.tool {
            Tool::Helm3 => "HELM3",
            _ => "HELM4",
        };
        match located.availability {
            Availability::Found(binary) => Some((name, text(&binary.path))),
            _ => None,
        }
    });
    own.chain(helm).collect()
}

/// kubectl and helm would ask a proxy for 127.0.0.1 unless told not to.
fn loopback_without_proxy(
    variable: impl Fn(&str) -> Option<String>,
) -> Option<(&'static str, String)> {
    let is_exception = |name: &str| OsStr::new(name).eq_ignore_ascii_case("NO_PROXY");
    let has_proxy = PROXY_VARIABLES
        .into_iter()
        .any(|name| !is_exception(name) && variable(name).is_some());
    let exceptions = ["NO_PROXY", "no_proxy"].into_iter().find_map(&variable);
    has_proxy.then(|| {
        let loopback = "127.0.0.1,localhost".to_owned();
        let all = match exceptions.filter(|list| !list.is_empty()) {
            Some(list) if list.contains("127.0.0.1") => list,
            Some(list) => format!("{list},{loopback}"),
            None => loopback,
        };
        ("NO_PROXY", all)
    })
}

/// In single quotes, which a POSIX shell takes literally.
fn shell_quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quote_in_a_path_does_not_end_the_quoting() {
        assert_eq!(shell_quoted("/a b/c'd"), r"'/a b/c'\''d'");
    }

    #[test]
    fn a_proxy_gets_an_exception_for_the_loopback() {
        let set = |pairs: &'static [(&str, &str)]| {
            loopback_without_proxy(move |name| {
                let found = pairs.iter().find(|(known, _)| *known == name);
                found.map(|(_, value)| (*value).to_owned())
            })
            .map(|(_, value)| value)
        };
        assert_eq!(set(&[]), None);
        assert_eq!(set(&[("NO_PROXY", "a")]), None);
        let with = |text: &str| Some(text.to_owned());
        assert_eq!(set(&[("https_proxy", "p")]), with("127.0.0.1,localhost"));
        assert_eq!(
            set(&[("HTTP_PROXY", "p"), ("no_proxy", "a")]),
            with("a,127.0.0.1,localhost")
        );
        assert_eq!(
            set(&[("HTTP_PROXY", "p"), ("NO_PROXY", "127.0.0.1")]),
            with("127.0.0.1")
        );
    }
}
