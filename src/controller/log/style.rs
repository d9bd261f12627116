//! How much is logged, and in what form: the `--zap-*` flags with zap's values (`controller.md` G.1).

use std::str::FromStr;

use chrono::{DateTime, SecondsFormat, Utc};
use tracing::Level;
use tracing::level_filters::LevelFilter;

/// The form of the log.
#[derive(Clone, Copy, Debug)]
pub struct Style {
    /// The least severe line that is written.
    pub verbosity: LevelFilter,
    /// The form of a line.
    pub encoder: Encoder,
    /// The form of its time.
    pub time: TimeEncoding,
    /// The least severe line that is followed by a stack trace.
    pub stack_traces: LevelFilter,
}

/// A value that a flag does not take.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{value}` is none of {known}")]
pub struct UnknownValue {
    value: String,
    known: &'static str,
}

/// From which severity on something is done: `debug`, `info`, `error`, `panic`, or a number above 0 for
/// ever less severe debugging.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Severity(pub LevelFilter);

impl FromStr for Severity {
    type Err = UnknownValue;

    fn from_str(text: &str) -> Result<Self, UnknownValue> {
        let filter = match text.to_lowercase().as_str() {
            "debug" | "1" => LevelFilter::DEBUG,
            "info" => LevelFilter::INFO,
            "error" => LevelFilter::ERROR,
            // Whatever panics is logged as an error here.
            "panic" => LevelFilter::OFF,
            other if other.parse::<u8>().is_ok_and(|number| number > 1) => LevelFilter::TRACE,
            _ => {
                return Err(UnknownValue {
                    value: text.to_owned(),
                    known: "debug, info, error, panic, or a number above 0",
                });
            }
        };
        Ok(Self(filter))
    }
}

/// The form of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoder {
    /// One JSON object.
    Json,
    /// Words between tabs, and an object of what else there is.
    Console,
}

impl FromStr for Encoder {
    type Err = UnknownValue;

    fn from_str(text: &str) -> Result<Self, UnknownValue> {
        match text {
            "json" => Ok(Self::Json),
            "console" => Ok(Self::Console),
            _ => Err(UnknownValue {
                value: text.to_owned(),
                known: "json, console",
            }),
        }
    }
}

/// The form of a line's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeEncoding {
    /// Seconds since 1970 with a fraction.
    Epoch,
    /// Milliseconds since 1970 with a fraction.
    Millis,
    /// Nanoseconds since 1970.
    Nano,
    /// ISO 8601 with milliseconds.
    Iso8601,
    /// RFC 3339 with whole seconds.
    Rfc3339,
    /// RFC 3339 with nanoseconds.
    Rfc3339Nano,
}

impl FromStr for TimeEncoding {
    type Err = UnknownValue;

    fn from_str(text: &str) -> Result<Self, UnknownValue> {
        Ok(match text.to_lowercase().as_str() {
            "epoch" => Self::Epoch,
            "millis" => Self::Millis,
            "nano" => Self::Nano,
            "iso8601" => Self::Iso8601,
            "rfc3339" => Self::Rfc3339,
            "rfc3339nano" => Self::Rfc3339Nano,
            _ => {
                return Err(UnknownValue {
                    value: text.to_owned(),
                    known: "epoch, millis, nano, iso8601, rfc3339, rfc3339nano",
                });
            }
        })
    }
}

/// A time as a line tells it.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Moment {
    Number(String),
    Text(String),
}

impl TimeEncoding {
    pub(super) fn encode(self, time: DateTime<Utc>) -> Moment {
        let nanoseconds = time.timestamp_nanos_opt().unwrap_or_default();
        let since_1970 = |unit: f64| Moment::Number((nanoseconds as f64 / unit).to_string());
        match self {
            Self::Epoch => since_1970(1e9),
            Self::Millis => since_1970(1e6),
            Self::Nano => Moment::Number(nanoseconds.to_string()),
            Self::Iso8601 => Moment::Text(time.to_rfc3339_opts(SecondsFormat::Millis, true)),
            Self::Rfc3339 => Moment::Text(time.to_rfc3339_opts(SecondsFormat::Secs, true)),
            Self::Rfc3339Nano => {
                let text = time.format("%Y-%m-%dT%H:%M:%S%.9f").to_string();
                Moment::Text(format!(
                    "{}Z",
                    text.trim_end_matches('0').trim_end_matches('.')
                ))
            }
        }
    }
}

/// What the flags say.
#[derive(Clone, Copy, Debug, Default)]
pub struct Flags {
    /// Other defaults: console, debug.
    pub devel: bool,
    /// `--zap-log-level`.
    pub level: Option<Severity>,
    /// `--zap-encoder`.
    pub encoder: Option<Encoder>,
    /// `--zap-time-encoding`.
    pub time: Option<TimeEncoding>,
    /// `--zap-stacktrace-level`. Without it no stack trace is written, where zap writes those of errors:
    /// ours would be of another program.
    pub stack_traces: Option<Severity>,
}

impl From<Flags> for Style {
    fn from(flags: Flags) -> Self {
        let (verbosity, encoder) = if flags.devel {
            (LevelFilter::DEBUG, Encoder::Console)
        } else {
            (LevelFilter::INFO, Encoder::Json)
        };
        Self {
            verbosity: flags.level.map_or(verbosity, |severity| severity.0),
            encoder: flags.encoder.unwrap_or(encoder),
            time: flags.time.unwrap_or(TimeEncoding::Rfc3339),
            stack_traces: flags
                .stack_traces
                .map_or(LevelFilter::OFF, |severity| severity.0),
        }
    }
}

impl Style {
    /// Whether a line of this level is followed by a stack trace.
    pub(super) fn has_stack_trace(&self, level: Level) -> bool {
        level <= self.stack_traces
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_values_are_zaps() {
        let level = |text: &str| text.parse::<Severity>().map(|severity| severity.0);
        assert_eq!(level("debug"), Ok(LevelFilter::DEBUG));
        assert_eq!(level("Info"), Ok(LevelFilter::INFO));
        assert_eq!(level("panic"), Ok(LevelFilter::OFF));
        assert_eq!(level("4"), Ok(LevelFilter::TRACE));
        let error = level("0").expect_err("an error").to_string();
        let known = "debug, info, error, panic, or a number above 0";
        assert_eq!(error, format!("`0` is none of {known}"));
        "text".parse::<Encoder>().expect_err("an error");
        "unix".parse::<TimeEncoding>().expect_err("an error");
    }

    #[test]
    fn development_has_other_defaults_which_a_flag_overrides() {
        let style = Style::from(Flags {
            devel: true,
            encoder: Some(Encoder::Json),
            ..Flags::default()
        });
        assert_eq!(style.verbosity, LevelFilter::DEBUG);
        assert_eq!(style.encoder, Encoder::Json);
        assert_eq!(style.time, TimeEncoding::Rfc3339);
        assert!(!style.has_stack_trace(Level::ERROR));
    }

    #[test]
    fn a_time_has_six_forms() {
        let time = DateTime::from_timestamp(1_800_000_000, 500_000_000).expect("a time");
        let encoded = |name: &str| {
            let encoding: TimeEncoding = name.parse().expect("an encoding");
            encoding.encode(time)
        };
        for (name, number) in [
            ("epoch", "1800000000.5"),
            ("millis", "1800000000500"),
            ("nano", "1800000000500000000"),
        ] {
            assert_eq!(encoded(name), Moment::Number(number.to_owned()), "{name}");
        }
        for (name, text) in [
            ("iso8601", "2027-01-15T08:00:00.500Z"),
            ("rfc3339", "2027-01-15T08:00:00Z"),
            ("rfc3339nano", "2027-01-15T08:00:00.5Z"),
        ] {
            assert_eq!(encoded(name), Moment::Text(text.to_owned()), "{name}");
        }
    }
}
