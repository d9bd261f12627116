//! The language: the types of the file that people write. The JSON Schema is made from them, and what
//! is checked with a position is checked against that schema.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZeroU32;

use schemars::generate::SchemaSettings;
use schemars::transform::RecursiveTransform;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Unexpected, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::format::{Format, Length};
use super::plan::Expect;

/// The JSON Schema of a scenario (draft 2020-12).
#[must_use]
pub fn schema() -> Value {
    let mut settings = SchemaSettings::draft2020_12();
    settings.inline_subschemas = true;
    let settings = settings.with_transform(RecursiveTransform(without_null));
    let schema = settings.into_generator().into_root_schema_for::<File>();
    schema.to_value()
}

/// What is optional is left out, and never written as null.
fn without_null(schema: &mut Schema) {
    if let Some(Value::Array(types)) = schema.get_mut("type") {
        types.retain(|name| name != "null");
        if let [only] = types.as_mut_slice() {
            let only = only.take();
            schema.insert("type".to_owned(), only);
        }
    }
}

/// A scenario of aibom-qual: what is done to a cluster, in which order, and what is expected of it.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(title = "Scenario")]
pub(super) struct File {
    /// The version of the language: `aibom-qual/v1`.
    #[expect(dead_code, reason = "there is one, which is checked by being read")]
    pub(super) api_version: ApiVersion,
    /// What the file holds: `Scenario`.
    #[expect(dead_code, reason = "there is one, which is checked by being read")]
    pub(super) kind: Kind,
    /// What the scenario is called.
    pub(super) metadata: Metadata,
    /// What it does.
    pub(super) spec: Spec,
}

#[derive(Debug, Deserialize, JsonSchema)]
pub(super) enum ApiVersion {
    #[serde(rename = "aibom-qual/v1")]
    V1,
}

#[derive(Debug, Deserialize, JsonSchema)]
pub(super) enum Kind {
    Scenario,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Metadata {
    /// The scenario's name, which becomes part of the folder of a run.
    #[schemars(schema_with = "scenario_name")]
    pub(super) name: String,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Spec {
    /// The release that is installed and moved.
    pub(super) release: Release,
    /// The charts, by names that steps use.
    #[schemars(extend("propertyNames" = Format::Label.schema(), "minProperties" = 1))]
    pub(super) charts: BTreeMap<String, Chart>,
    /// The workloads that the run makes.
    pub(super) workloads: Workloads,
    /// What is done, in order. Each step is a map with exactly one key, its kind.
    #[serde(deserialize_with = "serde_yaml::with::singleton_map_recursive::deserialize")]
    #[schemars(length(min = 1))]
    pub(super) steps: Vec<StepEntry>,
    /// What is expected beyond the defaults, which come from the kind of each step.
    #[serde(default)]
    pub(super) gates: Vec<Gate>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Release {
    /// The name of the release.
    #[schemars(schema_with = "release_name")]
    pub(super) name: String,
    /// The namespace of the release.
    #[schemars(schema_with = "label")]
    pub(super) namespace: String,
}

/// A chart: its place, which is either `path` or `oci`, and its values.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("oneOf" = [{"required": ["path"]}, {"required": ["oci"]}]))]
pub(super) struct Chart {
    /// A folder or an archive, relative to the scenario's file.
    #[schemars(length(min = 1))]
    pub(super) path: Option<String>,
    /// A repository of a registry, for example `ghcr.io/googlecloudplatform/charts/k8s-aibom`.
    #[schemars(length(min = 1))]
    pub(super) oci: Option<String>,
    /// The version of a chart from a registry, in quotes when it looks like a number.
    #[schemars(length(min = 1))]
    pub(super) version: Option<String>,
    /// The digest of a chart from a registry.
    #[schemars(extend(
        "format" = Format::Digest.keyword(),
        "pattern" = Format::Digest.pattern()
    ))]
    pub(super) digest: Option<String>,
    /// `chart-default`, `aicr` (as that distribution ships it, with strict readiness), or a file,
    /// relative to the scenario's file [default: chart-default].
    #[schemars(length(min = 1))]
    pub(super) values: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Workloads {
    /// How many are made by `baseline`, before the controller is installed.
    #[serde(default)]
    pub(super) preexisting: u32,
    /// How many are made by `load`.
    pub(super) count: u32,
    /// Which ones.
    #[serde(default = "usual_mix")]
    pub(super) mix: String,
    /// Over how many namespaces.
    #[serde(default = "one")]
    pub(super) namespaces: NonZeroU32,
    /// What is left to chance is drawn with this number.
    #[serde(default)]
    pub(super) seed: u64,
    /// How many are made per second, or `unlimited`: as fast as the server takes them.
    #[serde(default)]
    pub(super) rate: Rate,
}

fn usual_mix() -> String {
    "vllm-replicas-0".to_owned()
}

fn one() -> NonZeroU32 {
    NonZeroU32::MIN
}

/// Objects per second; without a limit when [`None`].
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rate(pub(super) Option<NonZeroU32>);

impl<'de> Deserialize<'de> for Rate {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct RateVisitor;

        impl Visitor<'_> for RateVisitor {
            type Value = Rate;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("`unlimited` or a number from 1")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Rate, E> {
                match text {
                    "unlimited" => Ok(Rate(None)),
                    _ => Err(E::invalid_value(Unexpected::Str(text), &self)),
                }
            }

            fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<Rate, E> {
                let rate = u32::try_from(number).ok().and_then(NonZeroU32::new);
                rate.map(|rate| Rate(Some(rate)))
                    .ok_or_else(|| E::invalid_value(Unexpected::Unsigned(number), &self))
            }
        }

        deserializer.deserialize_any(RateVisitor)
    }
}

impl JsonSchema for Rate {
    fn schema_name() -> Cow<'static, str> {
        "Rate".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        // The range applies to numbers only, and the pattern to texts only.
        json_schema!({
            "type": ["integer", "string"],
            "minimum": 1,
            "maximum": u32::MAX,
            "pattern": "^unlimited$",
        })
    }
}

/// A step.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum StepEntry {
    /// Look at the cluster as it was found, and make the workloads that exist before the controller.
    Baseline(Nothing),
    /// `helm install --wait` of a chart.
    Install(OfChart),
    /// Make the workloads and wait for their inventories.
    Load(Nothing),
    /// `helm upgrade --wait` to a chart.
    Upgrade(OfChart),
    /// `helm rollback --wait`.
    Rollback(Rollback),
    /// Apply the definitions of a chart.
    Crds(OfChart),
    /// Measure a quiet window.
    Steady(Steady),
    /// Restart the controller without a change of version.
    Restart(Nothing),
    /// Merge a patch into the `spec` of the controller's configuration.
    Config(Config),
    /// Wait, with nothing measured.
    Hold(Hold),
    /// `helm uninstall --wait`.
    Uninstall(Nothing),
    /// Remove all that the run made.
    Cleanup(Nothing),
}

/// Write `{}`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Nothing {}

/// Write `{chart: NAME}`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct OfChart {
    /// A name of `spec.charts`.
    pub(super) chart: String,
}

/// Write `{}`, or `{revision: N}`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Rollback {
    /// The revision to go back to [default: the previous one].
    pub(super) revision: Option<NonZeroU32>,
}

/// Write `{window: 15m}`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Steady {
    /// How long, for example 935s.
    pub(super) window: Length,
}

/// Write `{spec: {…}}`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Config {
    /// What is merged into the `spec`, at least one field.
    #[schemars(extend("minProperties" = 1))]
    pub(super) spec: serde_json::Map<String, Value>,
}

/// Write `{for: 90s}`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Hold {
    /// How long, for example 90s.
    #[serde(rename = "for")]
    pub(super) length: Length,
}

/// What is expected of a check beyond its default.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Gate {
    /// The id of the check, for example `CFG-03`.
    pub(super) check: String,
    /// The number of the step, from 1 [default: every step].
    pub(super) step: Option<NonZeroU32>,
    /// `fail`: the scenario is about this failure, and it is an error if it does not happen. `pass`:
    /// what is only a finding by default must hold.
    #[schemars(schema_with = "expect")]
    pub(super) expect: Expect,
    /// Why this is expected, for the report.
    #[schemars(length(min = 1))]
    pub(super) because: String,
}

fn scenario_name(_: &mut SchemaGenerator) -> Schema {
    Format::ScenarioName.schema()
}

fn release_name(_: &mut SchemaGenerator) -> Schema {
    Format::ReleaseName.schema()
}

fn label(_: &mut SchemaGenerator) -> Schema {
    Format::Label.schema()
}

fn expect(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "enum": ["fail", "pass"]})
}
