//! The YAML that people write, read with line and column, linted, and turned into a validated
//! [`Plan`].
//!
//! Pure: nothing here knows a cluster, and a chart is only a name and a place.

mod plan;

pub use self::plan::{
    ChartName, ChartPlan, ChartSource, Expect, Expectation, Outlook, Plan, Step, ValuesChoice,
    WorkloadPlan,
};
