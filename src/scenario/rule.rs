//! The rules that scenarios are held to: their codes, which are contract, and what each is about.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

/// How much a finding matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The scenario cannot be run.
    Error,
    /// It can, and may not say what its author means.
    Warning,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Error => "error",
            Self::Warning => "warning",
        })
    }
}

/// A rule. Codes are never given to another rule, so that a script may rely on them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rule {
    /// S001: the text is not YAML.
    Syntax,
    /// S002: a key stands twice in one map.
    DuplicateKey,
    /// S003: the language has no such key.
    UnknownKey,
    /// S004: a key is missing.
    MissingKey,
    /// S005: a value is of another type.
    WrongType,
    /// S006: a value is of the right type, and still none that can be meant.
    BadValue,
    /// S007: a name that Kubernetes or Helm refuses.
    BadName,
    /// S008: YAML that the language leaves out.
    UnsupportedYaml,
    /// S009: a step is not a map with exactly one key.
    StepShape,
    /// S010: no chart has this name.
    UnknownChart,
    /// S011: no step names this chart.
    UnusedChart,
    /// S012: a step at a place where it cannot work.
    StepOrder,
    /// S013: a rollback to a revision that does not exist at that point.
    NoSuchRevision,
    /// S014: more revisions than Helm keeps when a person does the same.
    LongHistory,
    /// S015: a window too short to find what it looks for.
    ShortWindow,
    /// S016: a move between two names of the same chart with the same values.
    SameChart,
    /// S017: a move to what runs already.
    NoChange,
    /// S018: a load of no workloads.
    EmptyLoad,
    /// S019: workloads that no step makes.
    UnusedLoad,
    /// S020: no check has this id.
    UnknownCheck,
    /// S021: an expectation of a step that there is not.
    NoSuchStep,
    /// S022: two expectations of the same check at the same step.
    DoubleExpectation,
    /// S023: a chart whose place is not said, or said twice.
    ChartPlace,
    /// S024: a chart of a registry that may be another one tomorrow.
    FloatingChart,
}

/// A text is not the code of a rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a rule: rules are S001 to S024")]
pub struct NotARule(String);

impl FromStr for Rule {
    type Err = NotARule;

    fn from_str(text: &str) -> Result<Self, NotARule> {
        Self::ALL
            .into_iter()
            .find(|rule| rule.code().eq_ignore_ascii_case(text))
            .ok_or_else(|| NotARule(text.to_owned()))
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.code())
    }
}

impl Serialize for Rule {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.code())
    }
}

impl Rule {
    /// All of them, by code.
    pub const ALL: [Self; 24] = [
        Self::Syntax,
        Self::DuplicateKey,
        Self::UnknownKey,
        Self::MissingKey,
        Self::WrongType,
        Self::BadValue,
        Self::BadName,
        Self::UnsupportedYaml,
        Self::StepShape,
        Self::UnknownChart,
        Self::UnusedChart,
        Self::StepOrder,
        Self::NoSuchRevision,
        Self::LongHistory,
        Self::ShortWindow,
        Self::SameChart,
        Self::NoChange,
        Self::EmptyLoad,
        Self::UnusedLoad,
        Self::UnknownCheck,
        Self::NoSuchStep,
        Self::DoubleExpectation,
        Self::ChartPlace,
        Self::FloatingChart,
    ];

    /// Its code, for example `S003`.
    #[must_use]
    pub fn code(self) -> &'static str {
        match self {
            Self::Syntax => "S001",
            Self::DuplicateKey => "S002",
            Self::UnknownKey => "S003",
            Self::MissingKey => "S004",
            Self::WrongType => "S005",
            Self::BadValue => "S006",
            Self::BadName => "S007",
            Self::UnsupportedYaml => "S008",
            Self::StepShape => "S009",
            Self::UnknownChart => "S010",
            Self::UnusedChart => "S011",
            Self::StepOrder => "S012",
            Self::NoSuchRevision => "S013",
            Self::LongHistory => "S014",
            Self::ShortWindow => "S015",
            Self::SameChart => "S016",
            Self::NoChange => "S017",
            Self::EmptyLoad => "S018",
            Self::UnusedLoad => "S019",
            Self::UnknownCheck => "S020",
            Self::NoSuchStep => "S021",
            Self::DoubleExpectation => "S022",
            Self::ChartPlace => "S023",
            Self::FloatingChart => "S024",
        }
    }

    /// How much a finding of it matters.
    #[must_use]
    pub fn severity(self) -> Severity {
        match self {
            Self::UnusedChart
            | Self::LongHistory
            | Self::ShortWindow
            | Self::UnusedLoad
            | Self::FloatingChart => Severity::Warning,
            _ => Severity::Error,
        }
    }

    /// What it asks for and why, for people.
    #[must_use]
    pub fn help(self) -> &'static str {
        match self {
            Self::Syntax => {
                "A scenario is one document of YAML 1.2. Nothing behind the place of this finding was \
                 looked at."
            }
            Self::DuplicateKey => {
                "A key stands at most once in a map. YAML readers differ in which of two they take."
            }
            Self::UnknownKey => {
                "Keys that the language does not have are errors: what is misspelt would otherwise be \
                 left out in silence."
            }
            Self::MissingKey => "What has no default must be said.",
            Self::WrongType => {
                "A value has the type that the schema says (`aibom-qual schema`). Nothing is converted: \
                 `version: 1.3` is a number, and `version: \"1.3\"` a text."
            }
            Self::BadValue => {
                "A value is one of the words, or within the range or form, that the schema says."
            }
            Self::BadName => {
                "Names become those of releases, namespaces and folders. Kubernetes takes up to 63 of \
                 a-z, 0-9 and -, which begin and end with a letter or digit; Helm takes 53 for a release."
            }
            Self::UnsupportedYaml => {
                "Anchors, aliases, tags, numbers like `.inf`, and several documents are left out: a scenario reads the same to \
                 a person and to every YAML library."
            }
            Self::StepShape => "A step is a map with exactly one key, its kind: `- load: {}`.",
            Self::UnknownChart => "Steps name a chart of `spec.charts`.",
            Self::UnusedChart => "A chart that no step names is probably named wrongly somewhere.",
            Self::StepOrder => {
                "`baseline` is the first step and `cleanup` the last one, both once; `load` comes at most \
                 once; what needs a release comes after `install`; `install` needs that there is none."
            }
            Self::NoSuchRevision => {
                "`rollback` goes to a revision that exists by then: an install is revision 1, and every \
                 upgrade and rollback makes the next one."
            }
            Self::LongHistory => {
                "Helm keeps 10 revisions unless told otherwise. A run keeps all of them, so that its \
                 rollbacks work; the same moves by hand lose the first revision with the eleventh."
            }
            Self::ShortWindow => {
                "One extra list per minute is found in 2 % of windows of 60 s, in 7 % of 120 s, in 87 % of \
                 300 s, and in all of 600 s. A shorter window is measured, and proves nothing."
            }
            Self::SameChart => {
                "A move from a chart to itself with the same values changes nothing: a test that cannot \
                 fail (MET-14)."
            }
            Self::NoChange => {
                "A move to the chart or revision that runs already changes nothing: a test that cannot \
                 fail (MET-14). `restart: {}` is for what it costs to start again."
            }
            Self::EmptyLoad => "A `load` of no workloads makes nothing that a check could look at.",
            Self::UnusedLoad => "`workloads.count` is made by the step `load`, and there is none.",
            Self::UnknownCheck => "Checks are those of `aibom-qual gate --list`.",
            Self::NoSuchStep => "Steps are counted from 1, in the order of `spec.steps`.",
            Self::DoubleExpectation => {
                "A check at a step is expected to pass or to fail, and not declared twice. Without `step` \
                 an expectation is about every step."
            }
            Self::ChartPlace => {
                "A chart is either `path: …`, a folder or an archive, or `oci: …` with `version` or \
                 `digest`."
            }
            Self::FloatingChart => {
                "Without version and digest a registry gives its newest chart, which may be another one at \
                 the next run; no result can be repeated then."
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_counted_through_and_read_back() {
        for (index, rule) in Rule::ALL.into_iter().enumerate() {
            assert_eq!(rule.code(), format!("S{:03}", index + 1));
            assert_eq!(rule.code().to_lowercase().parse(), Ok(rule));
            assert!(rule.help().ends_with('.'), "{rule}");
        }
        assert!("S025".parse::<Rule>().is_err());
    }
}
