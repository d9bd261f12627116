//! What becomes of an event before it is written: whether it is a new one, counts on one that is known,
//! stands for many similar ones, or is one too many.
//!
//! The rules and numbers are those of client-go's `EventCorrelator`, which every event of the real
//! process passes (`controller.md` E.7, "aggregated by count"). Nothing here waits or sends.

use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;

use chrono::{DateTime, TimeDelta, Utc};

use super::{Happening, Severity};

/// Entries that each memory holds; the one that was not used for longest goes first.
const REMEMBERED: usize = 4096;
/// Similar events with as many different messages are written as one.
const DIFFERENT: usize = 10;
/// After this long without a similar event, counting messages begins anew.
const SIMILAR_FOR: TimeDelta = TimeDelta::minutes(10);
/// Events about one object by one source that may follow each other at once.
const BURST: f64 = 25.0;
/// Seconds until one more is allowed.
const REFILL: f64 = 300.0;

/// Who speaks of what.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Topic {
    component: &'static str,
    api_version: Option<String>,
    kind: Option<String>,
    namespace: Option<String>,
    name: Option<String>,
    uid: Option<String>,
}

/// What similar events have in common: all but the message.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Similar {
    topic: Topic,
    severity: Severity,
    reason: &'static str,
}

/// What is counted as one event: the same message, or any of similar ones.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Counted {
    similar: Similar,
    message: Option<String>,
}

/// Messages of similar events.
#[derive(Clone, Default)]
struct Messages {
    different: BTreeSet<String>,
    last: DateTime<Utc>,
}

/// An event on the server.
#[derive(Clone)]
struct Known {
    name: String,
    count: i32,
    first: DateTime<Utc>,
}

/// Tokens for events about one topic.
#[derive(Clone, Copy)]
struct Bucket {
    tokens: f64,
    filled: DateTime<Utc>,
}

impl Bucket {
    fn take(&mut self, now: DateTime<Utc>) -> bool {
        let passed = (now - self.filled).as_seconds_f64().max(0.0);
        self.tokens = (self.tokens + passed / REFILL).min(BURST);
        self.filled = now;
        let has_one = self.tokens >= 1.0;
        if has_one {
            self.tokens -= 1.0;
        }
        has_one
    }
}

/// An event as it is to be on the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// Name of the object.
    pub(super) name: String,
    /// The message, which may stand for similar ones.
    pub(super) message: String,
    /// Whether it stands for similar ones.
    pub(super) is_combined: bool,
    /// How often it happened; more than once if it has been written before.
    pub(super) count: i32,
    /// When it first happened.
    pub(super) first: DateTime<Utc>,
    /// When it last happened.
    pub(super) last: DateTime<Utc>,
}

/// Remembers what was said.
pub(super) struct Correlator {
    messages: Recent<Similar, Messages>,
    known: Recent<Counted, Known>,
    buckets: Recent<Topic, Bucket>,
}

impl Correlator {
    pub(super) fn new() -> Self {
        Self {
            messages: Recent::new(REMEMBERED),
            known: Recent::new(REMEMBERED),
            buckets: Recent::new(REMEMBERED),
        }
    }

    /// What to write; [`None`] if it is one too many. That one counts nevertheless.
    pub(super) fn correlate(&mut self, happening: &Happening, now: DateTime<Utc>) -> Option<Entry> {
        let similar = similar(happening);
        let topic = similar.topic.clone();
        let is_combined = self.is_one_of_many(&similar, &happening.message, now);
        let (message, key) = if is_combined {
            let message = format!("(combined from similar events): {}", happening.message);
            (message, None)
        } else {
            (happening.message.clone(), Some(happening.message.clone()))
        };
        let key = Counted {
            similar,
            message: key,
        };
        let known = match self.known.get(&key) {
            Some(known) => {
                known.count = known.count.saturating_add(1);
                known.clone()
            }
            None => {
                let known = Known {
                    name: name(happening, now),
                    count: 1,
                    first: now,
                };
                self.known.put(key, known.clone());
                known
            }
        };
        let entry = Entry {
            name: known.name,
            message,
            is_combined,
            count: known.count,
            first: known.first,
            last: now,
        };
        self.may_speak(topic, now).then_some(entry)
    }

    fn is_one_of_many(&mut self, similar: &Similar, message: &str, now: DateTime<Utc>) -> bool {
        let mut messages = self.messages.get(similar).cloned().unwrap_or_default();
        if now - messages.last > SIMILAR_FOR {
            messages.different.clear();
        }
        messages.different.insert(message.to_owned());
        messages.last = now;
        let is_one_of_many = messages.different.len() >= DIFFERENT;
        if is_one_of_many {
            messages.different.pop_first();
        }
        self.messages.put(similar.clone(), messages);
        is_one_of_many
    }

    fn may_speak(&mut self, topic: Topic, now: DateTime<Utc>) -> bool {
        let full = Bucket {
            tokens: BURST,
            filled: now,
        };
        let mut bucket = self.buckets.get(&topic).copied().unwrap_or(full);
        let may = bucket.take(now);
        self.buckets.put(topic, bucket);
        may
    }
}

fn similar(happening: &Happening) -> Similar {
    let regarding = &happening.regarding;
    Similar {
        topic: Topic {
            component: happening.component,
            api_version: regarding.api_version.clone(),
            kind: regarding.kind.clone(),
            namespace: regarding.namespace.clone(),
            name: regarding.name.clone(),
            uid: regarding.uid.clone(),
        },
        severity: happening.severity,
        reason: happening.reason,
    }
}

fn name(happening: &Happening, now: DateTime<Utc>) -> String {
    let object = happening.regarding.name.as_deref().unwrap_or_default();
    let nanoseconds = now.timestamp_nanos_opt().unwrap_or_default();
    format!("{object}.{nanoseconds:x}")
}

/// A map that forgets what was not used for longest.
struct Recent<K, V> {
    entries: HashMap<K, (u64, V)>,
    capacity: usize,
    uses: u64,
}

impl<K: Clone + Eq + Hash, V> Recent<K, V> {
    fn new(capacity: usize) -> Self {
        Self {
            entries: HashMap::new(),
            capacity,
            uses: 0,
        }
    }

    fn get(&mut self, key: &K) -> Option<&mut V> {
        self.uses += 1;
        let (used, value) = self.entries.get_mut(key)?;
        *used = self.uses;
        Some(value)
    }

    fn put(&mut self, key: K, value: V) {
        self.uses += 1;
        self.entries.insert(key, (self.uses, value));
        if self.entries.len() > self.capacity {
            let oldest = self.entries.iter().min_by_key(|(_, (used, _))| *used);
            if let Some(oldest) = oldest.map(|(key, _)| key.clone()) {
                self.entries.remove(&oldest);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ObjectReference;

    use super::*;

    fn happening(object: &str, message: &str) -> Happening {
        Happening {
            component: "test",
            regarding: ObjectReference {
                name: Some(object.to_owned()),
                ..ObjectReference::default()
            },
            severity: Severity::Warning,
            reason: "Trouble",
            message: message.to_owned(),
        }
    }

    fn at(seconds: i64) -> DateTime<Utc> {
        DateTime::from_timestamp(1_800_000_000 + seconds, 0).expect("a time")
    }

    #[test]
    fn a_repeated_event_counts() {
        let mut correlator = Correlator::new();
        let first = correlator
            .correlate(&happening("a", "x"), at(0))
            .expect("written");
        assert_eq!((first.count, first.message.as_str()), (1, "x"));
        assert!(first.name.starts_with("a."), "{}", first.name);
        let again = correlator
            .correlate(&happening("a", "x"), at(5))
            .expect("written");
        let wanted = Entry {
            count: 2,
            last: at(5),
            ..first.clone()
        };
        assert_eq!(again, wanted);
        let other = correlator
            .correlate(&happening("b", "x"), at(5))
            .expect("written");
        assert_eq!(other.count, 1);
        assert_ne!(other.name, first.name);
    }

    #[test]
    fn the_tenth_message_and_all_later_ones_are_one_event() {
        let mut correlator = Correlator::new();
        let mut written = Vec::new();
        for number in 0..12 {
            let happening = happening("a", &format!("message {number}"));
            let entry = correlator.correlate(&happening, at(number));
            written.push(entry.expect("written"));
        }
        for entry in &written[..9] {
            assert!(!entry.is_combined && entry.count == 1, "{entry:?}");
        }
        let combined: Vec<_> = written[9..]
            .iter()
            .map(|entry| (entry.count, entry.message.as_str(), entry.first))
            .collect();
        assert_eq!(
            combined,
            [
                (1, "(combined from similar events): message 9", at(9)),
                (2, "(combined from similar events): message 10", at(9)),
                (3, "(combined from similar events): message 11", at(9)),
            ]
        );
        assert_eq!(written[9].name, written[11].name);

        // More than ten minutes later a message is looked at by itself again.
        let late = correlator.correlate(&happening("a", "late"), at(11 + 601));
        assert!(!late.expect("written").is_combined);
    }

    #[test]
    fn a_topic_has_25_events_and_one_more_every_five_minutes() {
        let mut correlator = Correlator::new();
        let mut speak = |object: &str, seconds| {
            let entry = correlator.correlate(&happening(object, "x"), at(seconds));
            entry.map(|entry| entry.count)
        };
        for count in 1..=25 {
            assert_eq!(speak("a", 0), Some(count));
        }
        assert_eq!(speak("a", 0), None);
        assert_eq!(speak("a", 299), None);
        assert_eq!(speak("b", 299), Some(1));
        // What was not written counted.
        assert_eq!(speak("a", 300), Some(28));
        assert_eq!(speak("a", 301), None);
    }

    #[test]
    fn what_was_not_used_for_longest_is_forgotten() {
        let mut recent = Recent::new(2);
        recent.put("a", 1);
        recent.put("b", 2);
        assert_eq!(recent.get(&"a"), Some(&mut 1));
        recent.put("c", 3);
        assert_eq!(recent.get(&"b"), None);
        assert_eq!(recent.get(&"a"), Some(&mut 1));
        assert_eq!(recent.get(&"c"), Some(&mut 3));
    }
}
