//! The `crds/` of a chart: which files they are, and every document in them.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::helm::yaml::{self, YamlError};

/// A file in `crds/` does not hold definitions, or not such as a cluster takes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DefinitionError {
    /// It is not YAML.
    #[error("{file} is not YAML")]
    Yaml {
        /// The file, below the chart.
        file: String,
        /// Why not.
        source: YamlError,
    },
    /// It holds something else.
    #[error("{file} holds {found} where a definition is expected")]
    Kind {
        /// The file, below the chart.
        file: String,
        /// What it holds.
        found: String,
    },
    /// It holds a definition without a name.
    #[error("{file} holds a definition without a name")]
    Nameless {
        /// The file, below the chart.
        file: String,
    },
    /// Two of them have one name.
    #[error("the definition {name} is in {first} and again in {second}")]
    Twice {
        /// The name.
        name: String,
        /// A file, below the chart.
        first: String,
        /// Another one, or the same.
        second: String,
    },
}

impl DefinitionError {
    /// The one thing to do about it, if there is one.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Yaml { .. } | Self::Nameless { .. } => None,
            Self::Kind { .. } => Some(
                "write each CustomResourceDefinition of apiextensions.k8s.io/v1 as a document of its own"
                    .to_owned(),
            ),
            Self::Twice { .. } => Some("remove one of the two".to_owned()),
        }
    }
}

/// Whether Helm installs this file, by its path below the chart, before the templates: YAML or JSON in
/// `crds/` of the chart or of a chart in its `charts/`.
pub(in crate::helm) fn is_definition_file(path: &str) -> bool {
    let mut inner = path;
    while let Some(rest) = inner.strip_prefix("charts/") {
        let Some((_, below)) = rest.split_once('/') else {
            return false;
        };
        inner = below;
    }
    let extension = inner.rsplit_once('.').map(|(_, extension)| extension);
    inner.starts_with("crds/") && matches!(extension, Some("yaml" | "yml" | "json"))
}

/// All definitions in these files, given by path and text, in their order.
pub(in crate::helm) fn read(
    files: impl IntoIterator<Item = (String, String)>,
) -> Result<Vec<Value>, DefinitionError> {
    let mut definitions = Vec::new();
    let mut known: BTreeMap<String, String> = BTreeMap::new();
    for (file, text) in files {
        let documents = yaml::documents(&text).map_err(|source| DefinitionError::Yaml {
            file: file.clone(),
            source,
        })?;
        for document in documents {
            let name = name_of(&document, &file)?;
            if let Some(first) = known.insert(name.clone(), file.clone()) {
                return Err(DefinitionError::Twice {
                    name,
                    first,
                    second: file,
                });
            }
            definitions.push(document);
        }
    }
    Ok(definitions)
}

fn name_of(document: &Value, file: &str) -> Result<String, DefinitionError> {
    let word = |value: &Value| value.as_str().map(str::to_owned);
    let kind = (word(&document["kind"]), word(&document["apiVersion"]));
    if let (Some("CustomResourceDefinition"), Some("apiextensions.k8s.io/v1")) =
        (kind.0.as_deref(), kind.1.as_deref())
    {
        return word(&document["metadata"]["name"])
            .filter(|name| !name.is_empty())
            .ok_or_else(|| DefinitionError::Nameless {
                file: file.to_owned(),
            });
    }
    let found = match kind {
        (Some(kind), Some(version)) => format!("a {kind} of {version}"),
        (Some(kind), None) => format!("a {kind}"),
        (None, _) => "something without a kind".to_owned(),
    };
    Err(DefinitionError::Kind {
        file: file.to_owned(),
        found,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn crd(name: &str) -> String {
        format!(
            "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata:\n  name: {name}\n"
        )
    }

    fn read_all(files: &[(&str, String)]) -> Result<Vec<String>, DefinitionError> {
        let files = files
            .iter()
            .map(|(name, text)| ((*name).to_owned(), text.clone()));
        let definitions = read(files)?;
        Ok(definitions
            .iter()
            .map(|definition| definition["metadata"]["name"].to_string())
            .collect())
    }

    #[test]
    fn files_are_those_that_helm_installs() {
        for path in [
            "crds/a.yaml",
            "crds/b/c.yml",
            "crds/a.json",
            "charts/sub/crds/a.yaml",
        ] {
            assert!(is_definition_file(path), "{path}");
        }
        for path in [
            "crds/README.md",
            "templates/crds/a.yaml",
            "crds.yaml",
            "charts/crds/a.yaml",
            "charts/a.tgz",
        ] {
            assert!(!is_definition_file(path), "{path}");
        }
    }

    #[test]
    fn every_document_of_every_file_counts() {
        let two = format!("# both\n---\n{}---\n{}---\n", crd("a"), crd("b"));
        let json = r#"{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "c"}}"#;
        let names = read_all(&[("crds/1.yaml", two), ("crds/2.json", json.to_owned())]);
        assert_eq!(names.expect("definitions"), [r#""a""#, r#""b""#, r#""c""#]);
    }

    #[test]
    fn anything_else_is_refused_by_name() {
        let list = "apiVersion: v1\nkind: List\nitems: []\n".to_owned();
        let error = read_all(&[("crds/1.yaml", list)]).expect_err("a list");
        assert_eq!(
            error.to_string(),
            "crds/1.yaml holds a List of v1 where a definition is expected"
        );
        assert!(error.hint().is_some());
        let old = crd("a").replace("/v1\n", "/v1beta1\n");
        let error = read_all(&[("crds/1.yaml", old)]).expect_err("an old one");
        assert!(
            error
                .to_string()
                .contains("of apiextensions.k8s.io/v1beta1"),
            "{error}"
        );
        let error = read_all(&[("crds/1.yaml", "- 1".to_owned())]).expect_err("a list");
        assert!(
            error.to_string().contains("something without a kind"),
            "{error}"
        );
        let error = read_all(&[("crds/1.yaml", crd("''"))]).expect_err("no name");
        assert!(matches!(error, DefinitionError::Nameless { .. }), "{error}");
        let error = read_all(&[("crds/1.yaml", "a: [".to_owned())]).expect_err("broken");
        assert!(matches!(error, DefinitionError::Yaml { .. }), "{error}");
    }

    #[test]
    fn a_definition_is_there_once() {
        let error = read_all(&[("crds/1.yaml", crd("a")), ("crds/2.yaml", crd("a"))]);
        assert_eq!(
            error.expect_err("twice").to_string(),
            "the definition a is in crds/1.yaml and again in crds/2.yaml"
        );
    }
}
