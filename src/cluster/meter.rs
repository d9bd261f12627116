//! How many requests this program itself has sent (MET-05): what the controller's own counters are
//! told apart from.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::{Method, Request};

/// Counts requests by verb. Clones count together.
///
/// It stands inside of whatever repeats requests, so that every attempt counts.
#[derive(Clone, Debug, Default)]
pub struct Meter {
    counts: Arc<Mutex<BTreeMap<String, u64>>>,
}

impl Meter {
    /// One that has counted nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Requests so far, by HTTP method; those that begin a watch are `WATCH` instead of `GET`.
    #[must_use]
    pub fn counts(&self) -> BTreeMap<String, u64> {
        self.lock().clone()
    }

    /// Counts this request.
    pub(super) fn count<B>(&self, request: &Request<B>) {
        let verb = if is_watch(request) {
            "WATCH"
        } else {
            request.method().as_str()
        };
        let mut counts = self.lock();
        if let Some(count) = counts.get_mut(verb) {
            *count += 1;
        } else {
            counts.insert(verb.to_owned(), 1);
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, u64>> {
        // A count is complete at every moment.
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_watch<B>(request: &Request<B>) -> bool {
    let query = request.uri().query().unwrap_or_default();
    request.method() == Method::GET
        && form_urlencoded::parse(query.as_bytes())
            .any(|(key, value)| key == "watch" && (value == "true" || value == "1"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_counted_by_verb_and_watches_apart() {
        let meter = Meter::new();
        let also = meter.clone();
        for (method, uri) in [
            (Method::GET, "/api/v1/pods"),
            (Method::GET, "/api/v1/pods?limit=500&watch=false"),
            (Method::GET, "/api/v1/pods?&watch=true&resourceVersion=5"),
            (Method::PATCH, "/api/v1/namespaces/n?fieldManager=helm"),
        ] {
            let request = Request::builder().method(method).uri(uri).body(());
            also.count(&request.expect("a request"));
        }
        let counts: Vec<_> = meter.counts().into_iter().collect();
        let expected = [("GET", 2), ("PATCH", 1), ("WATCH", 1)];
        assert_eq!(
            counts,
            expected.map(|(verb, count)| (verb.to_owned(), count))
        );
    }
}
