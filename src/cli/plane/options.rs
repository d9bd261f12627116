//! Flags that say which programs a plane is made of and where they may come from.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;
use semver::Version;

use crate::cli::absolute;
use crate::cli::exit::Failure;
use crate::plane::binaries::{self, Environment, Request, Sources};
use crate::plane::tool::Tool;

/// Which programs, and from where.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Binaries")]
pub(crate) struct BinaryArgs {
    /// The Kubernetes version.
    #[arg(long, value_name = "VERSION", value_parser = parse_version, env = "AIBOM_QUAL_KUBERNETES",
          default_value_t = binaries::DEFAULT_KUBERNETES)]
    pub(crate) kubernetes: Version,
    /// A folder with all the programs, instead of a search.
    #[arg(long, value_name = "DIR", env = "AIBOM_QUAL_BINARIES")]
    binaries: Option<PathBuf>,
    /// Download from here: a server that holds the official files below their host's name
    /// (`URL/dl.k8s.io/release/…`).
    #[arg(long, value_name = "URL", env = "AIBOM_QUAL_MIRROR")]
    mirror: Option<reqwest::Url>,
    /// Never download; build what is not there.
    #[arg(long, env = "AIBOM_QUAL_NO_DOWNLOAD")]
    no_download: bool,
    /// Never build; a program that cannot be found or downloaded is an error.
    #[arg(long, env = "AIBOM_QUAL_NO_BUILD")]
    no_build: bool,
}

impl BinaryArgs {
    pub(crate) fn explicit(&self) -> Result<Option<PathBuf>, Failure> {
        absolute(self.binaries.clone())
    }

    /// These programs, of the version and from the sources that the flags name.
    pub(crate) fn request(&self, tools: Vec<Tool>) -> Result<Request, Failure> {
        Ok(Request {
            tools,
            kubernetes: self.kubernetes.clone(),
            explicit: self.explicit()?,
            sources: self.sources(),
        })
    }

    /// The flags that mean the same, for another command of this program.
    pub(crate) fn words(&self) -> Result<Vec<OsString>, Failure> {
        let mut words: Vec<OsString> =
            vec!["--kubernetes".into(), self.kubernetes.to_string().into()];
        if let Some(folder) = self.explicit()? {
            words.extend(["--binaries".into(), folder.into()]);
        }
        if let Some(mirror) = &self.mirror {
            words.extend(["--mirror".into(), mirror.as_str().into()]);
        }
        let switches = [
            (self.no_download, "--no-download"),
            (self.no_build, "--no-build"),
        ];
        let given = switches.into_iter().filter(|(given, _)| *given);
        words.extend(given.map(|(_, word)| word.into()));
        Ok(words)
    }

    pub(crate) fn sources(&self) -> Sources {
        Sources {
            download: !self.no_download,
            build: !self.no_build,
            mirror: self.mirror.clone(),
            ..Sources::new(Environment::from_process())
        }
    }
}

/// `1.36.3` or `v1.36.3`.
fn parse_version(text: &str) -> Result<Version, String> {
    Version::parse(text.strip_prefix('v').unwrap_or(text)).map_err(|error| {
        format!(
            "{error}; a version has three numbers, for example {}",
            binaries::DEFAULT_KUBERNETES
        )
    })
}

/// `COMPONENT=ARGUMENT`.
pub(crate) fn parse_component_arg(text: &str) -> Result<(Tool, String), String> {
    let names = || Tool::PLANE.map(|tool| tool.to_string()).join(", ");
    let (component, argument) = text.split_once('=').ok_or_else(|| {
        "write COMPONENT=ARGUMENT, for example etcd=--quota-backend-bytes=8000000".to_owned()
    })?;
    let tool = Tool::PLANE
        .into_iter()
        .find(|tool| tool.to_string() == component)
        .ok_or_else(|| {
            format!(
                "`{component}` is no component; the components are {}",
                names()
            )
        })?;
    Ok((tool, argument.to_owned()))
}

/// No wait is meant to be longer.
const LONGEST: std::time::Duration = std::time::Duration::from_secs(24 * 3600);

/// A duration such as `90s`, `2m` or `1m 30s`.
pub(crate) fn parse_duration(text: &str) -> Result<std::time::Duration, String> {
    let parsed: k8s_openapi::jiff::SignedDuration = text
        .parse()
        .map_err(|_| "write a number with its unit, for example 90s or 2m".to_owned())?;
    match std::time::Duration::try_from(parsed) {
        Err(_) => Err("a duration cannot be negative".to_owned()),
        Ok(long) if long > LONGEST => Err("no more than 24 hours".to_owned()),
        Ok(duration) => Ok(duration),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_may_carry_its_v() {
        assert_eq!(parse_version("v1.36.3"), parse_version("1.36.3"));
        assert!(parse_version("1.36").is_err());
    }

    #[test]
    fn an_argument_may_hold_an_equals_sign() {
        assert_eq!(
            parse_component_arg("etcd=--a=b"),
            Ok((Tool::Etcd, "--a=b".to_owned()))
        );
        assert!(parse_component_arg("helm3=--a").is_err());
    }

    #[test]
    fn durations_are_read_with_units() {
        assert_eq!(
            parse_duration("90s"),
            Ok(std::time::Duration::from_secs(90))
        );
        assert!(parse_duration("90").is_err());
        assert!(parse_duration("-1s").is_err());
        assert!(parse_duration("9223372036854775807s").is_err());
    }
}
