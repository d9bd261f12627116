//! A workqueue: keys wait here until the worker of their controller takes them.
//!
//! Semantics of `controller.md` E.7: a key waits once, however often it is added; a key that is in
//! work waits until that is done; failures back off per key, from 5 ms doubling up to 1000 s; ready
//! keys leave by priority, then in the order in which they were added. A key that is added twice keeps
//! the higher priority and the earlier time.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use super::metrics::{Metrics, QueueMetrics};

/// Priority of what happens while the controller runs.
pub const LIVE: i32 = 0;
/// Priority of initial lists and resyncs: they wait behind what happens.
pub const LOW: i32 = -100;

const FIRST_BACKOFF: Duration = Duration::from_millis(5);
const LONGEST_BACKOFF: Duration = Duration::from_secs(1000);

/// How a key is added.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Add {
    /// Not before this much time has passed.
    pub after: Duration,
    /// Under the key's backoff: this counts as a failure. The shorter of the two delays holds.
    pub rate_limited: bool,
    /// Higher ones leave first.
    pub priority: i32,
}

/// The queue of one controller; clones are handles to the same one.
pub struct Queue<K: Eq + Hash + Clone> {
    shared: Arc<Shared<K>>,
}

impl<K: Eq + Hash + Clone> Clone for Queue<K> {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
        }
    }
}

struct Shared<K> {
    state: Mutex<State<K>>,
    changed: Notify,
    metrics: QueueMetrics,
}

/// A key that waits. It is in `ready` or in `delayed`, never in both.
struct Item {
    sequence: u64,
    priority: i32,
    ready_at: Option<Instant>,
    /// When it became ready; only set while it is.
    ready_since: Option<Instant>,
}

struct State<K> {
    items: HashMap<K, Item>,
    ready: BTreeMap<(Reverse<i32>, u64), K>,
    delayed: BTreeMap<(Instant, u64), K>,
    in_work: HashMap<K, Instant>,
    failures: HashMap<K, u32>,
    sequence: u64,
    closed: bool,
}

impl<K: Eq + Hash + Clone + Send + 'static> Queue<K> {
    /// An empty queue of this controller.
    #[must_use]
    pub fn new(controller: &str, metrics: &Metrics) -> Self {
        let queue = Self {
            shared: Arc::new(Shared {
                state: Mutex::new(State {
                    items: HashMap::new(),
                    ready: BTreeMap::new(),
                    delayed: BTreeMap::new(),
                    in_work: HashMap::new(),
                    failures: HashMap::new(),
                    sequence: 0,
                    closed: false,
                }),
                changed: Notify::new(),
                metrics: metrics.queue(controller),
            }),
        };
        let shared = Arc::downgrade(&queue.shared);
        metrics.before_render(move || {
            if let Some(shared) = shared.upgrade() {
                shared.refresh();
            }
        });
        queue
    }
}

impl<K: Eq + Hash + Clone> Queue<K> {
    /// Adds a live event's key.
    pub fn add(&self, key: K) {
        self.add_with(key, Add::default());
    }

    /// Adds a key that shall not be worked on before this much time has passed.
    pub fn add_after(&self, key: K, after: Duration) {
        let how = Add {
            after,
            ..Add::default()
        };
        self.add_with(key, how);
    }

    /// Adds a key.
    pub fn add_with(&self, key: K, how: Add) {
        let mut state = self.shared.lock();
        if state.closed {
            return;
        }
        let now = Instant::now();
        let mut after = how.after;
        if how.rate_limited {
            let backoff = state.next_backoff(&key);
            if after.is_zero() || backoff < after {
                after = backoff;
            }
        }
        let ready_at = (!after.is_zero()).then(|| now + after);
        if ready_at.is_some() {
            self.shared.metrics.retries.inc();
        }
        state.promote(now, &self.shared.metrics);
        state.put(key, how.priority, ready_at, now, &self.shared.metrics);
        drop(state);
        self.shared.changed.notify_one();
    }

    /// Forgets the failures of a key, so that its backoff begins anew.
    pub fn forget(&self, key: &K) {
        self.shared.lock().failures.remove(key);
    }

    /// Waits for a key to work on. [`None`] once the queue is closed, even if keys wait.
    ///
    /// Dropping the future loses no key.
    pub async fn next(&self) -> Option<Taken<K>> {
        loop {
            let changed = self.shared.changed.notified();
            let wake_at = {
                let mut state = self.shared.lock();
                if state.closed {
                    drop(state);
                    // Another worker may wait as well.
                    self.shared.changed.notify_one();
                    return None;
                }
                let now = Instant::now();
                state.promote(now, &self.shared.metrics);
                if let Some((key, priority)) = state.take(now, &self.shared.metrics) {
                    if !state.ready.is_empty() {
                        // For another worker: one wake-up may stand for several keys.
                        self.shared.changed.notify_one();
                    }
                    return Some(Taken {
                        key,
                        priority,
                        queue: self.clone(),
                    });
                }
                state.delayed.keys().next().map(|(ready_at, _)| *ready_at)
            };
            match wake_at {
                // The result tells which of the two it was; the loop looks for itself.
                Some(wake_at) => drop(tokio::time::timeout_at(wake_at, changed).await),
                None => changed.await,
            }
        }
    }

    /// Hands out no more keys and takes no more.
    pub fn close(&self) {
        self.shared.lock().closed = true;
        self.shared.changed.notify_one();
    }

    /// How many keys are ready and not in work.
    #[must_use]
    pub fn len(&self) -> usize {
        let mut state = self.shared.lock();
        state.promote(Instant::now(), &self.shared.metrics);
        state.ready.len()
    }

    /// Whether no key is ready.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A key in work. Dropping it says that the work is done, also when it ended in a panic.
pub struct Taken<K: Eq + Hash + Clone> {
    key: K,
    priority: i32,
    queue: Queue<K>,
}

impl<K: Eq + Hash + Clone> Taken<K> {
    /// The key.
    #[must_use]
    pub fn key(&self) -> &K {
        &self.key
    }

    /// Puts the key back under its backoff, with the priority it had.
    pub fn retry(&self) {
        let how = Add {
            rate_limited: true,
            priority: self.priority,
            ..Add::default()
        };
        self.queue.add_with(self.key.clone(), how);
    }

    /// Puts the key back after this time, with the priority it had, and forgets its failures.
    pub fn again_after(&self, after: Duration) {
        self.queue.forget(&self.key);
        let how = Add {
            after,
            priority: self.priority,
            ..Add::default()
        };
        self.queue.add_with(self.key.clone(), how);
    }

    /// Forgets the key's failures.
    pub fn forget(&self) {
        self.queue.forget(&self.key);
    }
}

impl<K: Eq + Hash + Clone> Drop for Taken<K> {
    fn drop(&mut self) {
        let shared = &self.queue.shared;
        if let Some(since) = shared.lock().in_work.remove(&self.key) {
            let work = since.elapsed().as_secs_f64();
            shared.metrics.work_time.observe(work);
        }
        shared.changed.notify_one();
    }
}

impl<K> Shared<K> {
    fn lock(&self) -> MutexGuard<'_, State<K>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Eq + Hash + Clone> Shared<K> {
    /// Brings the gauges that follow time up to date.
    fn refresh(&self) {
        let mut state = self.lock();
        state.promote(Instant::now(), &self.metrics);
        let ages = state.in_work.values().map(|s| s.elapsed().as_secs_f64());
        let (total, longest) = ages.fold((0.0, 0.0), |(total, longest): (f64, f64), age| {
            (total + age, longest.max(age))
        });
        self.metrics.unfinished.set(total);
        self.metrics.longest.set(longest);
    }
}

impl<K: Eq + Hash + Clone> State<K> {
    /// Counts a failure of the key and returns how long it has to wait.
    fn next_backoff(&mut self, key: &K) -> Duration {
        let failures = self.failures.entry(key.clone()).or_default();
        let backoff =
            FIRST_BACKOFF.saturating_mul(1_u32.checked_shl(*failures).unwrap_or(u32::MAX));
        *failures = failures.saturating_add(1);
        backoff.min(LONGEST_BACKOFF)
    }

    /// Makes a key wait, or adjusts one that does.
    fn put(
        &mut self,
        key: K,
        priority: i32,
        ready_at: Option<Instant>,
        now: Instant,
        metrics: &QueueMetrics,
    ) {
        let Some(item) = self.items.get_mut(&key) else {
            let item = Item {
                sequence: self.sequence,
                priority,
                ready_at,
                ready_since: None,
            };
            self.sequence += 1;
            self.place(key, item, now, metrics);
            return;
        };
        if item.ready_since.is_some() {
            if priority > item.priority {
                self.ready.remove(&(Reverse(item.priority), item.sequence));
                metrics.depth(item.priority).dec();
                item.priority = priority;
                metrics.depth(priority).inc();
                self.ready.insert((Reverse(priority), item.sequence), key);
            }
            return;
        }
        let Some(mut item) = self.items.remove(&key) else {
            return;
        };
        if let Some(delayed_until) = item.ready_at {
            self.delayed.remove(&(delayed_until, item.sequence));
            item.ready_at = ready_at.map(|ready_at| ready_at.min(delayed_until));
        }
        item.priority = item.priority.max(priority);
        self.place(key, item, now, metrics);
    }

    /// Files a key that is in neither list.
    fn place(&mut self, key: K, mut item: Item, now: Instant, metrics: &QueueMetrics) {
        match item.ready_at {
            Some(ready_at) => {
                self.delayed.insert((ready_at, item.sequence), key.clone());
            }
            None => {
                item.ready_since = Some(now);
                metrics.adds.inc();
                metrics.depth(item.priority).inc();
                let place = (Reverse(item.priority), item.sequence);
                self.ready.insert(place, key.clone());
            }
        }
        self.items.insert(key, item);
    }

    /// Moves what has become ready.
    fn promote(&mut self, now: Instant, metrics: &QueueMetrics) {
        while let Some(entry) = self.delayed.first_entry() {
            let (ready_at, _) = *entry.key();
            if ready_at > now {
                return;
            }
            let key = entry.remove();
            if let Some(mut item) = self.items.remove(&key) {
                item.ready_at = None;
                // It has been ready since then, however late it is noticed.
                self.place(key, item, ready_at, metrics);
            }
        }
    }

    /// Takes the first ready key that is not in work.
    fn take(&mut self, now: Instant, metrics: &QueueMetrics) -> Option<(K, i32)> {
        let mut ready = self.ready.iter();
        let (place, key) = ready.find(|(_, key)| !self.in_work.contains_key(*key))?;
        let (place, key) = (*place, key.clone());
        self.ready.remove(&place);
        let item = self.items.remove(&key)?;
        metrics.depth(item.priority).dec();
        if let Some(since) = item.ready_since {
            let waited = now.saturating_duration_since(since);
            metrics.queue_time.observe(waited.as_secs_f64());
        }
        self.in_work.insert(key.clone(), now);
        Some((key, item.priority))
    }
}

#[cfg(test)]
mod tests;
