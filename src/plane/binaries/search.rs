//! Finds programs that are already on this machine, outside our cache.

use std::path::{Path, PathBuf};

use super::error::BinaryError;
use super::probe::{Demand, Probe};
use super::reason::{Attempt, Problem, Reason};
use super::sha256::Sha256;
use super::source::{Environment, Origin, Source};
use super::{Binary, Want, blocking};
use crate::plane::tool::Tool;

/// The file names under which a program is looked for. Both Helm majors are called `helm`; who has
/// both often tells them apart by these names.
fn names(tool: Tool) -> &'static [&'static str] {
    match tool {
        Tool::Etcd => &["etcd"],
        Tool::KubeApiserver => &["kube-apiserver"],
        Tool::KubeControllerManager => &["kube-controller-manager"],
        Tool::KubeScheduler => &["kube-scheduler"],
        Tool::Helm3 => &["helm3", "helm"],
        Tool::Helm4 => &["helm4", "helm"],
        Tool::Kubectl => &["kubectl"],
    }
}

fn in_dir(tool: Tool, dir: &Path) -> impl Iterator<Item = PathBuf> {
    let candidates = names(tool).iter().map(|name| dir.join(name));
    candidates
        .filter(|path| path.exists())
        .collect::<Vec<_>>()
        .into_iter()
}

/// The tools that a folder lacks altogether.
pub(super) fn lacking(dir: &Path, wants: &[Want]) -> Vec<Tool> {
    wants
        .iter()
        .map(|want| want.tool)
        .filter(|tool| in_dir(*tool, dir).next().is_none())
        .collect()
}

/// The program in the folder that the user named. Nothing else will do.
pub(super) async fn explicit(
    probe: &Probe<'_>,
    want: &Want,
    dir: &Path,
) -> Result<Binary, BinaryError> {
    let Some(path) = in_dir(want.tool, dir).next() else {
        return Err(BinaryError::MissingInDir {
            dir: dir.to_path_buf(),
            tools: vec![want.tool],
        });
    };
    // The same folder must mean the same program for a child with another working folder.
    let path = std::path::absolute(&path).unwrap_or(path);
    take(probe, want, Demand::Equal, &path, Origin::Explicit)
        .await
        .map_err(|problem| BinaryError::Unusable {
            tool: want.tool,
            from: Source::Explicit,
            path,
            problem,
        })
}

/// What the environment offers: the first program that fits, and those that were passed over.
pub(super) async fn environment(
    probe: &Probe<'_>,
    want: &Want,
    environment: &Environment,
) -> (Option<Binary>, Vec<Attempt>) {
    let assets = environment.kubebuilder_assets.iter();
    let assets = assets
        .filter_map(|dir| std::path::absolute(dir).ok())
        .collect();
    let mut passed_over = Vec::new();
    for (from, origin, dirs) in [
        (Source::KubebuilderAssets, Origin::KubebuilderAssets, assets),
        (
            Source::SearchPath,
            Origin::SearchPath,
            environment.path_dirs(),
        ),
    ] {
        if dirs.is_empty() {
            continue;
        }
        let before = passed_over.len();
        for path in dirs.iter().flat_map(|dir| in_dir(want.tool, dir)) {
            match take(probe, want, Demand::Compatible, &path, origin.clone()).await {
                Ok(binary) => return (Some(binary), passed_over),
                Err(problem) => passed_over.push(Attempt {
                    from,
                    reason: Reason::Unfit { path, problem },
                }),
            }
        }
        if passed_over.len() == before {
            passed_over.push(Attempt {
                from,
                reason: Reason::NotFound,
            });
        }
    }
    (None, passed_over)
}

async fn take(
    probe: &Probe<'_>,
    want: &Want,
    demand: Demand,
    path: &Path,
    origin: Origin,
) -> Result<Binary, Problem> {
    let version = probe
        .inspect(want.tool, &want.version, demand, path)
        .await?;
    let file = path.to_path_buf();
    let unreadable = |why: String| Problem::Unreadable { why };
    let (sha256, _) = blocking(move || Sha256::of_file(&file))
        .await
        .map_err(|error| unreadable(error.to_string()))?
        .map_err(|error| unreadable(error.to_string()))?;
    Ok(Binary {
        tool: want.tool,
        path: path.to_path_buf(),
        version,
        sha256,
        origin,
        from_cache: false,
    })
}
