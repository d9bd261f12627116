//! From what a file says of a chart to its place and values.

use std::path::{Path, PathBuf};

use super::file::Chart;
use super::finding::{Complaint, Place};
use super::near::nearest;
use super::plan::{ChartPlan, ChartSource, ValuesChoice};
use super::rule::Rule;

/// What a relative path in a scenario is relative to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Base {
    /// The folder of the scenario's file.
    Folder(PathBuf),
    /// The scenario came with this program, and so did the charts that it names.
    Shipped,
}

/// The words for values that are no file.
const PROFILES: [&str; 2] = ["chart-default", "aicr"];

/// Resolves a chart, or says all that is wrong with it.
pub(super) fn resolve(
    chart: &Chart,
    base: &Base,
    place: &Place,
) -> Result<ChartPlan, Vec<Complaint>> {
    let source = source(chart, base, place);
    let values = values(chart.values.as_deref(), base, place);
    match (source, values) {
        (Ok(source), Ok(values)) => Ok(ChartPlan { source, values }),
        (source, values) => Err([source.err(), values.err()].into_iter().flatten().collect()),
    }
}

fn source(chart: &Chart, base: &Base, place: &Place) -> Result<ChartSource, Complaint> {
    let misplaced = |message: &str, hint: &str, at: Place| Complaint {
        rule: Rule::ChartPlace,
        place: at,
        message: format!("`{place}` {message}"),
        hint: Some(hint.to_owned()),
    };
    match (&chart.path, &chart.oci) {
        (Some(_), Some(_)) => Err(misplaced(
            "has both `path` and `oci`",
            "leave one of them out",
            place.key("oci"),
        )),
        (None, None) => Err(misplaced(
            "does not say where the chart is",
            "write `path: …`, a folder or an archive, or `oci: …`, a repository",
            place.clone(),
        )),
        (Some(path), None) => {
            let registry_only = [("version", &chart.version), ("digest", &chart.digest)];
            let extra = registry_only.into_iter().find(|(_, value)| value.is_some());
            if let Some((key, _)) = extra {
                return Err(misplaced(
                    &format!("has a `{key}`, which only a chart of a registry has"),
                    "leave it out: the chart at this path says it itself",
                    place.key(key),
                ));
            }
            match base {
                Base::Folder(folder) => Ok(ChartSource::Path {
                    path: folder.join(path),
                }),
                Base::Shipped => embedded(path).ok_or_else(|| {
                    misplaced(
                        "is no chart that comes with this program",
                        "write `../charts/VERSION`",
                        place.key("path"),
                    )
                }),
            }
        }
        (None, Some(repository)) => Ok(ChartSource::Oci {
            repository: repository
                .strip_prefix("oci://")
                .unwrap_or(repository)
                .to_owned(),
            version: chart.version.clone(),
            digest: chart.digest.clone(),
        }),
    }
}

/// The embedded chart that a shipped scenario means by its path in the repository.
fn embedded(path: &str) -> Option<ChartSource> {
    let version = Path::new(path).strip_prefix("../charts").ok()?;
    let version = version.to_str()?;
    let plain = !version.is_empty() && !version.contains('/');
    plain.then(|| ChartSource::Embedded {
        version: version.to_owned(),
    })
}

fn values(text: Option<&str>, base: &Base, place: &Place) -> Result<ValuesChoice, Complaint> {
    let text = text.unwrap_or("chart-default");
    // A word that is almost one of ours is no file: the run would find that out much later.
    let meant = nearest(text, PROFILES).filter(|_| !text.contains(['/', '.']));
    match (text, meant) {
        ("chart-default", _) => Ok(ValuesChoice::ChartDefault),
        ("aicr", _) => Ok(ValuesChoice::Aicr),
        (_, Some(meant)) => Err(Complaint {
            rule: Rule::BadValue,
            place: place.key("values"),
            message: format!("there are no values `{text}`"),
            hint: Some(format!(
                "did you mean `{meant}`? A file is written with its folder, as `./{text}`"
            )),
        }),
        (_, None) => Ok(ValuesChoice::File {
            path: match base {
                Base::Folder(folder) => folder.join(text),
                Base::Shipped => PathBuf::from(text),
            },
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shipped_scenario_means_embedded_charts() {
        assert_eq!(
            embedded("../charts/1.3.0"),
            Some(ChartSource::Embedded {
                version: "1.3.0".to_owned()
            })
        );
        for path in [
            "../charts",
            "../charts/",
            "charts/1.3.0",
            "../charts/a/b",
            "/x",
        ] {
            assert_eq!(embedded(path), None, "{path}");
        }
    }

    #[test]
    fn values_are_words_or_files() {
        let base = Base::Folder("/s".into());
        let of = |text| values(Some(text), &base, &Place::default());
        assert_eq!(of("aicr"), Ok(ValuesChoice::Aicr));
        let path = PathBuf::from("/s/own.yaml");
        assert_eq!(of("own.yaml"), Ok(ValuesChoice::File { path }));
        assert!(of("acir").is_err());
        assert!(of("./acir").is_ok());
    }
}
