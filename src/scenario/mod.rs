//! The YAML that people write, read with line and column, linted, and turned into a validated
//! [`Plan`].
//!
//! A text becomes a tree whose values know their place. The tree is held against the JSON Schema of the
//! language, which is made from the language's types, and whatever of it can be read is linted; so all
//! findings come in one pass, and none hides another. Only a text without errors is read into the types
//! and becomes a plan. A command line may change a plan ([`Plan::with`]), which is linted again.
//!
//! Pure: nothing here knows a cluster, and a chart is only a name and a place. Words that other rooms
//! define, as the ids of checks, are handed in ([`Known`]).

mod chart;
mod file;
mod finding;
mod format;
mod lint;
mod near;
mod overrides;
mod plan;
mod read;
mod rule;
mod shape;
mod shipped;
mod sketch;
mod source;
mod tree;

#[cfg(test)]
mod tests;

pub use self::chart::Base;
pub use self::file::schema;
pub use self::finding::{Complaint, Finding, Findings, Place, Position};
pub use self::format::{Length, NotALength};
pub use self::lint::{Known, lint, refused};
pub use self::overrides::{ChartOverride, NotAnOverride, OverrideError, Overrides, ValuesOverride};
pub use self::plan::{
    ChartName, ChartPlan, ChartSource, Expect, Expectation, Outlook, Plan, Step, ValuesChoice,
    WorkloadPlan,
};
pub use self::read::{Scenario, read};
pub use self::rule::{NotARule, Rule, Severity};
pub use self::shipped::{Shipped, shipped};
pub use self::source::{Source, SourceError};
