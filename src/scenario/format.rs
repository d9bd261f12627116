//! Texts with a form: names, lengths of time, digests. Their form is part of the JSON Schema, and is
//! checked by the same table.

use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;

use super::rule::Rule;

/// The form of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    /// The name of a scenario: labels with dots in between.
    ScenarioName,
    /// A DNS label (RFC 1123).
    Label,
    /// The name of a release of Helm.
    ReleaseName,
    /// A length of time.
    Length,
    /// A digest.
    Digest,
}

impl Format {
    const ALL: [Self; 5] = [
        Self::ScenarioName,
        Self::Label,
        Self::ReleaseName,
        Self::Length,
        Self::Digest,
    ];

    /// The one of this keyword in a schema.
    pub(super) fn named(keyword: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|format| format.keyword() == keyword)
    }

    /// Its keyword in a schema.
    pub(super) fn keyword(self) -> &'static str {
        match self {
            Self::ScenarioName => "aibom-qual-scenario-name",
            Self::Label => "aibom-qual-label",
            Self::ReleaseName => "aibom-qual-release-name",
            Self::Length => "aibom-qual-length",
            Self::Digest => "aibom-qual-digest",
        }
    }

    /// As a regular expression, for editors.
    pub(super) fn pattern(self) -> &'static str {
        match self {
            Self::ScenarioName => "^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$",
            Self::Label | Self::ReleaseName => "^[a-z0-9]([a-z0-9-]*[a-z0-9])?$",
            Self::Length => "^([0-9]+h([0-9]+m)?([0-9]+s)?|[0-9]+m([0-9]+s)?|[0-9]+s)$",
            Self::Digest => "^sha256:[0-9a-f]{64}$",
        }
    }

    fn longest(self) -> Option<usize> {
        match self {
            Self::ScenarioName | Self::Label => Some(63),
            // Helm's own limit: its objects' names get suffixes.
            Self::ReleaseName => Some(53),
            Self::Length | Self::Digest => None,
        }
    }

    /// The rule that a text of another form breaks.
    pub(super) fn rule(self) -> Rule {
        match self {
            Self::ScenarioName | Self::Label | Self::ReleaseName => Rule::BadName,
            Self::Length | Self::Digest => Rule::BadValue,
        }
    }

    /// What a text of this form is.
    pub(super) fn noun(self) -> &'static str {
        match self {
            Self::ScenarioName => "the name of a scenario",
            Self::Label => "a name",
            Self::ReleaseName => "the name of a release",
            Self::Length => "a length of time",
            Self::Digest => "a digest",
        }
    }

    /// How such a text is written.
    pub(super) fn hint(self) -> &'static str {
        match self {
            Self::ScenarioName => {
                "write up to 63 of a-z, 0-9, - and ., and begin and end with a letter or digit"
            }
            Self::Label => {
                "write up to 63 of a-z, 0-9 and -, and begin and end with a letter or digit"
            }
            Self::ReleaseName => {
                "write up to 53 of a-z, 0-9 and -, and begin and end with a letter or digit"
            }
            Self::Length => "write it as 935s, 15m or 1h30m, up to a week",
            Self::Digest => "write sha256: and 64 of 0-9 and a-f",
        }
    }

    /// Whether a text has the form.
    pub(super) fn holds(self, text: &str) -> bool {
        let edge = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
        match self {
            Self::ScenarioName | Self::Label | Self::ReleaseName => {
                let dots = self == Self::ScenarioName;
                text.starts_with(edge)
                    && text.ends_with(edge)
                    && text
                        .chars()
                        .all(|c| edge(c) || c == '-' || dots && c == '.')
                    && self.longest().is_none_or(|longest| text.len() <= longest)
            }
            Self::Length => text.parse::<Length>().is_ok(),
            Self::Digest => text.strip_prefix("sha256:").is_some_and(|hex| {
                hex.len() == 64 && hex.chars().all(|c| matches!(c, '0'..='9' | 'a'..='f'))
            }),
        }
    }

    /// As a schema.
    pub(super) fn schema(self) -> Schema {
        let mut schema = json_schema!({
            "type": "string",
            "format": self.keyword(),
            "pattern": self.pattern(),
        });
        if let Some(longest) = self.longest() {
            schema.insert("maxLength".to_owned(), longest.into());
        }
        schema
    }
}

/// A length of time of whole seconds, as `935s`, `15m` or `1h30m`: hours, minutes and seconds in this
/// order, each at most once, together more than nothing and at most a week.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub struct Length {
    seconds: u64,
}

/// A text is not a length of time.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a length of time: write it as 935s, 15m or 1h30m, up to a week")]
pub struct NotALength(String);

impl Length {
    /// No step waits longer.
    const LONGEST: u64 = 7 * 24 * 3600;

    /// The length in seconds.
    #[must_use]
    pub fn seconds(self) -> u64 {
        self.seconds
    }

    fn parse(text: &str) -> Option<Self> {
        let mut seconds: u64 = 0;
        let mut rest = text;
        for (unit, worth) in [('h', 3600), ('m', 60), ('s', 1)] {
            let Some((number, behind)) = rest.split_once(unit) else {
                continue;
            };
            // `parse` would take a sign.
            if number.is_empty() || !number.chars().all(|c| c.is_ascii_digit()) {
                return None;
            }
            let part = number.parse::<u64>().ok()?.checked_mul(worth)?;
            seconds = seconds.checked_add(part)?;
            rest = behind;
        }
        let in_range = (1..=Self::LONGEST).contains(&seconds);
        (rest.is_empty() && in_range).then_some(Self { seconds })
    }
}

impl FromStr for Length {
    type Err = NotALength;

    fn from_str(text: &str) -> Result<Self, NotALength> {
        Self::parse(text).ok_or_else(|| NotALength(text.to_owned()))
    }
}

impl TryFrom<String> for Length {
    type Error = NotALength;

    fn try_from(text: String) -> Result<Self, NotALength> {
        text.parse()
    }
}

impl fmt::Display for Length {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        let mut rest = self.seconds;
        for (unit, worth) in [('h', 3600), ('m', 60), ('s', 1)] {
            if rest >= worth {
                text.push_str(&format!("{}{unit}", rest / worth));
                rest %= worth;
            }
        }
        f.pad(&text)
    }
}

impl JsonSchema for Length {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Length".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        Format::Length.schema()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_read_and_shown() {
        for (text, seconds, shown) in [
            ("935s", 935, "15m35s"),
            ("15m", 900, "15m"),
            ("1h30m", 5400, "1h30m"),
            ("1h0m1s", 3601, "1h1s"),
            ("168h", 604_800, "168h"),
        ] {
            let length: Length = text.parse().expect("a length");
            assert_eq!((length.seconds(), &*length.to_string()), (seconds, shown));
            assert_eq!(shown.parse(), Ok(length));
        }
        for text in [
            "",
            "15",
            "s",
            "-1s",
            "+1s",
            "0s",
            "1m1h",
            "1s1s",
            "1.5h",
            "1 h",
            "1d",
            "169h",
            "99999999999999999999h",
            "1hm",
            "१s",
        ] {
            assert_eq!(text.parse::<Length>(), Err(NotALength(text.to_owned())));
        }
    }

    #[test]
    fn patterns_and_checks_agree() {
        let long = "a".repeat(63);
        let longer = "a".repeat(64);
        let digest = format!("sha256:{}", "0f".repeat(32));
        let texts = [
            "a",
            "a-b",
            "v1.3-to-v1.5",
            "A",
            "-a",
            "a-",
            "a_b",
            "",
            "ä",
            "1h",
            "1h2m3s",
            "2m1h",
            "h",
            "sha256:0",
            &digest,
            &long,
            &longer,
        ];
        for format in Format::ALL {
            let schema = format.schema();
            let validator = jsonschema::validator_for(schema.as_value()).expect("a schema");
            for text in texts {
                let by_schema = validator.is_valid(&text.into());
                assert_eq!(format.holds(text), by_schema, "{format:?} {text}");
            }
        }
    }
}
