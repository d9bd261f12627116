//! The log of the process, in the forms in which zap writes it.
//!
//! Keys: `level`, `ts`, `logger` if there is one, `msg`, then whatever the event holds. Only what this
//! crate says is written; spans are not. A [`Style`] decides from which level on, and how.

pub mod style;

use std::backtrace::Backtrace;
use std::fmt;
use std::io::Write;
use std::sync::{Mutex, PoisonError};

use chrono::Utc;
use serde_json::{Map, Value};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

use self::style::{Encoder, Moment, Style};

/// What this crate says is of a module below this one.
const CRATE: &str = "aibom_qual";

/// Writes every event as a line.
pub struct Lines<W> {
    to: Mutex<W>,
    style: Style,
}

impl<W: Write + Send + 'static> Lines<W> {
    /// Lines go here, in this form.
    pub const fn new(to: W, style: Style) -> Self {
        Self {
            to: Mutex::new(to),
            style,
        }
    }
}

impl<W: Write + Send + 'static> Subscriber for Lines<W> {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event()
            && *metadata.level() <= self.style.verbosity
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
        let line = fields.line(*event.metadata().level(), &self.style);
        let mut to = self.to.lock().unwrap_or_else(PoisonError::into_inner);
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
    fn line(self, level: Level, style: &Style) -> String {
        let time = style.time.encode(Utc::now());
        let trace = style
            .has_stack_trace(level)
            .then(|| Backtrace::force_capture().to_string());
        match style.encoder {
            Encoder::Json => self.json(level, &time, trace),
            Encoder::Console => self.console(level, time, trace),
        }
    }

    fn json(self, level: Level, time: &Moment, trace: Option<String>) -> String {
        let ts = match time {
            Moment::Number(number) => number.clone(),
            Moment::Text(text) => Value::from(text.as_str()).to_string(),
        };
        let level = level.as_str().to_lowercase();
        let mut pairs = vec![pair("level", &level.into()), format!("\"ts\":{ts}")];
        pairs.extend(self.logger.map(|logger| pair("logger", &logger.into())));
        pairs.push(pair("msg", &self.message.into()));
        pairs.extend(self.others.iter().map(|(key, value)| pair(key, value)));
        pairs.extend(trace.map(|trace| pair("stacktrace", &trace.into())));
        format!("{{{}}}\n", pairs.join(","))
    }

    fn console(self, level: Level, time: Moment, trace: Option<String>) -> String {
        let (Moment::Number(time) | Moment::Text(time)) = time;
        let mut words = vec![time, level.as_str().to_owned()];
        words.extend(self.logger);
        words.push(self.message);
        if !self.others.is_empty() {
            let others = self.others.iter();
            let others: Vec<_> = others
                .map(|(key, value)| format!("{}: {value}", Value::from(key.as_str())))
                .collect();
            words.push(format!("{{{}}}", others.join(", ")));
        }
        let trace = trace.map_or_else(String::new, |trace| format!("{}\n", trace.trim_end()));
        format!("{}\n{trace}", words.join("\t"))
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

    use super::style::Flags;
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

    /// What is written of an error and of something less severe.
    fn written(flags: Flags) -> String {
        let written = Shared::default();
        let subscriber = Lines::new(written.clone(), flags.into());
        tracing::subscriber::with_default(subscriber, || {
            tracing::error!(logger = "setup", error = %"a \"b\"", count = 2, "it \"ended\"");
            tracing::debug!("a detail");
        });
        let bytes = written.0.lock().expect("a lock").clone();
        String::from_utf8(bytes).expect("text")
    }

    #[test]
    fn an_event_is_a_line_that_begins_like_zaps() {
        let text = written(Flags::default());
        assert_eq!(text.lines().count(), 1, "{text}");
        assert!(
            text.starts_with("{\"level\":\"error\",\"ts\":\"20"),
            "{text}"
        );
        let end = r#","logger":"setup","msg":"it \"ended\"","count":2,"error":"a \"b\""}"#;
        assert!(text.trim_end().ends_with(end), "{text}");
    }

    #[test]
    fn development_writes_more_lines_with_tabs() {
        let text = written(Flags {
            devel: true,
            ..Flags::default()
        });
        let lines: Vec<_> = text.lines().collect();
        let wanted = "\tERROR\tsetup\tit \"ended\"\t{\"count\": 2, \"error\": \"a \\\"b\\\"\"}";
        assert!(lines[0].ends_with(wanted), "{text}");
        assert!(lines[1].ends_with("Z\tDEBUG\ta detail"), "{text}");
        assert_eq!(lines.len(), 2, "{text}");
    }

    #[test]
    fn a_stack_trace_is_written_on_demand() {
        let text = written(Flags {
            stack_traces: "error".parse().ok(),
            time: "nano".parse().ok(),
            ..Flags::default()
        });
        let line: Value = serde_json::from_str(&text).expect("one line");
        assert!(line["ts"].is_u64(), "{line}");
        let trace = line["stacktrace"].as_str().expect("a text");
        assert!(trace.contains("a_stack_trace_is_written"), "{trace}");
    }
}
