//! What part of a log is asked for (`PodLogOptions` of the API, as a query).

use std::str::FromStr;

use chrono::{DateTime, TimeDelta, Utc};
use http::StatusCode;

/// The parameters that are a kubelet's work.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct LogQuery {
    /// Go on when the end is reached.
    pub(super) follow: bool,
    /// The log of the start before.
    pub(super) previous: bool,
    /// Begin each line with the time it was written.
    pub(super) timestamps: bool,
    /// Begin so many lines before the end.
    pub(super) tail: Option<u64>,
    /// End after so many bytes, times included.
    pub(super) limit: Option<u64>,
    /// Leave out what was written before.
    pub(super) since: Option<DateTime<Utc>>,
}

/// The query makes no sense.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum QueryError {
    /// A parameter is not what it should be.
    #[error("unable to decode query: {name} is not {what}: {value:?}")]
    Decode {
        name: &'static str,
        what: &'static str,
        value: String,
    },
    /// A number is too small.
    #[error("invalid request: {0} must be greater than 0")]
    TooSmall(&'static str),
    /// Two beginnings are given.
    #[error("invalid request: at most one of sinceTime or sinceSeconds may be specified")]
    TwoBeginnings,
}

impl QueryError {
    pub(super) fn status(&self) -> StatusCode {
        match self {
            Self::Decode { .. } => StatusCode::BAD_REQUEST,
            Self::TooSmall(_) | Self::TwoBeginnings => StatusCode::UNPROCESSABLE_ENTITY,
        }
    }
}

impl LogQuery {
    pub(super) fn parse(query: &str, now: DateTime<Utc>) -> Result<Self, QueryError> {
        let pairs = Pairs(query);
        let seconds: Option<u32> = pairs.read("sinceSeconds", "a number")?;
        let time: Option<DateTime<Utc>> = pairs.read("sinceTime", "a time")?;
        let limit = pairs.read("limitBytes", "a number")?;
        if seconds == Some(0) {
            return Err(QueryError::TooSmall("sinceSeconds"));
        }
        if limit == Some(0) {
            return Err(QueryError::TooSmall("limitBytes"));
        }
        if seconds.is_some() && time.is_some() {
            return Err(QueryError::TwoBeginnings);
        }
        let ago = |seconds: u32| {
            let beginning = now.checked_sub_signed(TimeDelta::seconds(seconds.into()));
            beginning.unwrap_or(DateTime::<Utc>::MIN_UTC)
        };
        Ok(Self {
            follow: pairs.flag("follow"),
            previous: pairs.flag("previous"),
            timestamps: pairs.flag("timestamps"),
            tail: pairs.read("tailLines", "a number")?,
            limit,
            since: time.or(seconds.map(ago)),
        })
    }
}

/// Of a parameter that is given twice, the first one counts.
struct Pairs<'a>(&'a str);

impl Pairs<'_> {
    fn get(&self, name: &str) -> Option<String> {
        let mut pairs = form_urlencoded::parse(self.0.as_bytes());
        let (_, value) = pairs.find(|(key, _)| key == name)?;
        Some(value.into_owned())
    }

    /// The API reads any word but these two as true, even none.
    fn flag(&self, name: &str) -> bool {
        let value = self.get(name);
        value.is_some_and(|value| value != "0" && !value.eq_ignore_ascii_case("false"))
    }

    fn read<T: FromStr>(
        &self,
        name: &'static str,
        what: &'static str,
    ) -> Result<Option<T>, QueryError> {
        let Some(value) = self.get(name) else {
            return Ok(None);
        };
        match value.parse() {
            Ok(read) => Ok(Some(read)),
            Err(_) => Err(QueryError::Decode { name, what, value }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(query: &str) -> Result<LogQuery, QueryError> {
        let now = "2026-01-02T03:04:05Z".parse().expect("a time");
        LogQuery::parse(query, now)
    }

    #[test]
    fn everything_is_optional_and_the_unknown_is_ignored() {
        assert_eq!(parse(""), Ok(LogQuery::default()));
        assert_eq!(parse("color=red&tailLines2=x"), Ok(LogQuery::default()));
    }

    #[test]
    fn what_kubectl_sends_is_read() {
        let query = parse("follow=true&limitBytes=300&sinceSeconds=3600&timestamps=true");
        let expected = LogQuery {
            follow: true,
            timestamps: true,
            limit: Some(300),
            since: Some("2026-01-02T02:04:05Z".parse().expect("a time")),
            ..LogQuery::default()
        };
        assert_eq!(query, Ok(expected));
        let query = parse("previous=true&tailLines=0&sinceTime=2026-01-01T00%3A00%3A00%2B01%3A00");
        let expected = LogQuery {
            previous: true,
            tail: Some(0),
            since: Some("2025-12-31T23:00:00Z".parse().expect("a time")),
            ..LogQuery::default()
        };
        assert_eq!(query, Ok(expected));
        let flags = parse("follow=&previous=False&timestamps=0&timestamps=1").expect("flags");
        assert!(flags.follow && !flags.previous && !flags.timestamps);
    }

    #[test]
    fn nonsense_is_refused_as_the_kubelet_does() {
        for (query, status, text) in [
            (
                "tailLines=-1",
                400,
                "unable to decode query: tailLines is not a number: \"-1\"",
            ),
            (
                "sinceTime=now",
                400,
                "unable to decode query: sinceTime is not a time: \"now\"",
            ),
            (
                "limitBytes=0",
                422,
                "invalid request: limitBytes must be greater than 0",
            ),
            (
                "sinceSeconds=0",
                422,
                "invalid request: sinceSeconds must be greater than 0",
            ),
            (
                "sinceSeconds=1&sinceTime=2026-01-01T00:00:00Z",
                422,
                "invalid request: at most one of sinceTime or sinceSeconds may be specified",
            ),
        ] {
            let error = parse(query).expect_err(query);
            assert_eq!(error.status().as_u16(), status, "{query}");
            assert_eq!(error.to_string(), text);
        }
    }
}
