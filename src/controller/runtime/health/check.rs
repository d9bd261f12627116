//! Named checks and the endpoints that run them.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::StatusCode;
use tokio::time::{Instant, timeout_at};

use super::super::store::SyncSet;

/// What makes a release ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Readiness {
    /// That it answers: 1.0.
    Ping,
    /// That a wait for the informers once returned, even if there were none yet: 1.1 and 1.2.
    Latched,
    /// That the informers it cannot do without have been started, or it is not ready at once, and are
    /// synced within this time of each probe: 1.3 and later.
    Probed {
        /// The budget of a probe; 2 s in every release so far.
        budget: Duration,
    },
}

/// A condition that, once true, stays so; clones are handles to the same one.
#[derive(Debug, Clone, Default)]
pub struct Latch(Arc<AtomicBool>);

impl Latch {
    /// Makes it true.
    pub fn set(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// Whether it is true.
    #[must_use]
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

type Verdict = Pin<Box<dyn Future<Output = Result<(), String>> + Send>>;

/// A named check.
pub struct Check {
    name: &'static str,
    run: Box<dyn Fn() -> Verdict + Send + Sync>,
}

impl Check {
    /// A check that asks this each time. A failure's reason is only told at the check's own address.
    pub fn new<F>(name: &'static str, run: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<(), String>> + Send + 'static,
    {
        Self {
            name,
            run: Box::new(move || Box::pin(run())),
        }
    }

    /// A check that always passes.
    #[must_use]
    pub fn passing(name: &'static str) -> Self {
        Self::new(name, || std::future::ready(Ok(())))
    }
}

/// The checks behind `/readyz`.
///
/// `latch` is set by whoever waited for the informers; a probe looks for those named by `required` in
/// `started`, where an informer belongs as soon as its kind is known to be served. Strict readiness
/// adds the last argument, the bit that says that the configuration is invalid.
#[must_use]
pub fn checks(
    readiness: Readiness,
    latch: Latch,
    started: SyncSet,
    required: Vec<String>,
    config_invalid: Option<Arc<AtomicBool>>,
) -> Vec<Check> {
    let first = match readiness {
        Readiness::Ping => Check::passing("ping"),
        Readiness::Latched => Check::new("cache-sync", move || {
            let set = latch.is_set();
            std::future::ready(if set {
                Ok(())
            } else {
                Err("informer caches have not synced yet".to_owned())
            })
        }),
        Readiness::Probed { budget } => Check::new("cache-sync", move || {
            let found: Result<Vec<_>, _> = required
                .iter()
                .map(|name| {
                    let flag = started.find(name);
                    flag.ok_or_else(|| format!("the informer of {name} has not been started"))
                })
                .collect();
            async move {
                let deadline = Instant::now() + budget;
                for flag in found? {
                    let name = flag.name().to_owned();
                    timeout_at(deadline, flag.wait())
                        .await
                        .map_err(|_| format!("the informer of {name} has not synced"))?;
                }
                Ok(())
            }
        }),
    };
    let strict = config_invalid.map(|invalid| {
        Check::new("config-valid", move || {
            let invalid = invalid.load(Ordering::Acquire);
            std::future::ready(if invalid {
                Err("the configuration is invalid".to_owned())
            } else {
                Ok(())
            })
        })
    });
    std::iter::once(first).chain(strict).collect()
}

/// An address such as `/readyz` with its checks, each of which also answers below it.
pub struct Endpoint {
    path: &'static str,
    checks: Vec<Check>,
}

impl Endpoint {
    /// An endpoint.
    #[must_use]
    pub fn new(path: &'static str, checks: Vec<Check>) -> Self {
        Self { path, checks }
    }

    /// The answer to a request, if its path is this endpoint's.
    pub async fn answer(&self, path: &str, query: Option<&str>) -> Option<(StatusCode, String)> {
        let below = path.strip_prefix(self.path)?;
        if below.is_empty() {
            return Some(self.answer_all(query.unwrap_or_default()).await);
        }
        let name = below.strip_prefix('/')?;
        let check = self.checks.iter().find(|check| check.name == name)?;
        Some(match (check.run)().await {
            Ok(()) => (StatusCode::OK, "ok".to_owned()),
            Err(reason) => (
                StatusCode::INTERNAL_SERVER_ERROR,
                format!("internal server error: {reason}\n"),
            ),
        })
    }

    async fn answer_all(&self, query: &str) -> (StatusCode, String) {
        let pairs = || {
            query
                .split('&')
                .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
        };
        let excluded = |name: &str| pairs().any(|pair| pair == ("exclude", name));
        let mut lines = String::new();
        let mut failed = false;
        for check in &self.checks {
            let name = check.name;
            let line = if excluded(name) {
                format!("[+]{name} excluded: ok\n")
            } else if (check.run)().await.is_ok() {
                format!("[+]{name} ok\n")
            } else {
                failed = true;
                format!("[-]{name} failed: reason withheld\n")
            };
            lines.push_str(&line);
        }
        if failed {
            let text = lines + "healthz check failed\n";
            return (StatusCode::INTERNAL_SERVER_ERROR, text);
        }
        if pairs().any(|(key, _)| key == "verbose") {
            return (StatusCode::OK, lines + "healthz check passed\n");
        }
        (StatusCode::OK, "ok".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;

    use super::super::super::store::Informer;
    use super::super::super::watch::Event;
    use super::*;

    const PROBED: Readiness = Readiness::Probed {
        budget: Duration::from_secs(2),
    };

    fn readyz(checks: Vec<Check>) -> Endpoint {
        Endpoint::new("/readyz", checks)
    }

    async fn get(endpoint: &Endpoint, target: &str) -> (u16, String) {
        let (path, query) = match target.split_once('?') {
            Some((path, query)) => (path, Some(query)),
            None => (target, None),
        };
        match endpoint.answer(path, query).await {
            Some((status, text)) => (status.as_u16(), text),
            None => (404, String::new()),
        }
    }

    #[tokio::test]
    async fn the_texts_are_those_of_controller_runtime() {
        let invalid = Arc::new(AtomicBool::new(false));
        let latch = Latch::default();
        let endpoint = readyz(checks(
            Readiness::Latched,
            latch.clone(),
            SyncSet::default(),
            Vec::new(),
            Some(Arc::clone(&invalid)),
        ));
        let failing =
            "[-]cache-sync failed: reason withheld\n[+]config-valid ok\nhealthz check failed\n";
        for target in ["/readyz", "/readyz?verbose"] {
            assert_eq!(get(&endpoint, target).await, (500, failing.to_owned()));
        }
        latch.set();
        assert_eq!(get(&endpoint, "/readyz").await, (200, "ok".to_owned()));
        assert_eq!(
            get(&endpoint, "/readyz?verbose").await,
            (
                200,
                "[+]cache-sync ok\n[+]config-valid ok\nhealthz check passed\n".to_owned()
            )
        );
        invalid.store(true, Ordering::Release);
        assert_eq!(
            get(&endpoint, "/readyz").await,
            (
                500,
                "[+]cache-sync ok\n[-]config-valid failed: reason withheld\nhealthz check failed\n"
                    .to_owned()
            )
        );
        assert_eq!(
            get(&endpoint, "/readyz?verbose=1&exclude=config-valid").await,
            (
                200,
                "[+]cache-sync ok\n[+]config-valid excluded: ok\nhealthz check passed\n".to_owned()
            )
        );
        assert_eq!(
            get(&endpoint, "/readyz/config-valid").await,
            (
                500,
                "internal server error: the configuration is invalid\n".to_owned()
            )
        );
        assert_eq!(get(&endpoint, "/readyz/cache-sync").await.0, 200);
        for elsewhere in ["/readyzz", "/readyz/other", "/"] {
            assert_eq!(get(&endpoint, elsewhere).await.0, 404, "{elsewhere}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_probe_asks_the_informers_for_two_seconds_each_time() {
        let informers = [Informer::<ConfigMap>::new("A"), Informer::new("B")];
        let started = SyncSet::default();
        let required = vec!["A".to_owned(), "B".to_owned()];
        let endpoint = readyz(checks(
            PROBED,
            Latch::default(),
            started.clone(),
            required,
            None,
        ));
        let start = Instant::now();
        // The kind of B is not served: there is nothing to wait for.
        started.add(informers[0].sync_flag());
        assert_eq!(get(&endpoint, "/readyz").await.0, 500);
        assert_eq!(start.elapsed(), Duration::ZERO);
        started.add(informers[1].sync_flag());
        assert_eq!(
            get(&endpoint, "/readyz").await,
            (
                500,
                "[-]cache-sync failed: reason withheld\nhealthz check failed\n".to_owned()
            )
        );
        assert_eq!(start.elapsed(), Duration::from_secs(2));
        for informer in &informers {
            informer.apply(Event::ListBegin);
            informer.apply(Event::ListEnd);
        }
        assert_eq!(
            get(&endpoint, "/readyz?verbose").await,
            (200, "[+]cache-sync ok\nhealthz check passed\n".to_owned())
        );
        assert_eq!(start.elapsed(), Duration::from_secs(2));
    }

    #[tokio::test]
    async fn the_oldest_release_is_ready_when_it_answers() {
        let endpoint = readyz(checks(
            Readiness::Ping,
            Latch::default(),
            SyncSet::default(),
            Vec::new(),
            None,
        ));
        assert_eq!(
            get(&endpoint, "/readyz?verbose").await.1,
            "[+]ping ok\nhealthz check passed\n"
        );
    }
}
