//! What a command line changes of a plan.

use std::path::PathBuf;
use std::str::FromStr;

use super::format::{Format, Length};
use super::near::suggest;
use super::plan::{ChartName, ChartSource, Plan, Step, ValuesChoice};

/// `--chart NAME=PATH` or `--chart NAME=oci://REPOSITORY[:VERSION][@DIGEST]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChartOverride {
    /// The name of the chart in the scenario.
    pub name: ChartName,
    /// Where it comes from instead.
    pub source: ChartSource,
}

/// `--values NAME=FILE`, or one of the words that a scenario takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValuesOverride {
    /// The name of the chart in the scenario.
    pub name: ChartName,
    /// Its values instead.
    pub values: ValuesChoice,
}

/// An argument is not what it should be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotAnOverride {
    /// There is no name, or nothing behind it.
    #[error("`{0}` is not NAME=VALUE, where NAME is a chart of the scenario")]
    NoPair(String),
    /// The address of a registry is not complete.
    #[error("`{0}` is not oci://HOST/REPOSITORY[:VERSION][@sha256:DIGEST]")]
    NoRepository(String),
}

fn pair(text: &str) -> Result<(ChartName, &str), NotAnOverride> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() && !value.is_empty() => {
            Ok((ChartName(name.to_owned()), value))
        }
        _ => Err(NotAnOverride::NoPair(text.to_owned())),
    }
}

impl FromStr for ChartOverride {
    type Err = NotAnOverride;

    fn from_str(text: &str) -> Result<Self, NotAnOverride> {
        let (name, place) = pair(text)?;
        let source = match place.strip_prefix("oci://") {
            Some(address) => {
                registry(address).ok_or_else(|| NotAnOverride::NoRepository(place.to_owned()))?
            }
            None => ChartSource::Path {
                path: PathBuf::from(place),
            },
        };
        Ok(Self { name, source })
    }
}

/// `HOST[:PORT]/REPOSITORY[:VERSION][@DIGEST]`.
fn registry(address: &str) -> Option<ChartSource> {
    let (address, digest) = match address.split_once('@') {
        Some((address, digest)) => (address, Some(digest)),
        None => (address, None),
    };
    if digest.is_some_and(|digest| !Format::Digest.holds(digest)) {
        return None;
    }
    // The colon of a port stands before the last slash, the one of a version behind it.
    let (folder, last) = address.rsplit_once('/')?;
    let (last, version) = match last.split_once(':') {
        Some((last, version)) => (last, Some(version)),
        None => (last, None),
    };
    if folder.is_empty() || last.is_empty() || version.is_some_and(str::is_empty) {
        return None;
    }
    Some(ChartSource::Oci {
        repository: format!("{folder}/{last}"),
        version: version.map(str::to_owned),
        digest: digest.map(str::to_owned),
    })
}

impl FromStr for ValuesOverride {
    type Err = NotAnOverride;

    fn from_str(text: &str) -> Result<Self, NotAnOverride> {
        let (name, values) = pair(text)?;
        let values = match values {
            "chart-default" => ValuesChoice::ChartDefault,
            "aicr" => ValuesChoice::Aicr,
            file => ValuesChoice::File {
                path: PathBuf::from(file),
            },
        };
        Ok(Self { name, values })
    }
}

/// All that a command line changes. Paths are absolute or relative to the working directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Overrides {
    /// Charts from elsewhere; of two for one name, the last one counts.
    pub charts: Vec<ChartOverride>,
    /// Other values; of two for one name, the last one counts.
    pub values: Vec<ValuesOverride>,
    /// The length of every window of `steady`.
    pub window: Option<Length>,
    /// How many workloads `load` makes.
    pub workloads: Option<u32>,
}

/// A command line changes what the scenario does not have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OverrideError {
    /// No chart has this name.
    #[error("{flag}: the scenario `{scenario}` has no chart `{name}`")]
    NoSuchChart {
        /// The flag.
        flag: &'static str,
        /// The scenario.
        scenario: String,
        /// The name.
        name: ChartName,
        /// What the scenario has.
        known: Vec<ChartName>,
    },
    /// There is no window.
    #[error("--window: the scenario `{scenario}` has no step `steady`")]
    NoWindow {
        /// The scenario.
        scenario: String,
    },
    /// There is no load.
    #[error("--workloads: the scenario `{scenario}` has no step `load`")]
    NoLoad {
        /// The scenario.
        scenario: String,
    },
}

impl OverrideError {
    /// What to do about it.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::NoSuchChart { name, known, .. } => {
                let known: Vec<&str> = known.iter().map(|name| name.0.as_str()).collect();
                Some(suggest(&name.0, &known, "charts"))
            }
            Self::NoWindow { .. } | Self::NoLoad { .. } => Some("leave the flag out".to_owned()),
        }
    }
}

impl Plan {
    /// The plan as the command line wants it. What [`lint`](super::lint()) says of it may differ.
    ///
    /// # Errors
    ///
    /// [`OverrideError`] when something is to be changed that the plan does not have.
    pub fn with(mut self, overrides: &Overrides) -> Result<Self, OverrideError> {
        for ChartOverride { name, source } in &overrides.charts {
            match self.charts.get_mut(name) {
                Some(chart) => chart.source = source.clone(),
                None => return Err(self.no_such_chart("--chart", name)),
            }
        }
        for ValuesOverride { name, values } in &overrides.values {
            match self.charts.get_mut(name) {
                Some(chart) => chart.values = values.clone(),
                None => return Err(self.no_such_chart("--values", name)),
            }
        }
        if let Some(window) = overrides.window {
            let mut windows = 0;
            for step in &mut self.steps {
                if let Step::Steady { window_seconds } = step {
                    *window_seconds = window.seconds();
                    windows += 1;
                }
            }
            if windows == 0 {
                return Err(OverrideError::NoWindow {
                    scenario: self.name,
                });
            }
        }
        if let Some(count) = overrides.workloads {
            if !self.steps.contains(&Step::Load) {
                return Err(OverrideError::NoLoad {
                    scenario: self.name,
                });
            }
            self.workloads.count = count;
        }
        Ok(self)
    }

    fn no_such_chart(&self, flag: &'static str, name: &ChartName) -> OverrideError {
        OverrideError::NoSuchChart {
            flag,
            scenario: self.name.clone(),
            name: name.clone(),
            known: self.charts.keys().cloned().collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn oci(repository: &str, version: Option<&str>, digest: Option<&str>) -> ChartSource {
        ChartSource::Oci {
            repository: repository.to_owned(),
            version: version.map(str::to_owned),
            digest: digest.map(str::to_owned),
        }
    }

    #[test]
    fn charts_are_paths_or_addresses() {
        let digest = format!("sha256:{}", "0a".repeat(32));
        let source = |place: &str| {
            let text = format!("to={place}");
            text.parse().map(|parsed: ChartOverride| parsed.source)
        };
        let path = |path: &str| ChartSource::Path { path: path.into() };
        for (place, expected) in [
            ("charts/1.5.1".to_owned(), path("charts/1.5.1")),
            ("a=b.tgz".to_owned(), path("a=b.tgz")),
            ("oci://h.io/a/b".to_owned(), oci("h.io/a/b", None, None)),
            (
                "oci://h.io:5000/b:1.5.1".to_owned(),
                oci("h.io:5000/b", Some("1.5.1"), None),
            ),
            (
                format!("oci://h.io/b:1.5.1@{digest}"),
                oci("h.io/b", Some("1.5.1"), Some(&digest)),
            ),
            (
                format!("oci://h.io/b@{digest}"),
                oci("h.io/b", None, Some(&digest)),
            ),
        ] {
            assert_eq!(source(&place), Ok(expected), "{place}");
        }
        for bad in ["oci://h.io", "oci:///b", "oci://h/b:", "oci://h/b@sha256:1"] {
            let error = Err(NotAnOverride::NoRepository(bad.to_owned()));
            assert_eq!(source(bad), error);
        }
        for bad in ["to", "=x", "to="] {
            let error = NotAnOverride::NoPair(bad.to_owned());
            assert_eq!(bad.parse::<ChartOverride>(), Err(error));
        }
    }
}
