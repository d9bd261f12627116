//! What a chart says of itself, in its `Chart.yaml`.

use serde_json::Value;

use super::error::ChartError;
use super::files_error;
use super::tree::Tree;
use crate::helm::yaml;

const FILE: &str = "Chart.yaml";

/// The facts that matter here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Facts {
    pub(super) name: String,
    pub(super) version: String,
    /// Empty when there is none.
    pub(super) app_version: String,
}

impl Facts {
    pub(super) fn read(tree: &Tree, source_name: &str) -> Result<Self, ChartError> {
        if !tree.names().any(|name| name == FILE) {
            return Err(ChartError::NoChartYaml {
                source_name: source_name.to_owned(),
            });
        }
        let text = tree.text(FILE).map_err(files_error(source_name))?;
        let documents = yaml::documents(&text).map_err(|source| ChartError::ChartYaml {
            source_name: source_name.to_owned(),
            source,
        })?;
        let chart = documents.first().unwrap_or(&Value::Null);
        // A number is none: `1.10` would be read as 1.1, and Helm refuses it.
        let field = |field: &'static str| match &chart[field] {
            Value::String(text) if !text.is_empty() => Ok(text.clone()),
            _ => Err(ChartError::Field {
                source_name: source_name.to_owned(),
                field,
            }),
        };
        Ok(Self {
            name: field("name")?,
            version: field("version")?,
            app_version: match &chart["appVersion"] {
                Value::Null => String::new(),
                _ => field("appVersion")?,
            },
        })
    }
}
