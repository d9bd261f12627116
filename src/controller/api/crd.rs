//! The custom resource definitions of each release.
//!
//! kube derives a definition from a type, and one typed transform makes of it what the release
//! serves: the derived schema requires `spec`, calls every optional field nullable and has no
//! `listKind`. What the types can say (limits, patterns, defaults, list types, rules, printer
//! columns) they say themselves.

use std::collections::BTreeMap;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, CustomResourceDefinitionVersion, JSONSchemaProps,
    JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use kube::CustomResourceExt as _;
use serde_json::Value;

use super::aibom::Aibom;
use super::config::AibomControllerConfig;
use super::release::{ApiKind, Release, Served};

/// A definition cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum DefinitionError {
    /// The derived definition has no schema.
    #[error("the definition derived for {kind} has no schema")]
    NoSchema {
        /// The kind.
        kind: &'static str,
    },
    /// A release lacks a field that no release has.
    #[error("{chart} is said to lack {path}, which {kind} does not have")]
    NoSuchField {
        /// The version of the chart.
        chart: &'static str,
        /// The dotted path of the field.
        path: &'static str,
        /// The kind.
        kind: &'static str,
    },
    /// It cannot be written as JSON.
    #[error("the definition cannot be written as JSON")]
    Json(#[from] serde_json::Error),
    /// It cannot be written as YAML.
    #[error("the definition cannot be written as YAML")]
    Yaml(#[from] serde_yaml::Error),
}

impl DefinitionError {
    /// The one thing to do about it, if there is one.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::NoSuchField { path, .. } => Some(format!(
                "add {path} to the type, or remove it from the table of releases"
            )),
            Self::NoSchema { .. } | Self::Json(_) | Self::Yaml(_) => None,
        }
    }
}

/// The definition of a kind in a release.
///
/// # Errors
///
/// [`DefinitionError::NoSuchField`] when the table of releases names a field that the type lacks.
pub fn definition(
    kind: ApiKind,
    release: &Release,
) -> Result<CustomResourceDefinition, DefinitionError> {
    let mut crd = match kind {
        ApiKind::Aibom => Aibom::crd(),
        ApiKind::ControllerConfig => AibomControllerConfig::crd(),
    };
    crd.spec.names.list_kind = Some(format!("{}List", kind.kind()));
    crd.spec.names.categories = None;
    let template = crd.spec.versions.pop();
    let template = template.ok_or(DefinitionError::NoSchema { kind: kind.kind() })?;
    for served in release.served {
        let version = version(kind, release, served, template.clone())?;
        crd.spec.versions.push(version);
    }
    Ok(crd)
}

/// The file of a definition.
///
/// # Errors
///
/// [`DefinitionError`] as for [`definition`], or when it cannot be written.
pub fn file(kind: ApiKind, release: &Release) -> Result<String, DefinitionError> {
    let mut value = serde_json::to_value(definition(kind, release)?)?;
    whole_numbers(&mut value);
    let yaml = serde_yaml::to_string(&value)?;
    let separator = if release.separated.contains(&kind) {
        "---\n"
    } else {
        ""
    };
    Ok(format!("{separator}{yaml}"))
}

/// The name of that file.
#[must_use]
pub fn file_name(kind: ApiKind) -> String {
    format!("{}_{}.yaml", super::GROUP, kind.plural())
}

fn version(
    kind: ApiKind,
    release: &Release,
    served: &Served,
    template: CustomResourceDefinitionVersion,
) -> Result<CustomResourceDefinitionVersion, DefinitionError> {
    let mut version = template;
    served.version.name().clone_into(&mut version.name);
    version.served = true;
    version.storage = served.storage;
    let root = version
        .schema
        .as_mut()
        .and_then(|schema| schema.open_api_v3_schema.as_mut())
        .ok_or(DefinitionError::NoSchema { kind: kind.kind() })?;
    correct(root);
    complete(root);
    if kind == ApiKind::ControllerConfig {
        for path in served.lacks {
            if !remove(root, path) {
                return Err(DefinitionError::NoSuchField {
                    chart: release.chart,
                    path,
                    kind: kind.kind(),
                });
            }
        }
    }
    Ok(version)
}

/// Takes from a schema what its type did not mean.
fn correct(schema: &mut JSONSchemaProps) {
    schema.title = None;
    schema.nullable = None;
    if let Some(description) = &mut schema.description {
        // Lines of source are no lines of the description.
        *description = description.split_whitespace().collect::<Vec<_>>().join(" ");
    }
    for property in schema.properties.iter_mut().flat_map(BTreeMap::values_mut) {
        correct(property);
    }
    if let Some(JSONSchemaPropsOrBool::Schema(values)) = &mut schema.additional_properties {
        correct(values);
    }
    match &mut schema.items {
        Some(JSONSchemaPropsOrArray::Schema(item)) => correct(item),
        Some(JSONSchemaPropsOrArray::Schemas(items)) => items.iter_mut().for_each(correct),
        None => {}
    }
}

/// Gives the root the fields of every object and lets `spec` be absent.
fn complete(root: &mut JSONSchemaProps) {
    root.required = None;
    let field = |type_: &str, description: Option<&str>| JSONSchemaProps {
        type_: Some(type_.to_owned()),
        description: description.map(str::to_owned),
        ..JSONSchemaProps::default()
    };
    root.properties.get_or_insert_default().extend([
        (
            "apiVersion".to_owned(),
            field(
                "string",
                Some("Group and version of the schema that this object is written in."),
            ),
        ),
        (
            "kind".to_owned(),
            field("string", Some("Kind of the object.")),
        ),
        ("metadata".to_owned(), field("object", None)),
    ]);
}

/// Removes the property at a dotted path. Returns whether there was one.
fn remove(schema: &mut JSONSchemaProps, path: &str) -> bool {
    let Some(properties) = schema.properties.as_mut() else {
        return false;
    };
    match path.split_once('.') {
        Some((first, rest)) => properties
            .get_mut(first)
            .is_some_and(|property| remove(property, rest)),
        None => properties.remove(path).is_some(),
    }
}

/// Writes `1024.0` as `1024`: limits are floating-point numbers in the type of the API.
fn whole_numbers(value: &mut Value) {
    match value {
        Value::Number(number) if number.is_f64() => {
            // The API server and every tool print the shorter form, so that texts compare.
            let shorter = format!("{number}");
            if let Some(Ok(whole)) = shorter.strip_suffix(".0").map(str::parse::<i64>) {
                *number = whole.into();
            }
        }
        Value::Array(items) => items.iter_mut().for_each(whole_numbers),
        Value::Object(fields) => fields.values_mut().for_each(whole_numbers),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::super::release::RELEASES;
    use super::*;

    #[test]
    fn every_release_stores_in_one_version() {
        for release in &RELEASES {
            let stored = release.served.iter().filter(|served| served.storage);
            assert_eq!(stored.count(), 1, "{}", release.chart);
        }
    }

    #[test]
    fn a_lacking_field_has_to_exist() {
        const WRONG: Release = Release {
            served: &[Served {
                lacks: &["spec.nosuch"],
                ..RELEASES[0].served[0]
            }],
            ..RELEASES[0]
        };
        let error = definition(ApiKind::ControllerConfig, &WRONG).expect_err("no such field");
        assert!(error.to_string().contains("spec.nosuch"), "{error}");
        assert!(error.hint().is_some());
    }

    #[test]
    fn limits_are_whole_numbers() {
        let file = file(ApiKind::ControllerConfig, &RELEASES[0]).unwrap();
        assert!(file.contains("maximum: 1048576\n"), "{file}");
    }
}
