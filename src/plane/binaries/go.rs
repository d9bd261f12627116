//! The Go toolchain of this machine: where it is and whether it is new enough.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use semver::{Prerelease, Version};

use super::probe;
use super::reason::GoProblem;
use super::source::Environment;
use crate::host::launch::Launcher;

/// A Go toolchain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Go {
    pub(super) path: PathBuf,
    version: Version,
    /// As it calls itself, `go1.26.8`.
    pub(super) name: String,
    /// The user's settings of [`SETTINGS`], as variables.
    pub(super) settings: Vec<(OsString, OsString)>,
}

/// Where modules come from and how they are verified. A closed network can set these only with
/// `go env -w`, and nothing is built there without them.
const SETTINGS: [&str; 6] = [
    "GOPROXY",
    "GOSUMDB",
    "GONOSUMDB",
    "GOPRIVATE",
    "GONOPROXY",
    "GOINSECURE",
];

/// What makes Go independent of the user's settings, of a workspace above the cache, and of
/// toolchains that it would fetch by itself.
pub(super) fn isolation() -> Vec<(OsString, OsString)> {
    [
        ("GOENV", "off"),
        ("GOWORK", "off"),
        ("GOTOOLCHAIN", "local"),
        ("GO111MODULE", "on"),
    ]
    .map(|(name, value)| (name.into(), value.into()))
    .into()
}

/// The first `go` in `PATH`.
pub(super) async fn find(
    launcher: &Launcher,
    environment: &Environment,
    deadline: Duration,
) -> Result<Go, GoProblem> {
    let path = environment
        .path_dirs()
        .into_iter()
        .map(|dir| dir.join("go"))
        .find(|path| {
            path.metadata()
                .is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
        })
        .ok_or(GoProblem::Missing)?;
    let mut env = isolation();
    // Go counts its own use below this folder; this makes sure that it cannot.
    env.push(("XDG_CONFIG_HOME".into(), "/dev/null".into()));
    let printed = match probe::output(launcher, &path, &["version"], &env, deadline).await {
        Ok(printed) => printed,
        Err(error) => {
            let why = error.to_string();
            return Err(GoProblem::NoVersion { path, why });
        }
    };
    let name = printed
        .strip_prefix("go version ")
        .and_then(|rest| rest.split_ascii_whitespace().next());
    match name.and_then(|name| Some((name, parse(name.strip_prefix("go")?)?))) {
        Some((name, version)) => Ok(Go {
            settings: settings(launcher, &path, environment, &env, deadline)
                .await
                .map_err(|why| GoProblem::NoSettings {
                    path: path.clone(),
                    why,
                })?,
            path,
            version,
            name: name.to_owned(),
        }),
        None => Err(GoProblem::NoVersion {
            path,
            why: format!("it printed {:?}", printed.trim_end()),
        }),
    }
}

/// What the user's own file sets. Variables of this process need no help: Go inherits them.
async fn settings(
    launcher: &Launcher,
    go: &Path,
    environment: &Environment,
    isolation: &[(OsString, OsString)],
    deadline: Duration,
) -> Result<Vec<(OsString, OsString)>, String> {
    let Some(file) = environment.goenv.as_ref().filter(|file| file.is_file()) else {
        return Ok(Vec::new());
    };
    // Later ones win: this is the one call in which the file counts.
    let mut env = isolation.to_vec();
    env.push(("GOENV".into(), file.into()));
    let mut args = vec!["env", "-json"];
    args.extend(SETTINGS);
    let printed = probe::output(launcher, go, &args, &env, deadline)
        .await
        .map_err(|error| error.to_string())?;
    let values: BTreeMap<String, String> =
        serde_json::from_str(&printed).map_err(|error| format!("it printed no JSON: {error}"))?;
    Ok(values
        .into_iter()
        .filter(|(name, value)| SETTINGS.contains(&name.as_str()) && !value.is_empty())
        .map(|(name, value)| (name.into(), value.into()))
        .collect())
}

impl Go {
    /// Whether it may build modules with this `go` directive.
    pub(super) fn fits(&self, directive: Option<&str>) -> Result<(), GoProblem> {
        match directive.and_then(parse) {
            Some(needed) if self.version < needed => Err(GoProblem::TooOld {
                path: self.path.clone(),
                found: self.version.clone(),
                needed,
            }),
            _ => Ok(()),
        }
    }
}

/// `1.26`, `1.26.8`, `1.27rc1`, each perhaps with a distributor's `-suffix`.
fn parse(text: &str) -> Option<Version> {
    let text = text.split('-').next()?;
    let digits = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (numbers, pre) = text.split_at(digits);
    let mut numbers = numbers.split('.').map(|number| number.parse().ok());
    let mut version = Version::new(numbers.next()??, numbers.next()??, 0);
    if let Some(patch) = numbers.next() {
        version.patch = patch?;
    }
    if numbers.next().is_some() {
        return None;
    }
    version.pre = Prerelease::new(pre).ok()?;
    Some(version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn go_versions_are_ordered_as_go_orders_them() {
        let parsed = |text| parse(text).map(|version| version.to_string());
        assert_eq!(parsed("1.26").as_deref(), Some("1.26.0"));
        assert_eq!(parsed("1.26.8").as_deref(), Some("1.26.8"));
        assert_eq!(parsed("1.26.8-distro").as_deref(), Some("1.26.8"));
        assert_eq!(parsed("1.27rc1").as_deref(), Some("1.27.0-rc1"));
        for odd in ["", "1", "tip", "1.2.3.4", "1.x"] {
            assert_eq!(parsed(odd), None, "{odd}");
        }
        let go = |version| Go {
            path: "/go".into(),
            version: parse(version).expect("a version"),
            name: String::new(),
            settings: Vec::new(),
        };
        assert_eq!(go("1.26.8").fits(Some("1.26.0")), Ok(()));
        assert!(go("1.25.9").fits(Some("1.26.0")).is_err());
        assert!(go("1.26rc2").fits(Some("1.26.0")).is_err());
    }
}
