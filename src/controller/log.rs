//! The log of the process: one JSON object per line, as zap writes it in production.
//!
//! Keys: `level`, `ts`, `logger` if there is one, `msg`, then whatever the event holds. Only what this
//! crate says from level info on is written; spans are not.

use std::fmt;
use std::io::Write;
use std::sync::{Mutex, PoisonError};

use chrono::{SecondsFormat, Utc};
use serde_json::{Map, Value};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// What this crate says is of a module below this one.
const CRATE: &str = "aibom_qual";

/// Writes every event as a line.
pub struct JsonLines<W>(Mutex<W>);

impl<W: Write + Send + 'static> JsonLines<W> {
    /// Lines go here.
    pub const fn new(to: W) -> Self {
        Self(Mutex::new(to))
    }
}

impl<W: Write + Send + 'static> Subscriber for JsonLines<W> {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event()
            && *metadata.level() <= Level::INFO
            && metadata.target().starts_with(CRATE)
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        // Spans are not enabled; the number is never looked at.
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let line = fields.line(*event.metadata().level());
        let mut to = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // A log that cannot be written has nobody left to be told.
        let _ = to.write_all(line.as_bytes());
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// The fields of one event.
#[derive(Default)]
struct Fields {
    message: String,
    logger: Option<String>,
    others: Map<String, Value>,
}

impl Fields {
    fn line(self, level: Level) -> String {
        let level = level.as_str().to_lowercase();
        let ts = Utc::now().to_rfc3339_opts(SecondsFormat::Secs, true);
        let mut pairs = vec![("level", level.into()), ("ts", ts.into())];
        pairs.extend(self.logger.map(|logger| ("logger", logger.into())));
        pairs.push(("msg", Value::from(self.message)));
        let known = pairs.iter().map(|(key, value)| pair(key, value));
        let others = self.others.iter().map(|(key, value)| pair(key, value));
        let body: Vec<_> = known.chain(others).collect();
        format!("{{{}}}\n", body.join(","))
    }

    fn put(&mut self, field: &Field, value: Value) {
        let text = |value: Value| match value {
            Value::String(text) => text,
            other => other.to_string(),
        };
        match field.name() {
            "message" => self.message = text(value),
            "logger" => self.logger = Some(text(value)),
            name => {
                self.others.insert(name.to_owned(), value);
            }
        }
    }
}

fn pair(key: &str, value: &Value) -> String {
    format!("{}:{value}", Value::from(key))
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.put(field, format!("{value:?}").into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, value.into());
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field, value.into());
    }

    fn record_error(&mut self, field: &Field, value: &(dyn std::error::Error + 'static)) {
        self.put(field, crate::error_chain::chain(value).into());
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[derive(Clone, Default)]
    struct Shared(Arc<Mutex<Vec<u8>>>);

    impl Write for Shared {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().expect("a lock").write(bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn an_event_is_a_line_that_begins_like_zaps() {
        let written = Shared::default();
        let subscriber = JsonLines::new(written.clone());
        tracing::subscriber::with_default(subscriber, || {
            tracing::error!(logger = "setup", error = %"a \"b\"", count = 2, "it \"ended\"");
            tracing::debug!("not written");
        });
        let bytes = written.0.lock().expect("a lock").clone();
        let text = String::from_utf8(bytes).expect("text");
        assert_eq!(text.lines().count(), 1, "{text}");
        assert!(
            text.starts_with("{\"level\":\"error\",\"ts\":\"20"),
            "{text}"
        );
        let end = r#","logger":"setup","msg":"it \"ended\"","count":2,"error":"a \"b\""}"#;
        assert!(text.trim_end().ends_with(end), "{text}");
    }
}
