//! The Go toolchain of this machine: where it is and whether it is new enough.

use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::time::Duration;

use semver::{Prerelease, Version};

use super::probe;
use super::reason::GoProblem;
use super::source::Environment;
use crate::plane::launch::Launcher;

/// A Go toolchain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Go {
    pub(super) path: PathBuf,
    version: Version,
    /// As it calls itself, `go1.26.8`.
    pub(super) name: String,
}

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
        Err(why) => return Err(GoProblem::NoVersion { path, why }),
    };
    let name = printed
        .strip_prefix("go version ")
        .and_then(|rest| rest.split_ascii_whitespace().next());
    match name.and_then(|name| Some((name, parse(name.strip_prefix("go")?)?))) {
        Some((name, version)) => Ok(Go {
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
        };
        assert_eq!(go("1.26.8").fits(Some("1.26.0")), Ok(()));
        assert!(go("1.25.9").fits(Some("1.26.0")).is_err());
        assert!(go("1.26rc2").fits(Some("1.26.0")).is_err());
    }
}
