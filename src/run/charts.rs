//! The charts of a plan, opened once: what is read here is what is installed every time (ART-09).

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

use super::error::RunError;
use crate::helm::{Chart, Helm, ReleaseRef};
use crate::record::{ChartRecord, schema_sha256};
use crate::scenario::{ChartName, Plan};

/// A chart of the plan, with what it renders.
#[derive(Debug)]
pub struct OpenChart {
    /// The chart, ready for helm.
    pub chart: Chart,
    /// Its objects, as helm renders them for the release of the plan.
    pub objects: Vec<Value>,
    /// What goes on record.
    pub record: ChartRecord,
}

/// All charts of a plan.
#[derive(Debug)]
pub struct Charts(BTreeMap<ChartName, OpenChart>);

impl Charts {
    /// Opens every chart of the plan below `work`, and has it rendered.
    ///
    /// # Errors
    ///
    /// [`RunError`] when a chart cannot be read or rendered, or when two of them are the same to a
    /// cluster (MET-14).
    pub async fn open(plan: &Plan, helm: &Helm, work: &Path) -> Result<Self, RunError> {
        let release = release(plan);
        let mut charts = BTreeMap::new();
        for (name, wanted) in &plan.charts {
            let unusable = |source| RunError::Chart {
                name: name.clone(),
                source: Box::new(source),
            };
            let chart = Chart::open(wanted, work).await.map_err(unusable)?;
            let rendered = helm.template(&release, &chart).await;
            let rendered = rendered.map_err(|source| RunError::Render {
                name: name.clone(),
                source: Box::new(source),
            })?;
            let record = chart.record(&rendered).map_err(unusable)?;
            let opened = OpenChart {
                chart,
                objects: rendered.objects,
                record,
            };
            charts.insert(name.clone(), opened);
        }
        let charts = Self(charts);
        charts.must_differ()?;
        Ok(charts)
    }

    /// A chart of the plan.
    #[must_use]
    pub fn get(&self, name: &ChartName) -> Option<&OpenChart> {
        self.0.get(name)
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = (&ChartName, &OpenChart)> {
        self.0.iter()
    }

    /// What goes on record of them, by their names in the plan.
    #[must_use]
    pub fn records(&self) -> BTreeMap<String, ChartRecord> {
        let records = self.iter();
        records
            .map(|(name, open)| (name.0.clone(), open.record.clone()))
            .collect()
    }

    /// The version of a chart, for people.
    pub(super) fn version(&self, name: &ChartName) -> Option<String> {
        self.get(name).map(|open| open.record.version.clone())
    }

    fn must_differ(&self) -> Result<(), RunError> {
        let digests = self.iter().map(|(name, open)| {
            let objects = schema_sha256(&Value::Array(open.objects.clone()));
            (name, &open.record.image, objects)
        });
        let mut seen = BTreeMap::new();
        for (name, image, objects) in digests {
            if let Some(one) = seen.insert((image, objects), name) {
                return Err(RunError::SameCharts {
                    one: one.clone(),
                    other: name.clone(),
                    image: image.clone(),
                });
            }
        }
        Ok(())
    }
}

/// The release of a plan.
pub(super) fn release(plan: &Plan) -> ReleaseRef {
    ReleaseRef {
        name: plan.release.clone(),
        namespace: plan.namespace.clone(),
    }
}
